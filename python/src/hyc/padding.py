"""Samples of a causal model to one length: what is padded behind its tokens reaches none of them, so that no mask is needed."""

from __future__ import annotations

import numpy
import torch

from . import losses
from .epochs import Row
from .errors import DataError

UNCOUNTED = -100
_LENGTHS = ("max_position_embeddings", "n_positions")


class Padding:
    """What samples become before a compiled step reads them. Of what is no causal model they stay as they are, but for labels that are
    numbers.

    A mask is kept where padding carries labels (the loss of a position depends on what it sees), or the loss is the model's own.
    """

    def __init__(self, model: torch.nn.Module, sequences: list[int], pad_token: int, given_loss: str | None) -> None:
        self._model, self._sequences = model, sequences
        self._fills = {"input_ids": pad_token, "labels": UNCOUNTED}
        self._is_causal = losses.is_causal(model)
        self._longest = 0
        self._counts_padding = False
        self.loss = given_loss or ""  # hyc.compile's, known when a sample has been seen

    def look(self, arrays: Row, first: int) -> None:
        """At a batch, whose first sample has the number `first`. DataError where it cannot be padded."""
        self.loss = self.loss or losses.of(self._model, arrays["labels"][0])
        if not self._is_causal or "input_ids" not in arrays or self._has_numbers():
            return
        self._longest = max(self._longest, arrays["input_ids"].shape[1])
        mask, labels = arrays.get("attention_mask"), arrays["labels"]
        if mask is None:
            return
        front = numpy.diff(mask.astype(numpy.int8)) > 0
        if numpy.any(front):
            sample = first + int(numpy.argmax(front.reshape(len(front), -1).any(axis=1)))
            raise DataError(
                f"sample {sample} is padded in front of its tokens, expected behind them: padding_side='right'"
            )
        self._counts_padding |= mask.shape == labels.shape and bool(numpy.any((mask == 0) & (labels != UNCOUNTED)))

    def _has_numbers(self) -> bool:
        return self.loss in ("mse", "binary_cross_entropy")

    def padded(self, sample: Row) -> Row:
        """As a compiled step reads it, when all have been looked at."""
        if self._has_numbers():
            return sample | {"labels": losses.as_scores(sample["labels"], self._model)}
        if not self._is_causal or "input_ids" not in sample:
            return sample
        size, sequence = len(sample["input_ids"]), self._sequence()
        is_masked = self.loss not in losses.BUILT_IN or self._counts_padding
        padded = {}
        for name, array in sample.items():
            if name == "attention_mask" and not is_masked:
                continue
            if array.ndim and len(array) == size:
                longer = numpy.full((sequence, *array.shape[1:]), self._fills.get(name, 0), array.dtype)
                longer[:size] = array
                array = longer
            padded[name] = array
        return padded

    def _sequence(self) -> int:
        config = getattr(self._model, "config", None)
        positions = [getattr(config, key) for key in _LENGTHS if getattr(config, key, None)]
        most = min(positions, default=self._longest)
        sequence = max(self._sequences, default=0) or min(most, -(-self._longest // 8) * 8)
        if self._longest > sequence:
            raise DataError(
                f"the longest sample has {self._longest} tokens, expected at most {sequence}; cut samples, or give sequence="
            )
        return sequence
