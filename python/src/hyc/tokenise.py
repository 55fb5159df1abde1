"""Text, instructions and chats to what hyc-run --data reads: a file of tokens, or samples with a mask of what counts."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy

from .datasets import SampleWriter, TokenWriter
from .errors import DataError, InputOutputError, UsageError
from .text import Piece, Tokenizer, find_files, pieces

_BATCH = 256  # pieces that are tokenised together
UNCOUNTED = -100


@dataclasses.dataclass(frozen=True)
class Tokenised:
    """What was written."""

    path: pathlib.Path
    documents: int
    tokens: int
    counted: int  # labels that count
    samples: int | None  # of a file of samples
    cut: int  # documents of which the end did not fit a sample


class Progress:
    """How far reading is: one line in place on a terminal, a line a tenth elsewhere."""

    def __init__(self, total: int, to: IO[str] | None = None) -> None:
        self._total, self._done, self._to = max(total, 1), 0, to or sys.stderr
        self._live = self._to.isatty()
        self._told = 0
        self._begin = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Hears of so many bytes more."""
        self._done += count
        now = time.monotonic()
        if self._live:
            if now - self._last >= 0.1 or self._done >= self._total:
                self._last = now
                self._to.write(f"\r\x1b[K{self._text(now)}")
                self._to.flush()
        elif self._done * 10 // self._total > self._told and now - self._begin >= 2:
            self._told = self._done * 10 // self._total
            print(self._text(now), file=self._to)

    def _text(self, now: float) -> str:
        rate = self._done / max(now - self._begin, 1e-3)
        left = (self._total - self._done) / max(rate, 1.0)
        return f"tokenising {100 * self._done // self._total:3d} %   {rate / 1e6:.1f} MB/s   left {left:.0f} s"

    def end(self) -> None:
        """Takes the line away."""
        if self._live:
            self._to.write("\r\x1b[K")
            self._to.flush()


def _check(tokens: Sequence[int], piece: Piece, tokenizer: Tokenizer) -> None:
    if tokens and max(tokens) >= tokenizer.vocabulary:
        raise DataError(
            f"{piece.place}: the tokenizer makes token {max(tokens)}, expected less than {tokenizer.vocabulary}, the vocab_size of "
            f"'{tokenizer.folder / 'config.json'}'; this tokenizer, of {tokenizer.size} tokens, is another model's"
        )


def _batches(found: Iterable[Piece]) -> Iterator[list[Piece]]:
    iterator = iter(found)
    while batch := list(itertools.islice(iterator, _BATCH)):
        yield batch


def _plain(batch: Sequence[Piece], tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int]]]:
    for piece, tokens in zip(batch, tokenizer.encode([piece.text for piece in batch])):
        _check(tokens, piece, tokenizer)
        yield piece, tokens


def _masked(batch: Sequence[Piece], tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int], list[bool]]]:
    """Tokens, and which count: of instructions the answer, of chats what the assistant says, of text all."""
    texts = [text for piece in batch if piece.messages is None for text in (piece.prompt or "", piece.text)]
    encoded = iter(tokenizer.encode(texts) if texts else [])
    end = [] if tokenizer.end is None else [tokenizer.end]
    for piece in batch:
        if piece.messages is not None:
            tokens, counts = tokenizer.encode_chat(piece)
        else:
            prompt, answer = next(encoded), [*next(encoded), *end]
            tokens, counts = prompt + answer, [False] * len(prompt) + [True] * len(answer)
        _check(tokens, piece, tokenizer)
        yield piece, tokens, counts


@contextlib.contextmanager
def _appearing(path: pathlib.Path) -> Iterator[pathlib.Path]:
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


def _write_stream(found: Iterable[Piece], tokenizer: Tokenizer, path: pathlib.Path) -> Tokenised:
    """One document after the other, the token that ends a text behind each."""
    documents = 0
    with _appearing(path) as name:
        writer = TokenWriter(name, tokenizer.vocabulary)
        try:
            for batch in _batches(found):
                for piece, tokens in _plain(batch, tokenizer):
                    if piece.is_masked:
                        raise DataError(
                            f"{piece.place}: found an instruction or a chat among plain text, expected one or the other"
                        )
                    writer.add(tokens)
                    if piece.ends_document and tokenizer.end is not None:
                        writer.add([tokenizer.end])
                    documents += piece.ends_document
            if writer.count == 0:
                raise DataError("the corpus has no token")
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    return Tokenised(path, documents, writer.count, writer.count, None, 0)


