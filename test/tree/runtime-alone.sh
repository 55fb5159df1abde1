#!/usr/bin/env bash
# The runtime half configures and builds with no LLVM in sight: its own CMake call, with MLIR and LLVM hidden.
#
# Usage: runtime-alone.sh SOURCE_ROOT BUILD_FOLDER
set -euo pipefail
source_root=$1 build=$2
cmake -S "$source_root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHYC_BUILD_COMPILER=OFF -DHYC_BUILD_TESTS=OFF \
  -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON >/dev/null
cmake --build "$build" --parallel 2
if ldd "$build/bin/hyc-run" | grep -iE 'llvm|mlir'; then
  echo "hyc-run links LLVM" >&2
  exit 1
fi
if grep -rlE '(^|[ /])(mlir|llvm)/' "$build" --include='*.d' | head -n 1 | grep .; then
  echo "a source of the runtime half read an LLVM header" >&2
  exit 1
fi
