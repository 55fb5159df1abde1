#!/usr/bin/env bash
# What a program for GPUs says of devices that do not fit it, one line and exit status 69 before any training; and what it
# measures. The emulation is told by its environment what device it is.
#
# Usage: emulated_device.sh BUILD_FOLDER SOURCE_FOLDER ONE_RANK_SCRATCH TWO_RANKS_SCRATCH     of emulated_cuda.sh
set -euo pipefail
build=$1 source=$2 one=$3 two=$4
scratch=$one/device
rm -rf "$scratch"
mkdir -p "$scratch"
data=(--data "$source/test/models/text.bin" --seed 1)

fail() { cat "$scratch/said"; echo "$1"; exit 1; }
# Usage: refuses EXPECTED_LINE PROGRAM ARGUMENTS...      with the device of the environment
refuses() {
  local expected=$1 status=0
  shift
  "$@" >"$scratch/said" 2>&1 || status=$?
  [ "$status" = 69 ] || fail "status $status, expected 69"
  grep -qE "^error: $expected" "$scratch/said" || fail "expected: error: $expected"
  [ "$(wc -l <"$scratch/said")" = 1 ] || fail "expected one line"
}
program=("$one/out/bin/stage0" "${data[@]}" --steps 1)
HYC_EMULATION_DRIVER=0 refuses 'there is no CUDA device: this machine has no NVIDIA driver' "${program[@]}"
HYC_EMULATION_DRIVER=12040 refuses 'the NVIDIA driver is too old: it is made for CUDA 12.4, this program for 13.0' "${program[@]}"
HYC_EMULATION_DEVICES=0 refuses 'there is no CUDA device: ' "${program[@]}"
HYC_EMULATION_CAPABILITY=75 refuses "device 0 \(the host, as a device\) is an sm_75, but program '.*' is compiled for sm_80, sm_90; compile with --arch sm_75" "${program[@]}"
# A device with 8 MiB: the context takes 3, the plan says what it wants.
HYC_EMULATION_MEMORY=8388608 refuses "the plan of program '.*' wants [0-9]+ MiB of device memory, but the host, as a device has 5 MiB free of 8 MiB" "${program[@]}"

# Two ranks and one GPU under NCCL.
status=0
"$build/bin/hyc-run" "$two/out" --comm nccl "${data[@]}" --steps 1 >"$scratch/said" 2>&1 || status=$?
[ "$status" = 69 ] || fail "status $status, expected 69"
grep -q 'error: the job has 2 ranks, but this machine 1 GPU, and NCCL wants a GPU a rank; run with --comm shm to share them' "$scratch/said" ||
  fail "expected a word on two ranks and one GPU"

# One run for the rest. Measured beside planned: what is allocated for arenas is the plan's, each rounded up to 64 KiB.
"$build/bin/hyc-run" "$two/out" --comm shm "${data[@]}" --steps 2 --tf32 --measure-memory "$scratch/memory.jsonl" \
  --trace "$scratch/trace.json" --log-file "$scratch/tf32.jsonl" >"$scratch/said" 2>&1
[ "$(wc -l <"$scratch/memory.jsonl")" = 2 ] || fail "expected a record a rank"
awk 'match($0, /"device":\{"planned":[0-9]+,"arenas":[0-9]+,"later":[0-9]+,"before":[0-9]+/) {
       split(substr($0, RSTART, RLENGTH), number, /[^0-9]+/)
       if (number[3] >= number[2] && number[3] <= number[2] + 12 * 65536 && number[5] == 3145728) good++ }
     END { exit good != 2 }' "$scratch/memory.jsonl" || { cat "$scratch/memory.jsonl"; fail "expected what the plan wants"; }
grep -q 'allocated' "$scratch/said" || fail "expected a table of the memory on the device"
# Both ranks' forward, backward and apply in the step after the first.
for name in forward backward apply; do
  [ "$(grep -c "\"name\":\"$name\"" "$scratch/trace.json")" = 2 ] || fail "expected twice $name in the trace"
done

# Steps that are recorded once give the losses of steps that are not, and a device that cannot record runs them as before.
run_one() { "$build/bin/hyc-run" "$one/out" "${data[@]}" --steps 3 "$@" >"$scratch/said" 2>&1; }
run_one --cuda-graph off --log-file "$scratch/no-graph.jsonl"
run_one --cuda-graph on --log-file "$scratch/graph.jsonl"
HYC_EMULATION_GRAPHS=off run_one --log-file "$scratch/fallback.jsonl"
grep -q 'steps are run without a graph: CUDA: recording a step failed' "$scratch/said" || fail "expected a word on graphs"
losses() { sed 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\).*/\1 \2/' "$1"; }
# What reads the device between the first step and the second, which is recorded.
run_one --cuda-graph on --checkpoint "$scratch/runs" --checkpoint-every 1 --log-file "$scratch/checkpoints.jsonl"
run_one --cuda-graph on --evaluate-data "$source/test/models/text.bin" --evaluate-every 1 --evaluate-batches 1 --log-file "$scratch/evaluations.jsonl"
sed -i '/"evaluate_loss"/d' "$scratch/evaluations.jsonl"
sed -i '/"checkpoint/d' "$scratch/checkpoints.jsonl"
for log in graph fallback checkpoints evaluations; do
  [ "$(losses "$scratch/$log.jsonl")" = "$(losses "$scratch/no-graph.jsonl")" ] || fail "other losses in $log.jsonl"
done
[ "$(losses "$scratch/graph.jsonl" | sort -u | wc -l)" = 3 ] || fail "a recorded step does not train"
status=0
HYC_EMULATION_GRAPHS=off run_one --cuda-graph on || status=$?
[ "$status" = 69 ] || fail "status $status, expected 69"
status=0
"$build/bin/hyc-run" "$two/out" --comm shm "${data[@]}" --steps 1 --cuda-graph on >"$scratch/said" 2>&1 || status=$?
[ "$status" = 64 ] || fail "status $status, expected 64"

# TF32 moves losses, but by less than its ten bits; a program for CPUs has none.
"$source/test/e2e/compare_losses.sh" "$two/out.jsonl" "$scratch/tf32.jsonl" 1e-3 2
[ "$(losses "$two/out.jsonl")" != "$(losses "$scratch/tf32.jsonl")" ] || fail "TF32 changed nothing"
status=0
"$build/bin/hyc-run" "$two/cpu" --tf32 "${data[@]}" --steps 1 >"$scratch/said" 2>&1 || status=$?
[ "$status" = 64 ] || fail "status $status, expected 64"
