"""The native tools: where they are, and running one to its end."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from .errors import HycError, UnavailableError, error_for

_PROGRESS = re.compile(r"^compiling \d+/\d+ files$")
_NATIVE = pathlib.Path(__file__).parent / "native" / "bin"
_TREE = pathlib.Path(__file__).parents[3] / "build" / "bin"


def find(name: str) -> str:
    """The path of a tool: in HYC_TOOLS, in this package, in the build folder of the tree that this is in, or in PATH."""
    given = os.environ.get("HYC_TOOLS")
    folders = [pathlib.Path(given)] if given else [_NATIVE, _TREE]
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    found = None if given else shutil.which(name)
    if found and not _is_entry_point(found):
        return found
    where = f"'{given}' (HYC_TOOLS)" if given else f"'{_NATIVE}', '{_TREE}' and PATH"
    raise UnavailableError(f"{name} is in none of {where}; install hyc's wheel, or build the tree by scripts/build")


def _is_entry_point(path: str) -> bool:
    """Whether it is this package's own script of that name, which would find itself."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def message_of(tool: str, said: str) -> str:
    """Of what a tool wrote to standard error, its message."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip() and not _PROGRESS.match(line)]
    first = next((index for index, line in enumerate(lines) if "error: " in line), 0)
    return "\n".join(line.removeprefix(f"{tool}: error: ") for line in lines[first:])


def notes_of(said: str) -> list[str]:
    """Of what a tool wrote to standard error, the notes and warnings."""
    return [line for line in said.splitlines() if "note: " in line or "warning: " in line]


def end(process: subprocess.Popen[str]) -> None:
    """Asks a tool to end, which ends what it has started, and waits for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(name: str, arguments: Sequence[str]) -> tuple[str, str]:
    """What a tool prints, to standard output and error. HycError of the kind that its exit status says."""
    command = [find(name), *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise UnavailableError(f"cannot start {command[0]}: {error.strerror}") from error
    try:
        output, said = process.communicate()
    except BaseException:
        end(process)
        raise
    if process.returncode != 0:
        raise error_for(process.returncode, message_of(name, said))
    return output, said


def replace_by(name: str) -> None:
    """Becomes the tool, with this process's arguments."""
    try:
        path = find(name)
    except HycError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    os.execv(path, [name, *sys.argv[1:]])


def hyc_compile() -> None:
    """The console's hyc-compile."""
    replace_by("hyc-compile")


def hyc_run() -> None:
    """The console's hyc-run."""
    replace_by("hyc-run")


def hyc_opt() -> None:
    """The console's hyc-opt."""
    replace_by("hyc-opt")


def hyc_checkpoint() -> None:
    """The console's hyc-checkpoint."""
    replace_by("hyc-checkpoint")


def hyc_bench() -> None:
    """The console's hyc-bench."""
    replace_by("hyc-bench")


def hyc_check() -> None:
    """The console's hyc-check."""
    replace_by("hyc-check")
