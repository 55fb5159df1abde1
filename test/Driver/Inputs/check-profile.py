"""Facts that every profile of a language model has, whatever its numbers are.

Usage: check-profile.py PROFILE
"""

import json
import sys

profile = json.load(open(sys.argv[1]))
PARTS = ("compute", "update", "exchange", "late", "disk", "data", "other")
for rank in profile["ranks"]:
    step = rank["step"]
    assert abs(step["total"] - sum(step[part] for part in PARTS)) < 1e-9, step
for stage in profile["stages"]:
    ops, layers = stage["ops"], {row["layer"]: row for row in stage["layers"]}
    products = {
        kind: sum(op["operations"] for op in ops if op["kernel"] == "gemm" and op["function"] == kind)
        for kind in ("forward", "backward")
    }
    assert products["backward"] == 2 * products["forward"] > 0, products
    kernels = sum(row["seconds"] for row in stage["kernels"])
    assert abs(kernels - sum(op["seconds"] for op in ops)) < 1e-9
    assert abs(kernels - stage["step"]["compute"] - stage["step"]["update"]) < 1e-9
    assert {op["layer"] for op in ops} == set(layers)
    numbered = [name for name in layers if name.rsplit(".", 1)[-1].isdigit()]
    assert len(numbered) == 8, layers
    for name in numbered:
        row = layers[name]
        assert row["forward"] > 0 and row["backward"] > 0 and row["update"] > 0, row
    assert stage["exchanges"] and all(one["times"] > 0 and one["members"] == 2 for one in stage["exchanges"])
