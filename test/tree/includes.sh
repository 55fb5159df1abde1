#!/usr/bin/env bash
# Enforces which room may include which (docs/architecture.md has the table). Prints every include that breaks it.
#
# Usage: includes.sh SOURCE_ROOT
set -euo pipefail
cd "$1"

failed=0
# forbid FOLDER REGEX WHY: no source below FOLDER may have an include that matches REGEX.
forbid() {
  local folder=$1 regex=$2 why=$3 hits
  [ -d "$folder" ] || return 0
  # Text inside raw strings is what hyc emits, not what it includes.
  hits=$(find "$folder" \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -exec awk -v regex="$regex" '
           { line = $0 }
           /R"[a-z]*\(/ && !/\)[a-z]*"/ { raw = 1 }
           !raw && line ~ "^[ \t]*#[ \t]*include[ \t]*[<\"](" regex ")" { print FILENAME ":" FNR ":" line }
           raw && /\)[a-z]*"/ { raw = 0 }' {} +)
  [ -z "$hits" ] && return 0
  echo "$why:"
  echo "$hits" | sed 's/^/  /'
  failed=1
}

# All of kernels/ but what is pure data and needs only std: kernels/descriptions.h, and a folder's description.h.
kernels='kernels/[a-z_0-9]+/([^d]|d[^e]|de[^s])|kernels/[^d/][^/]*\.h'
compiler='mlir/|mlir-c/|llvm/|llvm-c/|hyc/|dialects/'
forbid runtime "$compiler" "the runtime knows nothing of the compiler"
# The runtime's rooms: base, then memory, then comm, io and instruments beside each other, then checkpoint and profile, then
# copies, then run; cuda beside run. A room that is not in the table is one that nobody has thought about.
declare -A below=([base]='base' [memory]='base memory' [comm]='base memory comm' [io]='base memory io'
                  [instruments]='base instruments' [profile]='base memory comm profile'
                  [checkpoint]='base memory comm io checkpoint'
                  [copies]='base memory comm io checkpoint copies' [run]='base memory comm io checkpoint copies instruments profile run'
                  [cuda]='base memory comm io cuda')
rooms=$(find runtime/src -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)
for room in $rooms; do
  if [ -z "${below[$room]:-}" ]; then
    echo "runtime/src/$room is not among the runtime's layers (test/tree/includes.sh)"
    failed=1
    continue
  fi
  others=$(printf '%s\n' $rooms | grep -vxE "$(tr ' ' '|' <<<"${below[$room]}")" | paste -sd'|')
  forbid runtime/src/$room "($others)/" "of the runtime's rooms, $room includes ${below[$room]} only"
done
forbid runtime/include "($(paste -sd'|' <<<"$rooms"))/" "what the runtime shows includes nothing of its inside"
forbid kernels "$compiler|hycrt/" "kernels know std, OpenMP and the vendor library only"
forbid tools/hyc-run "$compiler" "hyc-run runs where the compiler is not"
forbid tools/hyc-bench "$compiler" "hyc-bench runs where the compiler is not"
forbid dialects "hyc/|hycrt/|kernels/[a-z_0-9]+/|kernels/[^d/][^/]*\.h" \
  "dialects include mlir, llvm, dialects and kernels/descriptions.h only"
for side in include/hyc lib; do
  forbid $side/Support 'dialects/(Dist|Rank)|hyc/(Plan|Analysis|Import|Transforms|Interpreter|Target|Pipelines|Planner|Driver)|hycrt/|kernels/' \
    "Support stands below everything else"
  forbid $side/Plan 'dialects/|hyc/(Analysis|Import|Transforms|Interpreter|Target|Pipelines|Planner|Driver)|hycrt/|kernels/' \
    "the plan is a value: it includes Support only"
  forbid $side/Analysis "hyc/(Plan|Import|Transforms|Interpreter|Target|Pipelines|Planner|Driver)|hycrt/|$kernels" \
    "Analysis includes dialects, Support and descriptions of kernels only"
  forbid $side/Import 'hyc/(Transforms|Interpreter|Target|Pipelines|Planner|Driver)|hycrt/|kernels/' \
    "Import, Transforms and Target do not include one another"
  forbid $side/Transforms "hyc/(Import|Interpreter|Target|Pipelines|Planner|Driver)|hycrt/|$kernels" \
    "Import, Transforms and Target do not include one another"
  forbid $side/Target "hyc/(Import|Transforms|Interpreter|Pipelines|Planner|Driver)|hycrt/|$kernels" \
    "Import, Transforms and Target do not include one another"
  forbid $side/Interpreter 'hyc/(Plan|Import|Transforms|Target|Pipelines|Driver)|hycrt/' \
    "the Interpreter is an oracle: it shares no code with what it checks"
  forbid $side/Interpreter 'kernels/[a-z_]+/(op\.h|[^r])' "the Interpreter includes only the kernels' references"
  forbid $side/Planner 'hyc/(Import|Transforms|Interpreter|Target|Driver)|hycrt/|kernels/' \
    "the Planner makes plans: it includes Support, Plan, Analysis, dialects and Pipelines only"
  for phase in Model Train Plan Local Rank; do
    others=$(printf '%s\n' Model Train Plan Local Rank | grep -v "^$phase$" | paste -sd'|')
    forbid $side/Transforms/$phase "hyc/Transforms/($others)" "one phase's passes do not include another's"
  done
done
exit $failed
