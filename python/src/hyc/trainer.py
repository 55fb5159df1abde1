"""hyc.Trainer: transformers' Trainer whose training loop is compiled. Data, collator, sampling, callbacks, logging and saving stay
transformers'; forward, backward and the optimizer are hyc's, on any mesh."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy
import torch
import transformers
from transformers.trainer_utils import TrainOutput, set_seed

from . import datasets, losses, settings
from .errors import DataError, TraceError, UsageError
from .job import Job, read_config
from .job import compile as compile_model
from .run import Step, temporary_folder

_UNCOUNTED = -100
_OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw", "sgd": "sgd"}
# transformers' schedules: hyc's name, and whether warmup_steps count.
_SCHEDULES = {
    "constant": ("constant", False),
    "constant_with_warmup": ("constant", True),
    "linear": ("linear", True),
    "cosine": ("cosine", True),
}
_LENGTHS = ("max_position_embeddings", "n_positions")


@dataclasses.dataclass
class TrainingArguments(transformers.TrainingArguments):  # type: ignore[misc]
    """transformers' own, but `deepspeed=` needs no DeepSpeed: hyc reads the configuration."""

    def __post_init__(self) -> None:
        self.hyc_config: Any = self.deepspeed  # type: ignore[has-type]
        self.deepspeed = None
        super().__post_init__()


def _config_of(args: Any) -> dict[str, Any]:
    """The DeepSpeed configuration that training arguments name, or an empty one."""
    given = getattr(args, "hyc_config", None) or args.deepspeed
    if not given:
        return {}
    if isinstance(given, Mapping):
        return json.loads(json.dumps(given))  # type: ignore[no-any-return]
    return read_config(given, "deepspeed")


def _is_open(config: Mapping[str, Any], *keys: str) -> bool:
    """Whether a configuration leaves a value to the training arguments: "auto", or nothing."""
    value: Any = config
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return True
        value = value[key]
    return bool(value == "auto")


def _counts_padding(sample: Mapping[str, numpy.ndarray]) -> bool:
    """Whether a position that the mask leaves out has a label that counts: its loss depends on what it sees."""
    mask, labels = sample.get("attention_mask"), sample["labels"]
    return mask is not None and mask.shape == labels.shape and bool(numpy.any((mask == 0) & (labels != _UNCOUNTED)))


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


