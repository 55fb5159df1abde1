"""job.train(wandb=…) and hyc train --wandb: what wandb's own package has written of a run that was told to it offline."""

import json
import os
import struct
import time

import pytest

import hyc
from conftest import MODELS, run_python


def records_in(raw):
    """Of a log in LevelDB's format: seven bytes of wandb's own, then blocks of chunks, each with sum, length and kind."""
    block, at, record = 1 << 15, 7, b""
    assert raw[:4] == b":W&B"
    while at + 7 <= len(raw):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", raw[at + 4 : at + 7])
        record += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            yield record
            record = b""


def read_runs(folder):
    """As read_now, once its process has written that the run is over."""
    for _ in range(600):
        runs = read_now(folder)
        if runs and all(exit_code is not None for _, exit_code in runs):
            break
        time.sleep(0.1)
    return runs


def read_now(folder):
    """The history of each offline run, a list of {name: value}, and how it ended; messages are wandb's own."""
    wandb_pb2 = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    runs = []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        history, exit_code = [], None
        for data in records_in(path.read_bytes()):
            record = wandb_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                history.append(
                    {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
                )
            if record.WhichOneof("record_type") == "exit":
                exit_code = record.exit.exit_code
        runs.append((history, exit_code))
    return runs


@pytest.fixture
def offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name, value in (("WANDB_MODE", "offline"), ("WANDB_SILENT", "true")):
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture(scope="module")
def job():
    return hyc.compile(
        MODELS / "gpt2-tiny.onnx", loss="cross_entropy", labels="labels", micro_batch=2, lr=1e-3, entry="train,evaluate"
    )


def test_each_step_is_told_by_its_name(offline, job):
    told = []
    run = job.train(
        MODELS / "text.bin", steps=4, seed=1, on_step=told.append,
        wandb={"project": "hyc-test", "name": "a", "dir": str(offline)},
        evaluate_data=MODELS / "text.bin", evaluate_batches=2,
    )  # fmt: skip
    ((history, exit_code),) = read_runs(offline)
    assert exit_code == 0
    losses = [row["loss_metrics/global_avg_loss"] for row in history if "loss_metrics/global_avg_loss" in row]
    assert losses == run.losses and len(told) == 5
    assert [row["time_metrics/end_to_end(s)"] for row in history if "lr" in row] == pytest.approx(
        [step.ms / 1e3 for step in run.steps]
    )
    held_out = [row["validation_metrics/loss"] for row in history if "validation_metrics/loss" in row]
    assert held_out == [run.evaluations[0].loss]


def test_a_run_that_fails_is_told_as_failed(offline, job):
    def stop(step):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        job.train(MODELS / "text.bin", steps=4, on_step=stop, wandb={"project": "hyc-test", "dir": str(offline)})
    ((_, exit_code),) = read_runs(offline)
    assert exit_code == 1


def test_what_it_is_given_is_checked(job):
    with pytest.raises(hyc.UsageError, match="wandb is 3, expected a project's name"):
        job.train(MODELS / "text.bin", steps=1, wandb=3)


def test_without_the_package_one_message(tmp_path):
    code = """
import sys
sys.modules["wandb"] = None  # as if it were not installed
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "wandb" else find(name, *more)
from hyc.command import main
sys.exit(main(["train", sys.argv[1], "--data", "a.txt", "-o", sys.argv[2], "--wandb", "p"]))
"""
    done = run_python(code, str(MODELS / "llama"), str(tmp_path / "trained"), env=dict(os.environ))
    assert done.returncode == 69
    assert done.stderr == "hyc train: error: wandb is asked for and not installed; pip install wandb, or leave it out\n"
    assert not (tmp_path / "trained").exists()
