#!/usr/bin/env bash
# hyc-bench measures a GPU, and hyc-compile takes the file. No figure is held to a value: that they are there, and that shares are
# such, is. Without a GPU the test is skipped (77).
#
# Usage: bench_gpu.sh BUILD_DIR MODELS_DIR FOLDER
set -euo pipefail
bin=$1/bin models=$2 folder=$3 status=0
rm -rf "$folder" && mkdir -p "$folder"
"$bin/hyc-bench" --target cuda --mib 8 --seconds 0.005 --name here -o "$folder/machine.json" >"$folder/table" 2>&1 || status=$?
if [ "$status" = 69 ] && grep 'there is no CUDA device' "$folder/table"; then
  [ ! -e "$folder/machine.json" ] || { echo "a file was written without a device"; exit 1; }
  exit 77
fi
[ "$status" = 0 ] || { cat "$folder/table"; exit 1; }
python3 - "$folder/machine.json" <<'CHECK'
import json, sys
machine = json.load(open(sys.argv[1]))
for key in ("device_memory", "products", "narrow_products", "memory", "host", "launch"):
    assert machine[key] > 0, key
assert 0 < machine["attention_share"] <= 1 and "tiers" not in machine
assert max(point["share"] for point in machine["product_share"]) == 1
CHECK
"$bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels --target cuda \
  --machine "$folder/machine.json" --plan-only -o "$folder/out" >"$folder/planned"
