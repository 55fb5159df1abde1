"""Data as hyc-run reads it: a file of tokens, or samples as one safetensors file that is written row by row."""

from __future__ import annotations

import array
import dataclasses
import itertools
import json
import os
import pathlib
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy

from .errors import DataError, UsageError
from .outputs import TOKEN_MAGIC

_TYPES = {
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
}
_WIDER = {"bool": "uint8", "int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}

_HEADER = struct.Struct("<8sII6Q")


def as_array(value: Any, name: str) -> numpy.ndarray:
    """A tensor of torch's, an array, a number or a list, in one of the types that hyc-run reads."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    try:
        array = numpy.asarray(value)
    except ValueError as error:
        raise DataError(f"{name} is no tensor: {error}") from error
    kind = array.dtype.name
    if kind in _WIDER:
        array = array.astype(_WIDER[kind])
    if array.dtype.name not in _TYPES:
        raise DataError(f"{name} has type {array.dtype}, expected numbers")
    return array


def _header(
    like: Mapping[str, numpy.ndarray], count: int, metadata: Mapping[str, str] | None = None
) -> tuple[bytes, dict[str, int]]:
    """The beginning of a safetensors file of so many samples that are like one, and where each tensor lies in the file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    begins: dict[str, int] = {}
    for name, array in like.items():
        size = count * array.nbytes
        header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": [count, *array.shape],
            "data_offsets": [offset, offset + size],
        }
        begins[name] = offset
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text)) + text
    return whole, {name: len(whole) + begin for name, begin in begins.items()}


def _as_first(array: numpy.ndarray, like: numpy.ndarray, name: str, row: int) -> numpy.ndarray:
    """A sample's tensor in the type that sample 0 has. DataError where that changes a value by more than rounding."""
    if array.dtype == like.dtype:
        return numpy.ascontiguousarray(array)
    with numpy.errstate(all="ignore"):
        cast = array.astype(like.dtype)
        if array.dtype.kind == like.dtype.kind == "f":
            lost = numpy.isfinite(array) & ~numpy.isfinite(cast)
        else:
            lost = cast.astype(array.dtype) != array
    if numpy.any(lost):
        raise DataError(
            f"sample {row}: {name} has {array[lost].flat[0]}, which {like.dtype}, the type in sample 0, does not hold; give all "
            f"samples one type, as by torch.tensor(…, dtype=torch.{array.dtype})"
        )
    return numpy.ascontiguousarray(cast)


