#!/usr/bin/env python3
"""Counts in how many places one example of each kind of fact stands, so that what an adder has to touch is known and does
not grow again. A place is a file with the example's name outside of comments; a folder of the example's own is one place.
Files that only use the example (importers, passes that raise to it) are left out, as are tests and docs.

Usage: places.py SOURCE_ROOT [--list]
  --list   name the files, too

Prints a table, which stands in docs/architecture.md. Exits with 1 where a row has more places than it may, or where the
page shows another table.
"""
import pathlib
import re
import sys

ROOMS = ["cmake", "dialects", "include", "lib", "runtime", "kernels", "tools"]
SUFFIXES = {".h", ".cpp", ".cu", ".td", ".txt", ".cmake"}
# Text that is no code: comments, and the descriptions of TableGen.
NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\[\{.*?\}\]|(?m:^\s*#(?!include|define)[^\n]*)", re.DOTALL)


class Row:
    def __init__(self, what, example, pattern, most, uses=None, own=None, below=""):
        self.what, self.example, self.most = what, example, most
        self.pattern = re.compile(pattern)
        self.uses = re.compile(uses) if uses else None  # files that only use the example
        self.own, self.below = own, below  # the example's own folder; where to look


ROWS = [
    Row("a planning flag", "`--offload-prefetch`", r"offloadPrefetch|offload-prefetch", 4),
    Row("a property of the plan", "`gradient_placement`", r"gradient_placement", 1),
    Row("an option of hyc-run", "`--tf32`", r"\btf32\b", 4, uses=r"^kernels/"),
    Row("an op of elements", "softplus", r"[sS]oftplus", 3, uses=r"^lib/Import/|LossSums"),
    Row("an op with a kernel", "rms_norm", r"RmsNorm|rms_norm|rmsNorm", 5, own="kernels/rms_norm/",
        uses=r"/Import/|RaiseRmsNorm|^lib/Pipelines|Transforms/Model"),
    Row("an optimizer", "lion", r"\b[lL]ion", 5, own="kernels/lion/"),
    Row("a kind of exchange", "all_to_all", r"all_to_all|[aA]llToAll", 8,
        uses=r"Transforms/Local/(Exchanges|Partition)"),
    Row("a transport", "shared memory", r"shared_memory|SharedMemory", 3, own="runtime/src/comm/shm/", below="runtime/",
        uses=r"comm/tcp/hosts"),
    Row("a mesh axis", "tp", r"\bkTp\b|\.tp\b|\"tp\"", 0, below="runtime/"),
]


def places_of(row, root):
    found = set()
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")):
            name = file.relative_to(root).as_posix()
            if file.suffix not in SUFFIXES or not name.startswith(row.below) or (row.uses and row.uses.search(name)):
                continue
            text = file.read_text(encoding="utf-8")
            # CMake's own comments go; TableGen and C++ keep what begins with a number sign.
            if file.suffix in {".txt", ".cmake"}:
                text = re.sub(r"#[^\n]*", "", text)
            if row.pattern.search(NO_CODE.sub("", text)):
                found.add(row.own if row.own and name.startswith(row.own) else name)
    return sorted(found)


def main():
    root = pathlib.Path(sys.argv[1])
    lines = ["| to add | example | places | at most |", "|---|---|---:|---:|"]
    failed = False
    for row in ROWS:
        places = places_of(row, root)
        lines.append(f"| {row.what} | {row.example} | {len(places)} | {row.most} |")
        if len(places) > row.most:
            print(f"{row.example} stands in {len(places)} places, expected at most {row.most}: {' '.join(places)}")
            failed = True
        elif "--list" in sys.argv:
            print(f"{row.example}: {' '.join(places)}")
    table = "\n".join(lines)
    print(table)
    if table not in (root / "docs/architecture.md").read_text(encoding="utf-8"):
        print("docs/architecture.md shows another table; put this one there")
        failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
