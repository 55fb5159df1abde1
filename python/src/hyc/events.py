"""transformers' events of a training, by what hyc-run tells of its steps: what callbacks hear, when, and of what."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.trainer_callback import ExportableState, TrainerState
from transformers.trainer_utils import TrainOutput, compare_trainer_and_checkpoint_args, speed_metrics

from .checkpoints import Checkpoints, Resumed
from .epochs import Course, Place
from .errors import UsageError
from .held_out import HeldOut, Way
from .pauses import Pauses
from .run import Step


class Rate:
    """What callbacks are given as optimizer and as lr_scheduler: the learning rate, to be read. All else of both is the ranks'."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = math.nan

    def hear(self, step: Step) -> None:
        """Of the newest step."""
        object.__setattr__(self, "_value", math.nan if step.lr is None else step.lr)

    def get_last_lr(self) -> list[float]:
        """Of the step that has ended last; NaN before the first has."""
        return [self._value]

    @property
    def param_groups(self) -> tuple[Mapping[str, float], ...]:
        """One, and its rate."""
        return (types.MappingProxyType({"lr": self._value}),)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"hyc.Trainer's optimizer and lr_scheduler have no {name!r}: they are the ranks', and tell callbacks their learning rate, by "
            "get_last_lr() and param_groups"
        )


@dataclasses.dataclass(frozen=True)
class Between:
    """What happens between the steps of a training."""

    pauses: Pauses
    checkpoints: Checkpoints
    held: HeldOut
    way: Way


class Stopped(Exception):
    """A callback has ended the training after a step whose weights the model has."""


