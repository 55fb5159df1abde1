#!/usr/bin/env bash
# Where programs for GPUs keep their states changes no bit of what they train, however late or early the device's streams
# are: the same layout with everything on the device and with states, gradients and activations on the host or on a disk,
# compiled for the host (test/emulation). What the plan calls dead is overwritten.
#
# Usage: emulated_offload.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER STEPS MODEL COMMON_FLAGS... [-- OFFLOAD_FLAGS...]...
set -euo pipefail
build=$1 source=$2 scratch=$3 steps=$4 model=$2/test/models/$5
shift 5
rm -rf "$scratch"
mkdir -p "$scratch/disk"
fail() { echo "$1"; exit 1; }

common=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do common+=("$1"); shift; done
[[ " ${common[*]} " == *" --entry "* ]] || common+=(--entry train)
# Usage: compile NAME FLAGS...
compile() {
  "$build/bin/hyc-compile" "$model" "${common[@]}" --poison --target cuda --emit=source -o "$scratch/$1" "${@:2}" >"$scratch/$1.log"
  "$source/test/e2e/build_emulated.sh" "$build" "$source" "$scratch/$1" "$scratch/$1-objects"
}
# Usage: train NAME STREAMS FLAGS...      what it has trained: NAME-STREAMS.jsonl and .safetensors
train() {
  HYC_EMULATION_STREAMS=$2 "$build/bin/hyc-run" "$scratch/$1" --comm shm --poison --data "$source/test/models/text.bin" \
    --steps "$steps" --seed 1 --nvme-path "$scratch/disk" --log-file "$scratch/$1-$2.jsonl" \
    --save-weights "$scratch/$1-$2.safetensors" "${@:3}" >"$scratch/$1-$2.said" 2>&1
}
# Of the steps in a log, which tells of checkpoints, too.
losses() { sed -n 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\).*/\1 \2/p' "$1"; }

compile device
train device late || { cat "$scratch/device-late.said"; fail "the program without offload does not run"; }
[ "$(losses "$scratch/device-late.jsonl" | sort -u | wc -l)" = "$steps" ] || fail "the program without offload does not train"
# Of fp16 some steps are left out and some are not.
skipped=$(sed -n "s/^step $steps\/.* skipped \([0-9]*\)$/\1/p" "$scratch/device-late.said")
[ -z "$skipped" ] || { [ "$skipped" -gt 0 ] && [ "$skipped" -lt "$steps" ]; } || fail "of $steps steps $skipped are left out"
variant=0
while [ $# -gt 0 ]; do
  shift
  flags=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do flags+=("$1"); shift; done
  variant=$((variant + 1))
  name=offload$variant
  case "${flags[*]}" in *nvme*) flags+=(--nvme-path "$scratch/disk") ;; esac
  compile "$name" "${flags[@]}"
  for streams in late early copies; do
    # Checkpoints that are written while training goes on are those that it waits for.
    mode=async
    [ $streams != copies ] || mode=sync
    train "$name" "$streams" --checkpoint "$scratch/$name-$streams-runs" --checkpoint-every 1 --checkpoint-mode $mode ||
      { cat "$scratch/$name-$streams.said"; fail "$name (${flags[*]}) does not run, streams $streams"; }
    [ "$(losses "$scratch/$name-$streams.jsonl")" = "$(losses "$scratch/device-late.jsonl")" ] ||
      fail "$name (${flags[*]}) has other losses, streams $streams"
    cmp "$scratch/$name-$streams.safetensors" "$scratch/device-late.safetensors" ||
      fail "$name (${flags[*]}) has other weights, streams $streams"
    rm "$scratch/$name-$streams.safetensors"
  done
  for streams in late early; do
    diff -r "$scratch/$name-$streams-runs/step-1" "$scratch/$name-copies-runs/step-1" ||
      fail "$name (${flags[*]}) has other checkpoints, streams $streams"
  done
  [ -z "$(ls -A "$scratch/disk")" ] || fail "$name leaves something on the disk"
  case "${flags[*]}" in *nvme*) ;; *) continue ;; esac

  # The host has to wait for the disk, so that a step cannot be one graph.
  grep -q 'steps are run without a graph: the program moves states to and from a disk (nvme)' "$scratch/$name-late.said" ||
    fail "expected a word on graphs"
  status=0
  train "$name" late --cuda-graph on || status=$?
  [ "$status" = 64 ] || fail "status $status with --cuda-graph on, expected 64"
  # A disk that fails ends the job, and what lies there is named.
  status=0
  HYC_IO_FAULT='0:read:40:EIO' train "$name" late || status=$?
  [ "$status" = 74 ] || { cat "$scratch/$name-late.said"; fail "status $status of a failing disk, expected 74"; }
  grep -Eq "rank 0: error: cannot read [0-9]+ bytes at offset [0-9]+ of '$scratch/disk/.*; .* of .* lies there" "$scratch/$name-late.said" ||
    { cat "$scratch/$name-late.said"; fail "expected the state that lies where the disk fails"; }
done
