#!/usr/bin/env bash
# GPT-2 on eight ranks of two hosts, started by Open MPI, MPICH, torchrun (static and c10d), Slurm (deploy's batch script) and
# DeepSpeed's variables: the losses of 20 steps are the same text as hyc-run's on one host, and nothing is left running. Launchers
# that are not installed are named, and skipped. Hosts are network namespaces, and where a launcher would take ssh it is given a
# command that enters them. Slurm has a controller, a daemon on each host, and a munge of its own.
#
# Usage: launchers.sh BUILD_DIR MODELS_DIR FOLDER PYTHON
set -euo pipefail
mkdir -p "$3"
bin=$(realpath "$1/bin") models=$(realpath "$2") folder=$(realpath "$3")
torchrun=$(dirname "$(command -v "${4:-python3}" || echo none/none)")/torchrun
rm -rf "$folder" && mkdir -p "$folder"
rooms=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
. "$rooms/namespaces.sh"
make_hosts 2
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$folder/token")

# As ssh is called: options, the host, and words for its shell.
cat >"$folder/enter" <<ENTER
#!/bin/bash
while [[ \$1 = -* ]]; do shift; done
case \$1 in 10.78.0.1) holder=${holders[0]} ;; 10.78.0.2) holder=${holders[1]} ;; *) echo "no host \$1" >&2; exit 255 ;; esac
shift
exec nsenter --target \$holder --net --uts --mount -- /bin/sh -c "\$*"
ENTER
chmod +x "$folder/enter"

out=$folder/out
"$bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels --optimizer adamw --lr 1e-3 \
  --tp 2 --pp 2 --dp 2 --micro-batch 2 --grad-accum 4 -o "$out" >"$folder/compile" 2>&1 || { cat "$folder/compile"; exit 1; }
losses() { sed -nE 's/.*"loss": ?([^,}]+).*/\1/p' "$1"; }
run=("$bin/hyc-run" "$out" --data "$models/text.bin" --steps 20 --seed 1 --threads 1)
"${run[@]}" --log-file "$folder/expected" >/dev/null
export OMP_WAIT_POLICY=passive HYC_TOKEN_FILE=$folder/token
here=(MASTER_ADDR=10.78.0.1)
status=0

# check NAME: what the launcher's ranks have logged.
check() {
  if [ "$(losses "$folder/$1" | wc -l)" != 20 ] || ! diff <(losses "$folder/expected") <(losses "$folder/$1") >/dev/null; then
    echo "$1: the losses are not those of hyc-run on one host:"; tail -n 30 "$folder/$1.said"; status=1
  elif pgrep -f "^$out/bin/" >/dev/null; then echo "$1: ranks are left"; status=1
  else echo "$1: $(losses "$folder/$1" | tail -1) after 20 steps, as on one host"; fi
}
missing() { echo "skipped: there is no $1"; }

# Each MPI with MASTER_ADDR, and without it: then ranks hear from the launcher where rank 0 is, by PMIx and PMI.
# by_openmpi NAME FLAGS…, by_mpich NAME FLAGS…
by_openmpi() {
  local name=$1; shift
  inside 0 mpirun.openmpi --allow-run-as-root --host 10.78.0.1:4,10.78.0.2:4 -n 8 --bind-to none --mca plm_rsh_agent "$folder/enter" \
    --mca oob_tcp_if_include eth0 "$@" -x HYC_TOKEN_FILE -x OMP_WAIT_POLICY \
    "${run[@]}" --as-rank --log-file "$folder/$name" >"$folder/$name.said" 2>&1 || true
  if grep -q "PMIx .*and this runtime was built without it" "$folder/$name.said"; then missing "PMIx in this hyc: install libpmix-dev and build it again"
  else check "$name"; fi
}
if command -v mpirun.openmpi >/dev/null; then
  by_openmpi openmpi -x "${here[0]}" -x MASTER_PORT=4711
  if ldconfig -p | grep -q libpmix.so.2; then by_openmpi openmpi-pmix; else missing "libpmix.so.2"; fi
else missing "mpirun.openmpi"; fi

by_mpich() {
  local name=$1; shift
  inside 0 mpiexec.hydra -hosts 10.78.0.1:4,10.78.0.2:4 -iface eth0 -launcher ssh -launcher-exec "$folder/enter" -n 8 \
    "$@" "${run[@]}" --as-rank --log-file "$folder/$name" >"$folder/$name.said" 2>&1 </dev/null || true
  check "$name"
}
if command -v mpiexec.hydra >/dev/null; then
  by_mpich mpich -genv MASTER_ADDR 10.78.0.1 -genv MASTER_PORT 4712
  by_mpich mpich-pmi
