"""The samples of a training in the order in which transformers' loader gives them, epoch after epoch. They lie on disk: however many
there are, one batch is in memory."""

from __future__ import annotations

import dataclasses
import math
import pickle
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import numpy

from . import datasets
from .errors import DataError, UsageError

Row = dict[str, numpy.ndarray]


@dataclasses.dataclass(frozen=True)
class Course:
    """How long a training is, by what transformers means by its arguments."""

    steps: int
    per_step: int  # samples of one step over all ranks
    an_epoch: int | None  # steps; None: nobody knows before the data ends
    epochs: int

    @staticmethod
    def of(args: Any, rows: int | None, per_step: int) -> Course:
        """Of an epoch of so many samples. What is left of it and fills no step is left out."""
        if rows is not None and rows < per_step:
            raise DataError(f"train_dataset has {rows} samples, expected at least the {per_step} of a step")
        an_epoch = None if rows is None else rows // per_step
        if args.max_steps > 0:
            epochs = sys.maxsize if an_epoch is None else math.ceil(args.max_steps / an_epoch)
            return Course(args.max_steps, per_step, an_epoch, epochs)
        if an_epoch is None:
            raise UsageError("max_steps is missing: train_dataset has no length")
        steps = math.ceil(args.num_train_epochs * an_epoch)
        if steps < 1:
            raise UsageError(f"num_train_epochs is {args.num_train_epochs}, expected more than 0")
        return Course(steps, per_step, an_epoch, math.ceil(args.num_train_epochs))

    def left_out(self, args: Any, rows: int | None) -> int:
        """Samples of each epoch that transformers would train by in a smaller step."""
        batch = args.per_device_train_batch_size
        theirs = rows if rows is None or not args.dataloader_drop_last else rows // batch * batch
        return 0 if theirs is None else theirs % self.per_step

    def progress(self, epoch: int, steps: int) -> float:
        """What transformers calls the epoch, so many steps behind the beginning of one."""
        return epoch + steps / (self.an_epoch or self.steps)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in a training a step is, and what has been done when it ends."""

    epoch: int
    step: int  # of the epoch, from 1
    ends_epoch: bool
    flos: float
    tokens: int


@dataclasses.dataclass(frozen=True)
class _Batch:
    rows: int
    epoch: int
    flos: float
    tokens: int


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except (TypeError, AttributeError):  # Ray's data sets raise the second
        return None


def rows_an_epoch(loader: Any, batch: int) -> int | None:
    """How many samples a loader gives before it ends; None where it does not say."""
    order = getattr(getattr(loader, "batch_sampler", None), "sampler", None)
    for sized in (order, getattr(loader, "dataset", None)):
        found = _length(sized)
        if found is not None:
            return found
    batches = _length(loader)
    return None if batches is None else batches * batch


def _told_of_epoch(loader: Any, epoch: int) -> None:
    """As transformers tells a loader, and a sampler that accelerate has wrapped."""
    inner: Any = getattr(getattr(loader, "batch_sampler", None), "batch_sampler", None)
    for each in (loader, inner):
        if hasattr(each, "set_epoch"):
            each.set_epoch(epoch)


def _batches(loader: Any) -> Generator[Mapping[str, Any] | None, None, None]:
    """Epoch after epoch, sampled and collated as transformers does; None where one ends."""
    epoch = 0
    while True:
        _told_of_epoch(loader, epoch)
        yield from loader
        yield None
        epoch += 1


def arrays_of(batch: Mapping[str, Any]) -> Row:
    """A batch as numpy has it. DataError where it has no labels."""
    arrays = {name: datasets.as_array(value, name) for name, value in batch.items() if value is not None}
    if "labels" not in arrays:
        raise DataError(f"the collator gives {', '.join(arrays)}, expected labels among them")
    return arrays


class Samples:
    """What a loader has given so far, in a file without a name.

    `batch` is how many samples each batch has but the last of an epoch; None leaves it to the loader. `look` sees each batch's arrays
    and the number of its first sample; `account` gives the operations and tokens of a batch.
    """

    def __init__(
        self,
        loader: Any,
        batch: int | None,
        look: Callable[[Row, int], None],
        account: Callable[[Mapping[str, Any]], tuple[float, int]],
    ) -> None:
        self._source = _batches(loader)
        self._batch, self._look, self._account = batch, look, account
        self._file = tempfile.TemporaryFile(prefix="hyc-")
        self._batches: list[_Batch] = []
        self._rows = [0]  # of each epoch, the last of which is being read
        self._ends = [0]  # the sum of those that have ended

    def first(self) -> Row:
        """Sample 0."""
        while not self._batches:
            self._read(1)
        self._file.seek(0)
        return {name: array[0] for name, array in pickle.load(self._file).items()}

    def read(self, course: Course) -> None:
        """All that a course needs, and nothing of what is there already."""
        done = sum(rows // course.per_step for rows in self._rows[:-1])
        while done + self._rows[-1] // course.per_step < course.steps:
            read = len(self._rows)
            self._read(course.per_step)
            if len(self._rows) > read:
                done += self._rows[-2] // course.per_step

    def _read(self, least: int) -> None:
        """One batch, or the end of an epoch, which has to have so many samples."""
        batch = next(self._source)
        if batch is None:
            if self._rows[-1] < least:
                raise DataError(self._too_few(least))
            self._ends.append(self._ends[-1] + self._rows[-1])
            self._rows.append(0)
            return
        arrays = arrays_of(batch)
        rows = len(arrays["labels"])
        self._check_size(rows)
        self._look(arrays, self._ends[-1] + self._rows[-1])
        self._file.seek(0, 2)
        pickle.dump(arrays, self._file, pickle.HIGHEST_PROTOCOL)
        self._batches.append(_Batch(rows, len(self._rows) - 1, *self._account(batch)))
        self._rows[-1] += rows

    def _too_few(self, least: int) -> str:
        if len(self._rows) > 1 and not self._rows[-1]:
            return (
                f"train_dataset has ended for good after {self._ends[-1]} samples, which are too few for max_steps: expected one "
                "that can be gone through again"
            )
        count = f"{self._rows[-1]} samples" if self._rows[-1] else "no batch"
        return f"train_dataset has {count}, expected at least the {least} of a step"

    def _check_size(self, rows: int) -> None:
        """Of a loader or a collator of the script's own: micro-batches of a compiled step have one size."""
        if self._batch is None:
            return
        before = self._batches[-1] if self._batches and self._batches[-1].epoch == len(self._rows) - 1 else None
        wrong = rows if rows > self._batch else before.rows if before is not None else self._batch
        if wrong != self._batch:
            raise DataError(
                f"the train dataloader gives a batch of {wrong} samples, expected per_device_train_batch_size, {self._batch}"
            )

    def _used(self, course: Course) -> Iterator[tuple[_Batch, int]]:
        """Batches, and how many of their samples are trained by."""
        left, epoch, room = course.steps * course.per_step, -1, 0
        for batch in self._batches:
            if batch.epoch != epoch:
                epoch = batch.epoch
                room = min(left, self._rows[epoch] // course.per_step * course.per_step)
                left -= room
            used = min(batch.rows, room)
            room -= used
            yield batch, used

    def rows(self, course: Course) -> Iterator[Row]:
        """What all steps read, in order."""
        self._file.seek(0)
        for _, used in self._used(course):
            arrays = pickle.load(self._file)
            for row in range(used):
                yield {name: array[row] for name, array in arrays.items()}

    def places(self, course: Course) -> list[Place]:
        """Of all steps."""
        places: list[Place] = []
        samples, flos, tokens = 0, 0.0, 0.0
        for batch, used in self._used(course):
            samples += used
            flos += batch.flos * used / batch.rows
            tokens += batch.tokens * used / batch.rows
            while samples >= (len(places) + 1) * course.per_step:
                step = places[-1].step + 1 if places and places[-1].epoch == batch.epoch else 1
                ends = step == self._rows[batch.epoch] // course.per_step
                places.append(Place(batch.epoch, step, ends, flos, round(tokens)))
        return places

    def close(self) -> None:
        """Forgets them, and ends what the loader has started."""
        self._source.close()
        self._file.close()
