"""Several lengths in one folder (--dim seq=8,16,32): losses are those of PyTorch over samples that are padded to the longest."""

import json
import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
save_file = pytest.importorskip("safetensors.torch").save_file

from conftest import MODELS

LONGEST, BATCH, RATE = 32, 8, 0.5
#: The longest sample of each step, and the size that it runs at.
REACH, SIZE = (8, 13, 30, 9, 3, 17), [8, 16, 32, 16, 8, 32]


def tool(name, *words):
    path = pathlib.Path(os.environ["HYC_TOOLS"]) / name
    done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def samples_of(vocabulary, masked):
    """Random tokens of random lengths; with masks every fourth token is asked for and the others are no labels."""
    torch.manual_seed(3)
    rows = {name: torch.zeros(len(REACH) * BATCH, LONGEST, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    rows["labels"] = torch.full_like(rows["input_ids"], -100)
    for row in range(len(REACH) * BATCH):
        reach = REACH[row // BATCH]
        length = reach if row % BATCH == 2 else int(torch.randint(2, reach + 1, ()))
        tokens = torch.randint(1, vocabulary, (length,))
        rows["input_ids"][row, :length] = tokens
        rows["attention_mask"][row, :length] = 1
        asked = torch.arange(length) % 4 == 1 if masked else torch.ones(length, dtype=torch.bool)
        rows["labels"][row, :length][asked] = tokens[asked]
    if not masked:
        del rows["attention_mask"]
    return rows


def losses_by_torch(model, rows, shifts):
    """Plain gradient descent over padded batches: the loss before each update."""
    model.train()
    losses = []
    for step in range(len(REACH)):
        batch = {name: value[step * BATCH : (step + 1) * BATCH] for name, value in rows.items()}
        labels = batch.pop("labels")
        logits = model(**batch).logits
        if shifts:
            logits, labels = logits[:, :-1], labels[:, 1:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return losses


def losses_by_hyc(folder, rows, tmp_path, *flags):
    save_file(rows, tmp_path / "rows.safetensors")
    tool("hyc-compile", folder, "--dim", "seq=8,16,32", "--optimizer", "sgd", "--lr", RATE, "--clip-grad-norm", 0,
         "--dropout=false", "--optimize", 0, "-o", tmp_path / "out", *flags)  # fmt: skip
    tool("hyc-run", tmp_path / "out", "--data", tmp_path / "rows.safetensors", "--no-shuffle", "--steps", len(REACH),
         "--log-file", tmp_path / "log.jsonl")  # fmt: skip
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    records = [record for record in records if "loss" in record]
    assert [record["size"] for record in records] == SIZE
    return [record["loss"] for record in records]


LAYOUTS = {
    "one": ("--micro-batch", 8),
    "ranks": ("--tp", 2, "--pp", 2, "--micro-batch", 2, "--grad-accum", 4),
    "zero": ("--dp", 2, "--zero", 3, "--micro-batch", 2, "--grad-accum", 2),
}


#: With attention that hyc keeps whole, with one that is written out, and a mixture of experts.
DECODERS = [("llama", "one"), ("llama", "ranks"), ("llama", "zero"), ("families/gemma2", "ranks"), ("families/mixtral", "zero")]


@pytest.mark.parametrize(("name", "layout"), DECODERS)
def test_a_decoder_s_labels_tell_how_long_a_sample_is(name, layout, tmp_path):
    folder = MODELS / name
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    rows = samples_of(model.config.vocab_size, masked=False)
    expected = losses_by_torch(model, rows, shifts=True)
    found = losses_by_hyc(folder, rows, tmp_path, "--loss", "causal_lm", *LAYOUTS[layout])
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_encoder_s_mask_tells_how_long_a_sample_is(layout, tmp_path):
    folder = MODELS / "families" / "bert-padded"
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows = samples_of(model.config.vocab_size, masked=True)
    expected = losses_by_torch(model, rows, shifts=False)
    found = losses_by_hyc(folder, rows, tmp_path, "--padding-mask", "--loss", "cross_entropy", *LAYOUTS[layout])
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_traced_model_has_the_lengths_that_it_is_given():
    import hyc

    model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / "llama", dtype=torch.float32)
    rows = samples_of(model.config.vocab_size, masked=False)
    job = hyc.compile(
        model, {"input_ids": rows["input_ids"][:2]}, loss="causal_lm", lengths=[32, 8, 16], micro_batch=BATCH // 2, dp=2,
        optimizer="sgd", lr=RATE, clip_grad_norm=0, optimize=0, entry="train",
    )  # fmt: skip
    expected = losses_by_torch(model, rows, shifts=True)
    run = job.train({name: value.numpy() for name, value in rows.items()}, steps=len(REACH), shuffle=False)
    assert run.losses == pytest.approx(expected, rel=1e-5)
    assert [step.values["size"] for step in run.steps if not step.is_evaluation] == SIZE


def test_lengths_of_a_folder_are_a_dimension_s():
    import hyc

    with pytest.raises(hyc.UsageError, match='expected dim={"seq": '):
        hyc.compile(MODELS / "llama", lengths=[8, 16])
    job = hyc.from_pretrained(MODELS / "llama", dim={"seq": [8, 16]}, micro_batch=1, plan_only=True)
    assert "seq_8" in (job.folder / "report.txt").read_text()
