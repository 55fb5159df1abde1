"""What hyc.compile refuses: one clear exception each, before anything is made."""

import inspect
import os
import re
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")

import hyc
from hyc import settings
from conftest import MODELS, SEQUENCE, make_language_model, run_python

TOKENS = {"input_ids": torch.zeros(1, SEQUENCE, dtype=torch.int64)}


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"micro_bach": 2}, "no setting 'micro_bach'; the nearest is 'micro_batch'"),
        ({"micro_batch": "2"}, r"micro_batch is '2', expected a whole number \(1 to 65536\)"),
        ({"micro_batch": True}, "micro_batch is True, expected a whole number"),
        ({"lr": "fast"}, "lr is 'fast', expected a number"),
        ({"dropout": 1}, "dropout is 1, expected True or False"),
        ({"steps": 5}, "no setting 'steps'"),
        ({"schedule": 3.5j}, "expected gpipe or 1f1b"),
        ({"tp": 0}, "--tp is 0, expected 1 to"),
        ({"schedule": "2f2b"}, '--schedule is "2f2b", expected gpipe or 1f1b'),
    ],
)
def test_settings_that_are_none(keywords, says):
    with pytest.raises(hyc.UsageError, match=says):
        hyc.compile(make_language_model(), TOKENS, **keywords)


def test_a_configuration_that_is_wrong_is_refused_with_its_place(tmp_path):
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "two"}')
    with pytest.raises(hyc.DataError, match="ds.json:1:36"):
        hyc.compile(make_language_model(), TOKENS, config=tmp_path / "ds.json")


class Branches(torch.nn.Module):
    """Goes by a tensor's values."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            return self.linear(x)
        return x


class CallsNumpy(Branches):
    """Leaves torch."""

    def forward(self, x):
        return self.linear(torch.from_numpy(x.numpy()))


class TakesItem(Branches):
    """Makes a Python number of a tensor, in a function that it calls."""

    @staticmethod
    def helper(x):
        return [0] * int(x[0, 0].item())

    def forward(self, x):
        return self.linear(x)[: len(self.helper(x))]


@pytest.mark.parametrize(
    "model, code, advice",
    [
        (Branches, "if x.sum() > 0:", "torch.where"),
        (CallsNumpy, "return self.linear(torch.from_numpy(x.numpy()))", "torch's functions"),
        (TakesItem, "return [0] * int(x[0, 0].item())", "depends on a tensor's values"),
    ],
)
def test_a_model_that_cannot_be_traced_is_told_by_its_line(model, code, advice):
    with pytest.raises(hyc.TraceError) as caught:
        hyc.compile(model(), torch.ones(2, 4))
    error = caught.value
    assert error.file == __file__ and error.code == code
    lines = inspect.getsource(inspect.getmodule(model)).splitlines()
    assert lines[error.line - 1].strip() == code
    assert f"{__file__}:{error.line}: the model cannot be traced here" in str(error) and advice in str(error)


class Raises(Branches):
    """Has a fault of its own, and counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        raise RuntimeError("a fault of the model's own")


def test_a_models_own_error_is_told_as_such():
    model = Raises()
    state = torch.random.get_rng_state()
    with pytest.raises(hyc.TraceError, match="Raises.forward fails on sample_inputs here") as caught:
        hyc.compile(model, torch.ones(2, 4))
    error = caught.value
    assert error.file == __file__ and error.code == 'raise RuntimeError("a fault of the model\'s own")'
    assert "RuntimeError: a fault of the model's own" in str(error) and "torch's functions" not in str(error)
    assert isinstance(error.__cause__, RuntimeError) and str(error.__cause__) == "a fault of the model's own"
    assert model.calls.item() == 0 and torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(hyc.TraceError, match=r"fails on sample_inputs, .*: RuntimeError: .*\(2x3 and 4x2\)"):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 3))


@pytest.mark.parametrize(
    "model, says",
    [
        (lambda x: x, "model is a function, expected a torch.nn.Module"),
        (Branches, "model is the class Branches, expected a torch.nn.Module"),
        (7, "model is a int, expected a torch.nn.Module"),
    ],
)
def test_what_is_no_module(model, says):
    with pytest.raises(hyc.UsageError, match=says):
        hyc.compile(model, torch.ones(2, 4))


