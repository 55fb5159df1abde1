"""transformers' training arguments as hyc-compile's flags and a DeepSpeed configuration. What either says already wins, but for the
sizes of a batch, which decide what is trained on: there both have to say the same."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

import torch
import transformers

from .errors import UsageError
from .job import read_config

_OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw", "sgd": "sgd"}
# torch's own: DeepSpeed's name, and what goes with it.
_CLASSES: dict[type[torch.optim.Optimizer], tuple[str, dict[str, Any]]] = {
    torch.optim.AdamW: ("AdamW", {}),
    torch.optim.Adam: ("Adam", {"adam_w_mode": False}),
    torch.optim.SGD: ("SGD", {}),
}
# Of torch's optimizers what hyc's have no other value of.
_FIXED = {"amsgrad": False, "maximize": False, "nesterov": False, "dampening": 0}
# transformers' schedules: hyc's name, and whether warmup_steps count.
_SCHEDULES = {
    "constant": ("constant", False),
    "constant_with_warmup": ("constant", True),
    "linear": ("linear", True),
    "cosine": ("cosine", True),
}
# Sizes of a batch: the argument, the key of a configuration, the flag.
_SIZES = (
    ("per_device_train_batch_size", "train_micro_batch_size_per_gpu", "micro_batch"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps", "grad_accum"),
)


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
        if not isinstance(value, Mapping) or value.get(key) is None:
            return True
        value = value[key]
    return bool(value == "auto")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a model is compiled by."""

    flags: dict[str, Any]
    config: dict[str, Any]

    @staticmethod
    def of(trainer: Any, given: Mapping[str, Any]) -> Settings:
        """Of a trainer's arguments, where neither its flags, `given`, nor its configuration says otherwise."""
        args, config = trainer.args, _config_of(trainer.args)
        _refuse_other_sizes(args, config, given)
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
        _set_optimizer(trainer, config, given)
        _refuse_other_schedules(args, config)
        if config["optimizer"]["params"].get("weight_decay"):
            decays = set(trainer.get_decay_parameter_names(trainer.model))
            others = [name for name, _ in trainer.model.named_parameters() if name not in decays]
            if others:
                flags["no_decay"] = [f"^{re.escape(name)}$" for name in others]
        sizes = {flag for _, _, flag in _SIZES}
        flags.update({name: value for name, value in given.items() if value is not None or name not in sizes})
        return Settings(flags, config)

    def scheduled(self, args: Any, steps: int) -> Settings:
        """With the schedule of the arguments, or what a configuration's leaves to them. A warm-up may be a part of all steps."""
        flags, config = dict(self.flags), copy.deepcopy(self.config)
        warmup = int(args.get_warmup_steps(steps))
        if config.get("scheduler") is None:
            rule, warms = _SCHEDULES[_schedule_of(args)]
            flags.setdefault("lr_schedule", rule)
            if warms and warmup:
                flags.setdefault("warmup_steps", warmup)
            return Settings(flags, config)
        params = config["scheduler"].get("params") or {}
        own = {
            "warmup_min_lr": 0,
            "warmup_max_lr": args.learning_rate,
            "warmup_num_steps": warmup,
            "total_num_steps": steps,
        }
        params.update({name: value for name, value in own.items() if params.get(name) == "auto"})
        return Settings(flags, config)


def _refuse_other_sizes(args: Any, config: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """UsageError where a batch has another size elsewhere. How many ranks divide it is the flags', or the planner's."""
    batch = 1
    for argument, key, flag in _SIZES:
        wanted = getattr(args, argument)
        batch *= wanted
        for place, value in ((f"{key} (deepspeed)", config.get(key)), (f"{flag} (of the trainer)", given.get(flag))):
            if value not in (None, "auto", wanted):
                raise UsageError(
                    f"{place} is {value}, but {argument} (training arguments) is {wanted}; give it in the training arguments alone"
                )
    whole = (("train_batch_size (deepspeed)", config.get("train_batch_size")), ("global_batch (of the trainer)", given.get("global_batch")))
    for place, value in whole:
        if isinstance(value, int) and value % batch:
            raise UsageError(
                f"{place} is {value}, expected a multiple of {batch}: per_device_train_batch_size × gradient_accumulation_steps "
                f"(training arguments) is {args.per_device_train_batch_size} × {args.gradient_accumulation_steps}"
            )


def _set_optimizer(trainer: Any, config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Into a configuration, whose own values win."""
    args = trainer.args
    if trainer.optimizer_cls_and_kwargs is not None:
        for place, value in (("deepspeed", config.get("optimizer")), ("the trainer's flags", given.get("optimizer"))):
            if value is not None:
                raise UsageError(f"optimizer_cls_and_kwargs is given, and an optimizer by {place}, too; expected one of them")
        config["optimizer"] = _optimizer_of_class(*trainer.optimizer_cls_and_kwargs)
    elif config.get("optimizer") is None:
        kind = _OPTIMIZERS.get(str(getattr(args.optim, "value", args.optim)))
        if kind is None:
            raise UsageError(f"optim is {args.optim}, expected one of {', '.join(_OPTIMIZERS)}")
        config["optimizer"] = {"type": kind, "params": {}}
    params = config["optimizer"]["params"] = config["optimizer"].get("params") or {}
    own = {"lr": args.learning_rate, "weight_decay": args.weight_decay}
    if str(config["optimizer"].get("type", "")).lower() != "sgd":
        own |= {"betas": [args.adam_beta1, args.adam_beta2], "eps": args.adam_epsilon}
    for name, value in own.items():
        if _is_open(params, name):
            params[name] = value


def _optimizer_of_class(kind: type[torch.optim.Optimizer], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """A class of torch's and its keywords, as DeepSpeed says it. Defaults are torch's; the decay is that of the training arguments, since
    transformers gives it with the parameters."""
    names = ", ".join(f"torch.optim.{each.__name__}" for each in _CLASSES)
    if kind not in _CLASSES:
        raise UsageError(
            f"optimizer_cls_and_kwargs has {kind.__name__}, expected one of {names}; DeepSpeed's names, as Lamb and Lion, go by "
            'deepspeed={"optimizer": …}'
        )
    if "params" in keywords:
        raise UsageError("optimizer_cls_and_kwargs has params, expected none: what is trained is said by train= and freeze=")
    values = kind([torch.nn.Parameter(torch.zeros(1))], **keywords).defaults
    for name, only in _FIXED.items():
        if values.get(name, only) != only:
            raise UsageError(f"optimizer_cls_and_kwargs has {name}={values[name]}, expected {only}, hyc's only one")
    name, params = _CLASSES[kind]
    if values.get("decoupled_weight_decay"):
        name, params = _CLASSES[torch.optim.AdamW]
    params = params | {"lr": float(values["lr"])}
    if "betas" in values:
        params |= {"betas": [float(beta) for beta in values["betas"]], "eps": float(values["eps"])}
    if values.get("momentum"):
        params["momentum"] = float(values["momentum"])
    return {"type": name, "params": params}


def _schedule_of(args: Any) -> str:
    return str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))


def _refuse_other_schedules(args: Any, config: Mapping[str, Any]) -> None:
    if config.get("scheduler") is not None:
        return
    if _schedule_of(args) not in _SCHEDULES:
        raise UsageError(f"lr_scheduler_type is {_schedule_of(args)}, expected one of {', '.join(_SCHEDULES)}")
    if args.lr_scheduler_kwargs:
        raise UsageError(
            f"lr_scheduler_kwargs is {args.lr_scheduler_kwargs}, expected none: a compiled step has its schedule's own shape"
        )
