#!/bin/sh
# precompiled-sum.sh OUTPUT COMPILER FLAGS… HEADER: writes to OUTPUT a sum of the header's text after preprocessing, in which
# no path occurs.
set -eu
output=$1
shift
text=$(mktemp)
trap 'rm -f "$text"' EXIT
"$@" -E -P -o "$text"
sum=$(sha256sum <"$text")
printf '%s\n' "$sum" >"$output"
