#!/usr/bin/env bash
# The sources that hyc-compile writes build by their own CMakeLists.txt against an installed hyc, and run; inside a program
# of one's own (examples/embedding), too.
#
# Usage: standalone-source.sh BUILD_FOLDER SCRATCH_FOLDER MODELS_FOLDER EXAMPLES_FOLDER
set -euo pipefail
build=$1 scratch=$2 models=$3 examples=$4
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
"$scratch/prefix/bin/hyc-run" "$scratch/out" --data "$models/text.bin" --steps 3 --log-file "$scratch/log.jsonl"

cmake -S "$examples/embedding" -B "$scratch/embedding" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DOUT=$scratch/out" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/embedding" --target embedding
program=$(find "$scratch" -name embedding -type f -perm -u+x)
"$program" "$scratch/out" "$models/text.bin" 3 >"$scratch/losses"
python3 - "$scratch/log.jsonl" "$scratch/losses" <<'END'
import json, sys
logged = [json.loads(line)["loss"] for line in open(sys.argv[1])]
embedded = [float(line) for line in open(sys.argv[2])]
assert len(logged) == 3 and logged == embedded, (logged, embedded)
END
