#!/usr/bin/env bash
# Every pass has a text test of its own name: test/PHASE/NAME.mlir, or NAME-invalid.mlir for one that only checks, for the
# pass hyc-NAME, and the test runs the pass.
#
# Usage: pass-tests.sh SOURCE_ROOT
set -euo pipefail
cd "$1"
failed=0 count=0
while IFS= read -r pass; do
  count=$((count + 1))
  name=${pass#hyc-}
  tests=()
  for file in test/*/"$name".mlir test/*/"$name".test test/*/"$name"-invalid.mlir; do
    [ -f "$file" ] && tests+=("$file")
  done
  if [ ${#tests[@]} -eq 0 ]; then
    echo "$pass has no test of its own, expected test/PHASE/$name.mlir"
    failed=1
  elif ! grep -qE -- "--$pass\b" "${tests[@]}"; then
    echo "${tests[*]} does not run --$pass"
    failed=1
  fi
done < <(grep -rhoE 'Pass<"hyc-[a-z0-9-]+"' --include=Passes.td include | grep -oE 'hyc-[a-z0-9-]+' | sort)
[ "$count" -gt 30 ] || { echo "only $count passes were found in include/hyc/Transforms/*/Passes.td"; exit 1; }
exit $failed
