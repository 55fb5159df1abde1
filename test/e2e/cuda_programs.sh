#!/usr/bin/env bash
# A program for GPUs compiles and links for sm_80 and sm_90; where there is no GPU it starts, says so in one line, and ends
# with 69.
#
# Usage: cuda_programs.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER MODEL COMPILE_FLAGS...
set -euo pipefail
build=$1 models=$2/test/models scratch=$3 model=$4
shift 4
rm -rf "$scratch"
mkdir -p "$scratch"
"$build/bin/hyc-compile" "$models/$model" --entry train --target cuda \
  --arch sm_80,sm_90 -o "$scratch/out" "$@"
for program in "$scratch"/out/bin/stage*; do
  status=0
  "$program" >"$scratch/said" 2>&1 || status=$?
  [ "$status" = 64 ] && continue  # there is a GPU, and more than one rank is wanted
  [ "$status" = 69 ] || { cat "$scratch/said"; echo "status $status of $program, expected 69"; exit 1; }
  grep -qE '^error: there is no CUDA device: ' "$scratch/said" && [ "$(wc -l <"$scratch/said")" = 1 ] ||
    { cat "$scratch/said"; echo "expected one line that there is no CUDA device"; exit 1; }
done
