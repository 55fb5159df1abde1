"""Evaluations, checkpoints and going on of hyc.Trainer, of trainings that are compiled and run: beside transformers' own, and beside a
training that nothing happened to."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import hyc
from test_trainer import Classifier, collate, make_bert, make_data, make_model, numbers_of_five, rows, tokens

torch.set_num_threads(1)


def make(kind, folder, model, data, held_out, batch=4, collator=None, flags=None, callbacks=(), **more):
    arguments = transformers.TrainingArguments if kind is transformers.Trainer else hyc.TrainingArguments
    given = {
        "output_dir": str(folder), "per_device_train_batch_size": batch, "max_steps": 10, "logging_steps": 1, "learning_rate": 2e-3,
        "save_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 11,
    } | more  # fmt: skip
    return kind(
        model=model, args=arguments(**given), train_dataset=data, eval_dataset=held_out, data_collator=collator,
        callbacks=list(callbacks), **(flags or {}),
    )  # fmt: skip


def losses_of(trainer, name="loss"):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def evaluated(folder, step, model, held_out, collator=None, **given):
    """What transformers' Trainer tells of a checkpoint's weights."""
    model.load_state_dict(transformers.modeling_utils.load_state_dict(folder / f"checkpoint-{step}" / "model.safetensors"), strict=False)
    return make(transformers.Trainer, folder, model, None, held_out, collator=collator, **given).evaluate()


SAVES = {"save_strategy": "steps", "save_steps": 3}


@pytest.mark.parametrize(
    "make_one, data, given",
    [
        (lambda: make_model("llama"), rows(tokens, 40), {}),
        (lambda: make_bert(num_labels=3), rows(lambda at, _: at % 3, 40), {}),
        (lambda: make_bert(num_labels=1), rows(lambda at, _: at / 10, 40), {"samples": 16}),
        (Classifier, numbers_of_five(40), {"samples": 16}),
    ],
    ids=["tokens", "classes", "numbers", "own loss"],
)
def test_the_ranks_evaluate_as_transformers_does(make_one, data, given, tmp_path):
    given = dict(given)
    held_out, flags = data[: given.pop("samples", 22)], {"optimize": 0, "dp": 2}
    given |= {"eval_strategy": "steps", "eval_steps": 3}
    theirs = make(transformers.Trainer, tmp_path / "theirs", make_one(), data, held_out, batch=8, **given)
    ours = make(hyc.Trainer, tmp_path / "ours", make_one(), data, held_out, flags=flags, **given, **SAVES)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "eval_loss is the ranks'")
        theirs.train()
        ours.train()
    assert losses_of(ours) == pytest.approx(losses_of(theirs), abs=1e-4)
    found = losses_of(ours, "eval_loss")
    assert len(found) == 4 and found == pytest.approx(losses_of(theirs, "eval_loss"), abs=1e-4)
    same = [evaluated(tmp_path / "ours", step, make_one(), held_out)["eval_loss"] for step in (3, 6, 9, 10)]
    assert found == pytest.approx(same, abs=2e-6)


def accuracy(found):
    scores, labels = torch.tensor(found.predictions)[:, :-1], torch.tensor(found.label_ids)[:, 1:]
    return {"accuracy": (scores.argmax(-1) == labels)[labels != -100].float().mean().item()}


def test_transformers_evaluates_what_is_saved_where_its_loss_or_metric_is_another(tmp_path):
    held_out = make_data(22)
    given = {"eval_strategy": "steps", "eval_steps": 3, "load_best_model_at_end": True, "metric_for_best_model": "accuracy"}
    ours = make(
        hyc.Trainer, tmp_path, make_model("llama"), make_data(), held_out, collator=collate, flags={"compute_metrics": accuracy},
        learning_rate=2e-2, **given, **SAVES,
    )  # fmt: skip
    ours.train()
    metrics = [entry for entry in ours.state.log_history if "eval_loss" in entry]
    for entry in metrics:
        same = evaluated(tmp_path, entry["step"], make_model("llama"), held_out, collator=collate)
        assert entry["eval_loss"] == pytest.approx(same["eval_loss"], abs=1e-6)
    best = max(metrics, key=lambda entry: entry["eval_accuracy"])  # the first of several
    assert len({entry["eval_accuracy"] for entry in metrics}) > 1
    assert ours.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{best['step']}")
    saved = transformers.LlamaForCausalLM.from_pretrained(ours.state.best_model_checkpoint)
    for (name, a), (_, b) in zip(saved.named_parameters(), ours.model.named_parameters()):
        assert torch.equal(a, b), name


class Ends(transformers.TrainerCallback):
    """In a way of its own, when step 8 has ended and all checkpoints before are there."""

    def __init__(self, way):
        self.way = way

    def on_step_end(self, args, state, control, **given):
        if state.global_step == 8:
            self.way()


def fails():
    raise InterruptedError


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def training(folder, callbacks=(), **more):
    """With dropout, an optimizer that has states, and accumulation."""
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=96, n_layer=1, n_embd=32, n_head=4, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    given = {"gradient_accumulation_steps": 2, "lr_scheduler_type": "cosine", "max_steps": 12, **SAVES, "save_total_limit": 2} | more
    model = transformers.GPT2LMHeadModel(config)
    return make(hyc.Trainer, folder, model, make_data(), make_data(8), 2, collate, {"optimize": 0, "dp": 2}, callbacks, **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nothing happened to."""
    trainer = training(tmp_path_factory.mktemp("whole"))
    trainer.train()
    return trainer


