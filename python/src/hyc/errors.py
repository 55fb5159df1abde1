"""What goes wrong, as exceptions: one class for each exit status of the tools, and one for models that cannot be traced."""

from __future__ import annotations

import signal


class HycError(Exception):
    """Anything that hyc refuses or fails at. Its text is the tool's own message: located, with found and expected."""

    exit_status = 70


class UsageError(HycError, ValueError):
    """Settings that are wrong by themselves or together."""

    exit_status = 64


class DataError(HycError, ValueError):
    """A model, a file or a data set that is not what it has to be."""

    exit_status = 65


class UnavailableError(HycError):
    """Something that is not on this machine: a compiler, a tool, memory, a GPU."""

    exit_status = 69


class InternalError(HycError):
    """A fault of hyc's own."""

    exit_status = 70


class InputOutputError(HycError, OSError):
    """A file that cannot be read or written."""

    exit_status = 74


class TemporaryError(HycError):
    """What may go well when it is tried again: a peer that was lost, a file that is locked."""

    exit_status = 75


class HycWarning(UserWarning):
    """What hyc goes on with, and a user may want to know: hyc-compile's and hyc-run's warnings, and this package's own."""


class TraceError(DataError):
    """A model that torch.export cannot follow.

    `file` and `line` say where in the model it ends, `code` is that line; they are None where torch does not tell.
    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.code = code


_BY_STATUS: dict[int, type[HycError]] = {
    kind.exit_status: kind
    for kind in (UsageError, DataError, UnavailableError, InternalError, InputOutputError, TemporaryError)
}


def error_for(status: int, message: str) -> HycError:
    """The exception for a tool's exit status; negative ones and those from 128 on are signals."""
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return HycError(message or f"ended by {name}")
    return _BY_STATUS.get(status, HycError)(message or f"ended with status {status}")
