#!/usr/bin/env bash
# No object compiled for an instruction set offers a function to the rest of the program: the linker keeps one of several
# equal inline functions, and if it kept the AVX-512 one, every other CPU would stop at it. Those of a namespace that is
# named after the set, in hyc::kernels or in a kernel's own namespace, are the set's alone.
#
# Usage: check_isa_symbols.sh OBJECT…
set -euo pipefail
[ $# -gt 0 ] || { echo "expected object files" >&2; exit 64; }
failed=0
for object in "$@"; do
  shared=$(nm -C "$object" | grep -E '^[0-9a-f]+ [WVu] ' | grep -vE ' (DW\.ref\.|.*hyc::kernels::([a-z_]+::)?(avx2|avx512)::)' || true)
  if [ -n "$shared" ]; then
    echo "$object shares:"
    echo "$shared"
    failed=1
  fi
  # Counted, not grep -q: that leaves nm without a reader, which pipefail would take for a failure.
  kernels=$(nm -C "$object" | grep -cE ' [TW] (void |double )?hyc::kernels::([a-z_]+::)?avx' || true)
  [ "$kernels" -gt 0 ] || { echo "$object defines no kernel"; failed=1; }
done
exit $failed