@pytest.mark.parametrize("way", ["fails", "is_killed"])
def test_a_training_that_was_interrupted_goes_on_as_one_that_was_not(way, whole, tmp_path):
    if way == "fails":
        with pytest.raises(InterruptedError):
            training(tmp_path, [Ends(fails)]).train()
    else:
        here = pathlib.Path(__file__).parent
        script = f"import sys; sys.path.insert(0, {str(here)!r})\nfrom test_trainer_checkpoints import *\ntraining(sys.argv[1], [Ends(is_killed)]).train()"
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False, timeout=300)
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {"checkpoint-3", "checkpoint-6"}
    assert way == "is_killed" or not (tmp_path / "hyc-checkpoints").exists()
    trainer = training(tmp_path)
    output = trainer.train(resume_from_checkpoint=True)
    assert losses_of(trainer) == losses_of(whole) and len(losses_of(whole)) == 12
    assert output.training_loss == pytest.approx(sum(losses_of(whole)[6:]) / 6)
    for (name, a), (_, b) in zip(whole.model.named_parameters(), trainer.model.named_parameters()):
        assert torch.equal(a, b), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-12", "checkpoint-9"]
    states = [json.loads((pathlib.Path(t.args.output_dir) / "checkpoint-9" / "trainer_state.json").read_text()) for t in (whole, trainer)]
    assert states[1]["log_history"] == states[0]["log_history"]


def test_a_checkpoint_of_another_training_is_refused_as_by_hyc_run(whole):
    folder = pathlib.Path(whole.args.output_dir)
    with pytest.raises(hyc.DataError, match="is of a run on 96"):
        training(folder, max_steps=14).train(resume_from_checkpoint=str(folder / "checkpoint-9"))
    other = training(folder)
    other.model = make_model("llama")
    with pytest.raises(hyc.DataError, match="is no checkpoint of this model and optimizer"):
        other.train(resume_from_checkpoint=str(folder / "checkpoint-9"))


def test_weights_of_a_checkpoint_are_those_that_were_saved(whole):
    folder = pathlib.Path(whole.args.output_dir) / "checkpoint-9"
    saved = transformers.GPT2LMHeadModel.from_pretrained(folder).state_dict()
    found = whole.job.state_dict(folder / "step-9")
    assert found.keys() == saved.keys() and all(torch.equal(found[name], saved[name]) for name in saved)
