"""A script for transformers' Trainer in which the imports of Trainer and TrainingArguments are hyc's: GPT-2 on text, tp 2 × dp 2.

Usage: python examples/trainer.py TEXT_FILE OUTPUT_FOLDER
"""

import pathlib
import sys

import torch
import transformers

from hyc import Trainer, TrainingArguments  # instead of: from transformers import Trainer, TrainingArguments

LENGTH = 64

text = pathlib.Path(sys.argv[1]).read_bytes()  # whose bytes are the tokens
data = [{"input_ids": list(text[at : at + LENGTH])} for at in range(0, len(text) - LENGTH, LENGTH)]


def collate(samples):
    ids = torch.tensor([sample["input_ids"] for sample in samples])
    return {"input_ids": ids, "labels": ids}


config = transformers.GPT2Config(
    vocab_size=256, n_layer=2, n_embd=64, n_head=4, n_positions=LENGTH, bos_token_id=0, eos_token_id=0
)
arguments = TrainingArguments(
    output_dir=sys.argv[2],
    per_device_train_batch_size=4,
    max_steps=40,
    learning_rate=3e-3,
    logging_steps=10,
    report_to=[],
    use_cpu=True,
    deepspeed={"zero_optimization": {"stage": 3}},
)
trainer = Trainer(
    model=transformers.GPT2LMHeadModel(config),
    args=arguments,
    train_dataset=data,
    data_collator=collate,
    tp=2,
    dp=2,
)
trainer.train()
trainer.save_model()
