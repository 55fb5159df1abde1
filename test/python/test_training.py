"""hyc.compile and job.train against PyTorch's own training loop."""

import json
import math
import pathlib
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")

import hyc

torch.set_num_threads(1)
from conftest import (
    SEQUENCE,
    VOCABULARY,
    causal_loss,
    make_language_model,
    processes_naming,
    train_by_torch,
)


def tokens_of(samples, seed=1):
    return torch.randint(0, VOCABULARY, (samples, SEQUENCE), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def compiled():
    """tp 2 × dp 2 under ZeRO 3, compiled from a sample of one: its batch has to be found dynamic."""
    model = make_language_model()
    return model, hyc.compile(
        model,
        {"input_ids": tokens_of(1)},
        loss="causal_lm",
        tp=2,
        dp=2,
        zero=3,
        micro_batch=2,
        lr=1e-2,
        optimizer="adamw",
    )


def test_losses_and_weights_are_those_of_pytorch(compiled):
    model, job = compiled
    tokens = tokens_of(16)
    told = []
    run = job.train({"input_ids": tokens}, steps=12, shuffle=False, on_step=told.append)
    theirs = make_language_model()
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0)
    expected = train_by_torch(theirs, optimizer, [tokens[4 * (s % 4) :][:4] for s in range(12)], causal_loss)
    assert len(run.losses) == 12
    assert [step.loss for step in told] == run.losses
    assert run.losses == pytest.approx(expected, abs=1e-5)
    state = run.state_dict()
    assert set(state) == set(model.state_dict())
    for name, tensor in theirs.state_dict().items():
        assert (state[name] - tensor).abs().max() < 1e-3, name
    fresh = make_language_model(seed=5)
    fresh.load_state_dict(state)
    assert fresh.head.weight is fresh.embedding.weight
    with torch.no_grad():
        assert causal_loss(fresh, tokens).item() == pytest.approx(causal_loss(theirs, tokens).item(), abs=1e-4)


def test_plan_memory_and_report_are_those_of_the_folder(compiled):
    _, job = compiled
    assert (job.plan.tp, job.plan.pp, job.plan.dp, job.plan.ranks) == (2, 1, 2, 4)
    assert (job.plan.micro_batch, job.plan.grad_accum, job.plan.global_batch, job.plan.sequence) == (2, 1, 4, SEQUENCE)
    assert job.plan.values == json.loads((job.folder / "plan.json").read_text())
    told = json.loads((job.folder / "memory.json").read_text())["stages"]
    assert [stage.total_bytes for stage in job.memory.stages] == [stage["total_bytes"] for stage in told]
    assert {arena.name for arena in job.memory.stages[0].arenas} >= {"parameters", "optimizer", "activations"}
    assert job.memory.device_bytes == max(stage["device_bytes"] for stage in told)
    assert str(job.report) == (job.folder / "report.txt").read_text()
    assert job.report.step_ms > 0
    assert "4 ranks" in job._repr_html_() and "srcdoc" in job._repr_html_()


