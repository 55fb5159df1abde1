"""What hyc.Trainer does between steps, beside transformers' own: evaluations, checkpoints, the best of them, and going on from one.
Ranks are stood in for, so that nothing is compiled."""

import json
import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import hyc
from hyc.epochs import Course, Place
from hyc.pauses import Pauses
from test_trainer_loop import Listener, Recording, make, numbered, ranks, states_in

WITHIN = {"max_steps": 7, "eval_strategy": "steps", "eval_steps": 2}
SAVED = {"save_strategy": "steps", "save_steps": 2}


def trained(folder, data=None, callbacks=(), flags=None, kind=hyc.Trainer, resume=None, **given):
    flags = {"eval_dataset": numbered(8), **(flags or {})}
    trainer = make(kind, folder, numbered(16) if data is None else data, callbacks, flags, **given)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def checkpoints_in(folder):
    return sorted(path.name for path in folder.iterdir())


class Fails(transformers.TrainerCallback):
    """Interrupts a training, as a crash does."""

    def on_step_begin(self, args, state, control, **given):
        if state.global_step == 5:
            raise InterruptedError


@pytest.mark.parametrize(
    "given",
    [
        {**WITHIN, **SAVED, "logging_steps": 3},
        {"num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "epoch", "include_num_input_tokens_seen": "all"},
    ],
    ids=["steps", "epochs"],
)
def test_what_goes_on_is_what_goes_on_in_transformers(ranks, given, tmp_path):
    found = []
    for kind in (Recording, hyc.Trainer):
        folder = tmp_path / kind.__name__
        with pytest.raises(InterruptedError):
            trained(folder, callbacks=[Fails()], kind=kind, **given)
        listener = Listener()
        trainer = trained(folder, callbacks=[listener], kind=kind, resume=True, **given)
        logged = [(entry["step"], entry["epoch"], sorted(entry)) for entry in trainer.state.log_history]
        keys = ("global_step", "epoch", "max_steps", "num_train_epochs", "num_input_tokens_seen")
        seen = (trainer.seen if kind is Recording else ranks.job.seen)[4:]
        found.append([listener.heard, logged, [getattr(trainer.state, key) for key in keys], states_in(folder), seen])
    assert found[1] == found[0]
    assert all((path / f"step-{path.name.partition('-')[2]}").is_dir() for path in folder.iterdir())


def test_a_checkpoint_that_was_not_moved_yet_is_gone_on_with(ranks, tmp_path):
    trained(tmp_path, **WITHIN, **SAVED)
    (tmp_path / "hyc-checkpoints").mkdir()
    (tmp_path / "checkpoint-4" / "step-4").rename(tmp_path / "hyc-checkpoints" / "step-4")
    listener = Listener()
    trained(tmp_path, callbacks=[listener], resume=str(tmp_path / "checkpoint-4"), **WITHIN, **SAVED)
    assert listener.heard[1][:2] == ("on_train_begin", 4)
    assert checkpoints_in(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-7"]


def test_a_checkpoint_that_was_being_replaced_is_none(ranks, tmp_path):
    class Own(hyc.Trainer):
        def save_model(self, output_dir=None, _internal_call=False):
            if self.state.global_step == 4:
                raise InterruptedError
            super().save_model(output_dir, _internal_call)

    trained(tmp_path, **WITHIN, **SAVED)
    with pytest.raises(InterruptedError):
        trained(tmp_path, kind=Own, **WITHIN, **SAVED)
    with pytest.raises(hyc.UsageError, match="checkpoint-4', which has no step-N"):
        trained(tmp_path, resume=tmp_path / "checkpoint-4", **WITHIN, **SAVED)
    trained(tmp_path, resume=tmp_path / "checkpoint-2", **WITHIN, **SAVED)
    assert (tmp_path / "checkpoint-4" / "step-4").is_dir()


def test_a_training_that_is_over_is_gone_on_with_to_its_end(ranks, tmp_path):
    for kind in (Recording, hyc.Trainer):
        folder = tmp_path / kind.__name__
        given = {"num_train_epochs": 2, "save_strategy": "epoch"}
        trained(folder, kind=kind, **given)
        trainer = trained(folder, kind=kind, resume=True, **given)
        assert trainer.state.global_step == 8 and trainer.state.log_history[-1]["train_loss"] == 0, kind


@pytest.mark.parametrize(
    "resume, more, says",
    [
        (True, {}, "resume_from_checkpoint is True, but '.*' has no checkpoint of hyc.Trainer"),
        ("nowhere/checkpoint-3", {}, "nowhere/checkpoint-3', which is no folder"),
        ("theirs", {}, "checkpoint-7', which has no step-N of hyc.Trainer.*start from its weights by from_pretrained"),
        (True, {"ignore_data_skip": True}, "ignore_data_skip is True, expected False"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(ranks, resume, more, says, tmp_path):
    if resume == "theirs":
        trained(tmp_path / "theirs", kind=Recording, **WITHIN, **SAVED)
        resume = str(tmp_path / "theirs" / "checkpoint-7")
    with pytest.raises(hyc.UsageError, match=says):
        trained(tmp_path / "ours", resume=resume, **WITHIN, **SAVED, **more)


def test_a_model_alone_is_saved_where_that_is_asked_for(ranks, tmp_path):
    trained(tmp_path, save_only_model=True, **WITHIN, **SAVED)
    assert checkpoints_in(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-7"]
    assert not list(tmp_path.glob("*/step-*"))
    with pytest.raises(hyc.UsageError, match="has no checkpoint of hyc.Trainer"):
        trained(tmp_path, resume=True, **WITHIN, **SAVED)


@pytest.mark.parametrize(
    "given, kept",
    [
        ({**SAVED, "load_best_model_at_end": True}, [2, 4, 6, 7]),
        ({**SAVED, "load_best_model_at_end": True, "save_total_limit": 1}, [4]),
        ({"save_strategy": "best", "metric_for_best_model": "loss"}, [2, 4]),
    ],
    ids=["all", "one", "best"],
)
def test_the_best_model_is_that_of_the_least_loss(ranks, given, kept, tmp_path):
    # Of the stand-in's losses that of step 4 is the least.
    trainer = trained(tmp_path, **WITHIN, **given)
    assert (trainer.state.best_global_step, trainer.state.best_metric) == (4, 1)
    assert trainer.state.best_model_checkpoint == str(tmp_path / "checkpoint-4")
    assert checkpoints_in(tmp_path) == [f"checkpoint-{step}" for step in kept]


def test_a_callback_may_stop_where_a_checkpoint_is_saved(ranks, tmp_path):
    stops = transformers.EarlyStoppingCallback(early_stopping_patience=1)
    trainer = trained(tmp_path, callbacks=[stops], **WITHIN, **SAVED, load_best_model_at_end=True)
    assert [entry["step"] for entry in trainer.state.log_history if "eval_loss" in entry] == [2, 4, 6]
    assert trainer.state.global_step == 6 and trainer.state.log_history[-1]["step"] == 6
    assert checkpoints_in(tmp_path) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]
    with pytest.raises(hyc.UsageError, match="ends the training before its last step, after step 6, .*save a checkpoint of that step"):
        stops = transformers.EarlyStoppingCallback(early_stopping_patience=1)
        trained(tmp_path / "none", callbacks=[stops], **WITHIN, metric_for_best_model="loss")


def accuracy(found):
    return {"accuracy": 0.5}


def test_what_ranks_do_not_evaluate_transformers_does_where_it_is_saved(ranks, tmp_path, recwarn):
    class Own(hyc.Trainer):
        def prediction_step(self, *arguments, **keywords):
            return super().prediction_step(*arguments, **keywords)

    several = {"eval_dataset": {"a": numbered(8), "b": numbered(6)}}
    cases = [
        (hyc.Trainer, {"compute_metrics": accuracy}, {"eval_accuracy"}, "compute_metrics wants predictions"),
        (hyc.Trainer, several, {"eval_a_loss", "eval_b_loss"}, "eval_dataset is several data sets"),
        (Own, {}, {"eval_loss"}, "Own.prediction_step is the script's own"),
    ]
    for kind, flags, keys, says in cases:
        for saves, steps in ((SAVED, {2, 4, 6, 7}), ({}, {7})):
            recwarn.clear()
            trainer = trained(tmp_path, kind=kind, flags=flags, **WITHIN, **saves)
            found = [entry for entry in trainer.state.log_history if any(key.startswith("eval") for key in entry)]
            assert {entry["step"] for entry in found} == steps and keys <= set().union(*found)
            told = [str(each.message) for each in recwarn if "evaluates nothing before the last step" in str(each.message)]
            assert len(told) == (0 if saves else 1) and all(says in each for each in told)


def test_a_loss_that_is_another_than_transformers_is_told(ranks, tmp_path):
    lengths = numbered(12)
    for sample in lengths[8:]:
        sample["labels"] = [-100, *sample["labels"][1:-1], -100]
    with pytest.warns(UserWarning, match="eval_loss is the ranks' in this training, the mean over all that counts, where transformers'"):
        trainer = trained(tmp_path, flags={"eval_dataset": lengths}, **WITHIN)
    found = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert found == [1 + abs(step - 4) / 8 for step in (2, 4, 6, 7)]  # all of one kind


def test_what_a_callback_asks_for_and_ranks_do_not_do_is_told(ranks, tmp_path, recwarn):
    class Asks(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **given):
            control.should_evaluate = control.should_save = state.global_step in (3, 5)

    trained(tmp_path, callbacks=[Asks()], max_steps=7)
    told = [str(each.message) for each in recwarn if "which a callback asks for" in str(each.message)]
    assert len(told) == 2 and all("after step 3" in each for each in told)


def test_epochs_at_whose_ends_no_interval_evaluates_are_refused():
    args = types.SimpleNamespace(eval_strategy="epoch", save_strategy="no", eval_delay=0, eval_steps=None, logging_steps=1, save_steps=500)
    course = Course(12, 4, None, 3)
    ends = [3, 7, 10]
    places = [Place(0, step, step in ends, 0.0, 0) for step in range(1, 13)]
    with pytest.raises(hyc.UsageError, match="epochs end after steps 3, 7, 10, which no fixed interval has.*eval_strategy='steps'"):
        Pauses.of(args, course, places, None)
    args.eval_strategy = "no"
    assert Pauses.of(args, course, places, None).evaluations.every == 0


def test_states_are_what_transformers_reads(ranks, tmp_path):
    trained(tmp_path, **WITHIN, **SAVED)
    assert transformers.trainer_utils.get_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-7")
    state = transformers.trainer_callback.TrainerState.load_from_json(str(tmp_path / "checkpoint-4" / "trainer_state.json"))
    assert state.global_step == 4 and "TrainerControl" in state.stateful_callbacks
    assert json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())["log_history"][-1]["step"] == 4
