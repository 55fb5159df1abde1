#!/usr/bin/env bash
# Communication between two hosts that computation does not hide: what the plan says, by a machine file that hyc-bench has
# measured on these hosts, beside what a training waits. Hosts are network namespaces of this machine with a core each and a
# network of a given rate (tc's token bucket; root), reached by ssh; a GPT-2 of 124M in f32, data parallel over both.
#
# Usage: exposed.sh BUILD_FOLDER MODELS_FOLDER SCRATCH_FOLDER [RATE [STEPS [FLAGS OF hyc-compile…]]]
#   RATE    as tc has it; 10gbit
#   STEPS   the first is not counted; 4
set -euo pipefail
bin=$(realpath "$1/bin") models=$(realpath "$2") rate=${4:-10gbit} steps=${5:-4}
mkdir -p "$3"
scratch=$(realpath "$3") flags=("${@:6}")
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/namespaces.sh"
make_hosts 2
serve_ssh "$scratch" || { echo "skipped: there is no /usr/sbin/sshd"; exit 77; }
for host in 0 1; do inside $host tc qdisc add dev eth0 root tbf rate "$rate" burst 512kb latency 20ms; done
printf '10.78.0.1 slots=1\n10.78.0.2 slots=1\n' >"$scratch/hosts"
export OMP_WAIT_POLICY=passive
ssh=(--hostfile "$scratch/hosts" --ssh-port 2222 --plaintext)

inside 0 "$bin/hyc-bench" "${ssh[@]}" --threads 1 -o "$scratch/machine.json" >"$scratch/bench.said"
"$bin/hyc-compile" "$models/gpt2-124m.onnx" --weights initialise --loss cross_entropy --logits logits --labels labels --entry train \
  --optimizer adamw --lr 1e-4 --dp 2 --micro-batch 1 --threads 1 --machine "$scratch/machine.json" "${flags[@]}" -o "$scratch/out" >"$scratch/compile.said"
inside 0 "$bin/hyc-run" "$scratch/out" "${ssh[@]}" --data "$models/text.bin" --steps "$steps" --seed 1 --threads 1 \
  --log-file "$scratch/log.jsonl" --profile "$scratch/profile.json" >"$scratch/run.said"

python3 - "$scratch" "$rate" <<'END'
import json, sys

scratch, rate = sys.argv[1:]
manifest = json.load(open(f"{scratch}/out/manifest.json"))
profile = json.load(open(f"{scratch}/profile.json"))
print(f"{'':34}step ms   exposed ms   of a step")
for name, what in (("own_thread", "a thread of its own"), ("in_turn", "in turn")):
    told = manifest["estimate"][name]
    print(f"planned, {what:24} {told['step_ms']:8.0f} {told['step_ms'] * told['waiting']:12.0f} {told['waiting']:10.1%}")
for rank in profile["ranks"]:
    step = rank["step"]
    exposed = step["exchange"] + step["late"]
    print(f"measured, rank {rank['rank']:<18} {step['total'] * 1e3:8.0f} {exposed * 1e3:12.0f} {exposed / step['total']:10.1%}")
print(f"on a network of {rate}")
END