def test_of_several_sizes_each_trains_and_the_plan_is_that_of_the_largest():
    tokens = tokens_of(8)
    job = hyc.compile(
        make_language_model(),
        {"input_ids": tokens[:1]},
        loss="causal_lm",
        ranks=[1, 2],
        tp=1,
        pp=1,
        global_batch=4,
        lr=1e-2,
        optimize=0,
    )
    assert (job.plan.ranks, job.plan.global_batch) == (2, 4)
    assert len(job.memory.stages) == 1 and "2 ranks" in str(job.plan) and job.report.step_ms > 0
    theirs = make_language_model()
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0)
    expected = train_by_torch(theirs, optimizer, [tokens[:4], tokens[4:]], causal_loss)
    for ranks in (None, 1, 2):
        losses = job.train({"input_ids": tokens}, steps=2, shuffle=False, ranks=ranks).losses
        assert losses == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float64, 1e-6), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)], ids=str
)
def test_a_model_of_another_type_trains_as_the_f32_model_of_its_weights(dtype, tolerance):
    def make():
        torch.manual_seed(8)
        layers = torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3)
        return torch.nn.Sequential(*layers).to(dtype)

    data = {"input": torch.randn(8, 6).to(dtype), "labels": torch.randn(8, 3)}
    model, theirs = make(), make().float()
    job = hyc.compile(model, data["input"], loss="mse", micro_batch=4, dp=2, lr=1e-2, optimize=0)
    run = job.train(data, steps=4, shuffle=False)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0)
    expected = []
    for _ in range(4):
        loss = torch.nn.functional.mse_loss(theirs(data["input"].float()), data["labels"])
        expected.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert run.losses == pytest.approx(expected, rel=1e-5)
    assert any(f"parameters are {'bf16' if dtype == torch.bfloat16 else 'f'}" in note for note in job.notes)
    model.load_state_dict(run.state_dict())
    for (name, ours), theirs_ in zip(model.named_parameters(), theirs.parameters()):
        assert ours.dtype == dtype and (ours.float() - theirs_).abs().max() < tolerance, name


@pytest.mark.parametrize("dp", [1, 2])
def test_inputs_of_truth_values_bytes_and_16_bits_are_read(dp):
    torch.manual_seed(9)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, mask, pixels, counts, halves, ids):
            x = pixels.float() / 255 + counts.float() / 1000 + halves.float() + ids.float() / 7
            return self.linear(torch.where(mask, x, -x))

    data = {
        "mask": torch.rand(4, 3) > 0.5,
        "pixels": torch.randint(0, 256, (4, 3), dtype=torch.uint8),
        "counts": torch.randint(-3000, 3000, (4, 3), dtype=torch.int16),
        "halves": torch.randn(4, 3).half(),
        "ids": torch.randint(0, 9, (4, 3), dtype=torch.int32),
    }
    model, labels = Model(), torch.randn(4, 2)
    job = hyc.compile(model, data, loss="mse", micro_batch=4 // dp, dp=dp, optimize=0)
    with torch.no_grad():
        expected = torch.nn.functional.mse_loss(model(**data), labels).item()
    assert job.train({**data, "labels": labels}, steps=1, shuffle=False).losses == pytest.approx([expected], rel=1e-5)


@pytest.mark.parametrize("flags", [{}, {"offload_param": "cpu", "offload_optimizer": "cpu", "zero": 3}], ids=str)
def test_a_module_that_is_called_again_trains_wherever_its_parameters_are(flags):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(10)
            self.again, self.norm, self.last = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 2)

        def forward(self, x):
            for _ in range(3):
                x = x + self.norm(torch.tanh(self.again(x)))
            return self.last(x)

    data = {"x": torch.randn(8, 6), "labels": torch.randn(8, 2)}
    theirs = Model()
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0)
    expected = []
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(theirs(data["x"]), data["labels"])
        expected.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    job = hyc.compile(Model(), data["x"], loss="mse", micro_batch=4, dp=2, lr=1e-2, optimize=0, **flags)
    assert job.train(data, steps=3, shuffle=False).losses == pytest.approx(expected, rel=1e-5)


def test_adapters_come_by_peft_names_or_within_the_weights(tmp_path):
    torch.manual_seed(6)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    data = {"input": torch.randn(8, 6), "labels": torch.randn(8, 3)}
    job = hyc.compile(model, data["input"], loss="mse", lora="rank=2,alpha=4,targets=0", micro_batch=8, lr=1e-2, optimize=0)
    adapter = job.train(data, steps=3, shuffle=False, save_weights=str(tmp_path / "adapter")).state_dict()
    run = job.train(data, steps=3, shuffle=False, merge=True)
    a, b = (next(value for name, value in adapter.items() if part in name) for part in ("lora_A", "lora_B"))
    assert len(adapter) == 2 and a.shape == (2, 6) and b.abs().max() > 0
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(run.state_dict())
    assert torch.allclose(model[0].weight, before["0.weight"] + 2 * b @ a, atol=1e-6)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before if name != "0.weight")


