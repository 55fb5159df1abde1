"""hyc.initialize: DeepSpeed's engine over compiled steps.

A compiled step is forward, backward and update at once, on ranks that know nothing of Python. So the engine gathers what
engine(batch), engine.backward(loss) and engine.step() are given, and runs the steps that it holds when somebody asks for a loss
or for weights, or when it holds many: a loss is a promise until then.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from . import datasets, optimizers, tracing
from .errors import DataError, UsageError
from .job import Job, check_settings, read_config
from .job import compile as compile_model
from .run import Run, Step, temporary_folder

if TYPE_CHECKING:
    import torch

_MOST_HELD = 64  # steps


# What DeepSpeed's engine and losses have beside this, and what there is instead.
_INSTEAD = {
    "save_checkpoint": "torch.save(engine.state_dict(), FILE), or hyc.compile and job.train(…, checkpoint=FOLDER)",
    "load_checkpoint": "module.load_state_dict before hyc.initialize, or hyc.compile and job.train(…, resume=FOLDER)",
    "parameters": "engine.state_dict(), the weights by now",
    "named_parameters": "engine.state_dict(), the weights by now",
    "zero_grad": "nothing: a compiled step begins without gradients",
    "lr_scheduler": "the scheduler of the configuration, which the compiled step has",
    "logits": "the module with engine.state_dict(): outputs stay in the compiled step",
    "mean": "the loss as it is: it is a mean already",
}


class _MissingError(UsageError, AttributeError):
    """Of a name that is not there: hasattr goes on to say so."""


def _missing(what: str, name: str) -> AttributeError:
    if name.startswith("_"):
        return AttributeError(name)
    way = _INSTEAD.get(name, "what docs/python.md has of DeepSpeed's loop, or hyc.compile and job.train")
    return _MissingError(f"{what}.{name} is asked for, which a compiled step has not; expected {way}")


class Loss:
    """What engine(batch) gives: the mean loss of the step that the batch is part of, once that step has run."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._step: int | None = None

    @property
    def loss(self) -> "Loss":
        """Itself: scripts for transformers' models say outputs.loss."""
        return self

    def item(self) -> float:
        """The number. Runs the steps that are held; UsageError before engine.step() has taken the batch's gradient."""
        if self._step is None:
            raise UsageError(
                "the loss is not known yet: a compiled step is forward, backward and update at once; ask for it behind "
                "engine.step()"
            )
        return self._engine.losses[self._step]

    def __float__(self) -> float:
        return self.item()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)

    def __repr__(self) -> str:
        return "Loss(of a step to come)" if self._step is None else f"Loss({self.item():.6f})"

    def detach(self) -> "Loss":
        """Itself: there is no graph in Python."""
        return self

    def backward(self) -> None:
        """Refused, as DeepSpeed does."""
        raise UsageError("loss.backward() is called, expected engine.backward(loss)")

    def __getattr__(self, name: str) -> Any:
        """Refused: whatever else a tensor has."""
        raise _missing("loss", name)

    def _refuse_arithmetic(self, other: object = None) -> Any:
        raise UsageError(
            "something is computed of the loss, expected engine.backward(loss) with the loss as it is: its scale and what is "
            "added to it are parts of the compiled step; a number to log is loss.item() behind engine.step(), or engine.losses"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse_arithmetic
    __pow__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse_arithmetic

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What a script computes of outputs or losses in Python is no part of the compiled step."""
        raise UsageError(
            f"{getattr(function, '__name__', function)} is called on what the engine gives, expected nothing to be computed of it: "
            "the loss is a part of the compiled step; give labels to engine(…), and loss= to hyc.initialize"
        )


class Optimizer:
    """Stands where DeepSpeed's optimizer does: engine.step() updates, and gradients live in the ranks."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Nothing to do: a compiled step begins with none."""

    def step(self) -> None:
        """Refused, as DeepSpeed would have it."""
        raise UsageError("optimizer.step() is called, expected engine.step()")


@contextlib.contextmanager
def _without_gradients(parameters: tuple[torch.nn.Parameter, ...]) -> Iterator[None]:
    """The time in which a model is traced: what has no gradient in it stays frozen."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


class Engine:
    """A model in training, as deepspeed.initialize gives one."""

    def __init__(self, model: torch.nn.Module, loss: str | None, choice: optimizers.Choice) -> None:
        self.module = model
        self.optimizer = Optimizer()
        self.job: Job | None = None
        self._config, self._loss, self._flags, self._frozen = choice.config, loss, choice.flags, choice.frozen
        if self._flags.get("lr_schedule") in ("linear", "cosine"):
            raise UsageError(
                f"lr_schedule is {self._flags['lr_schedule']}, which ends with a run; expected a scheduler of the config"
            )
        self._told: list[Step] = []
        self._first: dict[str, tuple[int, ...]] = {}  # names and shapes of the first micro-batch, and of all that follow
        self._batches: list[dict[str, numpy.ndarray]] = []  # of steps that are held, micro-batch after micro-batch
        self._promised: list[Loss] = []  # of the step that is being gathered
        self._awaits_backward: Loss | None = None
        self._steps = 0
        self._trains = True
        self._last: Run | None = None
        self._keeps = temporary_folder()
        self._folder = pathlib.Path(self._keeps.name)

    def __call__(self, *batch: Any, **inputs: Any) -> Loss:
        """Takes a micro-batch: tensors by input name, labels included, or in forward's order, the labels last; [micro_batch × dp, …] each."""
        arrays = {
            str(k): datasets.as_array(v, str(k)) for k, v in {**self._named(batch), **inputs}.items() if v is not None
        }
        if self._awaits_backward is not None:
            raise UsageError("engine is called twice, expected engine.backward(loss) between")
        job = self._compiled(arrays)
        wanted = job.plan.micro_batch * job.plan.dp
        arrays = self._checked(job.inputs.complete(arrays), job)
        for name, array in arrays.items():
            if len(array) != wanted:
                raise DataError(
                    f"{name} has {len(array)} samples, expected micro-batch × dp = {job.plan.micro_batch} × {job.plan.dp} = {wanted}"
                )
        self._first = self._first or {name: array.shape[1:] for name, array in arrays.items()}
        self._batches.append(arrays)
        self._awaits_backward = Loss(self)
        return self._awaits_backward

    def _checked(self, arrays: dict[str, numpy.ndarray], job: Job) -> dict[str, numpy.ndarray]:
        """The tensors that the programs read. DataError of others than the first batch has: steps are run together."""
        if self._first and job.inputs.shifts_labels and "attention_mask" not in self._first:
            arrays = {name: array for name, array in arrays.items() if name != "attention_mask"}  # labels are made of it
        labels = [job.inputs.labels] if any(rule.match == job.inputs.labels for rule in job.plan.inputs) else []
        wanted = list(self._first or dict.fromkeys([*arrays, *labels]))
        for name in wanted:
            if name not in arrays:
                near = difflib.get_close_matches(name, [each for each in arrays if each not in wanted], 1, 0)
                told = f"; the nearest is {near[0]!r}" if near else ""
                raise DataError(f"the batch has no tensor {name!r}: it has {', '.join(arrays)}, expected {', '.join(wanted)}{told}")
        if unknown := [name for name in arrays if name not in wanted]:
            raise DataError(f"the batch has tensor {unknown[0]!r}, expected {', '.join(wanted)}, as the first batch has")
        for name, shape in self._first.items():
            if arrays[name].shape[1:] != shape:
                found = list(arrays[name].shape[1:])
                raise DataError(f"{name} has samples of shape {found}, expected {list(shape)}, as in the first batch")
        return arrays

    def _named(self, batch: tuple[Any, ...]) -> Mapping[str, Any]:
        """Tensors by input name, of a mapping, or of as many as forward has to be given, and labels."""
        if len(batch) == 1 and isinstance(batch[0], Mapping):
            return batch[0]
        if len(batch) == 1 and not isinstance(batch[0], (list, tuple)):
            raise UsageError(
                f"engine is called with a {type(batch[0]).__name__}, expected tensors by input name, labels among them"
            )
        values = batch[0] if len(batch) == 1 else batch
        labels = self._flags.get("labels") or "labels"
        needed = [
            name
            for name, parameter in inspect.signature(tracing.unwrapped(self.module)[0].forward).parameters.items()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name != labels
        ]
        names = [*needed, labels]
        is_whole = len(values) == len(names) or (len(values) == len(needed) and self._loss == "causal_lm")
        if values and not (needed and is_whole):
            raise UsageError(
                f"engine is given {len(values)} tensors without names, expected {', '.join(names)}, as {type(self.module).__name__}"
                f'.forward has to be given; give them by name, as engine({{"{names[0]}": …}})'
            )
        return dict(zip(names, values))

    def backward(self, loss: Loss) -> None:
        """Takes the micro-batch's gradient."""
        if loss is not self._awaits_backward:
            raise UsageError("engine.backward is given another loss, expected that of the last engine(batch)")
        self._promised.append(loss)
        self._awaits_backward = None

    def step(self) -> None:
        """Updates, when as many micro-batches have come as a step accumulates."""
        if self._awaits_backward is not None or not self._promised:
            raise UsageError("engine.step() is called, expected engine(batch) and engine.backward(loss) before it")
        if not self.is_gradient_accumulation_boundary():
            return
        for loss in self._promised:
            loss._step = self._steps
        self._promised = []
        self._steps += 1
        if self._steps - len(self._told) >= _MOST_HELD:
            self.flush()

    def is_gradient_accumulation_boundary(self) -> bool:
        """Whether engine.step() updates."""
        return self.job is not None and len(self._promised) == self.job.plan.grad_accum

    @property
    def losses(self) -> list[float]:
        """Of every step until now."""
        self.flush()
        return [step.loss for step in self._told]

    @property
    def global_steps(self) -> int:
        """Updates until now."""
        return self._steps

    def flush(self) -> None:
        """Runs the steps that are held."""
        held = self._steps - len(self._told)
        if held == 0 or self.job is None:
            return
        done = len(self._told)
        each = self.job.plan.grad_accum
        taken = self._batches[: held * each]
        # Step k of a run reads the file's steps counted around, and a run that is resumed wants as many as there were: a ring, in
        # which steps that nobody reads hold anything.
        ring = [taken[(k - done) % _MOST_HELD * each : ((k - done) % _MOST_HELD + 1) * each] for k in range(_MOST_HELD)]
        turned = [batch for batches in ring for batch in (batches or taken[:each])]
        data = {name: numpy.concatenate([batch[name] for batch in turned]) for name in turned[0]}
        runs = str(self._folder / "runs")
        resume = runs if done else None
        self._last = self.job.train(data, steps=self._steps, shuffle=False, checkpoint=runs, keep=1, resume=resume)
        self._told += self._last.steps
        self._batches = self._batches[held * each :]  # a run that fails leaves them, to be told again

    def state_dict(self) -> "dict[str, torch.Tensor]":
        """The weights by now, under the module's own names."""
        self.flush()
        return dict(self.module.state_dict()) if self._last is None else self._last.state_dict()

    def _compiled(self, arrays: Mapping[str, numpy.ndarray]) -> Job:
        if self.job is None:
            import torch

            labels = self._flags.get("labels") or "labels"
            example = {name: torch.from_numpy(array[:1].copy()) for name, array in arrays.items() if name != labels}
            self._trains = self.module.training
            with _without_gradients(self._frozen):
                self.job = compile_model(self.module, example, loss=self._loss, config=self._config, **self._flags)
        return self.job

    def __getattr__(self, name: str) -> Any:
        """Refused, with what there is instead."""
        raise _missing("engine", name)

    def get_lr(self) -> list[float]:
        """The rate of the last step."""
        self.flush()
        return [step.lr or 0.0 for step in self._told[-1:]]

    def get_global_grad_norm(self) -> float | None:
        """That of the last step, before clipping."""
        self.flush()
        return self._told[-1].grad_norm if self._told else None

    def train(self, mode: bool = True) -> "Engine":
        """As of a module: before the first batch, with which the step is compiled in the mode that the module is in."""
        if not mode:
            raise UsageError(
                "engine.eval() is called, expected job.evaluate(dataset), or the module with engine.state_dict()"
            )
        if self.job is None:
            self.module.train()
        elif not self._trains:
            raise UsageError(
                "engine.train() is called behind the first batch, with which the step was compiled in the module's evaluation "
                "mode; expected it before"
            )
        return self

    def eval(self) -> "Engine":
        """Refused: the engine only trains."""
        return self.train(False)


def _config_of(config: Any, config_params: Any, args: Any) -> Any:
    """The configuration, which DeepSpeed takes by three names, but by one of them at a time."""
    given = {
        "config": config,
        "config_params": config_params,
        "args.deepspeed_config": getattr(args, "deepspeed_config", None),
    }
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} are given, expected one of them")
    return given[names[0]] if names else None