@dataclasses.dataclass
class _Pack:
    """Samples of `sequence` tokens that documents are laid into."""

    sequence: int
    fill: int
    tokens: list[numpy.ndarray] = dataclasses.field(default_factory=list)
    labels: list[numpy.ndarray] = dataclasses.field(default_factory=list)

    def add(self, tokens: Sequence[int], counts: Sequence[bool]) -> bool:
        """A sample of its own for a document; whether its end was cut off."""
        ids = numpy.full(self.sequence, self.fill, dtype=numpy.int32)
        labels = numpy.full(self.sequence, UNCOUNTED, dtype=numpy.int32)
        kept = min(len(tokens), self.sequence)
        ids[:kept] = tokens[:kept]
        labels[:kept] = numpy.where(counts[:kept], ids[:kept], UNCOUNTED)
        self.tokens.append(ids)
        self.labels.append(labels)
        return kept < len(tokens)


def _write_samples(found: Iterable[Piece], tokenizer: Tokenizer, sequence: int, path: pathlib.Path) -> Tokenised:
    """A document a sample: input_ids, and labels in which what does not count is -100."""
    pack = _Pack(sequence, tokenizer.end or 0)
    count = cut = 0
    for batch in _batches(found):
        for _, tokens, counts in _masked(batch, tokenizer):
            count += min(len(tokens), sequence)
            cut += pack.add(tokens, counts)
    if not pack.tokens:
        raise DataError("the corpus has no document")
    with _appearing(path) as name:
        writer = SampleWriter(name, len(pack.tokens), {"input_ids": pack.tokens[0], "labels": pack.labels[0]})
        try:
            for ids, labels in zip(pack.tokens, pack.labels):
                writer.add({"input_ids": ids, "labels": labels})
        finally:
            writer.close()
    counted = sum(int((labels[1:] != UNCOUNTED).sum()) for labels in pack.labels)
    if counted == 0:
        path.unlink(missing_ok=True)
        raise DataError(
            f"no label counts: the answers begin behind the first {sequence} tokens; give a larger --sequence"
        )
    return Tokenised(path, len(pack.tokens), count, counted, len(pack.tokens), cut)


def tokenise(
    patterns: Sequence[str], folder: str, output: str, sequence: int | None = None, quiet: bool = False
) -> Tokenised:
    """Writes what `patterns` match, tokenised by the tokenizer in `folder`.

    Plain text becomes OUTPUT.bin, a stream of tokens; instructions and chats OUTPUT.safetensors, samples of `sequence` tokens
    whose prompts do not count. OUTPUT.json beside it tells the vocabulary, the tokenizer, and how much there is.
    """
    files = find_files(patterns)
    tokenizer = Tokenizer(folder)
    progress = Progress(0 if quiet else sum(path.stat().st_size for path in files))
    found = pieces(files, (lambda _: None) if quiet else progress.add)
    first = next(found, None)
    if first is None:
        raise DataError(f"'{files[0]}' has no document")
    found = itertools.chain([first], found)
    stem = pathlib.Path(output)
    stem = stem.with_suffix("") if stem.suffix in (".bin", ".safetensors") else stem
    try:
        if first.is_masked:
            if sequence is None:
                raise UsageError("instructions and chats become samples of one length, expected it by --sequence N")
            done = _write_samples(found, tokenizer, sequence, stem.with_name(stem.name + ".safetensors"))
        else:
            done = _write_stream(found, tokenizer, stem.with_name(stem.name + ".bin"))
    finally:
        progress.end()
    about = {
        "format_version": 1,
        "data": done.path.name,
        "vocabulary": tokenizer.vocabulary,
        "tokenizer": os.fspath(folder),
        "end_of_text": tokenizer.end,
        "documents": done.documents,
        "tokens": done.tokens,
        "counted": done.counted,
        "sequence": sequence if done.samples is not None else None,
        "sources": [os.fspath(path) for path in files],
    }
    with _appearing(stem.with_name(stem.name + ".json")) as name:
        name.write_text(json.dumps(about, indent=1) + "\n")
    return done
