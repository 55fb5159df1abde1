"""Files under names that a user has given: they appear whole, and replace nothing that hyc has not written itself."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from .errors import InputOutputError, UsageError

TOKEN_MAGIC = b"hyctoken"
# A member of the archives of hyc.compile, which torch.export.save puts under extra/ and its readers pass over.
ARCHIVE_MARK = {"hyc": "traced by hyc.compile"}


@contextlib.contextmanager
def appearing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A name to write to; what is there becomes `path` when all went well, and is gone otherwise."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
    except OSError as error:
        raise InputOutputError(f"cannot write '{path}': {error.strerror}") from error
    try:
        yield pathlib.Path(name)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except OSError as error:
        raise InputOutputError(f"cannot write '{path}': {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def is_same(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names are of one file: by another spelling, or by a link. Of a file to come, by its folder and name."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def refuse_inputs(option: str, outputs: Iterable[pathlib.Path], inputs: Iterable[str], what: str = "read") -> None:
    """UsageError where an output is another file of the same command, as one that is read."""
    read = list(inputs)
    for path in outputs:
        for taken in read:
            if is_same(path, taken):
                raise UsageError(f"{option} would overwrite '{taken}', which is {what}; give another name")


def refuse_foreign_data(option: str, outputs: Iterable[pathlib.Path]) -> None:
    """UsageError where something lies under an output's name that hyc data has not written."""
    for path in outputs:
        if os.path.lexists(path) and not _is_data(path):
            raise UsageError(
                f"{option} would overwrite '{path}', which hyc data has not written; move it away, or give another name"
            )


def _is_data(path: pathlib.Path) -> bool:
    """By hyc's own magic, or by the description beside the data, which names it."""
    if path.suffix == ".bin":
        try:
            with open(path, "rb") as file:
                return file.read(len(TOKEN_MAGIC)) == TOKEN_MAGIC
        except OSError:
            return False
    about = _description(path.with_suffix(".json"))
    if path.suffix == ".json":
        return about is not None
    return about is not None and about["data"] == path.name and path.is_file()


def _description(path: pathlib.Path) -> dict[str, Any] | None:
    """NAME.json, as it lies beside NAME.bin or NAME.safetensors; None of anything else."""
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    names = [path.with_suffix(ending).name for ending in (".bin", ".safetensors")]
    is_own = isinstance(about, dict) and "format_version" in about and about.get("data") in names
    return about if is_own else None


def _is_archive(path: pathlib.Path) -> bool:
    """Whether hyc.compile has written it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(f"/extra/{mark}") for name in archive.namelist() for mark in ARCHIVE_MARK)
    except (OSError, zipfile.BadZipFile):
        return False


class TracedArchive:
    """OUTPUT.pt2 beside a folder of programs, which know it by its path and check sum.

    A model is traced to `staged`, in a folder of its own. Within `placed` that is the archive, and stays so if hyc-compile has
    replaced the programs by then; if it has not, an earlier archive is back, whatever has happened.
    """

    def __init__(self, folder: pathlib.Path, path: pathlib.Path | None = None) -> None:
        self._folder = folder
        self.path = path or folder.with_name(folder.name + ".pt2")
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"output is '{folder}', which is no folder; move it away, or give another name")
        if os.path.lexists(self.path) and not _is_archive(self.path):
            raise UsageError(
                f"output='{folder}' would overwrite '{self.path}', which hyc.compile has not written; move it away, or give "
                "another name"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._scratch = tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent)
        except OSError as error:
            raise InputOutputError(f"cannot write the traced model to '{self.path}': {error.strerror}") from error
        self.staged = pathlib.Path(self._scratch.name) / self.path.name

    def __enter__(self) -> TracedArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def _programs(self) -> tuple[int, int] | None:
        """Which programs are there: the list of their files is another with each compilation."""
        try:
            info = os.stat(self._folder / "files.json")
        except OSError:
            return None
        return info.st_ino, info.st_mtime_ns

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """The time in which hyc-compile reads the archive."""
        before = self._programs()
        aside = self.staged.with_suffix(".earlier")
        try:
            try:
                if os.path.lexists(self.path):
                    os.replace(self.path, aside)
                os.replace(self.staged, self.path)
            except OSError as error:
                raise InputOutputError(f"cannot write the traced model to '{self.path}': {error.strerror}") from error
            yield
        except BaseException:
            if self._programs() == before:
                self._put_back(aside)
            raise

    def _put_back(self, aside: pathlib.Path) -> None:
        if os.path.lexists(aside):
            os.replace(aside, self.path)
        elif not self.staged.exists():  # there was none before
            self.path.unlink(missing_ok=True)
