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
    """What a module's state_dict holds: names, what shares storage with what, and what is no parameter."""

    ties: dict[str, tuple[str, ...]]  # every name, to all names of the same tensor
    dtypes: dict[str, Any]
    constants: dict[str, torch.Tensor]  # buffers, as they were

    @staticmethod
    def of(model: torch.nn.Module) -> Names:
        """Looks at a module; copies nothing."""
        state = model.state_dict()
        groups: dict[tuple[Any, ...], list[str]] = {}
        for name, tensor in state.items():
            key = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))
            groups.setdefault(key if tensor.numel() else (name,), []).append(name)
        ties = {name: tuple(group) for group in groups.values() for name in group}
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        constants = {name: tensor for name, tensor in state.items() if name not in parameters}
        return Names(ties, {name: tensor.dtype for name, tensor in state.items()}, constants)


def load(file: pathlib.Path, names: Names | None) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; with `names` as load_state_dict(strict=True) wants them."""
    import safetensors.torch

    try:
        saved: dict[str, torch.Tensor] = safetensors.torch.load_file(str(file))
    except Exception as error:
        raise DataError(f"'{file}' cannot be read: {error}") from error
    if names is None:
        return saved
    state: dict[str, Any] = {}
    for name, dtype in names.dtypes.items():
        found = next((other for other in (name, *names.ties[name]) if other in saved), None)
        if found is not None:
            state[name] = saved[found].to(dtype)
        elif name in names.constants:
            state[name] = names.constants[name]
        else:
            raise DataError(f"'{file}' has no tensor '{name}', which the model has")
    return state
