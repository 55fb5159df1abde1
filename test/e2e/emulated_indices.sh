#!/usr/bin/env bash
# Indices that a model computes, beyond their bound: a program for GPUs says the same as one for CPUs, at the end of the
# step that has them, also where that is a recorded one; and nothing is saved.
#
# Usage: emulated_indices.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER
set -euo pipefail
build=$1 source=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
fail() { cat "$scratch/said"; echo "$1"; exit 1; }

# Labels are ids and one, of a vocabulary of 9. Two samples a step; the fourth step has an id 8.
data=$scratch/ids.safetensors weights=$scratch/weights.safetensors
PYTHONPATH=$source/test/bad/tools PYTHONDONTWRITEBYTECODE=1 python3 -c '
import samples
samples.write(ids=("I64", [8, 5], [1] * 32 + [8] + [1] * 7))' >"$data"
compile=("$build/bin/hyc-compile" "$source/test/bad/computed-indices/labels-plus-one.mlir" --loss loss --micro-batch 2
         --optimizer sgd --entry train --optimize 0)
"${compile[@]}" -o "$scratch/cpu" >"$scratch/cpu.log"
"${compile[@]}" --target cuda --emit=source -o "$scratch/one" >"$scratch/one.log"
"${compile[@]}" --target cuda --emit=source --tp 2 -o "$scratch/two" >"$scratch/two.log"
"${compile[@]}" --target cuda --emit=source --pp 2 -o "$scratch/pipeline" >"$scratch/pipeline.log"
for program in one two pipeline; do
  "$source/test/e2e/build_emulated.sh" "$build" "$source" "$scratch/$program" "$scratch/$program.objects"
done

# Usage: run FOLDER STEPS FLAGS...      its status is `status`
run() {
  local folder=$1 steps=$2
  shift 2
  status=0
  HYC_EMULATION_DEVICES=2 "$build/bin/hyc-run" "$scratch/$folder" --data "$data" --no-shuffle --steps "$steps" \
    --log-file "$scratch/log.jsonl" "$@" >"$scratch/said" 2>&1 || status=$?
}
run cpu 4
[ "$status" = 65 ] || fail "status $status of the program for CPUs, expected 65"
grep -oE 'error: step .*' "$scratch/said" >"$scratch/expected"
grep -qx 'error: step 4: nll takes element 9 of 9 (at place 2 of 10 indices), expected 0 to 8' "$scratch/expected" ||
  fail "expected the place of the id"

# Three good steps train and are saved; the fourth saves nothing, and is not told where rank 0 has labels.
for how in 'one --cuda-graph on' 'one --cuda-graph off' 'two --comm nccl --cuda-graph on' 'two --comm nccl --cuda-graph off' \
  'two --comm shm' 'pipeline --comm nccl --cuda-graph on'; do
  read -ra how <<<"$how"
  rm -f "$weights"
  run "${how[0]}" 3 "${how[@]:1}" --save-weights "$weights"
  [ "$status" = 0 ] || fail "status $status of ${how[*]}, expected 0"
  cp "$weights" "$scratch/good"
  run "${how[0]}" 4 "${how[@]:1}" --save-weights "$weights"
  [ "$status" = 65 ] || fail "status $status of ${how[*]}, expected 65"
  grep -oE 'error: step .*' "$scratch/said" | sort -u >"$scratch/error"
  cmp "$scratch/expected" "$scratch/error" || fail "${how[*]}: expected what the program for CPUs says"
  [ "${how[0]}" = pipeline ] || [ "$(wc -l <"$scratch/log.jsonl")" = 3 ] || fail "${how[*]}: expected three steps to be told"
  cmp "$weights" "$scratch/good" || fail "${how[*]}: other weights were saved"
  [ "$(echo "$scratch"/weights*)" = "$weights" ] || fail "${how[*]}: something was left behind"
done