class SampleWriter:
    """Samples, one after the other, into a safetensors file of a known number of them."""

    def __init__(self, path: pathlib.Path, count: int, first: Mapping[str, numpy.ndarray]) -> None:
        self._first = dict(first)
        self._row = 0
        text, self._offsets = _header(self._first, count)
        self._file = open(path, "wb")
        self._file.write(text)
        self._file.truncate(len(text) + count * sum(array.nbytes for array in self._first.values()))

    def add(self, sample: Mapping[str, numpy.ndarray]) -> None:
        """DataError where a sample is not as the first."""
        if sample.keys() != self._first.keys():
            raise DataError(
                f"sample {self._row} has {', '.join(sample)}, expected {', '.join(self._first)} as sample 0 has"
            )
        for name, like in self._first.items():
            array = sample[name]
            if array.shape != like.shape:
                raise DataError(
                    f"sample {self._row}: {name} has shape {list(array.shape)}, expected {list(like.shape)} as in sample 0; "
                    "pad samples to one length"
                )
            self._file.seek(self._offsets[name] + self._row * like.nbytes)
            self._file.write(_as_first(array, like, name, self._row).tobytes())
        self._row += 1

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a model reads, as data sets are asked for it."""

    names: tuple[str, ...]  # in the order of forward's arguments
    labels: str  # what the labels are called
    shifts_labels: bool  # causal_lm: without labels of their own, the tokens are the labels

    @property
    def of_samples(self) -> tuple[str, ...]:
        """Of samples that are tuples: the inputs, then the labels."""
        return self.names if self.labels in self.names else (*self.names, self.labels)

    def complete(self, tensors: dict[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
        """With the labels of causal_lm, where there are none: the tokens, but -100 where attention_mask is 0."""
        if not self.shifts_labels or self.labels in tensors or not tensors:
            return tensors
        tokens = tensors.get(self.names[0] if self.names else "input_ids", next(iter(tensors.values())))
        mask = tensors.get("attention_mask")
        labels = tokens if mask is None else numpy.where(mask != 0, tokens, -100).astype(tokens.dtype)
        return {**tensors, self.labels: labels}


def _named(sample: Any, names: Sequence[str], index: int) -> dict[str, numpy.ndarray]:
    """A sample's tensors by the names of the model's inputs; of a tuple in their order, and then the labels."""
    if not isinstance(sample, Mapping):
        values = list(sample) if isinstance(sample, (tuple, list)) else [sample]
        if len(values) > len(names):
            raise DataError(
                f"sample {index} has {len(values)} tensors, expected at most {len(names)}: {', '.join(names)}; give samples "
                "as dicts by name"
            )
        sample = dict(zip(names, values))
    return {
        str(name): as_array(value, f"sample {index}: {name}") for name, value in sample.items() if value is not None
    }


def _write_samples(samples: Iterable[Any], count: int, inputs: Inputs, path: pathlib.Path) -> None:
    writer: SampleWriter | None = None
    index = 0
    try:
        for index, sample in enumerate(itertools.islice(samples, count)):
            arrays = inputs.complete(_named(sample, inputs.of_samples, index))
            writer = writer or SampleWriter(path, count, arrays)
            writer.add(arrays)
    finally:
        if writer:
            writer.close()
    if writer is None:
        raise DataError("the data set has no samples, expected at least 1")
    if index + 1 != count:
        raise DataError(
            f"the data set has {index + 1} samples, expected {count}: one without a length is read once, for all steps; give fewer "
            "steps, or a data set that goes on or has a length, which is read again"
        )


def _write_tensors(tensors: Mapping[str, Any], inputs: Inputs, path: pathlib.Path) -> None:
    """A dict of tensors by input name, dimension 0 the sample."""
    arrays = inputs.complete({str(name): as_array(value, str(name)) for name, value in tensors.items()})
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    count = max(counts.values(), default=0)
    if not arrays:
        raise DataError("the data holds no tensor")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise DataError(f"{name} is a number, expected a tensor whose dimension 0 is the sample")
    if count == 0:
        raise DataError(f"the data has no samples: dimension 0 of {', '.join(arrays)} is 0, expected at least 1")
    for name, found in counts.items():
        if found != count:
            raise DataError(f"{name} has {found} samples, expected {count} as every other tensor has")
    writer = SampleWriter(path, count, {name: array[0] for name, array in arrays.items()})
    try:
        for row in range(count):
            writer.add({name: array[row] for name, array in arrays.items()})
    finally:
        writer.close()


class GrowingSampleWriter:
    """Samples into a safetensors file of which nobody knows yet how many there will be.

    Rows go to a file a tensor beside the target; close() puts them together.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._files: dict[str, IO[bytes]] = {}
        self._like: dict[str, numpy.ndarray] = {}
        self.count = 0

    def add(self, sample: Mapping[str, numpy.ndarray]) -> None:
        """One more, of the tensors and shapes that the first has."""
        if not self._like:
            self._like = dict(sample)
            self._files = {name: tempfile.TemporaryFile(dir=self._path.parent) for name in sample}
        for name, like in self._like.items():
            if sample[name].shape != like.shape:
                raise DataError(
                    f"sample {self.count}: {name} has shape {list(sample[name].shape)}, expected {list(like.shape)} as in "
                    "sample 0"
                )
            self._files[name].write(_as_first(sample[name], like, name, self.count).tobytes())
        self.count += 1

    def close(self, metadata: Mapping[str, str] | None = None) -> None:
        """Writes the file."""
        text, _ = _header(self._like, self.count, metadata)
        with open(self._path, "wb") as file:
            file.write(text)
            for part in self._files.values():
                part.seek(0)
                shutil.copyfileobj(part, file, 1 << 20)
        self.abandon()

    def abandon(self) -> None:
        """Forgets all rows."""
        for part in self._files.values():
            part.close()


