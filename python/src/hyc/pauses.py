"""After which steps transformers evaluates and saves, as the fixed intervals that hyc-run knows. The last step is its own case: what
happens there has the trained weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from transformers.trainer_callback import TrainerState

from .epochs import Course, Place
from .errors import UsageError


@dataclasses.dataclass(frozen=True)
class Interval:
    """Steps before the last, and the N of which they are the multiples from the first of them on; 0 where there are none."""

    steps: frozenset[int]
    every: int

    @staticmethod
    def of(steps: Sequence[int], last: int, strategy: str) -> Interval:
        """UsageError where no fixed interval has these steps alone."""
        every = math.gcd(*steps) if steps else 0
        if steps and list(range(steps[0], last, every)) != list(steps):
            told = ", ".join(map(str, steps[:3])) + (", …" if len(steps) > 3 else "")
            raise UsageError(
                f"{strategy} is 'epoch', but epochs end after steps {told}, which no fixed interval has, as a compiled run wants it; "
                f"give {strategy}='steps'"
            )
        return Interval(frozenset(steps), every)


@dataclasses.dataclass(frozen=True)
class Pauses:
    """Of one training."""

    evaluations: Interval
    saves: Interval

    @staticmethod
    def of(args: Any, course: Course, places: Sequence[Place], resumed: TrainerState | None) -> Pauses:
        """By the arguments, or what a state that is gone on with has of them, as in transformers."""
        state = resumed
        if state is None:
            state = TrainerState()
            state.compute_steps(args, course.steps)
        strategies = [str(getattr(each, "value", each)) for each in (args.eval_strategy, args.save_strategy)]
        evaluated = _steps_of(strategies[0], state.eval_steps, args.eval_delay, course, places)
        if strategies[1] == "best":  # whether it is, the evaluation tells
            saved = evaluated
        else:
            saved = _steps_of(strategies[1], state.save_steps, 0, course, places)
        return Pauses(
            Interval.of(evaluated, course.steps, "eval_strategy"), Interval.of(saved, course.steps, "save_strategy")
        )


def _steps_of(strategy: str, every: int, delay: float, course: Course, places: Sequence[Place]) -> list[int]:
    """As transformers' DefaultFlowCallback has it."""
    found = []
    for step, place in enumerate(places[: course.steps - 1], 1):
        if strategy == "steps" and every > 0 and step % every == 0 and step >= delay:
            found.append(step)
        if strategy == "epoch" and place.ends_epoch and course.progress(place.epoch, place.step) >= delay:
            found.append(step)
    return found
