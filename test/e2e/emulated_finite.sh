#!/usr/bin/env bash
# --check-finite of a run that diverges says the same of a program for GPUs as of one for CPUs: step, micro-batch and op.
#
# Usage: emulated_finite.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER
set -euo pipefail
build=$1 source=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
compile=("$build/bin/hyc-compile" "$source/test/models/gpt2-formats.onnx" --entry train --loss cross_entropy --logits logits
         --labels labels --micro-batch 2 --optimizer adamw --lr 1e30 --check-finite)
"${compile[@]}" -o "$scratch/cpu" >"$scratch/cpu.log"
"${compile[@]}" --target cuda --emit=source -o "$scratch/out" >"$scratch/cuda.log"
"$source/test/e2e/build_emulated.sh" "$build" "$source" "$scratch/out" "$scratch/objects"
for target in cpu out; do
  status=0
  "$build/bin/hyc-run" "$scratch/$target" --data "$source/test/models/text.bin" --no-shuffle --steps 4 \
    >"$scratch/$target.said" 2>&1 || status=$?
  [ "$status" = 65 ] || { cat "$scratch/$target.said"; echo "status $status of $target, expected 65"; exit 1; }
  grep -oE 'error: step .*' "$scratch/$target.said" >"$scratch/$target.error"
done
cat "$scratch/out.error"
grep -q 'step 2, micro-batch 1 of 1, forward: .* makes ' "$scratch/out.error"
cmp "$scratch/cpu.error" "$scratch/out.error"
