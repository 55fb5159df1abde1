#!/usr/bin/env bash
# Builds the site of the documentation and looks whether its pages lead to one another. Skipped where Python has no MkDocs.
#
# Usage: site.sh SOURCE_ROOT SCRATCH_FOLDER PYTHON
set -euo pipefail
root=$1 scratch=$2 python=$3
"$python" -c 'import mkdocs' 2>/dev/null || { echo "skipped: $python has no mkdocs (-DHYC_TEST_PYTHON=… names one that has)"; exit 77; }
rm -rf "$scratch"
HYC_DOCS_PYTHON=$python "$root/scripts/docs" "$scratch"
"$python" - "$scratch" "$root/docs" <<'END'
import pathlib, re, sys
site, docs = map(pathlib.Path, sys.argv[1:])
wrong = []
for page in docs.glob("*.md"):
    made = site / ("index.html" if page.name == "README.md" else page.stem + ".html")
    if not made.exists():
        wrong.append(f"{page.name} has no page")
        continue
    text = made.read_text()
    for target in re.findall(r'href="([^"#:]+\.html)', text):
        if not (made.parent / target).exists():
            wrong.append(f"{made.name} leads to {target}, which is not there")
    wrong += [f"{made.name} asks for {name}" for name in re.findall(r'(?:src|<link[^>]*href)="(https?:[^"]*)"', text)]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
END
