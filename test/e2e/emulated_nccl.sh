#!/usr/bin/env bash
# What ranks of a program for GPUs say of each other under NCCL, which is emulated (test/emulation/nccl.cpp): one that is
# gone, and one that no longer arrives, end the run with a line that names the exchange and the rank. In recorded steps
# the host is not there when it happens.
#
# Usage: emulated_nccl.sh BUILD_FOLDER SOURCE_FOLDER TWO_RANKS_SCRATCH     of emulated_cuda.sh
set -euo pipefail
build=$1 source=$2 two=$3
scratch=$two/nccl
rm -rf "$scratch"
mkdir -p "$scratch"
export HYC_EMULATION_DEVICES=2

fail() { cat "$scratch/said"; echo "$1"; exit 1; }
# Begins a long run and waits for its third step; rank 1's process is `victim`.
begin() {
  rm -f "$scratch/log.jsonl"
  "$build/bin/hyc-run" "$two/out" --comm nccl --data "$source/test/models/text.bin" --steps 100000 "$@" \
    --log-file "$scratch/log.jsonl" >"$scratch/said" 2>&1 &
  job=$!
  for ((i = 0; i < 600; ++i)); do
    if [ -e "$scratch/log.jsonl" ] && [ "$(wc -l <"$scratch/log.jsonl")" -ge 3 ]; then break; fi
    kill -0 $job || fail "the run has ended early"
    sleep 0.2
  done
  victim=
  for child in $(pgrep -P $job); do
    if tr '\0' '\n' <"/proc/$child/environ" | grep -qx RANK=1; then victim=$child; fi
  done
  [ -n "$victim" ] || fail "rank 1 was not found"
}
# Usage: ends EXPECTED_STATUS EXPECTED_LINE
ends() {
  local status=0
  wait $job || status=$?
  [ "$status" = "$1" ] || fail "status $status, expected $1"
  grep -qE "$2" "$scratch/said" || fail "expected: $2"
}

# Stopped, it does not arrive. Recorded steps, and steps that are not.
for graph in auto off; do
  begin --cuda-graph $graph --exchange-timeout 2
  kill -STOP "$victim"
  ends 69 "rank 0: error: waited 2 s \(--exchange-timeout\) in .* \(NCCL\) for rank 1 \(.*\), which is stopped by a signal \(process .*, state T\); arrived: rank 0"
done
# Killed, it is gone at once, long before a time-out. hyc-run tells which rank it was.
begin
kill -KILL "$victim"
ends 137 "rank 1 \(.*\) was ended by SIGKILL; the other ranks were ended"
