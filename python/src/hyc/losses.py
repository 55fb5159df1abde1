"""Which loss transformers' Trainer would train a model by: one that hyc has, or the one that the model's own forward computes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch
from transformers.models.auto import modeling_auto as families

from . import settings
from .errors import UsageError

BUILT_IN = settings.LOSSES  # any other name is an output, which forward computes of labels that it is given
OWN = "loss"
WAY_OUT = (
    "give loss= as one of cross_entropy, causal_lm, mse and binary_cross_entropy, or a forward that takes labels and returns their loss"
)


def _classes(*tables: str) -> frozenset[str]:
    found: set[str] = set()
    for table in tables:
        for names in getattr(families, table, {}).values():
            found |= {names} if isinstance(names, str) else set(names)
    return frozenset(found)


_CAUSAL = _classes("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
# One class an element of scores, by integers.
_OF_CLASSES = _classes(
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES",
    "MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING_NAMES",
)
# Classes, several at once, or numbers: by the configuration's problem_type, or by the labels.
_OF_PROBLEMS = _classes(
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
)
_OF_PROBLEM = {
    "regression": "mse",
    "single_label_classification": "cross_entropy",
    "multi_label_classification": "binary_cross_entropy",
}


def base_of(model: torch.nn.Module) -> torch.nn.Module:
    """The model itself, within peft's."""
    inner = getattr(model, "get_base_model", None)
    found = inner() if callable(inner) and hasattr(model, "peft_config") else model
    return found if isinstance(found, torch.nn.Module) else model


def _family_of(model: torch.nn.Module) -> type | None:
    """The class of transformers that a model is of, be it by a subclass."""
    return next((kind for kind in type(base_of(model)).__mro__ if kind.__module__.split(".")[0] == "transformers"), None)


def is_causal(model: torch.nn.Module) -> bool:
    """Whether it is a language model that sees what is before a token alone, be its class the model's own code under that name."""
    family = _family_of(model)
    return type(base_of(model)).__name__ in _CAUSAL or (family is not None and family.__name__ in _CAUSAL)


def _code_of(family: type) -> types.CodeType:
    """What forward is made of, without what decorates it."""
    code: types.CodeType = inspect.unwrap(getattr(family, "forward")).__code__
    return code


def _is_as_published(model: torch.nn.Module, family: type) -> bool:
    """Whether neither a subclass nor the model says another forward, or another loss."""
    base = base_of(model)
    names = ("forward", "loss_function")
    is_class = all(getattr(type(base), name, None) is getattr(family, name, None) for name in names)
    return is_class and not {"forward", "_loss_function"} & vars(base).keys()


def _parameters(model: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(base_of(model).forward).parameters


def of(model: torch.nn.Module, labels: numpy.ndarray) -> str:
    """The value of loss=, of a sample's labels: what transformers' class computes, where hyc has that, or OWN."""
    base, family = base_of(model), _family_of(model)
    if "labels" not in _parameters(model):
        return "cross_entropy"
    if family is None or not _is_as_published(model, family):
        return OWN
    config: Any = getattr(base, "config", None)
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "output_router_logits", False):
        return OWN
    code = _code_of(family)
    if family.__name__ in _CAUSAL:
        # The others compare each position with its own label, shift by themselves, or have more terms.
        shifts = "loss_function" in code.co_names and "shift_labels" not in code.co_varnames
        has_more = bool(getattr(config, "z_loss_coefficient", 0))
        is_plain = shifts and not has_more and getattr(base, "loss_type", None) in (None, "ForCausalLM")
        return "causal_lm" if is_plain else OWN
    if family.__name__ in _OF_PROBLEMS:
        asks = {"problem_type", "loss_function"} & {*code.co_names}  # the others know classes alone
        return _OF_PROBLEM.get(_problem_of(config, labels), OWN) if asks else OWN
    return "cross_entropy" if family.__name__ in _OF_CLASSES else OWN


def _problem_of(config: Any, labels: numpy.ndarray) -> str:
    """As transformers decides it, where the configuration does not say."""
    if config.problem_type is not None:
        return str(config.problem_type)
    if config.num_labels == 1:
        return "regression"
    return "single_label_classification" if labels.dtype.kind in "iu" else "multi_label_classification"


def as_scores(labels: numpy.ndarray, model: torch.nn.Module) -> numpy.ndarray:
    """Labels that are numbers, in the shape of a sample's scores: a head of one number gives [samples, 1]."""
    count = getattr(getattr(base_of(model), "config", None), "num_labels", None)
    is_number = labels.ndim == 0 and count == 1 and _family_of(model) is not None
    return (labels.reshape(1) if is_number else labels).astype(numpy.float32)


@contextlib.contextmanager
def returning_alone(model: torch.nn.Module) -> Iterator[None]:
    """The time in which forward returns its loss and nothing else: as transformers' Trainer takes it, by name, or as the first of a tuple."""
    forward = model.forward
    had = vars(model).get("forward")

    @functools.wraps(forward)
    def loss_of(*arguments: Any, **keywords: Any) -> dict[str, torch.Tensor]:
        outputs = forward(*arguments, **keywords)
        if isinstance(outputs, (tuple, list)):
            loss = outputs[0] if outputs else None
        else:
            loss = outputs.get(OWN) if isinstance(outputs, Mapping) else outputs
        if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
            raise UsageError(f"{type(model).__name__}.forward takes labels and returns no loss, expected one number as loss; {WAY_OUT}")
        return {OWN: loss}

    model.forward = loss_of
    try:
        yield
    finally:
        if had is None:
            del model.forward
        else:
            model.forward = had
