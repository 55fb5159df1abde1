#!/usr/bin/env bash
# Runs one fuzz target over seeds made from the fixtures. Fails with the input that it found, in FOLDER/found-*.
#
# Usage: run.sh TARGET FOLDER SECONDS [libFuzzer options…]
#   FOLDER   where seeds, the corpus and what is found go; the corpus of earlier runs is used again when SECONDS > 60
#   Exit 77 when the target was not built, as where clang 22 is missing.
set -euo pipefail
target=$1 folder=$2 seconds=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ ! -x "$target" ]; then
  echo "$(basename "$target"): skipped, since it was not built: it needs clang-22 and libclang-rt-22-dev"
  exit 77
fi
mkdir -p "$folder"
rm -rf "$folder/seeds"
[ "$seconds" -gt 60 ] || rm -rf "$folder/corpus"
mkdir -p "$folder/corpus"
format=$(basename "$target" _fuzzer)
python3 "$here/make_seeds.py" "$format" "$here/../.." "$folder/seeds"

# MLIR and Protobuf are not instrumented: memory that headers poison in instrumented code they would not clear again.
# The limits are what "bounded by the input" means here: a file of a few KB may not ask for a gigabyte at once.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1
dictionary=()
[ ! -f "$here/$format.dict" ] || dictionary=(-dict="$here/$format.dict")
cd "$folder"
# libFuzzer ends with 77 where it finds something, unless told otherwise: that is CTest's word for skipped.
exec "$target" -seed=1 -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1200 \
  -error_exitcode=1 -timeout_exitcode=1 \
  -artifact_prefix="$folder/found-" -print_final_stats=1 -verbosity=1 "${dictionary[@]}" "$@" "$folder/corpus" "$folder/seeds"
