"""What tests of text share: a corpus, a tokenizer trained on it, and what hyc data writes, read back."""

import json
import shutil
import struct
import subprocess
import sys

import pytest

numpy = pytest.importorskip("numpy")
tokenizers = pytest.importorskip("tokenizers")

from conftest import MODELS

TEXT = "the quick brown fox jumps over the lazy dog and runs home again before the rain\n"


def hyc(*words):
    """A command in a process of its own."""
    code = "import sys; from hyc.command import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )


def make_model(tmp_path, name="gpt2-formats"):
    """A folder of test/models, of 257 tokens, with a tokenizer of at most 200: <end> behind each text."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(MODELS / name / file, folder / file)
    write_tokenizer(folder, 280 - 80)
    return folder


def write_tokenizer(folder, size, alphabet=()):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    special = ["<unk>", "<end>"]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=list(alphabet))
    tokenizer.train_from_iterator([TEXT, "user assistant : question answer 0123456789"], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<end>",
        "unk_token": "<unk>",
        "chat_template": "{% for m in messages %}{{ m['role'] + ' : ' + m['content'] + '<end>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant : ' }}{% endif %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return tokenizer


def read_tokens(path):
    """Tokens, ends of documents and the mask of a file of hyc's own, by what runtime/src/io/token_file.h says of it."""
    raw = path.read_bytes()
    magic, version, width, _, count, documents, tokens_at, ends_at, mask_at = struct.unpack("<8sII6Q", raw[:64])
    assert (magic, version, tokens_at) == (b"hyctoken", 1, 64)
    tokens = numpy.frombuffer(raw, f"<u{width}", count, tokens_at)
    ends = numpy.frombuffer(raw, "<u8", documents, ends_at)
    assert documents and ends[-1] == count
    mask = None
    if mask_at:
        bits = numpy.frombuffer(raw, numpy.uint8, offset=mask_at)
        mask = numpy.unpackbits(bits, bitorder="little")[:count].astype(bool)
    return tokens, ends, mask
