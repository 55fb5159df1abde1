#!/usr/bin/env bash
# What docs/performance.md has rows for of GPUs, within one run on one GPU: GPT-2 124M in bf16 beside the rates that bound it, and beside
# PyTorch's compiled step with SDPA where python3 has torch with CUDA (PYTHON says which python3). Prints a table of ratios.
# Where there is no GPU: one line, and 77.
#
# Usage: gpu_bench.sh BUILD_FOLDER SOURCE_FOLDER SCRATCH_FOLDER [MICRO_BATCH [STEPS]]
#
# On a GPU host without hyc-compile, of a bundle of GPT-2 124M (docs/cuda.md) that out/build.sh has built there:
#   DATA=FILE PROGRAMS=out out/hyc/test/bench/gpu/gpu_bench.sh out out/hyc SCRATCH [MICRO_BATCH [STEPS]]
# MICRO_BATCH is then what the bundle was compiled with.
#
# Tokens/s are those of the median step after the first ten (after the first, of a run of fewer than twenty). Operations a
# token: 6 a parameter that multiplies, and 12·l·h·s for attention, halved by the causal mask (Narayanan et al. 2021 without
# recomputation).
set -euo pipefail
build=$1 source=$2 scratch=$3 batch=${4:-16} steps=${5:-60}
sequence=1024
mkdir -p "$scratch"
status=0
"$build/bin/kernels_gpu_bench" --batch "$batch" >"$scratch/kernels.json" 2>"$scratch/kernels.txt" || status=$?
cat "$scratch/kernels.txt"
if [ "$status" = 69 ]; then exit 77; fi
[ "$status" = 0 ] || exit "$status"

# A number of a JSON object of one level.
number() { sed -n "s/.*\"$2\": *\([-+0-9.eE]*\).*/\1/p" "$1" | tail -1; }
median() { sort -g | awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'; }
warm=$((steps >= 20 ? 10 : 1))
step_ms() { sed 's/.*"ms":\([0-9.eE+-]*\).*/\1/' "$1" | tail -n +$((warm + 1)) | median; }

data=${DATA:-$source/test/models/text.bin} programs=${PROGRAMS:-$scratch/gpt2}
[ -n "${PROGRAMS:-}" ] || "$build/bin/hyc-compile" "$source/test/models/gpt2-124m.onnx" --weights initialise --loss cross_entropy --logits logits \
  --labels labels --target cuda --precision bf16 --micro-batch "$batch" --optimizer adamw --weight-decay 0.1 --clip-grad-norm 1 \
  --lr 3e-4 -o "$programs" >"$scratch/compile.txt"
train() {  # LOG FURTHER_OPTIONS...
  "$build/bin/hyc-run" "$programs" --data "$data" --steps "$steps" --seed 1 --log-file "$1" \
    --measure-memory "$scratch/memory.json" "${@:2}" >"$scratch/run.txt" 2>&1 || { cat "$scratch/run.txt"; exit 1; }
}
train "$scratch/steps.jsonl"
hyc=$(step_ms "$scratch/steps.jsonl")
planned=$(number "$scratch/memory.json" planned) later=$(number "$scratch/memory.json" later)
before=$(number "$scratch/memory.json" before) arenas=$(sed -n 's/.*"device":{[^}]*"arenas":\([0-9]*\).*/\1/p' "$scratch/memory.json")
train "$scratch/graph.jsonl" --cuda-graph on
train "$scratch/no-graph.jsonl" --cuda-graph off
graph="$(step_ms "$scratch/graph.jsonl") ms with, $(step_ms "$scratch/no-graph.jsonl") ms without"

torch_step='' torch_attention=''
if "${PYTHON:-python3}" "$source/test/bench/gpu/pytorch_gpt2.py" --micro-batch "$batch" --steps "$steps" \
    >"$scratch/torch.json" 2>"$scratch/torch.txt"; then
  torch_step=$(number "$scratch/torch.json" step_ms)
  torch_attention=$(number "$scratch/torch.json" attention_ms)
else
  tail -1 "$scratch/torch.txt"
fi

awk -v batch="$batch" -v sequence="$sequence" -v step="$hyc" -v gemm="$(number "$scratch/kernels.json" gemm_tflops)" \
    -v gemmAfter="$(number "$scratch/kernels.json" gemm_tflops_after)" \
    -v forward="$(number "$scratch/kernels.json" attention_forward_ms)" \
    -v backward="$(number "$scratch/kernels.json" attention_backward_ms)" \
    -v adamw="$(number "$scratch/kernels.json" adamw_gbs)" -v copy="$(number "$scratch/kernels.json" copy_gbs)" \
    -v torchStep="$torch_step" -v torchAttention="$torch_attention" -v graph="$graph" -v planned="$planned" \
    -v arenas="$arenas" -v later="$later" -v before="$before" '
  function ratio(of, by) { return of == "" || by == "" ? "not measured" : sprintf("%.3f", of / by) }
  BEGIN {
    flops = 6 * (124.4e6 - 1024 * 768) + 12 * 12 * 768 * sequence / 2
    tokens = batch * sequence / step * 1e3
    best = gemm > gemmAfter ? gemm : gemmAfter
    printf "GPT-2 124M bf16, %d x %d tokens a step\n", batch, sequence
    printf "  tokens/s                                   %.0f\n", tokens
    printf "  over PyTorch compiled, SDPA                %s\n", ratio(torchStep, step)
    printf "  share of the 8192^3 bf16 gemm rate         %.3f\n", tokens * flops * 1e-12 / best
    printf "  attention forward + backward over SDPA     %s\n", ratio(torchAttention, forward + backward)
    printf "  adamw bytes/s over copy bandwidth          %s\n", ratio(adamw, copy)
    printf "  step with and without a graph              %s\n", graph
    printf "  device memory: allocated over planned      %s (%.0f MiB planned)\n", ratio(arenas, planned), planned / 1048576
    printf "  beside it: context and others %.0f MiB, libraries and rings %.0f MiB\n", before / 1048576, later / 1048576
  }'
