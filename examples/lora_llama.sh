#!/usr/bin/env bash
# Adapters of low rank beside the frozen weights of a Llama, trained on text, to a folder that peft loads.
#
# Usage: lora_llama.sh MODEL_FOLDER "TEXT_FILES" ADAPTER
set -euo pipefail

hyc train "$1" --data "$2" --steps 20 --sequence 64 \
    --lora rank=8,alpha=16,targets=q_proj,v_proj \
    --dp 2 --micro-batch 2 --optimizer adamw --lr 3e-3 --lr-schedule cosine --seed 1 -o "$3"
