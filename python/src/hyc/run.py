"""A training run: native ranks that hyc-run starts, their steps as they come, and the weights that they leave."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, ClassVar

from . import tools, weights
from .errors import DataError, InputOutputError, UnavailableError, error_for
from .signals import Relay

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Step:
    """A line of hyc-run's log. What does not go with the kind of step is None; what is not finite is NaN.

    Of a training step `loss` is the mean over the global batch before the update; of an evaluation, over the held-out data.
    """

    step: int
    steps: int
    loss: float
    is_evaluation: bool
    grad_norm: float | None
    lr: float | None
    ms: float
    tokens_per_s: float | None
    samples_per_s: float | None
    accuracy: float | None
    values: Mapping[str, Any] = dataclasses.field(repr=False)  # the line as a whole

    @staticmethod
    def parse(line: str) -> Step | None:
        """Of a JSON line; None of one that tells of something else, as that a checkpoint was written."""
        values = json.loads(line)
        if "event" in values:
            return None
        is_between = "evaluate_batches" in values

        def number(key: str) -> float | None:
            if key not in values:
                return None
            return float("nan") if values[key] is None else float(values[key])

        loss = number("evaluate_loss" if is_between else "loss")
        return Step(
            int(values["step"]),
            int(values["steps"]),
            float("nan") if loss is None else loss,
            is_between or "perplexity" in values,
            number("grad_norm"),
            number("lr"),
            number("ms") or 0.0,
            number("tokens_per_s"),
            number("samples_per_s"),
            number("evaluate_accuracy" if is_between else "accuracy"),
            values,
        )

    def __str__(self) -> str:
        rate = f"{self.samples_per_s:.0f} samples/s" if self.samples_per_s else f"{self.tokens_per_s or 0:.0f} tokens/s"
        what = "evaluation" if self.is_evaluation else "step"
        norm = "" if self.grad_norm is None else f"   grad norm {self.grad_norm:.3e}   lr {self.lr:.3e}"
        return f"{what} {self.step}/{self.steps}   loss {self.loss:.5f}{norm}   {self.ms:.1f} ms   {rate}"


class Run:
    """What a run left: its steps, and its weights."""

    def __init__(
        self,
        steps: Sequence[Step],
        output: str,
        file: pathlib.Path | None,
        names: weights.Names | None,
        keeps: object,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.steps = [step for step in steps if not step.is_evaluation]
        self.evaluations = [step for step in steps if step.is_evaluation]
        self.output = output  # what hyc-run printed
        self.notes = notes  # what it remarked and warned of
        self._file = file
        self._names = names
        self._keeps = keeps  # the temporary folder of the weights

    @property
    def losses(self) -> list[float]:
        """The loss of each step, the mean over its global batch before the update."""
        return [step.loss for step in self.steps]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The trained parameters and buffers, whole, under the module's own names: `model.load_state_dict` takes it.

        Of a job with adapters (lora=…) theirs alone, under peft's names, unless it was trained with merge=True."""
        if self._file is None:
            raise DataError("the run has evaluated and trained nothing: it leaves no weights")
        return weights.load(self._file, self._names)

    def __repr__(self) -> str:
        last = f", loss {self.losses[0]:.5f} to {self.losses[-1]:.5f}" if self.steps else ""
        return f"<hyc.Run of {len(self.steps)} steps{last}>"


