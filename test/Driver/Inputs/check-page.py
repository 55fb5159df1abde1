"""Holds the data inside memory.html to memory.json: the bytes alive at each arena's peak, added up as the page does.

Usage: check-page.py FOLDER
"""
import json
import re
import sys

folder = sys.argv[1]
page = open(folder + "/memory.html", encoding="utf-8").read()
for outside in ("http:", "https:", " src=", "<link", "@import", "fetch(", "XMLHttpRequest"):
    if outside in page:
        sys.exit(f"asks for something outside: {outside}")
data = re.search(r"^const account = (.*);$", page, re.MULTILINE).group(1)
if "<" in data:
    sys.exit("data could end the script")
account = json.loads(data)
told = json.load(open(folder + "/memory.json", encoding="utf-8"))


def copies(stage, tensor, time):
    if "lives" in tensor:
        return sum(begin <= time <= end for begin, end in tensor["lives"])
    if "fn" not in tensor:
        return 1
    return sum(i["fn"] == tensor["fn"] and tensor["first"] <= time - i["begin"] <= tensor["last"] and
               i["begin"] <= time < i["end"] for i in stage["instructions"])


for stage, expected in zip(account["stages"], told["stages"], strict=True):
    for arena, row in zip(stage["arenas"], expected["arenas"], strict=True):
        alive = sum(t["bytes"] * copies(stage, t, arena["peak"]) for t in arena["tensors"])
        if not alive == arena["alive"] == row["peak"]["alive_bytes"]:
            sys.exit(f"stage {stage['stage']}, {arena['name']}: {alive} bytes alive, expected {row['peak']['alive_bytes']}")
        for time in range(0, stage["end"], 7):
            at = sum(t["bytes"] * copies(stage, t, time) for t in arena["tensors"])
            if at > alive:
                sys.exit(f"stage {stage['stage']}, {arena['name']}: {at} bytes at {time} are more than the peak's {alive}")
print("page agrees with memory.json")
