#!/usr/bin/env bash
# Two ranks of which one is slowed down on purpose, by a quota of its processor time (a cgroup; needs root): a batch
# shared evenly, and by speed. Prints milliseconds a step of both (medians, in turns), their losses, and those of one rank
# on the same samples.
#
# Usage: uneven.sh BUILD_FOLDER MODELS_FOLDER SCRATCH_FOLDER [QUOTA_PERCENT [ROUNDS]]
set -euo pipefail
build=$1 models=$2 scratch=$3 percent=${4:-30} rounds=${5:-3}
mkdir -p "$scratch"
steps=6 most=10
declare -A shares=([even]=6,6 [by_speed]=9,3)

compile() { # FOLDER FLAGS...
  local folder=$1
  shift
  "$build/bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels --entry train \
    --optimizer adamw --lr 1e-3 --threads 1 "$@" -o "$folder" >/dev/null
}
compile "$scratch/one" --micro-batch 12
compile "$scratch/two" --dp 2 --micro-batch 1 --grad-accum $most --zero 1

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  group=/sys/fs/cgroup/hyc-uneven-$$ procs=cgroup.procs
  mkdir "$group"
  echo "$((percent * 1000)) 100000" >"$group/cpu.max"
else
  group=/sys/fs/cgroup/cpu/hyc-uneven-$$ procs=tasks
  mkdir "$group"
  echo 100000 >"$group/cpu.cfs_period_us"
  echo "$((percent * 1000))" >"$group/cpu.cfs_quota_us"
fi
trap 'rmdir "$group"' EXIT

rank() { # RANK PORT FLAGS...
  local rank=$1 port=$2
  shift 2
  RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port OMP_WAIT_POLICY=passive \
    "$build/bin/hyc-run" "$scratch/two" --as-rank --data "$models/text.bin" --no-shuffle --seed 1 --steps $steps "$@"
}
port=$((20000 + $$ % 20000))
for round in $(seq "$rounds"); do
  for how in even by_speed; do
    port=$((port + 1))
    # The second rank lives in the group; what it starts does, too.
    (echo $BASHPID >"$group/$procs" && rank 1 $port --batch-shares "${shares[$how]}" >/dev/null) &
    slow=$!
    rank 0 $port --batch-shares "${shares[$how]}" --log-file "$scratch/$how.$round.jsonl" >/dev/null
    wait $slow
  done
done
"$build/bin/hyc-run" "$scratch/one" --data "$models/text.bin" --no-shuffle --seed 1 --steps $steps \
  --log-file "$scratch/one.jsonl" >/dev/null

python3 - "$scratch" "$rounds" <<'END'
import json, statistics, sys
scratch, rounds = sys.argv[1], int(sys.argv[2])
def records(name):
    with open(f"{scratch}/{name}.jsonl") as lines:
        return [each for each in map(json.loads, lines) if "loss" in each]
one = [each["loss"] for each in records("one")]
for how in ("even", "by_speed"):
    runs = [records(f"{how}.{round}") for round in range(1, rounds + 1)]
    times = [each["ms"] for run in runs for each in run[1:]]
    apart = max(abs(each["loss"] / loss - 1) for run in runs for each, loss in zip(run, one))
    print(f"{how:9} {statistics.median(times):8.1f} ms a step, losses within {apart:.1e} of one rank's")
END
