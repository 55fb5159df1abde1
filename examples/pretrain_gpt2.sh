#!/usr/bin/env bash
# A GPT-2 from its config.json alone, trained from random weights on eight ranks: tensor, pipeline and data parallel, ZeRO 1,
# bf16 beside f32 masters. With --checkpoint and --resume auto the same command goes on after whatever ended it.
#
# Usage: pretrain_gpt2.sh MODEL_FOLDER "TEXT_FILES" HELD_OUT_TEXT OUTPUT_FOLDER [STEPS [SEQUENCE]]
set -euo pipefail
examples=$(dirname "$0") model=$1 text=$2 held_out=$3 output=$4 steps=${5:-1000} sequence=${6:-1024}
mkdir -p "$output"

hyc data $text --tokenizer "$model" -o "$output/train"          # TEXT_FILES may be a pattern
hyc data "$held_out" --tokenizer "$model" -o "$output/held-out"

hyc-compile "$model" --weights initialise --loss causal_lm --dim seq="$sequence" \
    --tp 2 --pp 2 --dp 2 --config "$examples/ds_configs/zero1_bf16.json" -o "$output/programs"

hyc-run "$output/programs" --data "$output/train.bin" --steps "$steps" --seed 1 \
    --evaluate-data "$output/held-out.bin" --evaluate-every 100 \
    --checkpoint "$output/checkpoints" --checkpoint-every 100 --keep 2 --resume auto \
    --tensorboard "$output/board" --csv "$output/log.csv" --save-weights "$output/trained"
