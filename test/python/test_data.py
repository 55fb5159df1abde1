"""Packing, streams with masks, data sets, images and mixtures: what hyc data writes, and what is trained on it."""

import json
import os

import pytest

numpy = pytest.importorskip("numpy")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

from corpora import TEXT, hyc, make_model, read_tokens

from hyc.command import main
from hyc.packing import Packer


@pytest.fixture
def model(tmp_path):
    """A folder of a model with a tokenizer."""
    return make_model(tmp_path)


def tokens_of(model, text):
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    return tokenizer.encode(text, add_special_tokens=False).ids


def end_of(model):
    return tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")).token_to_id("<end>")


def unpacked(data):
    """Documents of a packed file: (tokens, labels) each, by document_ids; what is not theirs has to be padding."""
    found = []
    for row in range(len(data["input_ids"])):
        numbers = data["document_ids"][row]
        for number in range(1, numbers.max() + 1):
            at = numpy.flatnonzero(numbers == number)
            assert (numpy.diff(at) == 1).all()
            assert data["position_ids"][row, at].tolist() == list(range(len(at)))
            assert data["labels"][row, at[0]] == -100
            found.append((data["input_ids"][row, at].tolist(), data["labels"][row, at].tolist()))
        padding = numbers == 0
        assert (data["labels"][row, padding] == -100).all() and (data["position_ids"][row, padding] == 0).all()
    return found


def test_packing_keeps_every_document_whole_and_wastes_little():
    random = numpy.random.default_rng(1)
    documents = [random.integers(2, 100, size).tolist() for size in random.integers(1, 60, 500)]
    packer = Packer(64, 0)
    samples = [sample for document in documents for sample in packer.add(document, None)]
    samples += packer.rest()
    data = {name: numpy.stack([sample[name] for sample in samples]) for name in samples[0]}
    assert sorted(tokens for tokens, _ in unpacked(data)) == sorted(documents)
    assert all(labels == [-100, *tokens[1:]] for tokens, labels in unpacked(data))
    assert sum(map(len, documents)) > 0.93 * data["input_ids"].size


def test_text_is_packed_and_what_is_longer_goes_on_in_another_sample(model, tmp_path):
    texts = [f"the fox {n}" for n in range(40)] + [TEXT * 3]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    done = hyc("data", tmp_path / "a.jsonl", "--tokenizer", model, "-o", tmp_path / "a", "--sequence", 32, "--pack")
    assert done.returncode == 0, done.stderr
    data = safetensors.load_file(tmp_path / "a.safetensors")
    expected = []
    for text in texts:
        tokens = [*tokens_of(model, text), end_of(model)]
        expected += [tokens[at : at + 32] for at in range(0, len(tokens), 32)]
    assert sorted(tokens for tokens, _ in unpacked(data)) == sorted(expected)
    about = json.loads((tmp_path / "a.json").read_text())
    assert about["packed"] and about["documents"] == 41 and about["tokens"] == sum(map(len, expected))
    assert "41 documents" in done.stdout and "filled to" in done.stdout