else missing "mpiexec.hydra"; fi

# torchrun NAME FLAGS…: an agent on each host.
by_torchrun() {
  local name=$1 i agents=(); shift
  for i in 0 1; do
    inside "$i" "$torchrun" --no-python --nnodes 2 --nproc-per-node 4 --local-addr "10.78.0.$((i + 1))" "${@//NODE/$i}" \
      "${run[@]}" --as-rank --log-file "$folder/$name" >"$folder/$name.said$i" 2>&1 & agents+=($!)
  done
  for i in 0 1; do wait "${agents[i]}" || true; done
  cat "$folder/$name.said"[01] >"$folder/$name.said"
  check "$name"
}
if [ -x "$torchrun" ]; then
  by_torchrun torchrun-static --node-rank NODE --master-addr 10.78.0.1 --master-port 4713
  by_torchrun torchrun-c10d --rdzv-backend c10d --rdzv-endpoint 10.78.0.1:4715 --rdzv-id "hyc$$"
else missing "torchrun beside ${4:-python3}"; fi

start_slurm() {
  local daemons=$folder/slurm i
  mkdir -p "$daemons/state"
  head -c 1024 /dev/urandom >"$daemons/munge.key"
  chmod 600 "$daemons/munge.key"
  munged --force --foreground --key-file="$daemons/munge.key" --socket="$daemons/munge.sock" --pid-file="$daemons/munge.pid" \
    --log-file="$daemons/munge.log" --seed-file="$daemons/munge.seed" >"$daemons/munge.said" 2>&1 & holders+=($!)
  cat >"$daemons/slurm.conf" <<CONFIGURATION
ClusterName=hyc
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$daemons/munge.sock
CredType=cred/munge
StateSaveLocation=$daemons/state
SlurmdSpoolDir=$daemons/spool%n
SlurmctldPidFile=$daemons/controller.pid
SlurmdPidFile=$daemons/%n.pid
SlurmctldLogFile=$daemons/controller.log
SlurmdLogFile=$daemons/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=host[0-1] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONFIGURATION
  export SLURM_CONF=$daemons/slurm.conf
  # Not by `inside`, whose process in the background would be a shell's: these are ended by their own numbers.
  local enter=(--net --uts --mount --)
  nsenter --target "${holders[0]}" "${enter[@]}" slurmctld -D -i >"$daemons/controller.said" 2>&1 & holders+=($!)
  for i in 0 1; do
    nsenter --target "${holders[i]}" "${enter[@]}" slurmd -D >"$daemons/slurmd$i.said" 2>&1 & holders+=($!)
  done
  for i in $(seq 100); do [ "$(inside 0 sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && return; sleep 0.2; done
  echo "slurm: the daemons do not come up:"; tail -n 5 "$daemons"/*.log; status=1; return 1
}
if command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; then
  if start_slurm; then
    PATH=$bin:$PATH inside 0 env --chdir="$folder" sbatch --wait --nodes 2 --ntasks-per-node 4 --cpus-per-task 1 --time 5 \
      --output "$folder/slurm-batch.said" "$rooms/../../deploy/slurm/train.sbatch" "$out" "$models/text.bin" \
      --steps 20 --seed 1 --threads 1 --log-file "$folder/slurm-batch" >"$folder/slurm.submitted" 2>&1 || true
    [ -s "$folder/slurm-batch.said" ] || cp "$folder/slurm.submitted" "$folder/slurm-batch.said"
    check slurm-batch
  fi
else missing "slurmctld, slurmd or munged"; fi

# As deepspeed/launcher/launch.py sets them.
ranks=()
for rank in 0 1 2 3 4 5 6 7; do
  inside $((rank / 4)) env RANK=$rank WORLD_SIZE=8 LOCAL_RANK=$((rank % 4)) LOCAL_SIZE=4 CROSS_RANK=$((rank / 4)) CROSS_SIZE=2 \
    "${here[0]}" MASTER_PORT=4717 "${run[@]}" --as-rank --log-file "$folder/deepspeed-variables" \
    >"$folder/deepspeed-variables.said$rank" 2>&1 & ranks+=($!)
done
for rank in "${ranks[@]}"; do wait "$rank" || true; done
cat "$folder/deepspeed-variables.said"[0-7] >"$folder/deepspeed-variables.said"
check deepspeed-variables
exit $status