class Trainer(transformers.Trainer):  # type: ignore[misc]
    """A drop-in for transformers.Trainer.

    Takes what that takes, and flags of hyc-compile as keywords: tp=2, dp=2, zero=3, recompute="layer". `sequence` is the length
    that a causal model's samples are padded to; by default the longest there is, in steps of 8. Of several, as [128, 256, 512],
    each step takes the smallest that its samples fit in. Others keep the length that the tokenizer and the collator give them.
    per_device_train_batch_size is a rank's micro-batch: a step has per_device_train_batch_size × gradient_accumulation_steps × dp
    samples.
    """

    def __init__(self, *arguments: Any, sequence: int | Sequence[int] | None = None, **keywords: Any) -> None:
        flags = settings.of_compile()
        self._flags = {name: keywords.pop(name) for name in list(keywords) if name in flags}
        self._sequences = [sequence] if isinstance(sequence, int) else list(sequence or [])
        self.job: Job | None = None
        self._told: set[str] = set()  # of what does not happen within a training
        super().__init__(*arguments, **keywords)

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None, **keywords: Any) -> TrainOutput:
        """Trains on native ranks, and gives the model the trained weights."""
        self._refuse(resume_from_checkpoint, trial)
        begin = time.time()
        args = self.args
        set_seed(args.seed)
        flags, config = self._settings()
        config_batch = args.per_device_train_batch_size
        ranks = int(flags.get("dp") or 1)
        self._train_batch_size = config_batch * ranks
        per_step = config_batch * ranks * args.gradient_accumulation_steps
        samples, steps = self._samples(per_step)
        self._set_schedule(flags, config, steps)
        given = flags.pop("loss", None)
        loss = given or losses.of(self.model, samples[0]["labels"])
        samples = self._padded(samples, loss)
        keeps = temporary_folder()
        self.job = self._compiled(samples[0], loss, given is None, config, flags)
        path = pathlib.Path(keeps.name) / "data.safetensors"
        writer = datasets.SampleWriter(path, len(samples), samples[0])
        for sample in samples:
            writer.add(sample)
        writer.close()
        steps_losses = self._run(self.job, path, steps, per_step)
        metrics = {
            "train_runtime": round(time.time() - begin, 4),
            "train_loss": sum(steps_losses) / max(len(steps_losses), 1),
            "epoch": self.state.epoch,
        }
        self.log(metrics)
        self.control = self.callback_handler.on_train_end(args, self.state, self.control)  # type: ignore[has-type]
        return TrainOutput(self.state.global_step, metrics["train_loss"], metrics)

    def _refuse(self, resume_from_checkpoint: Any, trial: Any) -> None:
        """What a compiled loop cannot do as transformers' would."""
        args = self.args
        if resume_from_checkpoint or trial:
            raise UsageError("hyc.Trainer trains from the model's weights; resume by job.train(resume=…)")
        for name in ("compute_loss", "training_step", "create_optimizer", "create_scheduler"):
            if getattr(type(self), name) is not getattr(transformers.Trainer, name):
                raise UsageError(
                    f"{type(self).__name__}.{name} is the script's own, which a compiled step does not call"
                )
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

    def _settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Flags and a configuration of what the training arguments say; what either says already wins."""
        args, config = self.args, _config_of(self.args)
        flags: dict[str, Any] = {}

        def default(name: str, value: Any, *keys: str) -> None:
            if _is_open(config, *keys):
                flags[name] = value

        default("micro_batch", args.per_device_train_batch_size, "train_micro_batch_size_per_gpu")
        default("grad_accum", args.gradient_accumulation_steps, "gradient_accumulation_steps")
        default("clip_grad_norm", float(args.max_grad_norm or 0), "gradient_clipping")
        if args.bf16 or args.fp16:
            flags["precision"] = "bf16" if args.bf16 else "fp16"
        if args.gradient_checkpointing:
            flags["recompute"] = "layer"
        self._set_optimizer(flags, config)
        flags.update(self._flags)
        return flags, config

    def _set_optimizer(self, flags: dict[str, Any], config: dict[str, Any]) -> None:
        args = self.args
        if "optimizer" not in config:
            kind = _OPTIMIZERS.get(str(getattr(args.optim, "value", args.optim)))
            if kind is None:
                raise UsageError(f"optim is {args.optim}, expected one of {', '.join(_OPTIMIZERS)}")
            config["optimizer"] = {"type": kind, "params": {}}
        params = config["optimizer"].setdefault("params", {})
        own = {"lr": args.learning_rate, "weight_decay": args.weight_decay}
        if str(config["optimizer"].get("type", "")).lower() != "sgd":
            own |= {"betas": [args.adam_beta1, args.adam_beta2], "eps": args.adam_epsilon}
        for name, value in own.items():
            if _is_open(params, name):
                params[name] = value
        if "scheduler" not in config and self._schedule() not in _SCHEDULES:
            raise UsageError(f"lr_scheduler_type is {self._schedule()}, expected one of {', '.join(_SCHEDULES)}")
        if "scheduler" not in config and args.lr_scheduler_kwargs:
            raise UsageError(
                f"lr_scheduler_kwargs is {args.lr_scheduler_kwargs}, expected none: a compiled step has its schedule's own shape"
            )
        if params.get("weight_decay"):
            decays = set(self.get_decay_parameter_names(self.model))
            others = [name for name, _ in self.model.named_parameters() if name not in decays]
            if others:
                flags["no_decay"] = [f"^{re.escape(name)}$" for name in others]

    def _schedule(self) -> str:
        return str(getattr(self.args.lr_scheduler_type, "value", self.args.lr_scheduler_type))

    def _set_schedule(self, flags: dict[str, Any], config: dict[str, Any], steps: int) -> None:
        """That of the training arguments, or what a configuration's leaves to them. A warm-up may be a part of all steps."""
        args = self.args
        warmup = int(args.get_warmup_steps(steps))
        if "scheduler" not in config:
            rule, warms = _SCHEDULES[self._schedule()]
            flags.setdefault("lr_schedule", rule)
            if warms and warmup:
                flags.setdefault("warmup_steps", warmup)
            return
        params = (config["scheduler"] or {}).get("params") or {}
        own = {
            "warmup_min_lr": 0,
            "warmup_max_lr": args.learning_rate,
            "warmup_num_steps": warmup,
            "total_num_steps": steps,
        }
        params.update({name: value for name, value in own.items() if params.get(name) == "auto"})

    def _compiled(
        self, sample: Mapping[str, numpy.ndarray], loss: str, finds: bool, config: Any, flags: Mapping[str, Any]
    ) -> Job:
        """The programs, of a model in the mode that transformers trains in. Where forward computes the loss it is given the labels;
        where hyc `finds` it there, the rest of what forward returns is left out."""
        computes = loss not in losses.BUILT_IN
        example = {
            name: torch.from_numpy(numpy.zeros((1, *value.shape), value.dtype))
            for name, value in sample.items()
            if computes or name != "labels"
        }
        lengths = self._sequences if len(set(self._sequences)) > 1 else None
        self.model.to("cpu")
        self.model.train()
        if _checkpointing_in(self.model):
            flags = {"recompute": "layer", **flags}
        alone = losses.returning_alone(self.model) if computes and finds else contextlib.nullcontext()
        with _without_checkpointing(self.model), alone:
            try:
                return compile_model(self.model, example, loss=loss, config=config, lengths=lengths, **flags)
            except TraceError as error:
                if isinstance(error.__cause__, UsageError):
                    raise error.__cause__ from None
                raise

    def _batches(self) -> Iterator[Mapping[str, Any]]:
        """Epoch after epoch, sampled and collated as transformers does."""
        loader = self.get_train_dataloader()
        epoch = 0
        while True:
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(epoch)
            empty = True
            for batch in loader:
                empty = False
                yield batch
            if empty:
                raise DataError("train_dataset has no batch")
            epoch += 1

    def _samples(self, per_step: int) -> tuple[list[dict[str, numpy.ndarray]], int]:
        """What all steps read, in order, and how many there are. The rest of an epoch that fills no step is left out."""
        args = self.args
        known = len(self.train_dataset) if hasattr(self.train_dataset, "__len__") else None
        if known is not None and known < per_step:
            raise DataError(f"train_dataset has {known} samples, expected at least the {per_step} of a step")
        steps_an_epoch = known // per_step if known is not None else None
        if args.max_steps > 0:
            steps = args.max_steps
        elif steps_an_epoch is None:
            raise UsageError("max_steps is missing: train_dataset has no length")
        else:
            steps = max(1, math.floor(args.num_train_epochs * steps_an_epoch))
        samples: list[dict[str, numpy.ndarray]] = []
        in_epoch = 0
        for batch in self._batches():
            rows = self._rows(batch)
            for row in rows:
                if steps_an_epoch is None or in_epoch < steps_an_epoch * per_step:
                    samples.append(row)
                in_epoch += 1
            if known is not None and in_epoch >= known:
                in_epoch = 0
            if len(samples) >= steps * per_step:
                break
        return samples[: steps * per_step], steps

    def _rows(self, batch: Mapping[str, Any]) -> list[dict[str, numpy.ndarray]]:
        arrays = {name: datasets.as_array(value, name) for name, value in batch.items() if value is not None}
        if "labels" not in arrays:
            raise DataError(f"the collator gives {', '.join(arrays)}, expected labels among them")
        return [{name: array[row] for name, array in arrays.items()} for row in range(len(arrays["labels"]))]

    def _padded(self, samples: list[dict[str, numpy.ndarray]], loss: str) -> list[dict[str, numpy.ndarray]]:
        """All of one length, where a causal model's tokens are; labels that are numbers as such.

        What is padded behind a causal model's tokens reaches none of them, so that no mask is needed, unless it carries labels, or
        the loss is the model's own.
        """
        if loss in ("mse", "binary_cross_entropy"):
            return [sample | {"labels": losses.as_scores(sample["labels"], self.model)} for sample in samples]
        if not losses.is_causal(self.model):
            return samples
        sequence = self._sequence_of(max(len(sample["input_ids"]) for sample in samples))
        for index, sample in enumerate(samples):
            mask = sample.get("attention_mask")
            if mask is not None and numpy.any(numpy.diff(mask.astype(numpy.int8)) > 0):
                raise DataError(
                    f"sample {index} is padded in front of its tokens, expected behind them: padding_side='right'"
                )
        is_masked = loss not in losses.BUILT_IN or any(map(_counts_padding, samples))
        return [self._lengthened(sample, sequence, is_masked) for sample in samples]

    def _sequence_of(self, longest: int) -> int:
        positions = [getattr(self.model.config, key) for key in _LENGTHS if getattr(self.model.config, key, None)]
        most = min(positions, default=longest)
        sequence = max(self._sequences, default=0) or min(most, -(-longest // 8) * 8)
        if longest > sequence:
            raise DataError(
                f"the longest sample has {longest} tokens, expected at most {sequence}; cut samples, or give sequence="
            )
        return sequence

    def _lengthened(self, sample: Mapping[str, numpy.ndarray], sequence: int, is_masked: bool) -> dict[str, numpy.ndarray]:
        """With as many tokens as `sequence`, and as much of whatever else is there by token."""
        fills = {"input_ids": getattr(self.processing_class, "pad_token_id", None) or 0, "labels": _UNCOUNTED}
        size = len(sample["input_ids"])
        padded = {}
        for name, array in sample.items():
            if name == "attention_mask" and not is_masked:
                continue
            if array.ndim and len(array) == size:
                longer = numpy.full((sequence, *array.shape[1:]), fills.get(name, 0), array.dtype)
                longer[:size] = array
                array = longer
            padded[name] = array
        return padded

    def _run(self, job: Job, path: "os.PathLike[str]", steps: int, per_step: int) -> list[float]:
        """The run, with transformers' callbacks and its log as it goes."""
        args, state = self.args, self.state
        state.max_steps, state.global_step, state.epoch = steps, 0, 0.0
        state.compute_steps(args, steps)
        state.is_local_process_zero = state.is_world_process_zero = True
        size = len(self.train_dataset) if hasattr(self.train_dataset, "__len__") else steps * per_step
        losses: list[float] = []
        logged = 0
        steps_an_epoch = size // per_step

        def on_step(step: Step) -> None:
            nonlocal logged
            losses.append(step.loss)
            state.global_step = step.step
            state.epoch = step.step * per_step / size
            self.control = self.callback_handler.on_step_end(args, state, self.control)
            if step.step % steps_an_epoch == 0 or step.step == steps:
                self.control = self.callback_handler.on_epoch_end(args, state, self.control)
            if self.control.should_log:
                self.control.should_log = False
                mean = sum(losses[logged:]) / (len(losses) - logged)
                logged = len(losses)
                self.log({"loss": mean, "grad_norm": step.grad_norm, "learning_rate": step.lr})
            if step.step < steps:
                self._pass_over(step.step)
            if self.control.should_training_stop and step.step < steps:
                raise UsageError(
                    "a callback ends the training before its last step, which hyc.Trainer cannot: give max_steps"
                )

        self.control = self.callback_handler.on_train_begin(args, state, self.control)
        run = job.train(path, steps=steps, shuffle=False, seed=args.seed, on_step=on_step)
        self.model.load_state_dict(run.state_dict())
        if self.control.should_save:
            self.control.should_save = False
            self.save_model(os.path.join(args.output_dir, f"checkpoint-{steps}"))
        if self.control.should_evaluate:
            self.control.should_evaluate = False
            self.evaluate()
        return losses

    def _pass_over(self, step: int) -> None:
        """What callbacks ask for within the training and does not happen; the first time it is told."""
        asked = {"evaluation": self.control.should_evaluate, "checkpoint": self.control.should_save}
        self.control.should_evaluate = self.control.should_save = False
        passed = [what for what, wanted in asked.items() if wanted and what not in self._told]
        self._told.update(passed)
        if passed:
            warnings.warn(
                f"hyc.Trainer makes no {' and no '.join(passed)} within the training, as after step {step}: the trained model is "
                "saved at its end, and trainer.evaluate() evaluates it",
                stacklevel=2,
            )