def test_packed_prompts_do_not_count(model, tmp_path):
    rows = [{"prompt": "the quick ", "completion": "brown fox"}, {"prompt": "the lazy ", "completion": "dog"}]
    (tmp_path / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hyc("data", tmp_path / "i.jsonl", "--tokenizer", model, "-o", tmp_path / "i", "--sequence", 64, "--pack")
    assert done.returncode == 0, done.stderr
    found = unpacked(safetensors.load_file(tmp_path / "i.safetensors"))
    assert len(found) == 2
    for (tokens, labels), row in zip(found, rows):
        prompt = tokens_of(model, row["prompt"])
        answer = [*tokens_of(model, row["completion"]), end_of(model)]
        assert (tokens, labels) == (prompt + answer, [-100] * len(prompt) + answer)


def test_instructions_without_a_length_are_a_stream_with_a_mask(model, tmp_path):
    rows = [{"prompt": "the quick ", "completion": "brown fox"}, {"prompt": "the lazy ", "completion": "dog"}]
    (tmp_path / "i.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = hyc("data", tmp_path / "i.jsonl", "--tokenizer", model, "-o", tmp_path / "i")
    assert done.returncode == 0, done.stderr
    tokens, ends, mask = read_tokens(tmp_path / "i.bin")
    expected, counts = [], []
    for row in rows:
        prompt = tokens_of(model, row["prompt"])
        answer = [*tokens_of(model, row["completion"]), end_of(model)]
        expected += prompt + answer
        counts += [False] * len(prompt) + [True] * len(answer)
    assert tokens.tolist() == expected and mask.tolist() == counts and len(ends) == 2
    assert f"of which {sum(counts)} count" in done.stdout


def test_data_sets_are_read_as_their_rows(model, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": [f"the fox {n}" for n in range(30)]})
    rows.save_to_disk(str(tmp_path / "one"))
    datasets.DatasetDict({"train": rows, "test": rows.select(range(3))}).save_to_disk(str(tmp_path / "split"))
    rows.to_parquet(str(tmp_path / "rows.parquet"))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    written = {}
    for name, source in {"disk": "one", "train": "split", "parquet": "rows.parquet", "lines": "rows.jsonl"}.items():
        assert main(["data", str(tmp_path / source), "--tokenizer", str(model), "-o", str(tmp_path / name)]) == 0
        written[name] = (tmp_path / f"{name}.bin").read_bytes()
    assert len(set(written.values())) == 1
    assert main(["data", f"{tmp_path}/split:test", "--tokenizer", str(model), "-o", str(tmp_path / "test")]) == 0
    assert len(read_tokens(tmp_path / "test.bin")[1]) == 3


@pytest.mark.parametrize(
    "source, says",
    [
        ("split:dev", "has no split 'dev', expected one of train"),
        ("nothing", "is no data set that datasets reads"),
        ("torn.parquet", "torn.parquet' is no parquet file"),
    ],
)
def test_data_sets_that_are_none(model, tmp_path, source, says, capsys):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})}).save_to_disk(str(tmp_path / "split"))
    (tmp_path / "nothing").mkdir()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more")
    assert main(["data", f"{tmp_path}/{source}", "--tokenizer", str(model), "-o", str(tmp_path / "t")]) == 65
    assert says in capsys.readouterr().err
    assert not (tmp_path / "t.bin").exists()


def write_pictures(folder, count=3, side=40):
    image = pytest.importorskip("PIL.Image")
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            pixels = numpy.full((side, side + 10, 3), 40 * label + index, dtype=numpy.uint8)
            image.fromarray(pixels).save(folder / name / f"{index}.png")


def test_folders_of_images_become_bytes_and_labels(tmp_path, capsys):
    write_pictures(tmp_path / "images")
    assert main(["data", str(tmp_path / "images"), "-o", str(tmp_path / "i"), "--size", "28", "--mean", "0.5", "--std", "0.5"]) == 0
    assert "6 images of 2 classes" in capsys.readouterr().out
    data = safetensors.load_file(tmp_path / "i.safetensors")
    assert data["pixel_values"].shape == (6, 3, 32, 32) and data["pixel_values"].dtype == numpy.uint8
    assert data["pixel_values"][:, 0, 5, 5].tolist() == [0, 1, 2, 40, 41, 42]
    assert data["labels"].tolist() == [0, 0, 0, 1, 1, 1]
    about = json.loads((tmp_path / "i.json").read_text())
    assert about["classes"] == ["cat", "dog"] and about["size"] == "28" and about["mean"] == "0.5 0.5 0.5"


