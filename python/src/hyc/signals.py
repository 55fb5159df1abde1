"""Signals that end a process, and those that it passes on to a tool that runs for it."""

from __future__ import annotations

import collections
import contextlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import HycError

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 1.0  # seconds
_LINES = 200  # of a tool, that are remembered


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
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: one that is not Python's


class Relay:
    """Signals that come for this process while a tool runs. The tool is sent those that it has not heard of by itself.

    A terminal, and systems that end a job, send a signal to all processes; the tool says so, and a second one would end it at
    once.
    """

    def __init__(self) -> None:
        self._said: collections.deque[tuple[float, str]] = collections.deque(maxlen=_LINES)
        self._taken: list[tuple[int, float]] = []  # signals to this process, and when
        self._passed = 0  # of these, how many the tool has heard of

    @property
    def first(self) -> int | None:
        """The signal that came first, if any has."""
        return self._taken[0][0] if self._taken else None

    def take(self, number: int, _: object) -> None:
        """A handler of signals."""
        self._taken.append((number, time.monotonic()))

    def hear(self, line: str) -> None:
        """A line that the tool says."""
        self._said.append((time.monotonic(), line))

    def _has_heard(self, number: int, since: float) -> bool:
        """Whether it has named it, about then; a line that did so answers for one signal."""
        name = signal.Signals(number).name
        for said in list(self._said):
            if said[0] >= since - _PATIENCE and name in said[1]:
                with contextlib.suppress(ValueError):  # newer lines have displaced it
                    self._said.remove(said)
                return True
        return False

    def _pass_on(self, process: subprocess.Popen[str]) -> None:
        while self._passed < len(self._taken):
            number, since = self._taken[self._passed]
            if not self._has_heard(number, since):
                if time.monotonic() - since < _PATIENCE:
                    return
                process.send_signal(number)
            self._passed += 1

    @contextlib.contextmanager
    def follow(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """The time in which a tool is passed what comes."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(0.2):
                self._pass_on(process)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
