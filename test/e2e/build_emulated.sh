#!/usr/bin/env bash
# Compiles the programs of a folder that hyc-compile --target cuda --emit=source wrote for the host (test/emulation): what
# hyc-compile would give to nvcc and the host's compiler.
#
# Usage: build_emulated.sh BUILD_FOLDER SOURCE_FOLDER OUT OBJECTS
set -euo pipefail
build=$1 source=$2 out=$3 objects=$4
flags=(-std=c++20 -O2 -w -ffp-contract=off -fopenmp -I"$source/test/emulation/include" -I"$source/runtime/include" -I"$source")
libraries=("$build/lib/libhycrt_emulated.a" "$build/lib/libhyc_kernels_emulated.a" "$build/lib/libhyc_emulation.a"
           "$build/lib/libhycrt.a" "$build/lib/libhyc_kernels.a")
mkdir -p "$out/bin" "$objects"
for file in "$out"/src/*.cpp "$out"/src/*.cu; do
  echo "g++ ${flags[*]} -x c++ -c $file -o $objects/$(basename "$file").o"
done | xargs -P 2 -d '\n' -I{} sh -c '{}'
for table in "$out"/src/stage*.cpp; do
  stage=$(basename "$table" .cpp)
  case $stage in *_*) continue ;; esac
  g++ -fopenmp -o "$out/bin/$stage" "$objects/kernels.cu.o" "$objects/$stage".cpp.o "$objects/${stage}"_*.o \
    "${libraries[@]}" ${HYC_URING_LIBRARY:-} -lssl -lcrypto -pthread -lrt -ldl
done