class Events:
    """Of one training. A step is told when all that belongs to it is there: its evaluation, and its checkpoint, of which the run tells
    after later steps. What belongs to the last step waits for the trained weights."""

    def __init__(
        self, trainer: Any, course: Course, places: Sequence[Place], between: Between, resumed: Resumed | None, ignore_keys: Any
    ) -> None:
        self._trainer, self._course, self._places, self._ignore_keys = trainer, course, places, ignore_keys
        self._pauses, self._checkpoints = between.pauses, between.checkpoints
        self._held, self._way = between.held, between.way
        self._losses: list[float] = []
        self._logged = 0
        self._told: set[str] = set()  # of what does not happen within a training
        self._rate = Rate()
        self._steps: collections.deque[Step] = collections.deque()  # not told yet
        self._evaluations: dict[int, Step] = {}
        self._written: set[int] = set()  # checkpoints
        self._has_weights = 0  # the step whose weights the model has, of those before the last
        self._saved = 0
        self._set_state(resumed)
        self._first = trainer.state.global_step
        self._start = time.time()

    def _set_state(self, resumed: Resumed | None) -> None:
        """transformers' state when a training begins, or goes on."""
        trainer, course = self._trainer, self._course
        handler = trainer.callback_handler
        if resumed is None:
            stateful = [each for each in (*handler.callbacks, trainer.control) if isinstance(each, ExportableState)]
            trainer.state = TrainerState(stateful_callbacks=stateful)
            trainer.state.train_batch_size = trainer._train_batch_size
            trainer.state.compute_steps(trainer.args, course.steps)
        else:
            trainer.state = resumed.state
            compare_trainer_and_checkpoint_args(trainer.args, trainer.state)
            trainer._load_callback_state()
        trainer.state.init_training_references(trainer, course.steps, course.epochs, None)
        trainer._initial_num_input_tokens_seen = trainer.state.num_input_tokens_seen
        handler.model, handler.optimizer, handler.lr_scheduler = trainer.model, self._rate, self._rate

    def _call(self, event: str) -> None:
        trainer = self._trainer
        trainer.control = getattr(trainer.callback_handler, event)(trainer.args, trainer.state, trainer.control)

    def begin(self) -> None:
        """The training, and its first step."""
        self._start = time.time()
        self._call("on_train_begin")
        if self._trainer.args.eval_on_start:
            self._evaluate_here()
        if self._first < self._course.steps:
            self._call("on_epoch_begin")
            self._call("on_step_begin")

    def hear(self, step: Step) -> None:
        """Of a step that has ended, or an evaluation behind one."""
        if step.is_evaluation:
            self._evaluations[step.step] = step
        else:
            self._steps.append(step)
        self._tell_whole()

    def hear_of(self, event: Mapping[str, Any]) -> None:
        """Of what else the run tells."""
        if event["event"] == "checkpoint":
            self._written.add(int(event["step"]))
            self._tell_whole()

    def _tell_whole(self) -> None:
        while self._steps and self._is_whole(self._steps[0].step):
            self._tell(self._steps.popleft())

    def _is_whole(self, step: int) -> bool:
        """Whether nothing more is to come. The next step comes after an evaluation, be it one that was left out."""
        every = self._pauses.evaluations.every if self._way.by_ranks else 0
        waits = every > 0 and step % every == 0 and step not in self._evaluations and len(self._steps) == 1
        return not waits and step < self._course.steps and (not self._checkpoints.is_due(step) or step in self._written)

    def _tell(self, step: Step) -> None:
        """All events of a step before the last, and the begin of the next."""
        self._end_step(step)
        if self._places[step.step - 1].ends_epoch or (self._trainer.control.should_training_stop and self._saved == step.step):
            self._end_epoch(step)
        if self._checkpoints.is_due(step.step):
            self._checkpoints.drop(step.step)
        self._refuse_an_end(step.step)
        if self._places[step.step].step == 1:
            self._call("on_epoch_begin")
        self._call("on_step_begin")

    def _end_step(self, step: Step) -> None:
        state, place = self._trainer.state, self._places[step.step - 1]
        self._losses.append(step.loss)
        self._rate.hear(step)
        state.global_step, state.epoch = step.step, self._course.progress(place.epoch, place.step)
        state.total_flos, state.num_input_tokens_seen = place.flos, place.tokens
        self._call("on_step_end")
        self._log_evaluate_and_save(step)

    def _end_epoch(self, step: Step) -> None:
        self._call("on_epoch_end")
        self._log_evaluate_and_save(step)

    def _log_evaluate_and_save(self, step: Step) -> None:
        """What callbacks want after a step, in transformers' order."""
        trainer = self._trainer
        self._log(step)
        if trainer.control.should_evaluate:
            metrics = self._evaluate(step.step)
            is_best = metrics is not None and trainer._determine_best_metric(metrics=metrics, trial=None)
            if str(getattr(trainer.args.save_strategy, "value", trainer.args.save_strategy)) == "best":
                trainer.control.should_save = is_best
        if trainer.control.should_save:
            self._save(step.step)

    def _log(self, step: Step) -> None:
        if not self._trainer.control.should_log or len(self._losses) == self._logged:
            return
        mean = sum(self._losses[self._logged :]) / (len(self._losses) - self._logged)
        self._logged = len(self._losses)
        logs = {"loss": mean, "grad_norm": step.grad_norm, "learning_rate": step.lr}
        self._trainer.log(logs, self._start)

    def _evaluate(self, step: int) -> dict[str, float] | None:
        """By the ranks, or by transformers where the model has the weights; None, and a warning, where neither can be."""
        trainer, is_last = self._trainer, step == self._course.steps
        line = self._evaluations.get(step)
        if line is not None and (self._way.also_last or (self._way.by_ranks and not is_last)):
            metrics = self._held.metrics(line)
            self._held.tell_progress(self._call)
            trainer.log(metrics)
            trainer.control = trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, metrics)
            return metrics
        if is_last or self._load(step):
            found = self._evaluate_here()
            if not is_last:
                trainer.model.train()
            return found
        self._pass_over("evaluation", step)
        return None

    def _evaluate_here(self) -> dict[str, float]:
        """transformers' evaluation of the model as it is, which has been prepared by then within a training."""
        trainer = self._trainer
        if not trainer.accelerator._models:
            trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
        metrics: dict[str, float] = trainer.evaluate(ignore_keys=self._ignore_keys)
        return metrics

    def _save(self, step: int) -> None:
        if step != self._course.steps and not self._load(step):
            self._pass_over("checkpoint", step)
            return
        self._checkpoints.save(step)
        self._saved = step
        self._call("on_save")

    def _load(self, step: int) -> bool:
        """Gives the model the weights of a step, where a checkpoint has them."""
        if self._has_weights != step and step in self._written:  # what else lies there is another training's
            self._checkpoints.load(step)
            self._has_weights = step
        return self._has_weights == step

    def _pass_over(self, what: str, step: int) -> None:
        """What callbacks ask for and does not happen; the first time it is told."""
        setattr(self._trainer.control, "should_evaluate" if what == "evaluation" else "should_save", False)
        if what in self._told or (what == "evaluation" and step in self._pauses.evaluations.steps):  # of which way_of has told
            return
        self._told.add(what)
        kind = "eval" if what == "evaluation" else "save"
        warnings.warn(
            f"hyc.Trainer makes no {what} after step {step}, which a callback asks for: ranks do not wait, and do what {kind}_strategy and "
            f"{kind}_steps say",
            stacklevel=2,
        )

    def _refuse_an_end(self, step: int) -> None:
        control = self._trainer.control
        if control.should_training_stop and self._saved == step:
            self._steps.clear()
            raise Stopped
        if control.should_training_stop or (control.should_epoch_stop and not self._places[step - 1].ends_epoch):
            what, way_out = "epoch", "give max_steps"
            if control.should_training_stop:
                what, way_out = "training", "save a checkpoint of that step (save_strategy, save_steps), or give max_steps"
            raise UsageError(f"a callback ends the {what} before its last step, after step {step}, which hyc.Trainer cannot: {way_out}")

    def end(self) -> TrainOutput:
        """The last step, whose weights the model has, unless the training was stopped before or had none left; and the training."""
        trainer, args, state = self._trainer, self._trainer.args, self._trainer.state
        while self._steps:
            step = self._steps.popleft()
            if step.step < self._course.steps:
                self._tell(step)
                continue
            self._end_step(step)
            self._end_epoch(step)
        trained = state.global_step - self._first
        metrics = speed_metrics("train", self._start, num_samples=trained * self._course.per_step, num_steps=trained)
        metrics |= {"total_flos": state.total_flos, "train_loss": sum(self._losses) / max(len(self._losses), 1)}
        trainer.log(metrics)
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            trainer._load_best_model()
        self._checkpoints.prune_at_end()
        self._call("on_train_end")
        return TrainOutput(state.global_step, metrics["train_loss"], metrics)
