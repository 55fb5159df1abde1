#!/usr/bin/env bash
# How planning scales: Llama 405B and the same model of fewer layers, planned from a config.json (hyc-compile --plan-only),
# on one stage and on 16, then on 128 to a million ranks. Prints processor seconds (the least of RUNS), peak memory, the bytes of what is
# written, and the ratios. Planning uses one core.
#
# Usage: planning.sh BUILD_FOLDER SCRATCH_FOLDER [RUNS]
set -euo pipefail
build=$1 scratch=$2 runs=${3:-3}
mkdir -p "$scratch"

config() {  # LAYERS
  mkdir -p "$scratch/llama-$1"
  cat >"$scratch/llama-$1/config.json" <<END
{"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": $1,
 "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
 "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": false, "hidden_act": "silu"}
END
}

# Sets `seconds` and `mebibytes`, the least of all runs, and `written`.
measure() {  # LAYERS FLAGS...
  local layers=$1 user system kibibytes
  shift
  seconds=1e9 mebibytes=1e9
  for _ in $(seq "$runs"); do
    /usr/bin/time -o "$scratch/time.txt" -f '%U %S %M' "$build/bin/hyc-compile" "$scratch/llama-$layers" --plan-only \
      --threads 1 --precision bf16 --tp 8 -o "$scratch/out" "$@" >"$scratch/out.txt"
    read -r user system kibibytes <"$scratch/time.txt"
    read -r seconds mebibytes < <(awk -v s="$seconds" -v m="$mebibytes" -v t="$user" -v u="$system" -v k="$kibibytes" \
      'BEGIN { t += u; k /= 1024; printf "%.2f %.0f\n", t < s ? t : s, k < m ? k : m }')
  done
  written=$(cat "$scratch"/out/*.* | wc -c)
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
row() { printf '%-34s %9s s %7s MiB %9s bytes\n' "$1" "$seconds" "$mebibytes" "$written"; }

deep=(--pp 16 --grad-accum 16 --sequence-parallel)
for layers in 16 32 64 126; do
  config $layers
  measure $layers
  row "$layers layers, tp 8"
  if [ $layers = 16 ]; then flat=$seconds; fi
done
echo "126 over 16 layers: $(ratio "$seconds" "$flat")"
for layers in 16 32 64 126; do
  measure $layers "${deep[@]}"
  row "$layers layers, tp 8 × pp 16"
  if [ $layers = 16 ]; then staged=$seconds; fi
done
echo "126 over 16 layers: $(ratio "$seconds" "$staged")"
# With dp, gradients are summed over it and states are flat: work that no number of ranks above one adds to.
alone=$seconds
for dp in 2 128 8192; do
  measure 126 "${deep[@]}" --dp $dp --zero 1
  row "126 layers, tp 8 × pp 16 × dp $dp"
  if [ $dp = 2 ]; then two=$seconds; fi
  if [ $dp = 128 ]; then many=$seconds; fi
done
echo "16,384 ranks over 128, which have no dp: $(ratio "$many" "$alone"); over 256: $(ratio "$many" "$two")"
echo "1,048,576 ranks over 256: $(ratio "$seconds" "$two")"
