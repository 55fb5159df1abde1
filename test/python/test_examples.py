"""Every example runs as it stands, and is short."""

import csv
import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import MODELS, ROOT

pytest.importorskip("numpy")
EXAMPLES = ROOT / "examples"
TESTED = {
    "own_model.py", "fine_tune_llama.sh", "lora_llama.sh", "pretrain_gpt2.sh", "trainer.py", "vit_on_images.py",
    "embedding",  # e2e/standalone-source
    "ds_configs",  # Driver/ds-configs.test
}  # fmt: skip


def run(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=500, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_short_and_has_a_test():
    assert {path.name for path in EXAMPLES.iterdir()} == TESTED
    for path in (path for path in EXAMPLES.rglob("*") if path.is_file()):
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


def make_folder(tmp_path, name):
    """A model of test/models with a tokenizer, and a corpus for it."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tmp_path / name
    shutil.copytree(MODELS / name, model)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    text = (MODELS / "text.bin").read_text(errors="ignore")[:20000]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>"])
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(model / "tokenizer.json"))
    (tmp_path / "corpus.txt").write_text(text)
    return model, tmp_path / "corpus.txt"


def commands(tmp_path):
    """An environment in which hyc and the tools are commands."""
    (tmp_path / "hyc").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from hyc.command import main; exit(main())" "$@"\n'
    )
    (tmp_path / "hyc").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ.get('HYC_TOOLS', '')}:{os.environ['PATH']}"}


def test_fine_tune_llama(tmp_path):
    model, corpus = make_folder(tmp_path, "llama")
    trained = tmp_path / "trained"
    run(EXAMPLES / "fine_tune_llama.sh", model, corpus, trained, env=commands(tmp_path))
    assert json.loads((trained / "config.json").read_text())["model_type"] == "llama"
    assert (trained / "tokenizer.json").exists() and (trained / "model.safetensors").exists()


def test_lora_llama(tmp_path):
    model, corpus = make_folder(tmp_path, "llama")
    adapter = tmp_path / "adapter"
    assert "peft loads it" in run(EXAMPLES / "lora_llama.sh", model, corpus, adapter, env=commands(tmp_path))
    about = json.loads((adapter / "adapter_config.json").read_text())
    assert about["r"] == 8 and {name.rsplit(".", 1)[-1] for name in about["target_modules"]} == {"q_proj", "v_proj"}
    transformers, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    with_adapter = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(model), adapter)
    assert any(value.abs().max() > 0 for name, value in with_adapter.named_parameters() if "lora_B" in name)


def test_pretrain_gpt2(tmp_path):
    model, corpus = make_folder(tmp_path, "gpt2-formats")
    (model / "model.safetensors").unlink()  # it starts from random weights
    made = tmp_path / "made"
    words = [EXAMPLES / "pretrain_gpt2.sh", model, corpus, corpus, made]
    run(*words, 20, 16, env=commands(tmp_path))
    losses = [float(row["loss"]) for row in csv.DictReader(open(made / "log.csv")) if row["loss"]]
    assert len(losses) == 20 and losses[-1] < losses[0] - 0.03
    assert (made / "trained" / "model.safetensors").exists()
    # The same command goes on where it was.
    run(*words, 24, 16, env=commands(tmp_path))
    steps = [int(row["step"]) for row in csv.DictReader(open(made / "log.csv")) if row["loss"]]
    assert steps == list(range(1, 25))
