#!/usr/bin/env bash
# Whether a model's evaluation beside training has the text of the evaluation by itself, but for its indentation.
#
# Usage: same-inside.sh MODEL SCRATCH_FOLDER
set -euo pipefail
hyc-compile "$1" --entry train,evaluate --emit=model -o "$2/both.mlir"
hyc-compile "$1" --entry evaluate --emit=model -o "$2/alone.mlir"
sed -n '/^  module @evaluate/,/^  }/p' "$2/both.mlir" | sed '1d;$d;s/^  //' >"$2/inside.body"
sed '1d;/^}$/d;/^$/d' "$2/alone.mlir" >"$2/alone.body"
[ -s "$2/inside.body" ]
cmp "$2/inside.body" "$2/alone.body"
