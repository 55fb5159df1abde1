"""eval_dataset, as the ranks evaluate it between steps: what transformers' evaluation of the same weights tells, or a word on why not.

Ranks tell one number: the loss of all that counts over how much that is. transformers takes the mean of its batches' means. Both are
the same where each batch counts as much as the others of its size, as classes do, or sequences of one length.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import pickle
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import transformers

from . import datasets, losses
from .epochs import Row, arrays_of
from .errors import DataError
from .job import Job
from .padding import UNCOUNTED, Padding
from .pauses import Pauses
from .run import Step

# Whoever overrides one of them evaluates otherwise.
_EVALUATING = ("evaluate", "evaluation_loop", "prediction_step")
_UNCOUNTABLE = ("causal_lm", "cross_entropy")  # losses by whose labels a sample may count nothing


class HeldOut:
    """What the eval loader has given, once, in a file without a name."""

    def __init__(self, trainer: Any, padding: Padding) -> None:
        self._trainer, self._padding = trainer, padding
        self._file = tempfile.TemporaryFile(prefix="hyc-")
        self._batches: list[tuple[int, int]] = []  # rows, and what counts of them
        self.loader: Any = None

    def read(self) -> None:
        """All of it, unless the ranks cannot evaluate it, or it has been read."""
        if self._batches or self._needs_python():
            return
        self.loader = self._trainer.get_eval_dataloader()
        for batch in self.loader:
            arrays = arrays_of(batch)
            rows = len(arrays["labels"])
            try:
                self._padding.look(arrays, self.rows)
            except DataError as error:
                raise DataError(f"eval_dataset: {error}") from None
            pickle.dump(arrays, self._file, pickle.HIGHEST_PROTOCOL)
            self._batches.append((rows, self._counted(arrays["labels"])))

    def _counted(self, labels: numpy.ndarray) -> int:
        counted = labels[:, 1:] if self._padding.loss == "causal_lm" else labels
        return int((counted != UNCOUNTED).sum()) if self._padding.loss in _UNCOUNTABLE else labels.size

    @property
    def rows(self) -> int:
        """Samples."""
        return sum(rows for rows, _ in self._batches)

    def _needs_python(self) -> str:
        """Why only transformers can evaluate it; empty where the ranks can, too."""
        trainer = self._trainer
        if trainer.compute_metrics is not None and not trainer.args.prediction_loss_only:
            return "compute_metrics wants predictions, which ranks do not give"
        if isinstance(trainer.eval_dataset, dict):
            return "eval_dataset is several data sets"
        for name in _EVALUATING:
            if getattr(type(trainer), name) is not getattr(transformers.Trainer, name) or name in vars(trainer):
                return f"{type(trainer).__name__}.{name} is the script's own"
        return ""

    def refuses(self, job: Job) -> str:
        """Why the ranks of a job cannot evaluate it; empty where they can."""
        if reason := self._needs_python():
            return reason
        if not job.has_evaluation:
            return "the programs only train (job.notes may tell why)"
        left = self.rows % job.plan.global_batch
        if not self.rows or (left and self._padding.loss not in _UNCOUNTABLE):
            return f"eval_dataset has {self.rows} samples, no multiple of the {job.plan.global_batch} of a step"
        return ""

    def differs(self, job: Job) -> str:
        """In what the ranks' loss is another than transformers'; empty where it is not."""
        trainer, batch = self._trainer, self._trainer.args.eval_batch_size
        if self._padding.loss not in losses.BUILT_IN:
            micro = job.plan.global_batch // trainer.args.gradient_accumulation_steps  # of all ranks, whose loss is one
            is_same = micro == batch and self.rows % batch == 0
            return "" if is_same else f"of batches of {micro} samples, where transformers' have {batch}"
        if self._padding.loss == "causal_lm" and trainer.model_accepts_loss_kwargs and not getattr(trainer, "_loss_shifts_labels", True):
            return "divided by what is counted, where transformers' counts one label a sample more, unless model.loss_type is set"
        each = [counted / rows for rows, counted in self._batches]
        if max(each) - min(each) > 1e-9 * max(each):
            return "the mean over all that counts, where transformers' is that of its batches, whichever number of tokens they have"
        return ""

    def write(self, path: pathlib.Path, job: Job) -> None:
        """The file that the ranks evaluate. What fills its last global batch counts for nothing."""
        count = -(-self.rows // job.plan.global_batch) * job.plan.global_batch
        writer: datasets.SampleWriter | None = None
        try:
            for row in self._samples():
                sample = self._padding.padded(row)
                writer = writer or datasets.SampleWriter(path, count, sample)
                writer.add(sample)
            for _ in range(count - self.rows):
                assert writer is not None
                writer.add(sample | {"labels": numpy.full_like(sample["labels"], UNCOUNTED)})
        finally:
            if writer is not None:
                writer.close()

    def _samples(self) -> Iterator[Row]:
        self._file.seek(0)
        for rows, _ in self._batches:
            arrays = pickle.load(self._file)
            for row in range(rows):
                yield {name: array[row] for name, array in arrays.items()}

    def metrics(self, step: Step) -> dict[str, float]:
        """Of a line of the ranks', under transformers' names. Their rates are of its batches."""
        seconds = step.ms / 1000
        found = {"eval_loss": step.loss, "eval_runtime": round(seconds, 4)}
        if seconds > 0:
            found["eval_samples_per_second"] = round(self.rows / seconds, 3)
            found["eval_steps_per_second"] = round(math.ceil(self.rows / self._trainer.args.eval_batch_size) / seconds, 3)
        return found

    def tell_progress(self, call: Any) -> None:
        """What transformers tells of each batch."""
        self._trainer.callback_handler.eval_dataloader = self.loader
        for _ in self._batches:
            call("on_prediction_step")

    def close(self) -> None:
        """Forgets it."""
        self._file.close()


@dataclasses.dataclass(frozen=True)
class Way:
    """How a training evaluates."""

    by_ranks: bool  # between its steps
    also_last: bool  # and after the last, so that all its figures are of one kind


def way_of(held: HeldOut, job: Job, pauses: Pauses) -> Way:
    """The ranks evaluate where that tells what transformers would; otherwise transformers does, where the weights are saved; a warning
    tells where neither can be."""
    wanted = pauses.evaluations.steps
    if not wanted:
        return Way(False, False)
    refused = held.refuses(job)
    differs = "" if refused else held.differs(job)
    if not refused and not differs:
        return Way(True, False)
    if wanted <= pauses.saves.steps:
        return Way(False, False)
    wants = "save_strategy and save_steps as eval_strategy and eval_steps have transformers evaluate what is saved"
    if refused:
        warnings.warn(f"hyc.Trainer evaluates nothing before the last step: {refused}; {wants}", stacklevel=4)
        return Way(False, False)
    warnings.warn(f"eval_loss is the ranks' in this training, {differs}; {wants}", stacklevel=4)
    return Way(True, True)
