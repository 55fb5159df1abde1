"""Groups of parameters and optimizers of torch's as settings of a compiled step, which has one optimizer for all that it trains.

What a group leaves out is frozen, and a weight_decay of 0 beside another is no_decay; whatever else groups say apart is refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import settings
from .errors import UsageError
from .job import read_config

if TYPE_CHECKING:
    import torch

# What a configuration calls torch's, and what it has to say beside the groups: its Adam decouples the decay, unless it is told.
_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "Adam": ("Adam", {"adam_w_mode": False}),
    "AdamW": ("AdamW", {}),
}
_VALUES = ("lr", "weight_decay", "momentum", "betas", "eps", "bias_correction")
# Of torch's optimizers: what has to be so, and what is about how torch computes.
_PLAIN = {"amsgrad": False, "maximize": False, "nesterov": False, "dampening": 0, "differentiable": False}
_PASSED_OVER = ("params", "name", "param_names", "foreach", "fused", "capturable", "decoupled_weight_decay")
_POSSIBLE = (
    "a compiled step has one optimizer: groups may differ in weight_decay, where all that decay do so alike, and parameters in no group "
    "are frozen"
)


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is trained, and how."""

    config: Any  # as it was given, or a dict that says what groups or an optimizer do
    flags: dict[str, Any]
    frozen: tuple[torch.nn.Parameter, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Group:
    parameters: list[Any]
    values: dict[str, Any]


def choose(model: torch.nn.Module, config: Any, flags: Mapping[str, Any], optimizer: Any, model_parameters: Any) -> Choice:
    """Settings of what deepspeed.initialize is given: an optimizer of torch's, or what makes one of parameters, wins over groups."""
    import torch

    if optimizer is None and model_parameters is None:
        return Choice(config, dict(flags))
    groups = None if model_parameters is None else _groups_of(model_parameters, "model_parameters")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = _made(optimizer, model, groups)
    if optimizer is None:
        assert groups is not None
        return _settled(model, groups, read_config(config), flags, config)
    kind, params = _kind_of(optimizer)
    groups = _groups_of(optimizer.param_groups, "optimizer")
    values = {**read_config(config), "optimizer": {"type": kind, "params": params}}
    return _settled(model, groups, values, flags, values)


def _made(optimizer: Any, model: torch.nn.Module, groups: list[_Group] | None) -> Any:
    """An optimizer, of a class or a function that makes one."""
    import torch

    if not callable(optimizer):
        raise UsageError(
            f"optimizer is an object of {type(optimizer).__name__}, expected a name (adamw), or one of torch.optim.{', torch.optim.'.join(_KINDS)}"
        )
    given = [{"params": group.parameters, **group.values} for group in groups] if groups else list(model.parameters())
    made = optimizer(given)
    if not isinstance(made, torch.optim.Optimizer):
        raise UsageError(f"optimizer makes a {type(made).__name__}, expected an optimizer of torch's")
    return made


def _kind_of(optimizer: Any) -> tuple[str, dict[str, Any]]:
    """The configuration's type and parameters. UsageError of an optimizer that does more than its groups say."""
    kind = type(optimizer).__name__
    if kind not in _KINDS or not type(optimizer).__module__.startswith("torch.optim"):
        raise UsageError(
            f"optimizer is an object of {type(optimizer).__module__}.{kind}, expected one of torch.optim.{', torch.optim.'.join(_KINDS)}, or the "
            "optimizer of the configuration, which has Lamb and Lion, too"
        )
    if optimizer.state:
        raise UsageError("optimizer has made steps already, expected a new one: its moments are no part of the programs")
    if any(getattr(optimizer, name, None) for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")):
        raise UsageError("optimizer has hooks of its steps, which a compiled step does not call, expected none")
    decouples = {bool(group.get("decoupled_weight_decay", kind == "AdamW")) for group in optimizer.param_groups}
    name, params = _KINDS["AdamW" if kind == "Adam" and decouples == {True} else kind]
    return name, dict(params)


def _plain(value: Any) -> Any:
    """A number of a tensor's, and a list of a tuple's: as JSON has them."""
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


def _groups_of(given: Any, what: str) -> list[_Group]:
    """Groups of parameters, or parameters, or pairs of name and parameter; those without parameters are none."""
    import torch

    if isinstance(given, torch.Tensor) or not isinstance(given, Iterable):
        raise UsageError(f"{what} is a {type(given).__name__}, expected parameters, as model.parameters(), or groups of them")
    given = [given] if isinstance(given, Mapping) else list(given)
    if not given or not isinstance(given[0], Mapping):
        given = [{"params": given}]
    groups = []
    for index, group in enumerate(given):
        if not isinstance(group, Mapping) or "params" not in group:
            raise UsageError(f"{what}: group {index} is a {type(group).__name__}, expected a dict with 'params'")
        params = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
        params = [each[1] if isinstance(each, tuple) else each for each in params]
        values = {key: _plain(value) for key, value in group.items() if key not in _PASSED_OVER}
        groups.append(_Group(params, values))
    return [group for group in groups if group.parameters]


def _settled(model: torch.nn.Module, groups: list[_Group], values: dict[str, Any], flags: Mapping[str, Any], config: Any) -> Choice:
    """Settings of groups, over what a configuration (`values`) and flags say; `config` where they say nothing else."""
    names = _names_in(model, groups)
    said = (values.get("optimizer") or {}).get("params") or {}
    base = {key: _plain(value) for key, value in {**said, **flags}.items() if key in _VALUES and value not in (None, "auto")}
    params, chosen = {}, dict(flags)
    for key in dict.fromkeys(key for group in groups for key in group.values):
        value = _common(key, [group.values.get(key, base.get(key)) for group in groups])
        if flags.get(key) is not None and _plain(flags[key]) != value:
            raise UsageError(f"{key} is {flags[key]}, and {value} in groups of parameters, expected one of them")
        if key in _VALUES and value != base.get(key):
            params[key] = value
        if key == "weight_decay" and value:
            still = [name for group in groups if not group.values.get(key, value) for each in group.parameters for name in names[id(each)]]
            chosen["no_decay"] = [*_listed(flags.get("no_decay")), *(f"^{re.escape(name)}$" for name in still)]
    taken = {id(each) for group in groups for each in group.parameters}
    frozen = tuple(each for each in model.parameters() if each.requires_grad and id(each) not in taken)
    config = settings.with_optimizer(values, params, str(flags.get("optimizer") or "AdamW")) if params else config
    return Choice(config, {key: value for key, value in chosen.items() if value != []}, frozen)


def _names_in(model: torch.nn.Module, groups: Sequence[_Group]) -> dict[int, list[str]]:
    """All names of each parameter. UsageError of groups with others, with one twice, or with none that trains."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    seen: set[int] = set()
    for group in groups:
        for each in group.parameters:
            if id(each) not in names:
                found = f"a tensor of shape {list(each.shape)}" if hasattr(each, "shape") else f"a {type(each).__name__}"
                raise UsageError(f"groups of parameters have {found}, expected parameters of the model: it is none of its {len(names)}")
            if id(each) in seen:
                raise UsageError(f"parameter '{names[id(each)][0]}' is in groups of parameters twice, expected once")
            seen.add(id(each))
    if not any(each.requires_grad for group in groups for each in group.parameters):
        raise UsageError("groups of parameters have none that trains, expected at least one")
    return names


def _common(key: str, values: list[Any]) -> Any:
    """The value that all groups have; of weight_decay, that of those which decay."""
    if key == "initial_lr":
        raise UsageError("a scheduler of torch's has been made for the optimizer, expected the scheduler of the configuration")
    if key not in _VALUES and key not in _PLAIN:
        raise UsageError(f"groups of parameters have {key}, which a compiled step has not; expected {', '.join(_VALUES)}")
    several = [value for value in values if value] if key == "weight_decay" else values
    if any(value != several[0] for value in several):
        told = " and ".join(dict.fromkeys("left open" if value is None else str(value) for value in values))
        raise UsageError(f"groups of parameters differ in {key}: {told}; {_POSSIBLE}")
    value = several[0] if several else 0
    if key in _PLAIN and value != _PLAIN[key]:
        raise UsageError(f"groups of parameters have {key} {value}, expected {_PLAIN[key]}")
    return value


def _listed(value: Any) -> list[Any]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)
