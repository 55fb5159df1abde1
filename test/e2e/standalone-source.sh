#!/usr/bin/env bash
# The sources that hyc-compile writes build by their own CMakeLists.txt against an installed hyc, and run.
#
# Usage: standalone-source.sh BUILD_FOLDER SCRATCH_FOLDER MODELS_FOLDER
set -euo pipefail
build=$1 scratch=$2 models=$3
rm -rf "$scratch"
mkdir -p "$scratch"

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
# The installed compiler, so that it must find the installed runtime.
"$scratch/prefix/bin/hyc-compile" "$models/gpt2-5layer.onnx" --loss cross_entropy --logits logits --labels labels \
  --micro-batch 2 --optimizer sgd --lr 0.1 -o "$scratch/out"
rm "$scratch/out/bin/stage0"
cmake -S "$scratch/out/src" -B "$scratch/own" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/own"
[ -x "$scratch/out/bin/stage0" ] || { echo "bin/stage0 was not built"; exit 1; }
"$scratch/prefix/bin/hyc-run" "$scratch/out" --data "$models/text.bin" --steps 3
