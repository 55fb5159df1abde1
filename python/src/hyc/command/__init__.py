"""hyc COMMAND: what a person types who has a folder of a model and text."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..errors import HycError

_USAGE = """usage: hyc COMMAND [options]; hyc COMMAND --help tells more

  hyc train MODEL_FOLDER --data FILES -o TRAINED   from a Hugging Face folder and text to a folder that transformers loads
  hyc data FILES --tokenizer MODEL_FOLDER -o NAME   text, instructions or chats to what hyc-run --data reads
  hyc check                                         what is installed, and what it can do on this machine, or on hosts
  hyc compile, hyc run, hyc checkpoint, hyc bench   hyc-compile, hyc-run, hyc-checkpoint and hyc-bench
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The console's hyc."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_USAGE, end="")
        return 0 if words else 64
    command, rest = words[0], words[1:]
    try:
        if command == "data":
            from .data import main as data

            return data(rest)
        if command == "train":
            from .train import main as train

            return train(rest)
        if command == "check":
            from .check import main as check

            return check(rest)
        if command in ("compile", "run", "checkpoint", "bench"):
            from ..tools import replace_by

            sys.argv = [sys.argv[0], *rest]
            replace_by(f"hyc-{command}")
    except HycError as error:
        print(f"hyc {command}: error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print(f"\nhyc {command}: stopped by SIGINT", file=sys.stderr)
        return 130
    print(
        f"hyc: error: unknown command '{command}', expected train, data, check, compile, run, checkpoint or bench",
        file=sys.stderr,
    )
    return 64
