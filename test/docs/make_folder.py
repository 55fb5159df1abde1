"""A model folder with a tokenizer of its own, and a corpus: what the pages of the documentation take for granted.

Usage: make_folder.py MODEL FOLDER CORPUS
"""

import json
import pathlib
import shutil
import sys

import tokenizers

model, folder, corpus = map(pathlib.Path, sys.argv[1:])
TEXT = "the quick brown fox jumps over the lazy dog and runs home again before the rain\n"
folder.mkdir()
for name in ("config.json", "model.safetensors"):
    shutil.copyfile(model / name, folder / name)
tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
trainer = tokenizers.trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"])
tokenizer.train_from_iterator([TEXT], trainer)
tokenizer.save(str(folder / "tokenizer.json"))
corpus.mkdir()
(corpus / "a.jsonl").write_text("".join(json.dumps({"text": TEXT * 4}) + "\n" for _ in range(40)))
