"""Holds the data inside plan.html to memory.json, and its timeline to itself.

Usage: check-page.py FOLDER [MOST_BYTES]
"""
import json
import re
import sys

folder = sys.argv[1]
page = open(folder + "/plan.html", encoding="utf-8").read()
if len(sys.argv) > 2 and len(page) > int(sys.argv[2]):
    sys.exit(f"{len(page)} bytes, expected at most {sys.argv[2]}")
for outside in ("http:", "https:", " src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest"):
    if outside in page:
        sys.exit(f"asks for something outside: {outside}")
data = re.search(r"^const plan = (.*);$", page, re.MULTILINE).group(1)
if "<" in data:
    sys.exit("data could end the script")
plan = json.loads(data)
told = {stage["stage"]: stage for stage in json.load(open(folder + "/memory.json", encoding="utf-8"))["stages"]}


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: {found}, expected {expected}")


for stage in plan["memory"]:
    where, expected = f"stage {stage['stage']}", told[stage["stage"]]
    expect(stage["total"], expected["total_bytes"], where + " in all")
    for arena, row, alive in zip(stage["arenas"], expected["arenas"], stage["alive"], strict=True):
        expect(arena["name"], row["arena"], where)
        expect((arena["bytes"], arena["alive"]), (row["bytes"], row["peak"]["alive_bytes"]), f"{where}, {arena['name']}")
        lasting = sum(r[0] for r in arena["lasting"])
        # What lasts is alive at every moment, and no moment has more than the peak.
        if not lasting <= min(alive) <= max(alive) <= arena["alive"]:
            sys.exit(f"{where}, {arena['name']}: {lasting} bytes last, {min(alive)} to {max(alive)} are alive, "
                     f"{arena['alive']} at the peak")
    sums = [sum(column) for column in zip(*stage["alive"], strict=True)]
    lasting = sum(r[0] for arena in stage["arenas"] for r in arena["lasting"])
    # Each instruction's fullest moment is made of what lasts and of what is told of it.
    told_all = sum(i[5] for i in stage["instructions"]) == stage["points"] and all(i[6] >= 0 for i in stage["instructions"])
    fullest = max(lasting + sum(r[0] for r in stage["moments"][i[6]]) for i in stage["instructions"] if i[6] >= 0)
    if fullest > max(sums) or (told_all and fullest != max(sums)):
        sys.exit(f"{where}: the fullest moment has {fullest} bytes, the curve {max(sums)}")
    if len(sys.argv) <= 2 and not told_all:
        sys.exit(where + ": a short schedule is not told whole")

for stage, (computation, exposed, idle) in zip(plan["timeline"], plan["stageTimes"]):
    now = 0
    for kind, micro, begin, *parts in stage["instructions"]:
        if abs(begin - now) > 50:
            sys.exit(f"stage {stage['stage']}: {kind} {micro} begins at {begin} ns, expected {now}")
        now = begin + sum(parts)
    for part, total in zip(range(3, 6), (computation, exposed, idle)):
        added = sum(i[part] for i in stage["instructions"])
        if abs(added - total) > 2 * len(stage["instructions"]):
            sys.exit(f"stage {stage['stage']}: {added} ns in part {part}, expected {total}")
print("page agrees with memory.json")
