#!/usr/bin/env bash
# No source file passes 800 lines, and each opens with a comment that says what it is. An include says nothing. Files of unit
# tests are named as those they test: NameTest.cpp in the compiler's rooms, name_test.cpp in those of runtime and kernels.
#
# Usage: files.sh SOURCE_ROOT
set -euo pipefail
cd "$1"
failed=0
while IFS= read -r file; do
  lines=$(wc -l <"$file")
  if [ "$lines" -gt 800 ]; then
    echo "$file has $lines lines, expected at most 800: split its topic"
    failed=1
  fi
  if ! head -n 1 "$file" | grep -qE '^(// |/\*|#!|# |""")'; then
    echo "$file does not open with a comment that says what it is"
    failed=1
  fi
done < <(find dialects include lib runtime kernels tools python test \
           \( -name '*.h' -o -name '*.cpp' -o -name '*.td' -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' \) | sort)
for room in test/unit/*/; do
  case $(basename "$room") in
    runtime | kernels | cuda) wrong='[A-Z]' form=name_test.cpp ;;
    *) wrong='^[a-z]' form=NameTest.cpp ;;
  esac
  while IFS= read -r name; do
    echo "$room$name is named otherwise than its room's files, expected the form $form"
    failed=1
  done < <(find "$room" -name '*.cpp' -o -name '*.h' | sed 's|.*/||' | grep -E "$wrong" || true)
done
exit $failed
