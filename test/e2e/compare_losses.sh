#!/usr/bin/env bash
# Whether the losses of two runs' logs agree to a relative tolerance at every step, and gradient norms to a hundred of it.
#
# Usage: compare_losses.sh EXPECTED.jsonl GOT.jsonl TOLERANCE STEPS
set -euo pipefail
awk -v tolerance="$3" -v steps="$4" '
  { match($0, /"loss":[-+0-9.eE]+/); loss = substr($0, RSTART + 7, RLENGTH - 7) + 0
    match($0, /"grad_norm":[-+0-9.eE]+/); norm = substr($0, RSTART + 12, RLENGTH - 12) + 0 }
  NR == FNR { cpu[FNR] = loss; cpuNorm[FNR] = norm; next }
  { difference = loss > cpu[FNR] ? loss - cpu[FNR] : cpu[FNR] - loss
    of = norm > cpuNorm[FNR] ? norm - cpuNorm[FNR] : cpuNorm[FNR] - norm
    printf "step %d: loss %.7f, of the CPU target %.7f; gradient norm %.6f, %.6f\n", FNR, loss, cpu[FNR], norm, cpuNorm[FNR]
    if (!(difference <= tolerance * cpu[FNR]) || !(of <= 100 * tolerance * cpuNorm[FNR])) bad = 1
    rows = FNR }
  END { if (bad || rows != steps) { print "the losses differ, or steps are missing"; exit 1 } }' "$1" "$2"
