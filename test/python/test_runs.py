"""What a run leaves in the process that asked for it: descriptors, folders, and messages by names that this process knows."""

import gc
import os
import pathlib

import pytest

torch = pytest.importorskip("torch")

import hyc
from conftest import run_python

torch.set_num_threads(1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 8)
        self.linear = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.linear(self.embedding(x))


X, LABELS = torch.arange(64).reshape(16, 4) % 10, torch.arange(64).reshape(16, 4) % 3


@pytest.fixture(scope="module")
def job():
    return hyc.compile(Model(), X[:2], micro_batch=2, optimize=0)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_leaves_nothing_open(job, fails):
    data = {"x": X + 5 if fails else X, "labels": LABELS}
    before = descriptors()
    for _ in range(2):
        if fails:
            with pytest.raises(hyc.DataError):
                job.train(data, steps=1)
        else:
            job.train(data, steps=1)
        gc.collect()
    assert descriptors() == before


def test_a_run_that_cannot_start_leaves_nothing_open(job, monkeypatch, tmp_path):
    before = descriptors()
    (tmp_path / "hyc-run").write_text("#!/nowhere\n")
    (tmp_path / "hyc-run").chmod(0o755)
    for tools, says in (("/nowhere", "hyc-run is in none of"), (str(tmp_path), "cannot start")):
        monkeypatch.setenv("HYC_TOOLS", tools)
        for _ in range(3):
            with pytest.raises(hyc.UnavailableError, match=says):
                job.train({"x": X, "labels": LABELS}, steps=1, log_file=tmp_path / "log")
    assert descriptors() == before
    assert not (tmp_path / "log").exists()


def test_a_forked_process_that_ends_leaves_the_job_as_it_is():
    code = (
        f"import os, sys, torch, hyc; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
        "from test_runs import LABELS, Model, X\n"
        "job = hyc.compile(Model(), X[:2], micro_batch=2, optimize=0)\n"
        "pid = os.fork()\n"
        "if pid == 0: sys.exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "print(len(job.train({'x': X, 'labels': LABELS}, steps=2).losses), job.folder)\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    count, folder = done.stdout.split()
    assert count == "2" and not pathlib.Path(folder).exists()  # of its own process it is gone


@pytest.mark.parametrize(
    "x, labels, says",
    [
        (X + 5, LABELS, r"error: data: x, sample \d+, element \d+: found 1\d, expected 0 to 9"),
        (X.float(), LABELS, "error: data: x has type f32, expected integers"),
        (X[:, :3], LABELS, r"error: data: x has shape \[16, 3\]"),
    ],
)
def test_data_of_this_process_is_called_data(job, x, labels, says):
    for call in (lambda data: job.train(data, steps=4), job.evaluate):
        with pytest.raises(hyc.DataError, match=says) as found:
            call({"x": x, "labels": labels})
        assert "safetensors" not in str(found.value)


def test_a_file_of_the_users_keeps_its_name(job, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file({"x": X + 5, "labels": LABELS}, tmp_path / "mine.safetensors")
    with pytest.raises(hyc.DataError, match=f"'{tmp_path}/mine.safetensors': x, sample"):
        job.train(tmp_path / "mine.safetensors", steps=4)
