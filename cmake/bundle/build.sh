#!/bin/sh
# Builds everything of this folder: the programs, hyc-run and the kernels' tests, all in bin/. Wants CMake, a C++ compiler
# and the CUDA toolkit; no network, no root. Further arguments go to CMake, as in -DCMAKE_CUDA_ARCHITECTURES=90.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cmake -S "$here/src" -B "$here/build" "$@"
cmake --build "$here/build" --parallel "$(nproc)"
echo "built; train with: $here/bin/hyc-run $here --data FILE --steps N"
echo "test the kernels with: $here/bin/cuda_kernels_test"
