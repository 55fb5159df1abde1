"""Reading command lines with the tools' exit status for what is wrong."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ..errors import UsageError


class Parser(argparse.ArgumentParser):
    """One whose complaints are UsageErrors, and which takes no flag for the beginning of another."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises it."""
        raise UsageError(f"{message}; --help tells more")


def natural(text: str) -> int:
    """A whole number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found '{text}', expected a whole number from 1")
    return int(text)


def numbers(text: str) -> tuple[float, ...]:
    """Three numbers, or one for all three."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    found = found * 3 if len(found) == 1 else found
    if len(found) != 3 or not all(abs(number) < 1e6 for number in found):
        raise argparse.ArgumentTypeError(f"found '{text}', expected three numbers as 0.5,0.5,0.5")
    return found
