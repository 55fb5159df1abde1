"""Text, instructions and chats to what hyc-run --data reads: a file of tokens, or samples with a mask of what counts."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy

from .datasets import GrowingSampleWriter, TokenWriter
from .errors import DataError, UsageError
from .outputs import appearing, refuse_foreign_data, refuse_inputs
from .packing import UNCOUNTED, Packer, padded
from .text import Piece, Tokenizer, find_sources, pieces

_BATCH = 256  # pieces that are tokenised together


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

    def __init__(self, total: int, unit: str = "MB", to: IO[str] | None = None) -> None:
        self._total, self._done, self._to = max(total, 1), 0, to or sys.stderr
        self._what = "tokenising" if unit != "images" else "reading"
        self._unit, self._scale = unit, 1e6 if unit == "MB" else 1.0
        self._live = self._to.isatty()
        self._told = 0
        self._begin = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Hears of so many more: bytes, rows or images."""
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
        done = 100 * self._done // self._total
        return f"{self._what} {done:3d} %   {rate / self._scale:.1f} {self._unit}/s   left {left:.0f} s"

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


def _plain(batch: Sequence[Piece], tokenizer: Tokenizer) -> Iterator[tuple[Piece, list[int], None]]:
    for piece, tokens in zip(batch, tokenizer.encode([piece.text for piece in batch])):
        _check(tokens, piece, tokenizer)
        yield piece, tokens, None


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


def _check_kind(batch: Sequence[Piece], is_masked: bool) -> None:
    for piece in batch:
        if piece.is_masked != is_masked:
            raise DataError(
                f"{piece.place}: found {'plain text' if is_masked else 'an instruction or a chat'} among "
                f"{'instructions or chats' if is_masked else 'plain text'}, expected one or the other"
            )


def _write_stream(found: Iterable[Piece], tokenizer: Tokenizer, path: pathlib.Path, is_masked: bool) -> Tokenised:
    """One document after the other, the token that ends a text behind each; of instructions and chats with a mask."""
    with appearing(path) as name:
        writer = TokenWriter(name, tokenizer.vocabulary)
        counted = 0
        try:
            for batch in _batches(found):
                _check_kind(batch, is_masked)
                for piece, tokens, counts in _masked(batch, tokenizer) if is_masked else _plain(batch, tokenizer):
                    writer.add(tokens, counts)
                    counted += len(tokens) if counts is None else sum(counts)
                    if piece.ends_document and not is_masked and tokenizer.end is not None:
                        writer.add([tokenizer.end])
                        counted += 1
                    if piece.ends_document:
                        writer.end_document()
            if writer.count == 0:
                raise DataError("the corpus has no token")
            if counted == 0:
                raise DataError("no label counts: the corpus has prompts without answers")
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    return Tokenised(path, writer.documents, writer.count, counted, None, 0)


def _documents(
    found: Iterable[Piece], tokenizer: Tokenizer, is_masked: bool
) -> Iterator[tuple[list[int], list[bool] | None]]:
    """Whole documents: the parts of a long text as one. None: every token counts."""
    held: list[int] = []
    for batch in _batches(found):
        if is_masked:
            yield from ((tokens, counts) for _, tokens, counts in _masked(batch, tokenizer))
            continue
        _check_kind(batch, is_masked)
        for piece, tokens, _ in _plain(batch, tokenizer):
            held += tokens
            if piece.ends_document:
                yield [*held, *([] if tokenizer.end is None else [tokenizer.end])], None
                held = []


def _write_samples(
    found: Iterable[Piece], tokenizer: Tokenizer, sequence: int, path: pathlib.Path, is_masked: bool, packs: bool
) -> Tokenised:
    """Samples of one length, a document each or several, packed; in the labels what does not count is -100."""
    packer = Packer(sequence, tokenizer.end or 0)
    documents = tokens_kept = cut = counted = 0
    with appearing(path) as name:
        writer = GrowingSampleWriter(name)

        def write(sample: dict[str, numpy.ndarray]) -> None:
            nonlocal counted
            counted += int((sample["labels"][1:] != UNCOUNTED).sum())
            writer.add(sample)

        try:
            for tokens, counts in _documents(found, tokenizer, is_masked):
                documents += 1
                # Of a text nothing is lost: what is longer than a sample goes on in another.
                whole = packs and counts is None
                for first in range(0, max(len(tokens), 1), sequence) if whole else (0,):
                    part = tokens[first : first + sequence]
                    counts_of_part = None if counts is None else counts[:sequence]
                    tokens_kept += len(part)
                    for sample in (
                        packer.add(part, counts_of_part) if packs else [padded(part, counts_of_part, sequence, packer.fill)]
                    ):
                        write(sample)
                cut += not whole and len(tokens) > sequence
            for sample in packer.rest():
                write(sample)
            if writer.count == 0:
                raise DataError("the corpus has no document")
            if counted == 0:
                raise DataError(
                    f"no label counts: the answers begin behind the first {sequence} tokens; give a larger --sequence"
                )
            writer.close()
        except BaseException:
            writer.abandon()
            raise
    return Tokenised(path, documents, tokens_kept, counted, writer.count, cut)


def tokenise(
    patterns: Sequence[str],
    folder: str,
    output: str,
    sequence: int | None = None,
    quiet: bool = False,
    packs: bool = False,
    rows_as: str | None = None,
) -> Tokenised:
    """Writes what `patterns` match (files, or data sets, see find_sources), tokenised by the tokenizer in `folder`.

    Plain text becomes OUTPUT.bin, a stream of tokens, and so do instructions and chats without a `sequence`; with it they
    become OUTPUT.safetensors, samples of so many tokens whose prompts do not count. With `packs` everything becomes samples,
    with as many whole documents in each as fit. `rows_as` says what rows are read as that may be read as several
    (text.ROW_LAYOUTS). OUTPUT.json beside it tells the vocabulary, the tokenizer, and how much there
    is.
    """
    if packs and sequence is None:
        raise UsageError("--pack lays documents into samples of one length, expected it by --sequence N")
    stem = pathlib.Path(output)
    stem = stem.with_suffix("") if stem.suffix in (".bin", ".safetensors") else stem
    stream, samples, about_path = (stem.with_name(stem.name + end) for end in (".bin", ".safetensors", ".json"))
    sources = find_sources(patterns)
    # Of instructions it takes a row to know which of both it will be.
    known = [stream] if sequence is None else [samples] if packs else []
    refuse_inputs(f"-o {output}", [*(known or [stream, samples]), about_path], [source.name for source in sources])
    refuse_foreign_data(f"-o {output}", [*known, about_path])
    tokenizer = Tokenizer(folder)
    unit = "MB" if any(source.path for source in sources) else "rows"
    progress = Progress(0 if quiet else sum(source.size for source in sources if unit == "rows" or source.path), unit)
    found = pieces(sources, (lambda _: None) if quiet else progress.add, counts_rows=unit == "rows", rows_as=rows_as)
    first = next(found, None)
    if first is None:
        raise DataError(f"'{sources[0].name}' has no document")
    found = itertools.chain([first], found)
    try:
        if sequence is not None and (first.is_masked or packs):
            refuse_foreign_data(f"-o {output}", [samples])
            done = _write_samples(found, tokenizer, sequence, samples, first.is_masked, packs)
        else:
            refuse_foreign_data(f"-o {output}", [stream])
            done = _write_stream(found, tokenizer, stream, first.is_masked)
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
        "packed": packs,
        "sources": [source.name for source in sources],
    }
    with appearing(about_path) as name:
        name.write_text(json.dumps(about, indent=1) + "\n")
    return done
