"""Tools that a command runs on its terminal, and the signals that end them with it."""

from __future__ import annotations

import collections
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from .. import tools
from ..errors import HycError, UnavailableError, error_for

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


def call(tool: str, arguments: Sequence[str], show: Callable[[str], str] | None = None) -> int | None:
    """A tool on this terminal, to its end, and the signal that came for this process meanwhile, which it has been passed, if any.

    Its own lines have said what is wrong when it fails; the error has its status. `show` may change the lines of its standard
    output.
    """
    command = [tools.find(tool), *arguments]
    relay = Relay()

    def pass_lines(pipe: IO[str], stream: IO[str]) -> None:
        for line in pipe:
            relay.hear(line)
            with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
                print(show(line) if show else line, end="", file=stream, flush=True)

    with taking_signals(relay.take):
        try:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE if show else None,
                stderr=None if show else subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as why:
            raise UnavailableError(f"cannot start {command[0]}: {why.strerror}") from why
        pipe = process.stdout or process.stderr
        stream = sys.stdout if process.stdout else sys.stderr
        lines = threading.Thread(target=pass_lines, args=(pipe, stream), daemon=True)
        lines.start()
        with relay.follow(process):
            status = process.wait()
        lines.join(timeout=5)
    if status != 0:
        error = error_for(status, f"{tool} ended with status {status}")
        error.exit_status = status if status > 0 else 128 - status
        raise error
    return relay.first