def test_a_configuration_that_initialize_cannot_read(tmp_path):
    data = {"model": torch.nn.Linear(4, 2), "training_data": [0], "loss": "mse"}
    with pytest.raises(hyc.InputOutputError, match="nowhere.json' .config. cannot be read: No such file"):
        hyc.initialize(config=tmp_path / "nowhere.json", **data)
    (tmp_path / "ds.json").write_text('{"a": 1,\n "b": }')
    with pytest.raises(hyc.DataError, match="ds.json:2:7: config is no JSON"):
        hyc.initialize(config=tmp_path / "ds.json", **data)
    (tmp_path / "ds.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(hyc.DataError, match="no UTF-8: byte 7 is 0xff"):
        hyc.initialize(config=tmp_path / "ds.json", **data)
    (tmp_path / "ds.json").write_text("[]")
    with pytest.raises(hyc.DataError, match="config is a list, expected an object"):
        hyc.initialize(config=tmp_path / "ds.json", **data)
    with pytest.raises(hyc.UsageError, match="config is a int, expected a path or a dict"):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), config=3)


def test_an_archive_that_hyc_has_not_written_stays(tmp_path):
    archive = tmp_path / "mine.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.ones(2, 4),)), archive)
    before = archive.read_bytes()
    with pytest.raises(hyc.UsageError, match="would overwrite '.*mine.pt2'"):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), loss="mse", output=tmp_path / "mine")
    assert archive.read_bytes() == before and list(tmp_path.iterdir()) == [archive]


def test_a_file_where_the_programs_go_leaves_nothing(tmp_path):
    (tmp_path / "text").write_text("in the way")
    with pytest.raises(hyc.UsageError, match="text', which is no folder"):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), loss="mse", output=tmp_path / "text")
    assert [each.name for each in tmp_path.iterdir()] == ["text"]


def test_an_earlier_job_outlives_a_compilation_that_fails(tmp_path, monkeypatch):
    output, data = tmp_path / "out", {"input": torch.randn(8, 4), "labels": torch.randn(8, 2)}

    def compiled(**flags):
        return hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), loss="mse", output=output, micro_batch=4, **flags)

    first = compiled()
    losses = first.train(data, steps=2).losses
    archive = output.with_name("out.pt2").read_bytes()
    with pytest.raises(hyc.HycError, match="device-memory"):
        compiled(device_memory=64)

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(hyc.tools, "run", stopped)
        compiled()
    assert output.with_name("out.pt2").read_bytes() == archive
    assert first.train(data, steps=2).losses == losses
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "out.pt2"]
    # Its own output is replaced, as hyc-compile's is; and where there was nothing, nothing is left.
    assert compiled().train(data, steps=2).losses != losses
    output = tmp_path / "another"
    with pytest.raises(hyc.HycError, match="device-memory"):
        compiled(device_memory=64)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "out.pt2"]


def test_arguments_that_forward_does_not_take():
    with pytest.raises(
        hyc.DataError, match="do not fit LanguageModel.forward: missing a required argument: 'input_ids'"
    ):
        hyc.compile(make_language_model(), {"input_idx": TOKENS["input_ids"]})
    with pytest.raises(hyc.UsageError, match="sample_inputs are missing"):
        hyc.compile(make_language_model())
    with pytest.raises(hyc.UsageError, match="no tensor with a dimension"):
        hyc.compile(make_language_model(), ())


def test_a_batch_that_the_model_fixes_is_kept():
    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.linear(x).reshape(2, 3)

    job = hyc.compile(Fixed(), torch.ones(2, 4), plan_only=True)
    assert job.plan.micro_batch == 2


def test_paths_that_are_no_models(tmp_path):
    with pytest.raises(hyc.InputOutputError, match="nowhere.pt2"):
        hyc.compile(tmp_path / "nowhere.pt2")
    with pytest.raises(hyc.UsageError, match="no config.json"):
        hyc.from_pretrained(tmp_path)
    (tmp_path / "torn.pt2").write_bytes(b"PK\3\4torn")
    with pytest.raises(hyc.DataError, match="torn.pt2"):
        hyc.compile(tmp_path / "torn.pt2")
    with pytest.raises(hyc.UsageError, match="sample_inputs are given with a path"):
        hyc.compile(tmp_path / "torn.pt2", TOKENS)


def test_no_tools_on_the_machine(tmp_path):
    code = "import hyc; hyc.compile('model.pt2')"
    done = run_python(code, env={**os.environ, "HYC_TOOLS": str(tmp_path)})
    assert done.returncode == 1
    assert f"hyc-compile is in none of '{tmp_path}' (HYC_TOOLS); install hyc's wheel" in done.stderr


