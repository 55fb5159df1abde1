"""Checkpoints of hyc.Trainer: output_dir/checkpoint-N, as transformers names and prunes them, each with the model as transformers loads it,
trainer_state.json, and step-N, the checkpoint that hyc-run goes on from.

hyc-run writes step-N into output_dir/hyc-checkpoints, from where it is moved when all else of checkpoint-N is there: a checkpoint-N
that has one is whole. It is therefore pruned here, by save_total_limit, and not by hyc-run, which may be further on.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
from typing import Any

from transformers.trainer_callback import ExportableState, TrainerState
from transformers.trainer_utils import rotate_checkpoints, sort_checkpoints

from .errors import DataError, UsageError
from .job import Job

_STATE = "trainer_state.json"
_STAGED = "hyc-checkpoints"
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclasses.dataclass(frozen=True)
class Resumed:
    """What a training goes on from."""

    checkpoint: pathlib.Path  # hyc-run's
    state: TrainerState

    @staticmethod
    def of(given: Any, args: Any) -> Resumed | None:
        """Of train()'s resume_from_checkpoint. UsageError where there is no such checkpoint."""
        if not given:
            return None
        output = pathlib.Path(args.output_dir)
        if args.ignore_data_skip:
            raise UsageError("ignore_data_skip is True, expected False: a resumed run goes on behind the samples that it has read")
        if given is not True:
            folder = pathlib.Path(given)
            if _checkpoint_in(folder) is None:
                raise UsageError(f"resume_from_checkpoint is '{folder}', {_missing_in(folder)}")
            return _resumed(folder)
        folders = [each for each in output.glob("checkpoint-*") if _checkpoint_in(each) is not None]
        if not folders:
            raise UsageError(
                f"resume_from_checkpoint is True, but '{output}' has no checkpoint of hyc.Trainer, expected checkpoint-N with step-N in it"
            )
        return _resumed(max(folders, key=lambda each: _step_of(each) or 0))


def _step_of(folder: pathlib.Path) -> int | None:
    found = _NAME.fullmatch(folder.resolve().name)
    return int(found[1]) if found else None


def _checkpoint_in(folder: pathlib.Path) -> pathlib.Path | None:
    """hyc-run's part of a checkpoint; where a training was ended before it was moved, where hyc-run has left it."""
    step = _step_of(folder)
    if step is None or not (folder / _STATE).is_file():
        return None
    places = (folder / f"step-{step}", folder.parent / _STAGED / f"step-{step}")
    return next((each for each in places if (each / "checkpoint.json").is_file()), None)


def _missing_in(folder: pathlib.Path) -> str:
    if not folder.is_dir():
        return "which is no folder; expected checkpoint-N of hyc.Trainer"
    return (
        f"which has no step-N of hyc.Trainer and {_STATE}, as where transformers has saved it, or hyc under save_only_model; start from "
        "its weights by from_pretrained"
    )


def _resumed(folder: pathlib.Path) -> Resumed:
    found = _checkpoint_in(folder)
    assert found is not None
    checkpoint = folder / found.name
    if found != checkpoint:
        shutil.rmtree(checkpoint, ignore_errors=True)  # none of hyc-run's
        os.replace(found, checkpoint)
    try:
        state = TrainerState.load_from_json(str(folder / _STATE))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"'{folder / _STATE}' cannot be read: {error}") from error
    if state.best_model_checkpoint is not None and not os.path.isdir(state.best_model_checkpoint):
        state.best_model_checkpoint = None
    return Resumed(checkpoint, state)


class Checkpoints:
    """Those that a training saves."""

    def __init__(self, trainer: Any, job: Job, every: int) -> None:
        self._trainer, self._job, self._every = trainer, job, every
        self._output = pathlib.Path(trainer.args.output_dir)
        self._is_any = str(getattr(trainer.args.save_strategy, "value", trainer.args.save_strategy)) != "no"

    def keywords(self) -> dict[str, Any]:
        """For job.train."""
        return {"checkpoint": str(self._output / _STAGED), "checkpoint_every": self._every} if self._is_any else {}

    def is_due(self, step: int) -> bool:
        """Whether hyc-run writes one after a step before the last."""
        return self._is_any and self._every > 0 and step % self._every == 0

    def _staged(self, step: int) -> pathlib.Path:
        return self._output / _STAGED / f"step-{step}"

    def load(self, step: int) -> None:
        """Gives the model the weights that it had after a step."""
        self._trainer.model.load_state_dict(self._job.state_dict(self._staged(step)))

    def save(self, step: int) -> None:
        """checkpoint-N, of what the model has."""
        trainer, state, folder = self._trainer, self._trainer.state, self._output / f"checkpoint-{step}"
        (folder / _STATE).unlink(missing_ok=True)  # of an earlier training: from here on it is not whole
        shutil.rmtree(folder / f"step-{step}", ignore_errors=True)
        trainer.save_model(str(folder))
        best = self._output / f"checkpoint-{state.best_global_step}"
        if state.best_global_step and best.is_dir():
            state.best_model_checkpoint = str(best)
        folder.mkdir(parents=True, exist_ok=True)  # a script's own save_model may have made none
        stateful = [each for each in (*trainer.callback_handler.callbacks, trainer.control) if isinstance(each, ExportableState)]
        state.stateful_callbacks = TrainerState(stateful_callbacks=stateful).stateful_callbacks
        state.save_to_json(str(folder / _STATE))
        if self._staged(step).is_dir() and not trainer.args.save_only_model:
            os.replace(self._staged(step), folder / f"step-{step}")
        rotate_checkpoints(
            output_dir=str(self._output),
            save_total_limit=trainer.args.save_total_limit,
            best_model_checkpoint=state.best_model_checkpoint,
            use_mtime=True,
        )

    def drop(self, step: int) -> None:
        """Removes what hyc-run has written after a step and nobody saves."""
        shutil.rmtree(self._staged(step), ignore_errors=True)

    def prune_at_end(self) -> None:
        """As transformers, which leaves of one checkpoint the best."""
        args, best = self._trainer.args, self._trainer.state.best_model_checkpoint
        if best is not None and args.save_total_limit == 1:
            for each in sort_checkpoints(output_dir=str(self._output), best_model_checkpoint=best):
                if not os.path.samefile(each, best):
                    shutil.rmtree(each, ignore_errors=True)

    def close(self) -> None:
        """At the end of a training. What nobody has moved has no state of transformers', and is gone on with by nobody."""
        if self._is_any:
            shutil.rmtree(self._output / _STAGED, ignore_errors=True)