@pytest.mark.parametrize("loss", ["parts.0", "parts.1.total", "extra"])
def test_an_output_has_the_keys_that_forward_returns_it_by(loss):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x, wanted):
            error = self.linear(x) - wanted
            first, total, extra = error.square().mean(), error.abs().sum(), error.square().sum()
            return {"nothing": None, "parts": [first, {"total": total}], "errors": {}, "extra": extra}

    data = {"x": torch.randn(4, 4), "wanted": torch.randn(4, 2)}
    job = hyc.compile(Model(), data, loss=loss, micro_batch=4, optimize=0)
    result = Model()(**data)
    expected = {"parts.0": result["parts"][0], "parts.1.total": result["parts"][1]["total"], "extra": result["extra"]}
    assert job.train(data, steps=1, shuffle=False).losses == pytest.approx([expected[loss].item()], rel=1e-5)


# torch calls values of its graphs by what makes them, and knows nothing of what the model calls its tensors.
def test_tensors_may_be_called_as_operators_and_outputs_are():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.layer = torch.nn.Linear(6, 3)
            self.linear, self.add, self.scale = (torch.nn.Parameter(torch.randn(3)) for _ in range(3))
            self.register_buffer("mean", torch.randn(3))

        def forward(self, x):
            result = self.layer(x) * self.linear + self.add
            return {"logits": result + self.mean * result.mean(), "scale": (result * self.scale).sum()}

    model = Model()
    data = {"x": torch.randn(16, 6), "labels": torch.randint(0, 3, (16,))}
    job = hyc.compile(model, {"x": data["x"][:2]}, loss="cross_entropy", logits="logits", micro_batch=4, lr=1e-2)
    run = job.train(data, steps=4, shuffle=False)

    batches = [{name: tensor[i : i + 4] for name, tensor in data.items()} for i in range(0, 16, 4)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0)
    expected = train_by_torch(
        model,
        optimizer,
        batches,
        lambda model, batch: torch.nn.functional.cross_entropy(model(batch["x"])["logits"], batch["labels"]),
    )
    assert run.losses == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_a_tensor_that_is_called_as_an_input_is_refused(kind):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)
            if kind == "buffer":
                self.register_buffer("shift", torch.ones(6))
            else:
                self.shift = torch.nn.Parameter(torch.ones(6))

        def forward(self, x, shift):
            return self.layer(x + shift + self.shift)

    with pytest.raises(hyc.DataError, match=f"an input 'shift' and a {kind} of that name; rename one of them"):
        hyc.compile(Model(), {"x": torch.randn(2, 6), "shift": torch.randn(2, 6)}, loss="cross_entropy", micro_batch=2)


@pytest.mark.parametrize("equation", ["...A,AZ->...Z", "...Z,ZA->...A", "bA,AB->bB"])
def test_letters_of_einsum_are_any(equation):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.layer, self.weight = torch.nn.Linear(6, 8), torch.nn.Parameter(torch.randn(8, 3))

        def forward(self, x):
            return torch.einsum(equation, self.layer(x), self.weight)

    model = Model()
    data = {"x": torch.randn(4, 6), "labels": torch.randint(0, 3, (4,))}
    job = hyc.compile(model, {"x": data["x"][:2]}, loss="cross_entropy", micro_batch=4, optimize=0)
    expected = torch.nn.functional.cross_entropy(model(data["x"]), data["labels"]).item()
    assert job.train(data, steps=1, shuffle=False).losses == pytest.approx([expected], rel=1e-5)


