#!/usr/bin/env bash
# Programs for GPUs, run where there is none: their sources compiled for the host (test/emulation). The losses of every
# layout are those of the CPU target, whether ranks exchange by way of the host (shm) or by NCCL, which is emulated too;
# the last steps of a run under NCCL, or of one rank, are a recorded one, and on a device that cannot record the losses are
# the same. With --entry train,evaluate both evaluate between
# steps, to equal losses.
#
# Usage: emulated_cuda.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER TOLERANCE STEPS COMM MODEL COMPILE_FLAGS...
set -euo pipefail
build=$1 source=$2 scratch=$3 tolerance=$4 steps=$5 comm=$6
models=$source/test/models model=$source/test/models/$7
shift 7
rm -rf "$scratch"
mkdir -p "$scratch"
compile=("$build/bin/hyc-compile" "$model" "$@")
[[ " $* " == *" --entry "* ]] || compile+=(--entry train)

"${compile[@]}" -o "$scratch/cpu" >"$scratch/cpu.log"
"${compile[@]}" --target cuda --emit=source -o "$scratch/out" >"$scratch/cuda.log"
"$source/test/e2e/build_emulated.sh" "$build" "$source" "$scratch/out" "$scratch/objects"

run=(--data "$models/text.bin" --steps "$steps" --seed 1) evaluations=0
case " $* " in
  *" train,evaluate "*)
    run+=(--evaluate-data "$models/text.bin" --evaluate-every 2 --evaluate-batches 2)
    evaluations=$(((steps + 1) / 2)) ;;
esac
"$build/bin/hyc-run" "$scratch/cpu" "${run[@]}" --log-file "$scratch/cpu.jsonl" >/dev/null
HYC_EMULATION_DEVICES=8 "$build/bin/hyc-run" "$scratch/out" --comm "$comm" "${run[@]}" --log-file "$scratch/out.jsonl" \
  --save-weights "$scratch/weights.safetensors" >"$scratch/run.log" 2>&1 || { cat "$scratch/run.log"; exit 1; }
if grep 'without a graph' "$scratch/run.log"; then exit 1; fi
for log in cpu out; do
  grep -v evaluate_loss "$scratch/$log.jsonl" >"$scratch/$log.steps.jsonl"
  { grep evaluate_loss "$scratch/$log.jsonl" || true; } | sed 's/"evaluate_loss"/"loss"/' >"$scratch/$log.evaluations.jsonl"
done
"$source/test/e2e/compare_losses.sh" "$scratch/cpu.steps.jsonl" "$scratch/out.steps.jsonl" "$tolerance" "$steps"
[ "$evaluations" = 0 ] ||
  "$source/test/e2e/compare_losses.sh" "$scratch/cpu.evaluations.jsonl" "$scratch/out.evaluations.jsonl" "$tolerance" "$evaluations"

case "$comm $*" in
  nccl*) ;;
  *--tp*|*--pp*|*--dp*) exit 0 ;;
esac
HYC_EMULATION_GRAPHS=off HYC_EMULATION_DEVICES=8 "$build/bin/hyc-run" "$scratch/out" --comm "$comm" "${run[@]}" \
  --log-file "$scratch/plain.jsonl" >"$scratch/run.log" 2>&1 || { cat "$scratch/run.log"; exit 1; }
grep -q 'steps are run without a graph: CUDA: ' "$scratch/run.log" || { cat "$scratch/run.log"; exit 1; }
losses() { sed -n 's/.*"\(loss\|evaluate_loss\)":\([^,]*\),.*/\1 \2/p' "$1"; }
[ "$(losses "$scratch/plain.jsonl")" = "$(losses "$scratch/out.jsonl")" ] ||
  { echo "other losses where nothing can be recorded"; cat "$scratch/plain.jsonl" "$scratch/out.jsonl"; exit 1; }
