#!/usr/bin/env bash
# Runs a file of tests of the Python package. Ends with 77, which skips it, where Python lacks what all of the file needs: it
# then says what that is.
#
# Usage: run.sh PYTHON TEST_FILE
set -uo pipefail
cd "$(dirname "$2")"
"$1" -c 'import pytest' 2>/dev/null || { echo "skipped: $1 has no pytest; -DHYC_TEST_PYTHON=… names one that has"; exit 77; }
said=$("$1" -m pytest -rs "$(basename "$2")" 2>&1)
status=$?
echo "$said"
# 5: nothing was collected, because a module is missing that the whole file needs.
[ "$status" -eq 5 ] && exit 77
exit "$status"
