"""transformers' events of a training, by what hyc-run tells of its steps: what callbacks hear, when, and of what."""

from __future__ import annotations

import math
import os
import time
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.trainer_callback import ExportableState, TrainerState
from transformers.trainer_utils import TrainOutput, speed_metrics

from .epochs import Course, Place
from .errors import UsageError
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


class Events:
    """Of one training. Those of the last step wait for the trained weights, which evaluations and checkpoints then have."""

    def __init__(self, trainer: Any, course: Course, places: Sequence[Place], loader: Any, ignore_keys: Any) -> None:
        self._trainer, self._course, self._places, self._ignore_keys = trainer, course, places, ignore_keys
        self._losses: list[float] = []
        self._logged = 0
        self._told: set[str] = set()  # of what does not happen within a training
        self._last: Step | None = None
        self._rate = Rate()
        handler = trainer.callback_handler
        handler.model, handler.train_dataloader = trainer.model, loader
        handler.optimizer = handler.lr_scheduler = self._rate
        stateful = [each for each in (*handler.callbacks, trainer.control) if isinstance(each, ExportableState)]
        trainer.state = TrainerState(stateful_callbacks=stateful)
        trainer.state.train_batch_size = trainer._train_batch_size
        trainer.state.compute_steps(trainer.args, course.steps)
        trainer.state.init_training_references(trainer, course.steps, course.epochs, None)
        self._start = time.time()

    def _call(self, event: str) -> None:
        trainer = self._trainer
        trainer.control = getattr(trainer.callback_handler, event)(trainer.args, trainer.state, trainer.control)

    def begin(self) -> None:
        """The training, and its first step."""
        self._start = time.time()
        self._call("on_train_begin")
        if self._trainer.args.eval_on_start:
            self._trainer.evaluate(ignore_keys=self._ignore_keys)
        self._begin_step(0)

    def _begin_step(self, index: int) -> None:
        if self._places[index].step == 1:
            self._call("on_epoch_begin")
        self._call("on_step_begin")

    def hear(self, step: Step) -> None:
        """Of a step that has ended."""
        if step.step == self._course.steps:
            self._last = step
            return
        self._end_step(step)
        if self._places[step.step - 1].ends_epoch:
            self._end_epoch(step)
        self._pass_over(step.step)
        self._refuse_an_end(step.step)
        self._begin_step(step.step)

    def _end_step(self, step: Step) -> None:
        state, place = self._trainer.state, self._places[step.step - 1]
        self._losses.append(step.loss)
        self._rate.hear(step)
        state.global_step, state.epoch = step.step, self._course.progress(place.epoch, place.step)
        state.total_flos, state.num_input_tokens_seen = place.flos, place.tokens
        self._call("on_step_end")
        self._log(step)

    def _end_epoch(self, step: Step) -> None:
        self._call("on_epoch_end")
        self._log(step)

    def _log(self, step: Step) -> None:
        if not self._trainer.control.should_log or len(self._losses) == self._logged:
            return
        mean = sum(self._losses[self._logged :]) / (len(self._losses) - self._logged)
        self._logged = len(self._losses)
        logs = {"loss": mean, "grad_norm": step.grad_norm, "learning_rate": step.lr}
        self._trainer.log(logs, self._start)

    def _pass_over(self, step: int) -> None:
        """What callbacks ask for within the training and does not happen; the first time it is told."""
        control = self._trainer.control
        asked = {"evaluation": control.should_evaluate, "checkpoint": control.should_save}
        control.should_evaluate = control.should_save = False
        passed = [what for what, wanted in asked.items() if wanted and what not in self._told]
        self._told.update(passed)
        if passed:
            warnings.warn(
                f"hyc.Trainer makes no {' and no '.join(passed)} within the training, as after step {step}: the trained model is "
                "saved at its end, and trainer.evaluate() evaluates it",
                stacklevel=2,
            )

    def _refuse_an_end(self, step: int) -> None:
        control = self._trainer.control
        if control.should_training_stop or (control.should_epoch_stop and not self._places[step - 1].ends_epoch):
            what = "training" if control.should_training_stop else "epoch"
            raise UsageError(f"a callback ends the {what} before its last step, which hyc.Trainer cannot: give max_steps")

    def end(self) -> TrainOutput:
        """The last step, whose weights the model has, and the training."""
        trainer, step = self._trainer, self._last
        assert step is not None
        self._end_step(step)
        self._evaluate_and_save()
        self._end_epoch(step)
        self._evaluate_and_save()
        metrics = speed_metrics(
            "train", self._start, num_samples=self._course.steps * self._course.per_step, num_steps=self._course.steps
        )
        metrics |= {"total_flos": trainer.state.total_flos, "train_loss": sum(self._losses) / len(self._losses)}
        trainer.log(metrics)
        self._call("on_train_end")
        return TrainOutput(trainer.state.global_step, metrics["train_loss"], metrics)

    def _evaluate_and_save(self) -> None:
        trainer = self._trainer
        if trainer.control.should_evaluate:
            trainer.evaluate(ignore_keys=self._ignore_keys)
        if trainer.control.should_save:
            trainer.save_model(os.path.join(trainer.args.output_dir, f"checkpoint-{self._course.steps}"))
            self._call("on_save")
