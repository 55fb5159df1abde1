"""Trained weights under the module's own names: what is tied is there once in hyc's file, and under every name again here."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from .errors import DataError

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Names:
    """What a module's state_dict holds: names, what shares storage with what, and the tensors as they were."""

    ties: dict[str, tuple[str, ...]]  # every name, to all names of the same tensor
    dtypes: dict[str, Any]
    own: dict[str, torch.Tensor]  # the module's, of which programs lack what forward does not use, and buffers that nobody writes
    prefix: str = ""  # of all names, where a wrapper was given and the module within was compiled

    @staticmethod
    def of(model: torch.nn.Module, prefix: str = "") -> Names:
        """Looks at a module; copies nothing."""
        state = model.state_dict()
        groups: dict[tuple[Any, ...], list[str]] = {}
        for name, tensor in state.items():
            key = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))
            groups.setdefault(key if tensor.numel() else (name,), []).append(name)
        ties = {name: tuple(group) for group in groups.values() for name in group}
        return Names(ties, {name: tensor.dtype for name, tensor in state.items()}, state, prefix)


def load(file: pathlib.Path, names: Names | None) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; with `names` as load_state_dict(strict=True) wants them."""
    import safetensors.torch

    try:
        saved: dict[str, torch.Tensor] = safetensors.torch.load_file(str(file))
    except Exception as error:
        raise DataError(f"'{file}' cannot be read: {error}") from error
    if names is None:
        return saved
    if unknown := sorted(saved.keys() - names.dtypes.keys()):
        raise DataError(f"'{file}' has tensor '{unknown[0]}', which the model has not: of {len(unknown)} of its {len(saved)} tensors")
    state: dict[str, Any] = {}
    for name, dtype in names.dtypes.items():
        found = next((other for other in (name, *names.ties[name]) if other in saved), None)
        state[names.prefix + name] = names.own[name] if found is None else saved[found].to(dtype)
    return state