def _check_model(model: Any) -> None:
    import torch

    if model is None:
        raise UsageError("model is missing")
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model is a {type(model).__name__}, expected a torch.nn.Module; give what else there is by name, as args=")


def _loader(data: Any, collate_fn: Any, config: Any, flags: Mapping[str, Any]) -> Any:
    """Of batches of micro-batch × dp samples: one process feeds all ranks."""
    from torch.utils.data import DataLoader

    micro = flags.get("micro_batch") or read_config(config).get("train_micro_batch_size_per_gpu")
    if not isinstance(micro, int):
        raise UsageError("training_data is given, expected train_micro_batch_size_per_gpu or micro_batch= beside it")
    size = micro * int(flags.get("dp") or 1)
    return DataLoader(data, batch_size=size, shuffle=True, drop_last=True, collate_fn=collate_fn)


def initialize(
    model: torch.nn.Module | None = None,
    config: Any = None,
    training_data: Any = None,
    collate_fn: Any = None,
    *,
    args: Any = None,
    loss: str | None = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    lr_scheduler: Any = None,
    mpu: Any = None,
    mesh_param: Any = None,
    config_params: Any = None,
    dist_init_required: bool | None = None,
    distributed_port: int | None = None,
    **flags: Any,
) -> tuple[Engine, Optimizer, Any, None]:
    """deepspeed.initialize: engine, optimizer, data loader, scheduler.

    `config` (or args.deepspeed_config) is a DeepSpeed configuration, a path or a dict; `flags` are hyc-compile's (tp=2, dp=2). One
    process drives all ranks: engine(batch) takes tensors by input name, labels included, of micro_batch × dp samples. The data
    loader, of `training_data`, makes such batches. `loss` is hyc.compile's. The scheduler is None: the compiled step has it.

    Of `model_parameters`, or of the groups of an `optimizer` of torch's (SGD, Adam, AdamW, or what makes one), those that are in no
    group are frozen, and those of weight_decay 0 do not decay. dist_init_required and distributed_port have no effect: ranks are
    hyc's own processes. Whatever is wrong whatever the model is, is refused here, and not with the first batch.
    """
    _check_model(model)
    assert model is not None
    config = _config_of(config, config_params, args)
    if lr_scheduler is not None:
        raise UsageError(
            "lr_scheduler is given, expected the scheduler of the configuration (WarmupLR, WarmupDecayLR, WarmupCosineLR or OneCycle), "
            "which the compiled step has"
        )
    for name, given, way in (("mpu", mpu, "tp= and pp="), ("mesh_param", mesh_param, "dp=, tp= and pp=")):
        if given is not None:
            raise UsageError(f"{name} is given, expected {way}: ranks are hyc's own")
    if isinstance(optimizer, str):
        flags["optimizer"], optimizer = optimizer, None
    read_config(config, "config")
    checked = {name: value for name, value in flags.items() if name not in ("output", "lengths")}
    check_settings(config, {**checked, "loss": loss}, "hyc.initialize")
    choice = optimizers.choose(tracing.unwrapped(model)[0], config, flags, optimizer, model_parameters)
    if choice.config is not config:
        check_settings(choice.config, {**checked, "loss": loss}, "hyc.initialize")
    engine = Engine(model, loss, choice)
    loader = None if training_data is None else _loader(training_data, collate_fn, config, flags)
    return engine, engine.optimizer, loader, None
