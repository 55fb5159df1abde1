"""hyc.Trainer: transformers' Trainer whose training loop is compiled. Data, collator, sampling, callbacks, logging and saving stay
transformers'; forward, backward and the optimizer are hyc's, on any mesh."""

from __future__ import annotations

import contextlib
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
import transformers
from transformers.trainer_utils import TrainOutput, set_seed

from . import datasets, losses, overrides, settings
from .arguments import Settings, TrainingArguments
from .checkpoints import Checkpoints, Resumed
from .epochs import Course, Row, Samples, rows_an_epoch
from .errors import HycError, TraceError, UsageError
from .events import Between, Events, Stopped
from .held_out import HeldOut, way_of
from .job import Job
from .job import compile as compile_model
from .padding import Padding
from .pauses import Pauses
from .run import temporary_folder

_HELD_OUT = "eval_dataset.safetensors"  # as messages call it, too

__all__ = ["Trainer", "TrainingArguments"]


def _checkpointing_in(model: torch.nn.Module) -> list[Any]:
    """Modules that compute activations again, by torch."""
    return [module for module in model.modules() if getattr(module, "gradient_checkpointing", False) is True]


@contextlib.contextmanager
def _without_checkpointing(model: torch.nn.Module) -> Iterator[None]:
    """The time in which a model is traced: what is computed again is a question of hyc's plan."""
    found = _checkpointing_in(model)
    for module in found:
        module.gradient_checkpointing = False
    try:
        yield
    finally:
        for module in found:
            module.gradient_checkpointing = True


def _shapes(sample: Row) -> dict[str, tuple[Any, ...]]:
    return {name: (value.dtype, *value.shape) for name, value in sample.items()}


