"""Tools that a command runs on its terminal."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO

from .. import tools
from ..errors import UnavailableError, error_for
from ..signals import Relay, taking_signals


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
