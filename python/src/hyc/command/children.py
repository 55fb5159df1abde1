"""Tools that a command runs on its terminal, and the signals that end them with it."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import tools
from ..errors import HycError, UnavailableError, error_for

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 1.0  # seconds


class Stopped(BaseException):
    """A signal that asks this process to end, where no tool runs that would have to end before."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def as_error(self) -> HycError:
        """For whoever called the command: the status that a shell gives to what a signal has ended."""
        error = HycError(f"stopped by {signal.Signals(self.number).name}")
        error.exit_status = 128 + self.number
        return error


def _raise(number: int, _: object) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Stopped(number)


@contextlib.contextmanager
def taking_signals(take: Callable[[int, Any], None] = _raise) -> Iterator[None]:
    """The time in which `take` hears of signals that end a command; by default they are exceptions, so that it may clean up.

    What is ignored, as under nohup, stays so.
    """
    had: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for end in _ENDS:
                if signal.getsignal(end) is not signal.SIG_IGN:
                    had[end] = signal.signal(end, take)
        yield
    finally:
        for number, handler in had.items():
            signal.signal(number, handler)


class _Child:
    """A tool, what it says, and what has been taken of signals for it. Of one that has `show` that is standard output, else error."""

    def __init__(self, command: Sequence[str], show: Callable[[str], str] | None) -> None:
        self._show = show or (lambda line: line)
        self._said: list[str] = []
        self._taken: list[tuple[int, float]] = []  # signals to this process, and when
        self._passed = 0  # of these, how many the tool has heard of
        try:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE if show else None,
                stderr=None if show else subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise UnavailableError(f"cannot start {command[0]}: {error.strerror}") from error
        self._relay = threading.Thread(target=self._pass_lines, daemon=True)
        self._relay.start()

    def _pass_lines(self) -> None:
        pipe, stream = self.process.stdout or self.process.stderr, sys.stdout if self.process.stdout else sys.stderr
        for line in pipe or ():
            self._said.append(line)
            with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
                print(self._show(line), end="", file=stream, flush=True)

    def take(self, number: int, _: object) -> None:
        """A handler of signals."""
        self._taken.append((number, time.monotonic()))

    def _pass_on(self) -> None:
        """A terminal, and systems that end a job, send a signal to the tool, too, which says so; a second one would end it at once."""
        while self._passed < len(self._taken):
            number, since = self._taken[self._passed]
            sent = [taken for taken, _ in self._taken[: self._passed + 1]].count(number)
            heard = sum(signal.Signals(number).name in line for line in list(self._said))
            if heard < sent and time.monotonic() - since < _PATIENCE:
                return
            if heard < sent:
                self.process.send_signal(number)
            self._passed += 1

    def wait(self) -> tuple[int, int | None]:
        """The status that it ends with, and the signal that came meanwhile, if any."""
        while True:
            try:
                status = self.process.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                self._pass_on()
        self._relay.join(timeout=5)
        return status, self._taken[0][0] if self._taken else None


def call(tool: str, arguments: Sequence[str], show: Callable[[str], str] | None = None) -> int | None:
    """A tool on this terminal, to its end, and the signal that came for this process meanwhile, which it has been passed, if any.

    Its own lines have said what is wrong when it fails; the error has its status. `show` may change its lines.
    """
    path = tools.find(tool)
    child: _Child | None = None
    early: list[int] = []

    def take(number: int, frame: object) -> None:
        if child is None:
            early.append(number)
        else:
            child.take(number, frame)

    with taking_signals(take):
        child = _Child([path, *arguments], show)
        for number in early:
            child.take(number, None)
        status, stopped = child.wait()
    if status != 0:
        error = error_for(status, f"{tool} ended with status {status}")
        error.exit_status = status if status > 0 else 128 - status
        raise error
    return stopped
