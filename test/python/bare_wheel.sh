#!/usr/bin/env bash
# The wheel on a bare machine: a root of Debian's minbase with Python and g++ and nothing else, in namespaces of its own. pip
# installs the wheel and its few requirements; then a model compiles and trains to PyTorch's losses (test/models/*.reference).
# Where PYTHON has torch, it is lent to the root, and a torch module is traced there, too.
#
# Ends with 77, which skips it, where debootstrap, the rights for it or the network are missing.
#
# Usage: bare_wheel.sh SOURCE_ROOT SCRATCH PYTHON
set -euo pipefail
source_root=$1 scratch=$2 python=$3
mirror=${HYC_DEBIAN_MIRROR:-http://deb.debian.org/debian}

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "only root may make a root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount true 2>/dev/null || skip "namespaces are not allowed here"

rm -rf "$scratch/dist"; mkdir -p "$scratch"
(cd "$source_root" && scripts/wheel "$scratch/dist")
if [ ! -x "$scratch/root/usr/bin/g++" ]; then
  rm -rf --one-file-system "$scratch/root"
  debootstrap --variant=minbase --include=python3,python3-venv,g++,ca-certificates bookworm "$scratch/root" "$mirror" \
    >"$scratch/debootstrap.log" 2>&1 || { rm -rf --one-file-system "$scratch/root"; skip "debootstrap failed: $(tail -1 "$scratch/debootstrap.log")"; }
fi
root=$scratch/root
# How this machine reaches the network is how the root does.
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -f "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" ] ||
  cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
unset SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE PIP_CERT CURL_CA_BUNDLE
mkdir -p "$root/work" "$root/lent"
rm -rf "$root/work/"* && cp "$scratch"/dist/hyc-*.whl "$root/work/"
models=$source_root/test/models
cp "$models/gpt2-formats.onnx" "$models/gpt2-formats.reference.safetensors" "$root/work/"
lent=$("$python" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))' 2>/dev/null || true)

cat >"$root/work/train.py" <<'PYTHON'
"""The losses of PyTorch, twice: of an exported model, and of a torch module traced here where there is torch."""
import time

begin = time.monotonic()
import hyc
from safetensors.numpy import load_file

reference = load_file("/work/gpt2-formats.reference.safetensors")
steps, batch, length = reference["tokens"].shape
tokens = reference["tokens"].reshape(steps * batch, length)
settings = {"optimizer": "adamw", "weight_decay": 0.01, "lr": 1e-3, "tp": 2, "micro_batch": batch}
job = hyc.compile("/work/gpt2-formats.onnx", logits="logits", labels="labels", **settings)
first = []
note = lambda step: first or first.append(time.monotonic() - begin)  # noqa: E731
data = {"input_ids": tokens[:, :-1], "labels": tokens[:, 1:]}
run = job.train(data, steps=steps, shuffle=False, on_step=note)
worst = max(abs(a - b) for a, b in zip(run.losses, reference["losses.adamw"]))
print(f"{steps} steps, largest difference from PyTorch's losses {worst:.1e}; first loss after {first[0]:.1f} s")
assert worst < 1e-4 and len(run.losses) == steps

try:
    import torch
except ImportError:
    print("without torch nothing is traced here")
    raise SystemExit(0)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
run = hyc.compile(model, x[:1], dp=2, micro_batch=8, optimizer="sgd", lr=0.1).train({"input": x, "labels": y}, steps=6, shuffle=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    at = slice(16 * (step % 2), 16 * (step % 2) + 16)
    loss = torch.nn.functional.cross_entropy(model(x[at]), y[at])
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    assert abs(loss.item() - run.losses[step]) < 1e-5, (step, loss.item(), run.losses[step])
print("a torch module, traced here: PyTorch's losses")
PYTHON
cat >"$root/work/inside.sh" <<'INSIDE'
set -euo pipefail
cd /work
export PIP_CERT=/etc/ssl/certs/ca-certificates.crt HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp LC_ALL=C.UTF-8
rm -rf /work/venv; python3 -m venv /work/venv
begin=$(date +%s)
/work/venv/bin/pip install --quiet --disable-pip-version-check /work/hyc-*.whl
[ -z "$(ls /lent)" ] || echo /lent >"$(echo /work/venv/lib/python3*/site-packages)/lent.pth"
/work/venv/bin/hyc check
! ldd /work/venv/lib/python3*/site-packages/hyc/native/bin/* | grep -q 'not found'
/work/venv/bin/python /work/train.py
echo "from pip install to the end: $(($(date +%s) - begin)) s"

# Another compiler than the one that hyc was built by; then none.
compile=(/work/venv/bin/hyc-compile /work/gpt2-formats.onnx --logits logits --labels labels --entry train -o /work/out)
mv /usr/bin/c++ /usr/bin/c++.away
trap 'mv /usr/bin/c++.away /usr/bin/c++' EXIT
"${compile[@]}" >/dev/null && echo "without c++, g++ compiles"
status=0
said=$(PATH=/nowhere "${compile[@]}" 2>&1) || status=$?
echo "$said"
[ "$status" -eq 69 ] && [[ "$said" == *"no C++ compiler is there"* ]]
INSIDE
unshare --mount --pid --fork bash -c '
  set -e
  mount -t proc proc "$1/proc"
  mountpoint -q "$1/dev" || mount --rbind /dev "$1/dev"
  [ -z "$2" ] || mount --bind "$2" "$1/lent"
  exec chroot "$1" /bin/bash /work/inside.sh' bare "$root" "$lent"