def test_parameters_that_forward_does_not_use_come_back_as_they_were():
    torch.manual_seed(3)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(4, 2), torch.nn.Linear(3, 3)
            self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)

        def forward(self, x):
            return self.used(self.frozen(x))

    model, data = Model(), {"x": torch.randn(4, 4), "labels": torch.randn(4, 2)}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    job = hyc.compile(model, {"x": data["x"]}, loss="mse", micro_batch=4, optimize=0)
    state = job.train(data, steps=2).state_dict()
    model.load_state_dict(state)
    for name, tensor in before.items():
        assert torch.equal(state[name], tensor) == (not name.startswith("used")), name


def test_shuffles_by_seed_unless_told_not_to(compiled):
    _, job = compiled
    data = {"input_ids": tokens_of(16)}
    in_order, shuffled, again = (job.train(data, steps=2, seed=3, shuffle=s).losses for s in (False, True, True))
    assert in_order != shuffled and shuffled == again


def test_labels_of_minus_100_do_not_count(compiled):
    _, job = compiled
    tokens, mask = tokens_of(4), torch.ones(4, SEQUENCE, dtype=torch.int64)
    mask[1, 5:] = 0
    loss = job.train({"input_ids": tokens, "attention_mask": mask}, steps=1, shuffle=False).losses[0]
    labels = torch.where(mask != 0, tokens, -100)
    with torch.no_grad():
        logits = make_language_model()(tokens)
        expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()).item()
    assert loss == pytest.approx(expected, abs=1e-5)


def test_evaluates_by_the_weights_that_it_started_from(compiled):
    model, job = compiled
    tokens = tokens_of(8, seed=9)
    with torch.no_grad():
        assert job.evaluate({"input_ids": tokens}) == pytest.approx(causal_loss(model, tokens).item(), abs=1e-5)


def test_an_exception_of_on_step_ends_the_ranks(compiled):
    _, job = compiled

    def stop(step):
        if step.step == 3:
            raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        job.train({"input_ids": tokens_of(8)}, steps=1_000_000_000, on_step=stop)
    assert processes_naming(str(job.folder)) == []