class Trainer(transformers.Trainer):  # type: ignore[misc]
    """A drop-in for transformers.Trainer.

    Takes what that takes, and flags of hyc-compile as keywords: tp=2, dp=2, zero=3, recompute="layer". `sequence` is the length
    that a causal model's samples are padded to; by default the longest there is, in steps of 8. Of several, as [128, 256, 512],
    each step takes the smallest that its samples fit in. Others keep the length that the tokenizer and the collator give them.
    per_device_train_batch_size is a rank's micro-batch: a step has per_device_train_batch_size × gradient_accumulation_steps × dp
    samples, whether dp is a flag or what the planner chose for ranks=.
    """

    def __init__(self, *arguments: Any, sequence: int | Sequence[int] | None = None, **keywords: Any) -> None:
        flags = settings.of_compile()
        self._flags = {name: keywords.pop(name) for name in list(keywords) if name in flags}
        self._sequences = [sequence] if isinstance(sequence, int) else list(sequence or [])
        self.job: Job | None = None
        super().__init__(*arguments, **keywords)

    def train(
        self, resume_from_checkpoint: Any = None, trial: Any = None, ignore_keys_for_eval: list[str] | None = None
    ) -> TrainOutput:
        """Trains on native ranks, and gives the model the trained weights."""
        self._refuse(trial)
        resumed = Resumed.of(resume_from_checkpoint, self.args)
        set_seed(self.args.seed)
        if self.model_init is not None:
            self.model = self.model_wrapped = self.call_model_init(trial)
        self._train_batch_size = self.args.per_device_train_batch_size
        self._initial_num_input_tokens_seen = 0
        self.is_in_train = True
        keeps = temporary_folder()
        path = pathlib.Path(keeps.name) / "train_dataset.safetensors"  # what messages call it
        try:
            loader = self.get_train_dataloader()
            padding = self._padding()
            batch = None if getattr(self.args, "train_sampling_strategy", "") == "batch_rebalance" else self._train_batch_size
            held = HeldOut(self, padding)
            self.callback_handler.train_dataloader = loader
            with contextlib.closing(Samples(loader, batch, padding.look, self._account)) as samples, contextlib.closing(held):
                first = samples.first()
                rows = rows_an_epoch(loader, self._train_batch_size)
                self.job, course, pauses = self._compiled_for(samples, held, rows, padding, first, resumed)
                _tell_of_left_out(course.left_out(self.args, rows), rows, course)
                _write(path, samples, course, padding)
                between = self._between(held, pauses, path.with_name(_HELD_OUT))
                events = Events(self, course, samples.places(course), between, resumed, ignore_keys_for_eval)
            return self._run(path, course, events, between, resumed)
        finally:
            self.is_in_train = False

    def _refuse(self, trial: Any) -> None:
        """What a compiled loop cannot do as transformers' would."""
        args = self.args
        if trial:
            raise UsageError("a trial is given, expected none: hyc.Trainer searches no hyperparameters")
        if args.world_size > 1:
            raise UsageError(
                f"the script runs in {args.world_size} processes, expected one: hyc.Trainer starts the ranks itself, as many as dp=, tp= "
                "or ranks= say"
            )
        overrides.refuse(self, Trainer)
        overrides.refuse_callbacks(self.callback_handler.callbacks, args.gradient_accumulation_steps > 1)
        if self.optimizer is not None or self.lr_scheduler is not None or self.compute_loss_func is not None:
            raise UsageError("optimizers or compute_loss_func are given, expected settings: a compiled step has hyc's")
        if self._sequences and not losses.is_causal(self.model):
            raise UsageError(
                f"sequence is given, but {type(self.model).__name__} is no causal model, whose tokens could be padded unseen; "
                "let the tokenizer pad, with padding='max_length' and max_length"
            )
        if args.label_smoothing_factor or args.neftune_noise_alpha:
            raise UsageError(
                "label_smoothing_factor and neftune_noise_alpha are no part of a compiled step, expected 0"
            )

    def _padding(self) -> Padding:
        pad_token = getattr(self.processing_class, "pad_token_id", None) or 0
        return Padding(self.model, self._sequences, pad_token, self._flags.get("loss"))

    def _account(self, batch: Mapping[str, Any]) -> tuple[float, int]:
        """The operations and the tokens of a batch, as transformers counts them."""
        state = self.state
        state.num_input_tokens_seen = 0
        self._track_num_input_tokens(batch)
        return float(self.floating_point_ops(batch)), int(state.num_input_tokens_seen)

    def _compiled_for(
        self, samples: Samples, held: HeldOut, rows: int | None, padding: Padding, first: Row, resumed: Resumed | None
    ) -> tuple[Job, Course, Pauses]:
        """The programs, the steps that they train, and those that something is due after.

        The planner decides how many samples a step has, since dp is its own; how many steps there are follows from that, and how many
        samples have to be read; and by their length, and a warm-up that is a part of all steps, models are compiled. So a first guess
        is compiled, and, where the plan has another dp than that and anything depends on it, what the plan says.
        """
        asked = Settings.of(self, self._flags)
        dp = self._flags.get("dp")
        batch = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps
        per_step = batch * (dp if isinstance(dp, int) else 1)
        job: Job | None = None
        made: object = None
        for _ in range(3):
            course = Course.of(self.args, rows, per_step)
            samples.read(course)
            pauses = Pauses.of(self.args, course, samples.places(course), resumed.state if resumed else None)
            if pauses.evaluations.steps:  # by whose samples' length the model is compiled, too
                held.read()
            sample, scheduled = padding.padded(first), asked.scheduled(self.args, course.steps)
            if job is None or made != (scheduled, _shapes(sample)):
                job = self._compiled(sample, padding.loss, scheduled)
                made = (scheduled, _shapes(sample))
            if job.plan.global_batch == per_step:
                return job, course, pauses
            per_step = job.plan.global_batch
        raise UsageError(f"the planner has another dp for each length of the training, the last {course.steps} steps; give dp=")

    def _compiled(self, sample: Row, loss: str, asked: Settings) -> Job:
        """The programs, of a model in the mode that transformers trains in. Where forward computes the loss it is given the labels;
        where hyc finds it there, the rest of what forward returns is left out."""
        computes = loss not in losses.BUILT_IN
        example = {
            name: torch.from_numpy(numpy.zeros((1, *value.shape), value.dtype))
            for name, value in sample.items()
            if computes or name != "labels"
        }
        lengths = self._sequences if len(set(self._sequences)) > 1 else None
        flags = {name: value for name, value in asked.flags.items() if name != "loss"}
        self.model.to("cpu")
        self.model.train()
        if _checkpointing_in(self.model):
            flags = {"recompute": "layer", **flags}
        finds = self._flags.get("loss") is None
        alone = losses.returning_alone(self.model) if computes and finds else contextlib.nullcontext()
        with _without_checkpointing(self.model), alone:
            try:
                return compile_model(self.model, example, loss=loss, config=asked.config, lengths=lengths, **flags)
            except TraceError as error:
                if isinstance(error.__cause__, UsageError):
                    raise error.__cause__ from None
                raise

    def _between(self, held: HeldOut, pauses: Pauses, file: pathlib.Path) -> Between:
        """What happens between steps, with the file of what the ranks evaluate."""
        assert self.job is not None
        way = way_of(held, self.job, pauses)
        if way.by_ranks:
            held.write(file, self.job)
        return Between(pauses, Checkpoints(self, self.job, pauses.saves.every), held, way)

    def _run(
        self, path: pathlib.Path, course: Course, events: Events, between: Between, resumed: Resumed | None
    ) -> TrainOutput:
        """The run, with transformers' callbacks and its log as it goes."""
        assert self.job is not None
        keywords = between.checkpoints.keywords()
        if between.way.by_ranks:
            every = between.pauses.evaluations.every
            keywords |= {"evaluate_data": path.with_name(_HELD_OUT), "evaluate_every": every}
        if resumed is not None:
            keywords["resume"] = str(resumed.checkpoint)
            with contextlib.suppress(HycError, RuntimeError):  # of a checkpoint that is none of the model's hyc-run tells more
                self.model.load_state_dict(self.job.state_dict(resumed.checkpoint))
        events.begin()
        try:
            run = self.job.train(
                path, steps=course.steps, shuffle=False, seed=self.args.seed, on_step=events.hear, on_event=events.hear_of, **keywords
            )
            self.model.load_state_dict(run.state_dict())
        except Stopped:
            pass
        except HycError:  # among them that another training has the folder
            raise
        except BaseException:
            between.checkpoints.close()
            raise
        output = events.end()
        between.checkpoints.close()
        self._finish_current_push()
        return output


def _tell_of_left_out(count: int, rows: int | None, course: Course) -> None:
    if count:
        warnings.warn(
            f"{count} of the {rows} samples of an epoch of train_dataset fill no step of {course.per_step} and are left out, as with "
            "dataloader_drop_last",
            stacklevel=3,
        )


def _write(path: pathlib.Path, samples: Samples, course: Course, padding: Padding) -> None:
    """The file of all that the steps read, in order."""
    writer: datasets.SampleWriter | None = None
    try:
        for row in samples.rows(course):
            sample = padding.padded(row)
            writer = writer or datasets.SampleWriter(path, course.steps * course.per_step, sample)
            writer.add(sample)
    finally:
        if writer is not None:
            writer.close()