def test_no_compiler_on_the_machine():
    hide = (
        "for name in c++ g++ clang++ clang++-22; do "
        'path=$(readlink -f "$(command -v $name)") && [ -f "$path" ] && mount --bind /dev/null "$path"; done; true'
    )
    hidden = ["unshare", "--mount", "sh", "-c"]
    if subprocess.run([*hidden, hide + " && ! c++ --version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a compiler cannot be hidden here: no namespaces")
    code = f"import hyc; hyc.compile({str(MODELS / 'gpt2-tiny.onnx')!r}, labels='labels')"
    done = subprocess.run(
        [*hidden, hide + ' && exec "$0" -c "$1"', sys.executable, code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.search("UnavailableError: no C\\+\\+ compiler is there: .*install", done.stderr), done.stderr


def test_every_flag_is_a_keyword():
    from hyc import settings

    assert settings.of_compile()["micro_batch"].values == "1 to 65536"
    assert settings.of_compile()["dim"].is_list and settings.of_run()["no_shuffle"].type == "flag"
    words = settings.to_arguments({"dim": {"seq": 512, "b": 2}, "dropout": False}, settings.of_compile(), "hyc.compile")
    assert words == ["--dim=seq=512", "--dim=b=2", "--dropout=false"]
    assert settings.to_arguments({"shuffle": False, "tf32": True, "seed": None}, settings.of_run(), "x") == [
        "--no-shuffle",
        "--tf32",
    ]
    assert settings.to_arguments({"shuffle": True, "no_shuffle": False}, settings.of_run(), "x") == []
    assert settings.to_arguments({"device_memory": 3 << 30}, settings.of_compile(), "x") == [
        "--device-memory=3221225472"
    ]


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for output in ("/proc/nowhere", tmp_path / "file" / "out"):
        with pytest.raises(hyc.InputOutputError, match="cannot write the traced model to '.*.pt2'"):
            hyc.compile(torch.nn.Linear(4, 2), torch.randn(2, 4), loss="mse", output=output)


def test_numbers_of_numpy_are_numbers():
    options = settings.of_compile()
    given = {"tp": numpy.int64(2), "lr": numpy.float32(0.5), "weight_decay": numpy.int32(1), "momentum": 0.25}
    assert settings.to_arguments(given, options, "hyc.compile") == [
        "--tp=2", "--lr=0.5", "--weight-decay=1", "--momentum=0.25",
    ]  # fmt: skip
    with pytest.raises(hyc.UsageError, match="tp is True, expected a whole number"):
        settings.to_arguments({"tp": True}, options, "hyc.compile")


@pytest.mark.parametrize(
    "loss, says",
    [
        ("mse_loss", "did you mean mse"),
        ("crossentropy", "did you mean cross_entropy"),
        (torch.nn.MSELoss(), "loss is MSELoss, expected text: cross_entropy, causal_lm, mse, .*; the nearest is 'mse'"),
        (torch.nn.BCEWithLogitsLoss, "loss is BCEWithLogitsLoss, .*; the nearest is 'binary_cross_entropy'"),
        (torch.nn.functional.cross_entropy, "loss is cross_entropy, .*; the nearest is 'cross_entropy'"),
        (3, "loss is int, .* or the name of an output that is the loss$"),
    ],
)
def test_a_loss_that_is_none_is_told_with_the_nearest(loss, says):
    with pytest.raises(hyc.UsageError, match=says):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), loss=loss, plan_only=True)


@pytest.mark.parametrize(
    "keywords, kind, says",
    [
        ({"betas": 0.9}, hyc.UsageError, "betas is 0.9, expected 2 numbers"),
        ({"eps": "small"}, hyc.UsageError, "eps is 'small', expected a number"),
        ({"betas": (0.9, 1.5)}, hyc.DataError, "two numbers from 0 to 1"),
        ({"eps": 1e-6, "optimizer": "sgd"}, hyc.DataError, "optimizer.params.eps is 1e-06, but sgd has no such parameter"),
    ],
)
def test_parameters_of_the_optimizer_that_are_none(keywords, kind, says):
    with pytest.raises(kind, match=says):
        hyc.compile(torch.nn.Linear(4, 2), torch.ones(2, 4), loss="mse", **keywords)


def test_settings_that_are_wrong_cost_no_trace():
    def forward(*_):
        raise AssertionError("the model is traced")

    model = make_language_model()
    model.forward = forward
    with pytest.raises(hyc.UsageError, match="--tp is 0"):
        hyc.compile(model, TOKENS, tp=0)
    with pytest.raises(hyc.DataError, match='unknown key "zero_optimisation"'):
        hyc.compile(model, TOKENS, config={"zero_optimisation": {"stage": 1}})