def test_an_interrupt_ends_the_ranks(compiled, tmp_path):
    _, job = compiled
    code = (
        """if True:
        import sys, pathlib, torch, hyc
        from hyc.datasets import Inputs
        job = hyc.Job(pathlib.Path(sys.argv[1]), Inputs(("input_ids",), "labels", True))
        data = {"input_ids": torch.zeros(8, %d, dtype=torch.int64)}
        job.train(data, steps=1_000_000_000, on_step=lambda step: print(step.step, flush=True))"""
        % SEQUENCE
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(job.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "1\n"
    assert processes_naming(f"--out={job.folder}")
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    deadline = time.monotonic() + 10
    while processes_naming(str(job.folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_naming(str(job.folder)) == []


@pytest.mark.parametrize(
    "data, kind, says",
    [
        (lambda: {"input_ids": tokens_of(8)[:, :-1]}, hyc.DataError, r"input_ids has shape \[8, 11\], expected"),
        (lambda: {"input_ids": torch.full((8, SEQUENCE), VOCABULARY)}, hyc.DataError, "found 61, expected 0 to 60"),
        (lambda: {"input_idx": tokens_of(8)}, hyc.DataError, "no tensor 'input_ids'.*nearest is 'input_idx'"),
        (
            lambda: {"input_ids": tokens_of(8), "labels": tokens_of(7)},
            hyc.DataError,
            "labels has 7 samples, expected 8",
        ),
        (lambda: {"input_ids": tokens_of(0)}, hyc.DataError, "no samples: dimension 0 of input_ids, labels is 0"),
        (dict, hyc.DataError, "no tensor"),
        (
            lambda: [{"input_ids": [1] * SEQUENCE}, {"input_ids": [1]}],
            hyc.DataError,
            r"sample 1: input_ids has shape \[1\]",
        ),
        (lambda: [({"a": 1},)], hyc.DataError, "sample 0: input_ids has type object"),
        (lambda: [(1, 2, 3, 4)], hyc.DataError, "sample 0 has 4 tensors, expected at most 2: input_ids, labels"),
        (list, hyc.DataError, "the data set has no samples"),
        (
            lambda: [{"input_ids": [1] * SEQUENCE, "labels": row} for row in ([1] * SEQUENCE, [0.25] * SEQUENCE)],
            hyc.DataError,
            "sample 1: labels has 0.25, which int64, the type in sample 0, does not hold; give all samples one type",
        ),
        (
            lambda: [{"input_ids": [1] * SEQUENCE, "labels": row} for row in ([1.0] * SEQUENCE, [2**60 + 1] * SEQUENCE)],
            hyc.DataError,
            f"sample 1: labels has {2**60 + 1}, which float64",
        ),
        (
            lambda: ({"input_ids": [1] * SEQUENCE} for _ in range(3)),
            hyc.DataError,
            "has 3 samples, expected 4: one without a length is read once.*give fewer steps, or a data set that goes on",
        ),
        (lambda: torch.ones(100), hyc.DataError, "stream of tokens has type float32"),
        (lambda: torch.full((100,), -3), hyc.DataError, "token 0 is -3"),
        (lambda: 7, hyc.UsageError, "data is a int"),
        (lambda: "/nowhere/data.bin", hyc.InputOutputError, "cannot read '/nowhere/data.bin'"),
        (lambda: torch.utils.data.DataLoader([1]), hyc.UsageError, "expected its Dataset"),
    ],
)
def test_bad_data_is_refused_with_its_place(compiled, data, kind, says):
    with pytest.raises(kind, match=says):
        compiled[1].train(data(), steps=1)


def test_a_log_file_of_the_users_is_written_beside_what_is_told(compiled, tmp_path):
    model, job = compiled
    data, log, told = {"input_ids": tokens_of(16)}, tmp_path / "run.jsonl", []
    log.write_text("an earlier run's\n")
    run = job.train(data, steps=3, log_file=log, on_step=told.append, checkpoint=tmp_path / "runs")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["loss"] for line in lines if "loss" in line] == run.losses == [step.loss for step in told]
    assert any("event" in line for line in lines)  # what happens between steps, too: a checkpoint
    job.train(data, steps=5, log_file=log, checkpoint=tmp_path / "runs", resume="auto")  # goes on behind what is there
    after = [json.loads(line) for line in log.read_text().splitlines()]
    assert after[: len(lines)] == lines and [line["step"] for line in after if "loss" in line] == [1, 2, 3, 4, 5]
    before = log.read_bytes()
    with pytest.raises(hyc.UsageError, match="seed"):
        job.train(data, steps=3, log_file=log, seed="a")
    assert log.read_bytes() == before
    with pytest.raises(hyc.UsageError, match="would overwrite"):
        job.train(data, steps=3, log_file=log, csv=str(log))
    for file in (log, tmp_path / "new.jsonl"):  # hyc-run refuses before it begins
        with pytest.raises(hyc.DataError):
            job.train({"input_ids": torch.full((8, SEQUENCE), VOCABULARY)}, steps=1, log_file=file)
    assert log.read_bytes() == before and not (tmp_path / "new.jsonl").exists()
    with pytest.raises(hyc.UsageError, match="among the programs"):
        job.train(data, steps=3, log_file=job.folder / "manifest.json")
    with pytest.raises(hyc.InputOutputError, match="cannot write '.*nowhere/x' .log_file"):
        job.train(data, steps=3, log_file=tmp_path / "nowhere" / "x")


def test_a_log_file_may_not_be_the_data(compiled, tmp_path):
    _, job = compiled
    data = tmp_path / "text"
    data.write_bytes(bytes(range(32, 60)) * 40)
    before = data.read_bytes()
    with pytest.raises(hyc.UsageError, match="log_file.* would overwrite '.*text', which is read or written"):
        job.train(data, steps=1, log_file=tmp_path / "." / "text")
    with pytest.raises(hyc.UsageError, match="log_file.* would overwrite '.*text', which is read or written"):
        job.train(f"{data}=1", steps=1, log_file=data)
    assert data.read_bytes() == before


def test_tensors_that_the_model_does_not_read_are_named(compiled, recwarn):
    _, job = compiled
    tokens = tokens_of(16)
    with pytest.warns(UserWarning, match="^data: labls is not read by the model, which reads input_ids, labels$"):
        job.train({"input_ids": tokens, "labls": tokens}, steps=1)
    rows = [{"input_ids": row, "id": index, "kind": 1} for index, row in enumerate(tokens)]
    with pytest.warns(UserWarning, match="^evaluate_data: id, kind are not read by the model"):
        job.train({"input_ids": tokens}, steps=1, evaluate_data=rows)
    recwarn.clear()
    job.train({"input_ids": tokens, "labels": tokens}, steps=1)
    job.train({"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, steps=1)  # labels are made of it
    assert not [each for each in recwarn if "not read" in str(each.message)]


def test_a_stream_of_tokens_and_data_sets_train_alike(compiled):
    _, job = compiled
    tokens = tokens_of(8)

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index >= 8:
                raise IndexError(index)
            return {"input_ids": tokens[index], "labels": tokens[index]}

    def endless():
        while True:
            yield from ({"input_ids": row} for row in tokens)

    expected = job.train({"input_ids": tokens}, steps=2, shuffle=False).losses
    for data in (
        Samples(),
        [(row,) for row in tokens],
        [row.tolist() for row in tokens][:0] or tokens.tolist(),
        endless(),
    ):
        if isinstance(data, list) and isinstance(data[0], list):
            data = [{"input_ids": row} for row in data]
        assert job.train(data, steps=2, shuffle=False).losses == expected
    # Windows of a stream share a token with the next; the first is the first sample.
    stream = torch.cat([tokens.flatten(), tokens[0, :1]])
    assert job.train(stream, steps=2, shuffle=False).losses == pytest.approx(expected, abs=1e-6)


def test_classifier_of_a_tuple_data_set_trains_as_in_pytorch():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    features, classes = torch.randn(20, 6), torch.randint(0, 4, (20,))
    job = hyc.compile(model, features[:1], micro_batch=5, optimizer="sgd", lr=0.5)
    run = job.train(torch.utils.data.TensorDataset(features, classes), steps=8, shuffle=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batches = [slice(5 * (s % 4), 5 * (s % 4) + 5) for s in range(8)]
    loss_of = lambda m, at: torch.nn.functional.cross_entropy(m(features[at]), classes[at])
    assert run.losses == pytest.approx(train_by_torch(model, optimizer, batches, loss_of), abs=1e-6)
    assert run.steps[0].samples_per_s > 0 and run.steps[0].tokens_per_s is None
    assert not math.isnan(run.steps[-1].grad_norm)
    model.load_state_dict(run.state_dict())


def test_from_pretrained_reads_a_folder_and_saves_one(tmp_path):
    folder = pathlib.Path(__file__).parents[1] / "models" / "gpt2-formats"
    job = hyc.from_pretrained(folder, dim={"seq": 16}, micro_batch=2, lr=1e-3, output=tmp_path / "out")
    run = job.train(folder.parent / "text.bin", steps=3, save_weights=tmp_path / "trained")
    assert run.losses[0] != run.losses[-1]
    assert json.loads((tmp_path / "trained" / "config.json").read_text())["model_type"] == "gpt2"
    assert run.state_dict()["transformer.wte.weight"].shape == (257, 32)


def test_a_parameter_that_layers_of_several_stages_expand_is_updated_on_each():
    torch = pytest.importorskip("torch")

    class Queries(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query = torch.nn.Parameter(torch.linspace(-1, 1, 8))
            self.first, self.second, self.head = (torch.nn.Linear(8, width) for width in (8, 8, 3))

        def forward(self, x):
            query = self.query.unsqueeze(0).expand(x.shape[0], 8)
            hidden = torch.tanh(self.first(x) + query)
            return self.head(torch.tanh(self.second(hidden) * query) + query)

    torch.manual_seed(2)
    model = Queries()
    data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,)))
    losses = {}
    for pp in (1, 2):
        losses[pp] = []
        job = hyc.compile(model, (data[:8][0],), loss="cross_entropy", micro_batch=8, lr=1e-2, pp=pp)
        job.train(data, steps=4, on_step=lambda step, told=losses[pp]: told.append(step.loss), shuffle=False)
    assert losses[2] == pytest.approx(losses[1], rel=1e-6)


def test_plans_without_making_programs():
    folder = pathlib.Path(__file__).parents[1] / "models" / "llama"
    job = hyc.from_pretrained(
        folder, dim={"seq": 16}, tp=2, plan_only=True, micro_batch=3, config={"zero_optimization": {"stage": 1}}
    )
    assert (job.plan.tp, job.plan.micro_batch, job.plan.sequence) == (2, 3, 16)
    assert job.memory.total_bytes > 0


def test_plans_count_the_ranks_along_axes_besides_dp_and_tp(tmp_path):
    folder = pathlib.Path(__file__).parents[1] / "models" / "llama"
    plan = dict(hyc.from_pretrained(folder, dim={"seq": 16}, dp=2, micro_batch=3, plan_only=True).plan.values)
    plan["mesh"] = {**plan["mesh"], "axes": ["ep:2", "dp.hosts:2"]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    job = hyc.from_pretrained(folder, dim={"seq": 16}, plan=tmp_path / "plan.json", plan_only=True)
    assert job.plan.ranks == 4 and job.plan.further_axes == {"ep": 2}
    assert str(job.plan).startswith("4 ranks (tp 1 × pp 1 × dp 2 × ep 2), 6 samples a step")


def test_a_folder_that_another_hyc_compiled_is_named(tmp_path):
    (tmp_path / "plan.json").write_text('{"mesh": {"tp": 1, "pp": 1, "dp": 2}, "schedule": "1f1b"}')
    (tmp_path / "memory.json").write_text('{"stages": [{"ranks": 2}], "micro_batch": 1, "grad_accum": 1}')
    with pytest.raises(hyc.DataError, match="tells no 'sequence' .* compile it again"):
        hyc.Plan.read(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path):
    from safetensors.torch import save_file

    from hyc import weights

    model = torch.nn.Linear(2, 3)
    names = weights.Names.of(model)
    save_file({"weight": torch.ones(3, 2)}, tmp_path / "some.safetensors")
    assert torch.equal(weights.load(tmp_path / "some.safetensors", names)["bias"], model.bias)
    save_file({"weight": torch.ones(3, 2), "bias_": torch.ones(3)}, tmp_path / "renamed.safetensors")
    with pytest.raises(hyc.DataError, match="has tensor 'bias_', which the model has not: of 1 of its 2 tensors"):
        weights.load(tmp_path / "renamed.safetensors", names)


def test_weights_in_any_order_of_memory_are_traced_row_by_row(tmp_path):
    class Images(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.Conv2d(3, 3, 3, padding=1)
            self.turn = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t())

        def forward(self, x):
            return self.second(self.first(x)) @ self.turn

    model = Images().to(memory_format=torch.channels_last)
    model.second.weight = model.first.weight
    assert not model.first.weight.is_contiguous()
    traced = hyc.tracing.trace(model, torch.randn(2, 3, 3, 3), tmp_path / "images.pt2")
    state = torch.export.load(str(traced.path)).state_dict
    assert set(state) == set(model.state_dict())
    for name, value in model.state_dict().items():
        assert state[name].is_contiguous(), name
        assert torch.equal(state[name], value), name
    assert state["first.weight"].data_ptr() == state["second.weight"].data_ptr()
    assert not model.first.weight.is_contiguous()  # the model itself is left as it was


def test_a_checkpoint_has_the_weights_and_the_loss_that_its_run_told(tmp_path):
    torch.manual_seed(0)
    data = {"input": torch.randn(32, 6), "labels": torch.randint(0, 3, (32,))}
    job = hyc.compile(torch.nn.Linear(6, 3), (data["input"][:4],), loss="cross_entropy", micro_batch=4, lr=0.5)
    told = []
    run = job.train(data, steps=6, checkpoint=tmp_path / "runs", evaluate_data=data, on_event=told.append)
    assert [(each["event"], each.get("step")) for each in told] == [("checkpoint", 6), ("report", None)]
    assert job.has_evaluation
    for folder in (tmp_path / "runs", told[0]["path"]):
        weights = job.state_dict(folder)
        assert weights.keys() == run.state_dict().keys()
        assert all(torch.equal(weights[name], value) for name, value in run.state_dict().items())
    loss = job.evaluate(data, resume=tmp_path / "runs")
    assert loss == run.evaluations[-1].loss != job.evaluate(data)


def test_betas_and_eps_are_the_optimizers():
    torch.manual_seed(12)
    model, data = torch.nn.Linear(6, 3), {"input": torch.randn(16, 6), "labels": torch.randn(16, 3)}
    config = {"optimizer": {"type": "AdamW", "params": {"lr": 0.05, "betas": [0.9, 0.999]}}}
    job = hyc.compile(model, data["input"], loss="mse", config=config, betas=(0.5, 0.8), eps=1e-2, micro_batch=4, optimize=0)
    batches = [{name: tensor[i : i + 4] for name, tensor in data.items()} for i in range(0, 16, 4)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, betas=(0.5, 0.8), eps=1e-2, weight_decay=0)
    expected = train_by_torch(
        model, optimizer, batches, lambda model, batch: torch.nn.functional.mse_loss(model(batch["input"]), batch["labels"])
    )
    assert job.train(data, steps=4, shuffle=False).losses == pytest.approx(expected, rel=1e-5)
    assert config["optimizer"]["params"] == {"lr": 0.05, "betas": [0.9, 0.999]}


def test_what_the_tools_warn_of_is_a_warning_and_a_note(compiled, tmp_path):
    _, job = compiled
    data, runs = {"input_ids": tokens_of(16)}, tmp_path / "runs"
    assert job.train(data, steps=4, checkpoint=runs, checkpoint_every=2).notes == ()
    part = sorted(runs.glob("step-4/part*"))[0]
    part.write_bytes(part.read_bytes()[:10])
    with pytest.warns(hyc.HycWarning, match="warning: '.*step-4/.*' has 10 bytes.*an earlier one is looked for") as told:
        run = job.train(data, steps=5, resume=runs)
    own = [each for each in told if each.category is hyc.HycWarning]
    assert [note for note in run.notes if "warning: " in note] == [str(each.message) for each in own] and len(own) == 1
    assert own[0].filename == __file__
    with pytest.warns(hyc.HycWarning, match="an earlier one is looked for"):
        job.evaluate(data, resume=runs)

    class Unreached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.other = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.linear(x) + self.other(x).detach()

    with pytest.warns(hyc.HycWarning, match="parameter @other.(weight|bias) does not reach the loss") as told:
        job = hyc.compile(Unreached(), torch.randn(2, 4), plan_only=True)
    own = [each for each in told if each.category is hyc.HycWarning]
    assert [note for note in job.notes if "warning: " in note] == [str(each.message) for each in own] and len(own) == 2
    assert own[0].filename == __file__