def _collect(stream: IO[str], into: list[str], hear: Callable[[str], object] | None = None) -> threading.Thread:
    """Reads a pipe to its end, and closes it, beside whatever else goes on, so that nobody waits for it to be read. `hear` is told
    each line."""

    def read() -> None:
        with stream:
            for line in stream:
                into.append(line)
                if hear is not None:
                    hear(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _whole_lines(log: IO[str]) -> Iterator[str]:
    """Whole lines; one that the end of a run cut off is none."""
    return (line for line in log if line.endswith("\n"))


class LogCopy:
    """The file that a user has asked for by log_file: each line of hyc-run's log, as soon as it is there.

    As hyc-run does, it empties what is there, but of a run that was refused before it began, and goes on of one that resumes.
    """

    def __init__(self, path: pathlib.Path, goes_on: bool) -> None:
        self._path = path
        self._empties = not goes_on
        self._is_new = not os.path.lexists(path)
        try:
            self._file = open(path, "ab", buffering=0)
        except OSError as error:
            raise InputOutputError(f"cannot write '{path}' (log_file): {error.strerror}") from error

    def add(self, line: str) -> None:
        """One more."""
        try:
            if self._empties and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(0)
            self._empties = self._is_new = False
            rest = memoryview(line.encode())
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise InputOutputError(f"cannot write '{self._path}' (log_file): {error.strerror}") from error

    def close(self) -> None:
        """Ends it. Where there was none before, and nothing has been told, there is none afterwards."""
        self._file.close()
        if self._is_new:
            self._path.unlink(missing_ok=True)


def launch(
    folder: pathlib.Path,
    arguments: Sequence[str],
    on_step: Callable[[Step], object] | None,
    watch: Callable[[Step], object] | None = None,
    shows: bool | None = None,
    copy: LogCopy | None = None,
    relay: Relay | None = None,
    said: list[str] | None = None,
    on_event: Callable[[Mapping[str, Any]], object] | None = None,
) -> tuple[list[Step], str]:
    """Runs hyc-run to its end: the steps, and what it printed. HycError with its message where it fails.

    Steps come by a pipe that hyc-run writes its log to. An exception in `on_step`, and Ctrl-C, end the ranks before they go
    on to the caller. `watch` hears of steps, too. hyc-run's own lines are shown on this terminal where `shows` says so,
    by default on a terminal without `on_step`. `copy` is told of each line. Signals that
    `relay` takes are passed on, and the run ends by them as it does. `said` gets what hyc-run writes to standard error.
    `on_event` hears of lines that tell of no step, as that a checkpoint was written.
    """
    if shows is None:
        shows = on_step is None and sys.stdout.isatty()
    said = [] if said is None else said
    printed: list[str] = []
    steps: list[Step] = []
    with contextlib.closing(copy) if copy is not None else contextlib.nullcontext():
        process, log = _start([tools.find("hyc-run"), str(folder), *arguments], shows)
        assert process.stderr is not None
        threads = [_collect(process.stderr, said, relay.hear if relay else None)]
        if process.stdout is not None:
            threads.append(_collect(process.stdout, printed))
        try:
            with log, relay.follow(process) if relay else contextlib.nullcontext():
                for line in _whole_lines(log):
                    if copy is not None:
                        copy.add(line)
                    step = Step.parse(line)
                    if step is None:
                        if on_event is not None:
                            on_event(json.loads(line))
                        continue
                    steps.append(step)
                    for listener in (watch, on_step):
                        if listener is not None:
                            listener(step)
                process.wait()
        except BaseException:
            tools.end(process)
            raise
    for thread in threads:
        thread.join()
    if process.returncode != 0:
        message = tools.message_of("hyc-run", "".join(said))
        raise error_for(process.returncode, _naming_data(message, arguments))
    return steps, "".join(printed)


def _start(command: Sequence[str], shows: bool) -> tuple[subprocess.Popen[str], IO[str]]:
    """A tool, and the pipe that it writes its log to."""
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, f"--log-file=/dev/fd/{write_end}"],
            stdin=subprocess.DEVNULL,
            stdout=None if shows else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(write_end,),
        )
    except OSError as error:
        os.close(read_end)
        raise UnavailableError(f"cannot start {command[0]}: {error.strerror}") from error
    finally:
        os.close(write_end)
    return process, os.fdopen(read_end, encoding="utf-8")


def _naming_data(message: str, arguments: Sequence[str]) -> str:
    """A message in which files that a user knows nothing of are called what they were made of, as they are themselves: data."""
    for argument in arguments:
        flag, _, value = argument.partition("=")
        path = pathlib.Path(value)
        if flag in ("--data", "--evaluate-data") and str(path.parent) in TemporaryFolder.names:
            message = message.replace(f"'{value}'", path.stem).replace(value, path.stem)
    return message


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder in TMPDIR that is gone when nobody has it any more in the process that made it.

    A process that is forked from that one has a copy of all its objects: where it ends, or forgets them, nothing is removed.
    """

    names: ClassVar[set[str]] = set()  # of all that there are

    def __init__(self) -> None:
        super().__init__(prefix="hyc-", ignore_cleanup_errors=True)
        theirs: Any = vars(self)["_finalizer"]
        theirs.detach()
        self._finalizer = weakref.finalize(self, self._remove, self.name, os.getpid())
        self.names.add(self.name)

    @classmethod
    def _remove(cls, name: str, maker: int) -> None:
        if os.getpid() == maker:
            cls.names.discard(name)
            shutil.rmtree(name, ignore_errors=True)

    def cleanup(self) -> None:
        """Removes it now."""
        self._finalizer()


def temporary_folder() -> TemporaryFolder:
    """In TMPDIR; gone when nobody has it any more."""
    return TemporaryFolder()
