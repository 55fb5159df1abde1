"""hyc check: what is installed, and what it can do on this machine, or on the hosts of a job."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from .. import tools
from ..errors import HycError

_PACKAGES = ("torch", "transformers", "tokenizers", "datasets")


def main(words: Sequence[str] | None = None) -> int:
    """The command: hyc-check with these words, and without any what Python has beside it."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        tool = tools.find("hyc-check")
    except HycError as error:
        print(f"hyc check: error: {error}", file=sys.stderr)
        return error.exit_status
    sys.stdout.flush()
    status = subprocess.run([tool, *words], check=False).returncode
    if not words:
        print()
        for package in _PACKAGES:
            found = importlib.util.find_spec(package) is not None
            print(f"{package:<16}{importlib.metadata.version(package) if found else 'not installed'}")
    return status