@pytest.mark.parametrize(
    "words, status, says",
    [
        (["--std", "0,1,1"], 64, "--std is 0.0,1.0,1.0, expected numbers above 0"),
        (["--mean", "1,2"], 64, "found '1,2', expected three numbers"),
        (["--sequence", "8"], 64, "--sequence is of text"),
        ([], 65, "torn.jpg' is no image that can be read"),
    ],
)
def test_images_that_are_none(tmp_path, words, status, says, capsys):
    write_pictures(tmp_path / "images")
    whole = (tmp_path / "images" / "cat" / "0.png").read_bytes()
    (tmp_path / "images" / "dog" / "torn.jpg").write_bytes(whole[: len(whole) // 2])
    assert main(["data", str(tmp_path / "images"), "-o", str(tmp_path / "i"), *words]) == status
    assert says in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["images"]


@pytest.mark.parametrize(
    "words, says",
    [
        (["--pack"], "--pack lays documents into samples of one length, expected it by --sequence N"),
        (["--size", "8"], "--size is of images"),
    ],
)
def test_flags_of_data_that_do_not_fit(model, tmp_path, words, says, capsys):
    (tmp_path / "a.txt").write_text(TEXT)
    line = ["data", str(tmp_path / "a.txt"), "--tokenizer", str(model), "-o", str(tmp_path / "t"), *words]
    assert main(line) == 64
    assert says in capsys.readouterr().err


def test_weights_of_what_is_trained_on(tmp_path):
    from hyc.command.train import _weighted
    from hyc.errors import UsageError

    (tmp_path / "a=1").write_text("a file of that name")
    assert _weighted(["a.txt=0.7", "b*.jsonl=3"]) == [("a.txt", 0.7), ("b*.jsonl", 3)]
    assert _weighted([f"{tmp_path}/a=1", "b=c"]) == [(f"{tmp_path}/a=1", None), ("b=c", None)]
    for words, says in (
        (["a=0"], "'0' is the weight of 'a' .--data., expected a number above 0"),
        (["a=nan"], "'nan' is the weight of 'a'"),
        (["a=-1"], "'-1' is the weight of 'a'"),
        (["a=1", "b"], "'b' .--data. has no weight, but others have one"),
    ):
        with pytest.raises(UsageError, match=says):
            _weighted(words)


def language_model(family):
    """A tiny causal model of transformers', and its own loop of SGD over batches of a dict of tensors."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if family == "llama":
        config = transformers.LlamaConfig(
            vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32,
        )  # fmt: skip
    else:
        config = transformers.GPT2Config(
            vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()


def losses_by_torch(model, data, steps, batch, rate):
    import torch

    losses = []
    for step in range(steps):
        rows = {name: torch.as_tensor(value[step * batch : (step + 1) * batch]) for name, value in data.items()}
        rows = {name: value if value.dtype == torch.bool else value.long() for name, value in rows.items()}
        labels = rows.pop("labels")
        logits = model(**rows, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
        losses.append(loss.item())
    return losses


def packed_batch(samples, sequence=16, seed=3, keep=("input_ids", "labels", "position_ids")):
    random = numpy.random.default_rng(seed)
    packer, found = Packer(sequence, 0), []
    while len(found) < samples:
        found += packer.add(random.integers(1, 61, random.integers(2, 9)).tolist(), None)
    return {name: numpy.stack([sample[name] for sample in found[:samples]]) for name in keep}


def padded_batch(samples, sequence=16, seed=4):
    random = numpy.random.default_rng(seed)
    data = {"input_ids": random.integers(1, 61, (samples, sequence)), "attention_mask": numpy.ones((samples, sequence), int)}
    data["labels"] = data["input_ids"].copy()
    for row, length in enumerate(random.integers(4, sequence + 1, samples)):
        data["attention_mask"][row, length:] = 0
        data["labels"][row, length:] = -100
    return data


@pytest.mark.parametrize("family, batch", [("llama", packed_batch), ("gpt2", packed_batch), ("llama", padded_batch)])
def test_masks_and_positions_in_the_data_train_as_transformers_does(family, batch, tmp_path):
    torch = pytest.importorskip("torch")
    import hyc as package

    model = language_model(family)
    data = batch(24)
    sample = {name: torch.as_tensor(value[:2]).long() for name, value in data.items() if name != "labels"}
    job = package.compile(
        model, sample, loss="causal_lm", optimizer="sgd", lr=0.5, clip_grad_norm=0, micro_batch=2, grad_accum=1, dp=2,
        entry="train", output=str(tmp_path / "out"),
    )  # fmt: skip
    run = job.train(data, steps=6, shuffle=False)
    expected = losses_by_torch(model, data, 6, 4, 0.5)
    assert run.losses == pytest.approx(expected, rel=2e-5)


def losses_of_blocks(model, data, steps, batch, rate):
    """torch's, with attention by a mask that is written out: of each document a triangle, positions from its first token on."""
    torch = pytest.importorskip("torch")
    numbers = torch.as_tensor(numpy.stack(data["document_ids"])).long()
    places = torch.arange(numbers.shape[1])
    same = (numbers[:, :, None] == numbers[:, None, :]) & (numbers[:, :, None] > 0)
    # Padding sees itself, as nothing may see nothing.
    mask = (same & (places[None, :, None] >= places[None, None, :])) | torch.eye(len(places), dtype=torch.bool)
    blocks = {
        "input_ids": data["input_ids"],
        "labels": data["labels"],
        "position_ids": data["position_ids"],
        "attention_mask": mask[:, None].numpy(),
    }
    return losses_by_torch(model, blocks, steps, batch, rate)


@pytest.mark.parametrize(
    "family, layout",
    [("llama", {"dp": 2}), ("llama", {"tp": 2, "dp": 2, "zero": 3}), ("gpt2", {"tp": 2, "pp": 2, "grad_accum": 2})],
)
def test_documents_in_one_sequence_are_kept_apart_in_a_model_without_positions(family, layout, tmp_path):
    torch = pytest.importorskip("torch")
    import hyc as package

    model = language_model(family)
    data = packed_batch(24, keep=("input_ids", "labels", "position_ids", "document_ids"))
    job = package.compile(
        model, {"input_ids": torch.as_tensor(data["input_ids"][:2]).long()}, loss="causal_lm", optimizer="sgd", lr=0.5,
        clip_grad_norm=0, micro_batch=4 // layout.get("dp", 1) // layout.get("grad_accum", 1), separate_documents=True,
        entry="train", output=str(tmp_path / "out"), **layout,
    )  # fmt: skip
    run = job.train(data, steps=6, shuffle=False)
    expected = losses_of_blocks(model, data, 6, 4, 0.5)
    assert run.losses == pytest.approx(expected, rel=2e-5)


def test_a_token_file_that_knows_documents_trains_as_samples_of_its_windows(tmp_path):
    torch = pytest.importorskip("torch")
    import hyc as package
    from hyc.datasets import TokenWriter

    random = numpy.random.default_rng(5)
    writer = TokenWriter(tmp_path / "t.bin", 61)
    begins = []
    for size in random.integers(1, 12, 60):
        begins.append(writer.count)
        writer.add(random.integers(1, 61, size))
        writer.end_document()
    writer.close()
    tokens, ends, _ = read_tokens(tmp_path / "t.bin")
    windows = (len(tokens) - 1) // 16
    ids = tokens[: windows * 16].astype(int).reshape(windows, 16)
    positions, labels = numpy.zeros_like(ids), ids.copy()
    for row in range(windows):
        for at in range(16):
            isFirst = row * 16 + at in begins
            positions[row, at] = 0 if at == 0 or isFirst else positions[row, at - 1] + 1
            if isFirst:
                labels[row, at] = -100
    data = {"input_ids": ids, "position_ids": positions, "labels": labels}
    model = language_model("llama")
    sample = {name: torch.as_tensor(value[:2]).long() for name, value in data.items() if name != "labels"}
    job = package.compile(
        model, sample, loss="causal_lm", optimizer="sgd", lr=0.5, micro_batch=2, entry="train", output=str(tmp_path / "out")
    )
    whole = job.train(data, steps=8, shuffle=False, seed=1).losses
    assert job.train(tmp_path / "t.bin", steps=8, shuffle=False, seed=1).losses == whole
    # Any layout and any run that goes on sees the same documents in the same order.
    orders = [
        job.train(tmp_path / "t.bin", steps=8, shuffle_documents=True, seed=2, **flags).losses
        for flags in ({}, {"checkpoint": str(tmp_path / "c"), "checkpoint_every": 4})
    ]
    assert orders[0] == orders[1] != whole
    again = job.train(
        tmp_path / "t.bin", steps=8, shuffle_documents=True, seed=2, resume=str(tmp_path / "c" / "step-4")
    ).losses
    assert again == orders[0][4:]
