"""Documents laid into samples of one length: one a sample, or as many as fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy

UNCOUNTED = -100
_OPEN = 64  # samples that are not full yet, at most: what a document is tried with


def _row(sequence: int, value: int) -> numpy.ndarray:
    return numpy.full(sequence, value, dtype=numpy.int32)


def padded(
    tokens: Sequence[int], counts: Sequence[bool] | None, sequence: int, fill: int
) -> dict[str, numpy.ndarray]:
    """A document as a sample of its own, its end cut off where it is longer: input_ids, labels and attention_mask."""
    ids, labels, mask = _row(sequence, fill), _row(sequence, UNCOUNTED), numpy.zeros(sequence, dtype=numpy.uint8)
    kept = min(len(tokens), sequence)
    ids[:kept] = tokens[:kept]
    labels[:kept] = ids[:kept] if counts is None else numpy.where(counts[:kept], ids[:kept], UNCOUNTED)
    mask[:kept] = 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


@dataclasses.dataclass(eq=False)
class _Sample:
    """One that documents are laid into."""

    tensors: dict[str, numpy.ndarray]
    used: int = 0
    documents: int = 0


class Packer:
    """Lays whole documents into samples, each into the fullest open one that has room for it.

    Positions begin at 0 with every document, document_ids count them from 1, and the first token of each is no label: what
    stands before it belongs to another. Behind the last one lies padding, of position 0 and document 0.
    """

    def __init__(self, sequence: int, fill: int) -> None:
        self.sequence = sequence
        self.fill = fill
        self._open: list[_Sample] = []

    def add(self, tokens: Sequence[int], counts: Sequence[bool] | None) -> Iterator[dict[str, numpy.ndarray]]:
        """Takes a document of at most `sequence` tokens; gives samples that are full, or have waited for long."""
        size = len(tokens)
        if size == 0:
            return
        fitting = [sample for sample in self._open if sample.used + size <= self.sequence]
        sample = max(fitting, key=lambda each: each.used, default=None)
        if sample is None:
            names = {"input_ids": self.fill, "labels": UNCOUNTED, "position_ids": 0, "document_ids": 0}
            sample = _Sample({name: _row(self.sequence, value) for name, value in names.items()})
            self._open.append(sample)
        place = slice(sample.used, sample.used + size)
        ids = numpy.asarray(tokens, dtype=numpy.int32)
        labels = ids.copy() if counts is None else numpy.where(counts, ids, UNCOUNTED).astype(numpy.int32)
        labels[0] = UNCOUNTED
        sample.used += size
        sample.documents += 1
        sample.tensors["input_ids"][place] = ids
        sample.tensors["labels"][place] = labels
        sample.tensors["position_ids"][place] = numpy.arange(size)
        sample.tensors["document_ids"][place] = sample.documents
        if sample.used == self.sequence:
            self._open.remove(sample)
            yield sample.tensors
        elif len(self._open) > _OPEN:
            yield self._open.pop(max(range(len(self._open)), key=lambda at: self._open[at].used)).tensors

    def rest(self) -> Iterator[dict[str, numpy.ndarray]]:
        """Those that are not full."""
        while self._open:
            yield self._open.pop(0).tensors
