#!/usr/bin/env bash
# Every C++ and CUDA source is as clang-format leaves it, under the settings of its folder. The version is pinned, since
# each formats a little differently.
#
# Usage: format.sh SOURCE_ROOT [--fix]
#   --fix   format what is not
#   Exit 77 where clang-format-22 is missing.
set -euo pipefail
cd "$1"
if ! command -v clang-format-22 >/dev/null; then
  echo "skipped: clang-format-22 is missing (scripts/install-deps installs it)"
  exit 77
fi
sources() { find dialects include lib runtime kernels tools test \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0; }
if [ "${2:-}" = --fix ]; then
  sources | xargs -0 -n 20 -P "$(nproc)" clang-format-22 -i
  exit 0
fi
found=$(sources | xargs -0 -n 20 -P "$(nproc)" clang-format-22 --dry-run 2>&1 | grep 'code should be clang-formatted' || true)
[ -z "$found" ] && exit 0
echo "$found" | cut -d: -f1 | sort | uniq -c | awk '{ print $2 " is not as clang-format-22 leaves it, in " $1 " places" }'
echo "test/tree/format.sh . --fix formats them"
exit 1
