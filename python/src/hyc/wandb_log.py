"""A run in Weights & Biases, by its own package: each step under the names that TensorBoard has of it."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Mapping
from typing import Any

from . import tools
from .errors import UnavailableError, UsageError
from .run import Step

_ROW = re.compile(r"\| `(\w+)` \| `([^`]+)` \| [^|]* \| *(\w*) *\|")
_HELD_OUT = "validation_metrics/"


@functools.cache
def _names() -> tuple[tuple[str, str, float], ...]:
    """Key in the log, name, and what a unit of the log is in seconds or bytes: from the tools' own table."""
    table = tools.run("hyc-run", ["--print-metrics"])[0]
    return tuple((key, tag, 1e-3 if unit == "ms" else 1.0) for key, tag, unit in _ROW.findall(table))


def values_of(step: Step) -> dict[str, float]:
    """What is told of a step, or of an evaluation."""
    return {
        tag: float(value) * unit
        for key, tag, unit in _names()
        if isinstance(value := step.values.get(key), (int, float)) and tag.startswith(_HELD_OUT) == step.is_evaluation
    }


def _arguments(wants: object) -> dict[str, Any]:
    """wandb.init's, of what `wandb=` is given."""
    if wants is True:
        return {}
    if isinstance(wants, str) and wants:
        return {"project": wants}
    if isinstance(wants, Mapping):
        return dict(wants)
    raise UsageError(f"wandb is {wants!r}, expected a project's name, True, or a dict of wandb.init's arguments")


def check_installed() -> None:
    """Whether the package is there: told before anything is computed for it."""
    if importlib.util.find_spec("wandb") is None:
        raise UnavailableError("wandb is asked for and not installed; pip install wandb, or leave it out")


class WandbLog:
    """A run of wandb's: begun here, told of each step, ended by `finish`."""

    def __init__(self, wants: object, config: Mapping[str, Any]) -> None:
        arguments = _arguments(wants)
        check_installed()
        import wandb

        _names()
        try:
            self._run = wandb.init(**{"config": dict(config), **arguments})
        except TypeError as error:
            raise UsageError(f"wandb.init does not take {arguments}: {error}") from error
        except Exception as error:
            raise UnavailableError(
                f"wandb cannot begin a run: {error}; log in by 'wandb login', or set WANDB_MODE=offline"
            ) from error

    def step(self, step: Step) -> None:
        """A step, or an evaluation, is over."""
        self._run.log(values_of(step), step=step.step)

    def finish(self, failed: bool) -> None:
        """The run is over."""
        self._run.finish(exit_code=1 if failed else 0)
