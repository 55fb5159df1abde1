#!/usr/bin/env bash
# A bundle is all that a machine with CMake, a C++ compiler and the CUDA toolkit needs: built by its own build.sh with an
# empty environment, without network where the kernel lets a user have none, its programs start. Where there is no GPU they
# say so in one line and end with 69, and every test of a kernel says that it was skipped.
#
# Usage: cuda_bundle.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER TOOLKIT_FOLDER
set -euo pipefail
build=$1 source=$2 scratch=$3 toolkit=$4
rm -rf "$scratch"
mkdir -p "$scratch"
"$build/bin/hyc-compile" "$source/test/models/gpt2-formats.onnx" --entry train --loss cross_entropy --logits logits --labels labels \
  --target cuda --arch sm_80 --emit=source -o "$scratch/out"

alone=(env -i PATH="$toolkit/bin:/usr/bin:/bin" HOME="$scratch/home")
if unshare -rn true 2>/dev/null; then alone=(unshare -rn "${alone[@]}"); fi
arguments=()
if ccache=$(command -v ccache); then  # what has not changed since the last run is not compiled again
  alone+=(CCACHE_DIR="$(ccache --get-config cache_dir)" CCACHE_BASEDIR="$scratch" CCACHE_NOHASHDIR=1)
  arguments=(-DCMAKE_CXX_COMPILER_LAUNCHER="$ccache" -DCMAKE_CUDA_COMPILER_LAUNCHER="$ccache")
fi
begin=$(date +%s)
"${alone[@]}" "$scratch/out/build.sh" "${arguments[@]}" >"$scratch/build.log" 2>&1 ||
  { tail -40 "$scratch/build.log"; echo "the bundle does not build"; exit 1; }
echo "built in $(($(date +%s) - begin)) s"

bin=$scratch/out/bin
if ldd "$bin/stage0" "$bin/hyc-run" | grep -E 'dnnl|LLVM|MLIR'; then echo "linked with what a bundle does without"; exit 1; fi
status=0
"${alone[@]}" "$bin/hyc-run" "$scratch/out" --data "$source/test/models/text.bin" --steps 1 >"$scratch/run.log" 2>&1 || status=$?
if [ "$status" = 0 ]; then
  "${alone[@]}" "$bin/cuda_kernels_test"
  exit 0
fi
cat "$scratch/run.log"
[ "$status" = 69 ] || { echo "status $status of hyc-run, expected 69"; exit 1; }
status=0
"${alone[@]}" "$bin/stage0" >"$scratch/said" 2>&1 || status=$?
[ "$status" = 69 ] && grep -q '^error: there is no CUDA device: ' "$scratch/said" && [ "$(wc -l <"$scratch/said")" = 1 ] ||
  { cat "$scratch/said"; echo "status $status of stage0, expected 69 and one line"; exit 1; }
"${alone[@]}" "$bin/cuda_kernels_test" >"$scratch/tests.log"
grep -q '\[  SKIPPED \] Attention' "$scratch/tests.log" || { tail "$scratch/tests.log"; echo "expected skipped tests"; exit 1; }
