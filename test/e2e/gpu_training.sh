#!/usr/bin/env bash
# Training on a GPU gives the losses of the CPU target. Several ranks share the GPU by --comm shm, and exchange by NCCL too
# where there is a GPU for each. Without a GPU the test is skipped (77).
#
# Usage: gpu_training.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER TOLERANCE STEPS MODEL COMPILE_FLAGS...
set -euo pipefail
build=$1 source=$2 models=$2/test/models scratch=$3 tolerance=$4 steps=$5 model=$6
shift 6
# Nothing is compiled for a device that cannot be there: no driver's device file, of Linux or of WSL.
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then echo "there is no CUDA device: no driver is loaded"; exit 77; fi
rm -rf "$scratch"
mkdir -p "$scratch"
compile=("$build/bin/hyc-compile" "$models/$model" "$@")
"${compile[@]}" --target cuda -o "$scratch/out" >"$scratch/cuda.log"
started=0
"$scratch/out/bin/stage0" >"$scratch/start.log" 2>&1 || started=$?
if [ "$started" = 69 ] && grep 'there is no CUDA device' "$scratch/start.log"; then exit 77; fi
"${compile[@]}" -o "$scratch/cpu" >"$scratch/cpu.log"
run=(--data "$models/text.bin" --steps "$steps" --seed 1)
"$build/bin/hyc-run" "$scratch/cpu" "${run[@]}" --log-file "$scratch/cpu.jsonl" >/dev/null
"$build/bin/hyc-run" "$scratch/out" --comm shm "${run[@]}" --log-file "$scratch/out.jsonl" >"$scratch/run.log"
"$source/test/e2e/compare_losses.sh" "$scratch/cpu.jsonl" "$scratch/out.jsonl" "$tolerance" "$steps"

# By NCCL and in recorded steps, where every rank has a GPU of its own.
ranks=$(grep -c '"program":' "$scratch/out/manifest.json")
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
if [ "$ranks" = 1 ] || [ "$gpus" -lt "$ranks" ]; then exit 0; fi
for graph in off on; do
  "$build/bin/hyc-run" "$scratch/out" --comm nccl --cuda-graph $graph "${run[@]}" --log-file "$scratch/nccl.jsonl" >"$scratch/run.log"
  "$source/test/e2e/compare_losses.sh" "$scratch/cpu.jsonl" "$scratch/nccl.jsonl" "$tolerance" "$steps"
done

