"""Every example runs as it stands, and is short."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import MODELS, ROOT

pytest.importorskip("numpy")
EXAMPLES = ROOT / "examples"
TESTED = {"own_model.py", "fine_tune_llama.sh", "trainer.py", "vit_on_images.py"}


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=500, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_short_and_has_a_test():
    assert {path.name for path in EXAMPLES.iterdir()} == TESTED
    for path in EXAMPLES.iterdir():
        assert len(path.read_text().splitlines()) < 60, path


def test_own_model():
    pytest.importorskip("torch")
    assert "accuracy" in run(sys.executable, EXAMPLES / "own_model.py")


def test_vit_on_images():
    assert "samples/s" in run(sys.executable, EXAMPLES / "vit_on_images.py", MODELS / "vit.pt2")


def test_trainer(tmp_path):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    said = run(sys.executable, EXAMPLES / "trainer.py", MODELS / "text.bin", tmp_path / "trained")
    assert "'loss'" in said and (tmp_path / "trained" / "model.safetensors").exists()


def test_fine_tune_llama(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tmp_path / "llama"
    shutil.copytree(MODELS / "llama", model)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    text = (MODELS / "text.bin").read_text(errors="ignore")[:20000]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>"])
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(model / "tokenizer.json"))
    (tmp_path / "corpus.txt").write_text(text)
    (tmp_path / "hyc").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from hyc.command import main; exit(main())" "$@"\n'
    )
    (tmp_path / "hyc").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    trained = tmp_path / "trained"
    run(EXAMPLES / "fine_tune_llama.sh", model, tmp_path / "corpus.txt", trained, env=environment)
    assert json.loads((trained / "config.json").read_text())["model_type"] == "llama"
    assert (trained / "tokenizer.json").exists() and (trained / "model.safetensors").exists()