class TokenWriter:
    """Tokens, where documents end and what counts, into a file of hyc's own kind (runtime/src/io/token_file.h).

    The header is zero until close(): what nobody has closed is no token file.
    """

    def __init__(self, path: str | os.PathLike[str], vocabulary: int) -> None:
        self._vocabulary = vocabulary
        self._width = numpy.dtype("<u2" if vocabulary <= 1 << 16 else "<u4")
        self._file = open(path, "wb")
        self._file.write(bytes(_HEADER.size))
        self._ends = array.array("Q")
        self._mask: bytearray | None = None  # a byte a token, of a file in which some do not count
        self.count = 0

    @property
    def documents(self) -> int:
        """Those that have ended."""
        return len(self._ends)

    def add(self, tokens: Any, counts: Sequence[bool] | None = None) -> None:
        """Appends them; those that `counts` is false for are no labels."""
        values = numpy.asarray(tokens, dtype=numpy.int64).astype(self._width)
        self._file.write(values.tobytes())
        if counts is not None and self._mask is None and not all(counts):
            self._mask = bytearray(b"\1" * self.count)
        if self._mask is not None:
            self._mask += bytes(counts) if counts is not None else b"\1" * values.size
        self.count += values.size

    def end_document(self) -> None:
        """What has been added since the last one is a document."""
        self._ends.append(self.count)

    def close(self) -> None:
        """Writes documents, mask and header. What comes after the last document is one, too."""
        if self.count and (not self._ends or self._ends[-1] < self.count):
            self.end_document()
        tokens_at = _HEADER.size
        ends_at = (tokens_at + self.count * self._width.itemsize + 7) // 8 * 8
        mask_at = 0 if self._mask is None else ends_at + 8 * len(self._ends)
        self._file.write(bytes(ends_at - tokens_at - self.count * self._width.itemsize))
        self._file.write(numpy.asarray(self._ends, dtype="<u8").tobytes())
        if self._mask is not None:
            self._file.write(numpy.packbits(numpy.frombuffer(self._mask, numpy.uint8), bitorder="little").tobytes())
        self._file.seek(0)
        self._file.write(
            _HEADER.pack(
                TOKEN_MAGIC, 1, self._width.itemsize, self._vocabulary, self.count, len(self._ends), tokens_at, ends_at, mask_at
            )
        )
        self._file.close()

    def abandon(self) -> None:
        """Closes a file that is not going to be one."""
        self._file.close()


def _write_tokens(tokens: numpy.ndarray, path: pathlib.Path) -> None:
    if tokens.size and int(tokens.min()) < 0:
        raise DataError(f"token {int(tokens.argmin())} is {int(tokens.min())}, expected tokens from 0")
    if not tokens.size:
        raise DataError("the stream has no tokens")
    writer = TokenWriter(path, int(tokens.max()) + 1)
    writer.add(tokens)
    writer.close()


def tensors_of(path: pathlib.Path) -> list[str]:
    """The names in a file of samples that `write` has made; of a stream of tokens none."""
    if path.suffix != ".safetensors":
        return []
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header: dict[str, Any] = json.loads(file.read(size))
    return [name for name in header if name != "__metadata__"]


def _length(data: Any, most: int) -> int:
    try:
        return len(data)
    except TypeError:
        return most


def _in_order(data: Any) -> Iterator[Any]:
    """Map-style data sets need not be iterable."""
    if hasattr(data, "__iter__"):
        return iter(data)
    return (data[index] for index in range(len(data)))


def write(data: Any, inputs: Inputs, folder: pathlib.Path, stem: str, most: int) -> pathlib.Path:
    """A file for hyc-run of whatever `data` is.

    - a path: itself
    - a dict of tensors by input name, each [samples, …]: samples
    - one tensor or array of integers, [tokens]: a stream of tokens, cut into sequences by hyc-run
    - a torch or Hugging Face data set, or any sequence, of dicts by input name (or of tuples in the order of forward, the labels last): samples.
      Of one without a length, `most` are taken
    """
    if isinstance(data, (str, os.PathLike)):
        return pathlib.Path(data)
    if type(data).__name__ == "DataLoader":
        raise UsageError("data is a DataLoader, expected its Dataset: hyc makes the batches itself")
    if isinstance(data, Mapping):
        path = folder / f"{stem}.safetensors"
        _write_tensors(data, inputs, path)
        return path
    if (hasattr(data, "detach") or isinstance(data, numpy.ndarray)) and len(data.shape) == 1:
        path = folder / f"{stem}.bin"
        tokens = as_array(data, "data")
        if tokens.dtype.kind not in "iu":
            raise DataError(f"a stream of tokens has type {tokens.dtype}, expected integers")
        _write_tokens(tokens, path)
        return path
    if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
        raise UsageError(
            f"data is a {type(data).__name__}, expected a data set, a dict of tensors by input name, or a path"
        )
    path = folder / f"{stem}.safetensors"
    _write_samples(_in_order(data), _length(data, most), inputs, path)
    return path
