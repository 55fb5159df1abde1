#!/usr/bin/env bash
# A Llama from a Hugging Face folder, fine-tuned on text under ZeRO 3, to a folder that transformers loads.
#
# Usage: fine_tune_llama.sh MODEL_FOLDER "TEXT_FILES" TRAINED
set -euo pipefail

hyc train "$1" --data "$2" --steps 20 --sequence 64 \
    --dp 2 --zero 3 --micro-batch 2 --recompute layer --device-memory 2GiB \
    --optimizer adamw --lr 3e-3 --lr-schedule cosine --clip-grad-norm 1 \
    --seed 1 -o "$3"
