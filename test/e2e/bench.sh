#!/usr/bin/env bash
# hyc-bench measures two ranks of this machine, and hyc-compile finds a layout by the file that comes of it. No figure is held
# to a value: that they are there, positive and in order is.
#
# Usage: bench.sh BUILD_DIR MODELS_DIR FOLDER
set -euo pipefail
bin=$1/bin models=$2 folder=$3
rm -rf "$folder" && mkdir -p "$folder"
"$bin/hyc-bench" --ranks 2 --threads 1 --mib 1 --seconds 0.005 --passes 2 --nvme-path "$folder" --name here -o "$folder/machine.json" >"$folder/table"
for row in 'product f32 .* flop/s' 'product bf16' 'product f32 .* rows, cold' 'product f32 .* rows, in turns' 'attention' 'memory' 'host copy' 'all_reduce +host +8 bytes' 'all_reduce +host +1 MiB' \
  'all_gather +host +1 MiB' 'reduce_scatter +host +1 MiB' 'send/receive +host +1 MiB' 'beside +host +1 MiB .* %' 'disk write +4 MiB' 'disk read +4 MiB' 'pass 2 of 2' 'the file has medians; between passes differed most: .* to '; do
  grep -qE "^${row/ flop/.flop}" "$folder/table" || { echo "the table has no row '$row':"; cat "$folder/table"; exit 1; }
done
python3 - "$folder/machine.json" <<'CHECK'
import json, sys
machine = json.load(open(sys.argv[1]))
for key in ("products", "narrow_products", "memory", "host", "disk"):
    assert machine[key] > 0, key
assert 0 < machine["attention_share"] <= 1
assert 0 <= machine["overlap_share"] <= 1
assert machine.get("product_memory", 1) > 0  # left out where it is noise
assert machine["name"] == "here"
assert "the median of 2 passes of 3 blocks" in machine["sources"][0], machine["sources"]
(tier,) = machine["tiers"]
assert (tier["name"], tier["ranks"]) == ("host", 2) and 0 < tier["latency"] < 10, tier
for key in ("rates", "gather_rates", "scatter_rates", "transfer_rates"):
    sizes = [point["bytes"] for point in tier[key]]
    assert sizes == sorted(sizes) and sizes[-1] == 1 << 20 and len(sizes) >= 4, (key, sizes)
    assert all(point["rate"] > 0 for point in tier[key]), key
assert max(point["share"] for point in machine["product_share"]) == 1
CHECK
compile=("$bin/hyc-compile" "$models/gpt2-tiny.onnx" --loss cross_entropy --logits logits --labels labels --machine
  "$folder/machine.json" --plan-only)
"${compile[@]}" --ranks 2 -o "$folder/out" >"$folder/planned"
# It has two ranks and no more, which hyc-compile knows from the file alone.
if "${compile[@]}" --ranks 4 -o "$folder/more" >"$folder/refused" 2>&1; then echo "4 ranks on a machine of 2"; exit 1; fi
grep -q 'machine "here" has 2 ' "$folder/refused" || { cat "$folder/refused"; exit 1; }
