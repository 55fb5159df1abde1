"""Keywords for flags. Which there are, and of which type, the tools say themselves (hyc-compile --print-settings, hyc-run
--print-options): there is no second list here."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import numbers
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from . import tools
from .errors import UsageError


# What hyc-compile computes of outputs; any other name is an output, which forward computes.
LOSSES = ("cross_entropy", "causal_lm", "mse", "binary_cross_entropy")
_CALLED = {"bce": "binary_cross_entropy", "nll": "cross_entropy", "l2": "mse", "clm": "causal_lm"}
# Parameters of the configuration's optimizer that have no flag, and how many numbers each is.
_OF_OPTIMIZER = {"betas": 2, "eps": 1}


@dataclasses.dataclass(frozen=True)
class Option:
    """A flag of a tool."""

    flag: str
    type: str  # bool (takes true or false), flag (is there or not), integer, number or text
    is_list: bool
    choices: tuple[str, ...]
    values: str
    default: str
    help: str

    @property
    def keyword(self) -> str:
        """The flag without dashes in front, those inside as underscores."""
        return self.flag.lstrip("-").replace("-", "_")


def _read(tool: str, question: str) -> dict[str, Option]:
    rows = json.loads(tools.run(tool, [question])[0])
    options = [
        Option(
            row["flag"],
            row["type"],
            row.get("list", False),
            tuple(row["choices"]),
            row["values"],
            row["default"],
            row["help"],
        )
        for row in rows
    ]
    return {option.keyword: option for option in options}


@functools.cache
def of_compile() -> Mapping[str, Option]:
    """The settings of hyc.compile by keyword."""
    return _read("hyc-compile", "--print-settings")


@functools.cache
def of_run() -> Mapping[str, Option]:
    """The settings of job.train by keyword."""
    return _read("hyc-run", "--print-options")


def _refuse(keyword: str, value: object, expected: str) -> UsageError:
    return UsageError(f"{keyword} is {value!r}, expected {expected}")


def _word(keyword: str, option: Option, value: object) -> str:
    """One value as the command line has it."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)  # numpy's, too
    if option.type == "integer":
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return str(int(value))
        raise _refuse(keyword, value, f"a whole number{f' ({option.values})' if option.values else ''}")
    if option.type == "number":
        if isinstance(value, numbers.Integral) and is_number:
            return str(int(value))
        if is_number:
            return repr(float(value))  # type: ignore[arg-type]
        raise _refuse(keyword, value, "a number")
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if is_number:  # a size in bytes
        return str(value)
    raise _refuse(keyword, value, " or ".join(option.choices) if option.choices else "text")


def _words(keyword: str, option: Option, value: object) -> list[str]:
    if option.is_list and isinstance(value, Mapping):  # dim={"seq": 512}, or {"seq": [128, 512]}
        several = {name: size if isinstance(size, (list, tuple)) else [size] for name, size in value.items()}
        value = [f"{name}={','.join(map(str, sizes))}" for name, sizes in several.items()]
    if option.is_list and isinstance(value, Iterable) and not isinstance(value, str):
        return [_word(keyword, option, each) for each in value]
    return [_word(keyword, option, value)]


def _find(keyword: str, options: Mapping[str, Option]) -> tuple[Option, bool] | None:
    """The option, and whether the keyword says its opposite (shuffle, of --no-shuffle)."""
    if keyword in options:
        return options[keyword], False
    opposite = options.get("no_" + keyword)
    return (opposite, True) if opposite and opposite.type == "flag" else None


def to_arguments(keywords: Mapping[str, object], options: Mapping[str, Option], what: str) -> list[str]:
    """A tool's arguments for keywords; None leaves a setting open. UsageError names the keyword, and the nearest one."""
    arguments: list[str] = []
    for keyword, value in keywords.items():
        found = _find(keyword, options)
        if found is None:
            near = difflib.get_close_matches(keyword, options, 1)
            raise UsageError(f"{what} has no setting {keyword!r}" + (f"; the nearest is {near[0]!r}" if near else ""))
        option, is_opposite = found
        if value is None:
            continue
        if option.type in ("bool", "flag"):
            if not isinstance(value, bool):
                raise _refuse(keyword, value, "True or False")
            if option.type == "bool":
                arguments.append(f"{option.flag}={str(value).lower()}")
            elif value != is_opposite:
                arguments.append(option.flag)
            continue
        arguments += [f"{option.flag}={word}" for word in _words(keyword, option, value)]
    return arguments


def check_loss(loss: object) -> None:
    """UsageError of a loss that is no name, with the nearest: torch's functions and modules are none. hyc-compile knows the names."""
    if loss is None or isinstance(loss, str):
        return
    name = str(getattr(loss, "__name__", type(loss).__name__))
    plain = re.sub(r"_?with_?logits|_?loss", "", name.lower())
    near = [_CALLED[plain]] if plain in _CALLED else difflib.get_close_matches(plain, LOSSES, 1, 0.7)
    raise UsageError(
        f"loss is {name}, expected text: {', '.join(LOSSES)}, or the name of an output that is the loss"
        + (f"; the nearest is {near[0]!r}" if near else "")
    )


def split_optimizer(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Flags, and what is a parameter of the configuration's optimizer instead: betas and eps."""
    params: dict[str, Any] = {}
    for name, count in _OF_OPTIMIZER.items():
        value = keywords.get(name)
        if value is None:
            continue
        numbers_ = list(value) if isinstance(value, (tuple, list)) else [value]
        if len(numbers_) != count or any(isinstance(each, bool) or not isinstance(each, numbers.Real) for each in numbers_):
            raise _refuse(name, value, "a number" if count == 1 else f"{count} numbers")
        params[name] = [float(each) for each in numbers_] if count > 1 else float(numbers_[0])
    return {name: value for name, value in keywords.items() if name not in _OF_OPTIMIZER}, params


def with_optimizer(config: Mapping[str, Any], params: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A configuration whose optimizer, or one of `kind` where it has none, has `params`, too."""
    optimizer = dict(config.get("optimizer") or {"type": kind})
    return {**config, "optimizer": {**optimizer, "params": {**(optimizer.get("params") or {}), **params}}}
