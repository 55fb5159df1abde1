#!/usr/bin/env bash
# A run on two hosts under hyc-run --max-restarts, to which faults happen, in an order and at moments that a seed says:
#   kill    a rank is ended by SIGKILL
#   stop    a rank is stopped by SIGSTOP
#   cut     the cable of a host is taken out for some seconds
#   full    the disk of the checkpoints is full until one could not be written
#   agent   hyc-run is ended by SIGKILL on one of the hosts
#   host    ranks and hyc-run, with the copies that it keeps there, are ended on one of the hosts at once
# Then: nothing is left running, every step's loss, however often it was done, and all states at the end are those of a
# run that nothing happens to, bit for bit; how long it took to notice and to go on; and what part of the time was
# useful, by the run's own report and by a clock beside it.
#
# Hosts are network namespaces with an sshd each, and the cable between them lets through 20 Mbit/s: that, and not the
# cores, is what steps take their time for. The model has dropout; tp is inside of hosts, and dp, with ZeRO 1, between.
#
# Usage: faults.sh BUILD_DIR MODELS_DIR FOLDER [--faults N] [--minutes M] [--seed S] [--kinds kill,stop,…]
#                  [--every STEPS] [--least-useful PERCENT] [--within NOTICED NEXT] [--again STEPS] [--rate MBIT]
#                  [-- options of hyc-run…]
#   --every    steps from a checkpoint to the next
#   --least-useful  judges the time by the clock
#   --within   the seconds in which a killed rank has to be noticed, and the next step done; by default 1 and 5
#   --again    how many steps a restart may have done again; and what hosts held of copies is compared with memory.json
# Without options: 4 faults in half a minute. docs/checkpoints.md tells of --faults 30 --minutes 90 --least-useful 95.
set -euo pipefail
if [ -z "${HYC_FAULTS_APART:-}" ]; then
  # Mounts of its own, which end with it.
  why=$(unshare --mount true 2>&1) || { echo "skipped: cannot make namespaces: $why"; exit 77; }
  HYC_FAULTS_APART=1 exec unshare --mount "$0" "$@"
fi
[ -x /usr/sbin/sshd ] || { echo "skipped: there is no /usr/sbin/sshd"; exit 77; }
rooms=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
mkdir -p "$3"
bin=$(realpath "$1/bin") models=$(realpath "$2") folder=$(realpath "$3")
shift 3
minutes=0.5 rate=20 drive=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --minutes) minutes=$2 ;;&
    --rate) rate=$2 ;;
    --within) drive+=("$1" "$2" "$3"); shift ;;
    *) drive+=("$1" "$2") ;;
  esac
  shift 2
done
[ $# -eq 0 ] || shift
rm -rf "$folder" && mkdir -p "$folder/runs"
mount -t tmpfs -o size=48m none "$folder/runs"

. "$rooms/namespaces.sh"
HYC_HOST_SECONDS=$(awk -v minutes="$minutes" 'BEGIN { print int(minutes * 60 + 3600) }') make_hosts 2
serve_ssh "$folder"
for i in 0 1; do
  inside "$i" tc qdisc add dev eth0 root tbf rate "${rate}mbit" burst 64kb latency 400ms
  echo "10.78.0.$((i + 1)) slots=2" >>"$folder/hosts"
done

out=$folder/out
"$bin/hyc-compile" "$rooms/small-gpt2.json" --optimizer adamw --lr 1e-3 --tp 2 --dp 2 --zero 1 --micro-batch 2 \
  --grad-accum 2 -o "$out" >"$folder/compile" 2>&1 || { cat "$folder/compile"; exit 1; }
run=("$bin/hyc-run" "$out" --data "$models/text.bin" --seed 1 --threads 1)
python3 "$rooms/faults.py" --folder "$folder" --holders "${holders[*]:0:3}" ${drive[@]+"${drive[@]}"} \
  --minutes "$minutes" -- "${run[@]}" --hostfile "$folder/hosts" --ssh-port 2222 "$@"

# The same steps, with nothing in between.
steps=$(cat "$folder/steps")
"${run[@]}" --steps "$steps" --checkpoint "$folder/whole" --log-file "$folder/whole.jsonl" >"$folder/whole.said" 2>&1 ||
  { tail "$folder/whole.said"; exit 1; }
python3 "$rooms/faults.py" --compare "$folder/whole.jsonl" "$folder/log.jsonl" --steps "$steps"
for run in whole runs; do
  "$bin/hyc-checkpoint" export "$folder/$run/step-$steps" "$folder/$run.safetensors" --states >/dev/null
done
cmp "$folder/whole.safetensors" "$folder/runs.safetensors" || { echo "the states at the end are others"; exit 1; }
echo "states after step $steps: the same bytes"
[ ! -s "$folder/verdict" ] || { cat "$folder/verdict"; exit 1; }
