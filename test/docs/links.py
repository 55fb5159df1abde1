"""Every link of the documentation leads somewhere: to a file of the tree, and where it names one to a heading of the page.
Every page is led to by README.md or docs/README.md, and every file or folder that prose names in backticks is there.

Usage: links.py
"""

import re
import sys

from markdown import ROOT, anchors, links, pages, prose

# Names in backticks that begin like a folder of the tree, and are of a file or end as a folder's.
ROOMS = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build")))
NAMED = re.compile(r"`((?:%s)/[\w./-]*\w/?)`" % "|".join(map(re.escape, ROOMS)))


def wrong_links(page):
    for line, target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield line, f"leads to '{target}', which is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            near = ", ".join(sorted(anchors(file)))
            yield line, f"leads to '#{anchor}', of which {file.name} has no heading; it has {near}"


def missing_files(page):
    for line, text in prose(page):
        for name in NAMED.findall(text):
            is_file = name.endswith("/") or "." in name.rsplit("/", 1)[1]
            if is_file and not (ROOT / name).exists() and not list(ROOT.glob(name + "*")):
                yield line, f"names '{name}', which is not in the tree"


def main():
    found = []
    for page in pages():
        for line, what in [*wrong_links(page), *missing_files(page)]:
            found.append(f"{page.relative_to(ROOT)}:{line}: {what}")
    entries = [ROOT / "README.md", ROOT / "docs" / "README.md"]
    led_to = {(page.parent / target.partition("#")[0]).resolve() for page in entries for _, target in links(page)}
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page not in led_to and page not in entries:
            found.append(f"docs/README.md: neither it nor README.md leads to {page.name}")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
