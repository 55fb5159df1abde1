#!/usr/bin/env bash
# Programs for GPUs, run where there is none: their sources compiled for the host (test/emulation), their ranks exchanging
# with --comm shm. The losses of every layout are those of the CPU target.
#
# Usage: emulated_cuda.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER TOLERANCE STEPS COMPILE_FLAGS...
set -euo pipefail
build=$1 source=$2 scratch=$3 tolerance=$4 steps=$5
shift 5
rm -rf "$scratch"
mkdir -p "$scratch"
models=$source/test/models
compile=("$build/bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels "$@")

"${compile[@]}" --target cuda --emit=rank -o "$scratch/rank.mlir"
"${compile[@]}" -o "$scratch/cpu" >"$scratch/cpu.log"
"${compile[@]}" --target cuda --emit=source -o "$scratch/out" >"$scratch/cuda.log"

# What hyc-compile would give to nvcc and the host's compiler.
flags=(-std=c++20 -O2 -w -ffp-contract=off -fopenmp -I"$source/test/emulation/include" -I"$source/runtime/include" -I"$source")
libraries=("$build/lib/libhycrt_emulated.a" "$build/lib/libhyc_kernels_emulated.a" "$build/lib/libhyc_emulation.a"
           "$build/lib/libhycrt.a" "$build/lib/libhyc_kernels.a")
mkdir -p "$scratch/out/bin" "$scratch/objects"
for file in "$scratch"/out/src/*.cpp "$scratch"/out/src/*.cu; do
  echo "g++ ${flags[*]} -x c++ -c $file -o $scratch/objects/$(basename "$file").o"
done | xargs -P 2 -d '\n' -I{} sh -c '{}'
for table in "$scratch"/out/src/stage*.cpp; do
  stage=$(basename "$table" .cpp)
  case $stage in *_*) continue ;; esac
  g++ -fopenmp -o "$scratch/out/bin/$stage" "$scratch/objects/kernels.cu.o" "$scratch/objects/$stage".cpp.o \
    "$scratch/objects/${stage}"_*.o "${libraries[@]}" -ldnnl ${HYC_URING_LIBRARY:-} -pthread -lrt -ldl
done

"$build/bin/hyc-run" "$scratch/cpu" --data "$models/text.bin" --steps "$steps" --seed 1 --log-file "$scratch/cpu.jsonl" >/dev/null
"$build/bin/hyc-run" "$scratch/out" --comm shm --data "$models/text.bin" --steps "$steps" --seed 1 \
  --log-file "$scratch/out.jsonl" --save-weights "$scratch/weights.safetensors" >"$scratch/run.log"
"$source/test/e2e/compare_losses.sh" "$scratch/cpu.jsonl" "$scratch/out.jsonl" "$tolerance" "$steps"
