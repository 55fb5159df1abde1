"""A torch.nn.Module as the .pt2 archive that hyc-compile reads: torch.export, its dynamic batch found, its errors located."""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import pathlib
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import unseen
from .errors import DataError, HycWarning, InputOutputError, TraceError, UsageError
from .outputs import ARCHIVE_MARK

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True)
class Traced:
    """What is known of a model that was traced."""

    path: pathlib.Path
    inputs: tuple[str, ...]  # by which data sets name them, in the order of forward's arguments
    has_dynamic_batch: bool
    length: str = ""  # what torch calls the dimension of the samples' length, where that was left open


def to_arguments(sample_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of forward: of a tensor, a sequence of arguments, or a mapping by name."""
    if isinstance(sample_inputs, Mapping):  # transformers' BatchEncoding, too
        return (), dict(sample_inputs)
    if isinstance(sample_inputs, (tuple, list)):
        return tuple(sample_inputs), {}
    return (sample_inputs,), {}


def check_module(model: object) -> None:
    """UsageError for what torch.export does not take."""
    import torch

    if isinstance(model, torch.nn.Module):
        return
    found = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    way = (
        "make one of it"
        if isinstance(model, type)
        else "call the function in the forward of one"
        if callable(model)
        else "what torch.export.export gives is saved by torch.export.save and given by its path"
    )
    raise UsageError(f"model is {found}, expected a torch.nn.Module or the path of a model; {way}")


# What holds a model to run it otherwise, by its class's name, and as which of its parts.
_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}


def unwrapped(model: torch.nn.Module) -> tuple[torch.nn.Module, str]:
    """The model within torch.compile's or torch's data parallelism, and what its tensors' names have in front with these."""
    prefix = ""
    while (part := _WRAPPERS.get(type(model).__name__)) and type(model).__module__.startswith("torch."):
        model, prefix = getattr(model, part), f"{prefix}{part}."
    return model, prefix


def tell_of_wrapper(model: torch.nn.Module, prefix: str) -> None:
    """Warns where data parallelism of torch's, of which `prefix` tells, is given up for hyc's."""
    if "module." in prefix:
        warnings.warn(f"model is a {type(model).__name__}, whose module is trained: what spreads it is hyc's dp=", HycWarning, stacklevel=3)


def _check_values(model: torch.nn.Module) -> None:
    """UsageError of a model that has shapes alone."""
    named = [*model.named_parameters(), *model.named_buffers()]
    without = [name for name, tensor in named if tensor.device.type == "meta"]
    if without:
        raise UsageError(
            f"{without[0]} is on the meta device, as are {len(without)} of the model's {len(named)} tensors: they have no values to "
            "train from or to trace with; give them some (model.to_empty(device='cpu'), and what initialises the model, or load_state_dict "
            "with assign=True), or, of a Hugging Face folder, hyc.from_pretrained(folder, weights='initialise'), which needs no tensors"
        )


def _refuse_generators(exported: Any, torch: Any) -> None:
    """TraceError of a torch.Generator that the model has: programs draw by their own."""
    named = [name for name, value in exported.constants.items() if isinstance(value, torch.Generator)]
    if named:
        raise TraceError(
            f"the model draws by {len(named)} torch.Generator of its own, expected none: leave generator= out, and what is drawn "
            "goes by seed= of job.train"
        )


def _batch_size(leaves: Sequence[Any], torch: Any) -> int:
    """The size of dimension 0 of the first input that has one."""
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0:
            return int(leaf.shape[0])
    raise UsageError(
        "sample_inputs holds no tensor with a dimension, expected those of one batch, dimension 0 the sample"
    )


def length_of(sample_inputs: Any) -> int:
    """The size of dimension 1 of the first tensor that has one: of language models the sequence."""
    import torch

    leaves = torch.utils._pytree.tree_leaves(to_arguments(sample_inputs))
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 1:
            return int(leaf.shape[1])
    raise UsageError("sample_inputs holds no tensor of two dimensions, expected samples whose length may differ")


def _widened(arguments: Any, torch: Any) -> Any:
    """A batch of one as one of two: torch.export takes a size of 1 for a constant of the model."""
    leaves = torch.utils._pytree.tree_leaves(arguments)
    if _batch_size(leaves, torch) != 1:
        return arguments

    def twice(leaf: Any) -> Any:
        is_batch = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == 1
        return torch.cat([leaf, leaf]) if is_batch else leaf

    return torch.utils._pytree.tree_map(twice, arguments)


def _dynamic_shapes(arguments: Any, dimension: Any, length: int | None, torch: Any) -> Any:
    """For torch.export: `dimension` for dimension 0 of whatever has the batch's size there, and for others of size `length`."""
    size = _batch_size(torch.utils._pytree.tree_leaves(arguments), torch)

    def shape_of(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return None
        shape = {0: dimension} if leaf.dim() > 0 and leaf.shape[0] == size else {}
        return shape | {dim: dimension for dim in range(1, leaf.dim()) if leaf.shape[dim] == length}

    return torch.utils._pytree.tree_map(shape_of, arguments)


@contextlib.contextmanager
def _without_cache(model: torch.nn.Module) -> Iterator[None]:
    """transformers' models return the keys and values of generation, which training has no use for. An encoder and a decoder have
    a configuration each."""
    configs = {id(config): config for module in model.modules() if (config := getattr(module, "config", None)) is not None}
    had = [(config, config.use_cache) for config in configs.values() if isinstance(getattr(config, "use_cache", None), bool)]
    for config, _ in had:
        config.use_cache = False
    try:
        yield
    finally:
        for config, value in had:
            config.use_cache = value


def _is_batch_fixed(error: BaseException, torch: Any) -> bool:
    """Whether torch complains that the batch cannot vary, rather than of the model's code."""
    return isinstance(error, (torch._dynamo.exc.UserError, RuntimeError, ValueError)) and (
        "Constraints violated" in str(error) or "specialized" in str(error)
    )


def _place_of(error: BaseException, torch: Any) -> traceback.FrameSummary | None:
    """The innermost line of a traceback that is neither torch's nor this package's: the model's."""
    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    theirs = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
    seen: set[int] = set()
    place: traceback.FrameSummary | None = None
    current: BaseException | None = error
    entered = False
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        for frame in traceback.extract_tb(current.__traceback__):
            is_torch = frame.filename.startswith(theirs)
            entered = entered or is_torch
            # Frames in front of torch's are those that have called hyc.
            if (
                entered
                and not is_torch
                and not frame.filename.startswith((own, "<"))
                and "contextlib" not in frame.filename
            ):
                place = frame
        current = current.__cause__ or current.__context__
    return place


def _advice(text: str) -> str:
    """What to do, by what torch says."""
    if "data-dependent" in text or "data dependent" in text or "item()" in text:
        return (
            "which way it goes, or which size a tensor has, depends on a tensor's values; choose by torch.where, or by "
            "torch.cond, or decide it before training"
        )
    if "numpy" in text:
        return "a traced tensor has no values for numpy; use torch's functions"
    return "write it with torch's functions on tensors of sizes that do not depend on values"


def _placed(error: Exception, torch: Any, alone: str, here: str, told: str) -> TraceError:
    """With the line of the user's code that raised it, which `here` speaks of and `told` follows; `alone` where there is none."""
    place = _place_of(error, torch)
    if place is None:
        return TraceError(alone)
    code = place.line or linecache.getline(place.filename, place.lineno or 0).strip()
    message = f"{place.filename}:{place.lineno}: {here}: {code}\n{told}"
    return TraceError(message, place.filename, place.lineno, code)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _located(error: Exception, torch: Any) -> TraceError:
    first, advice = _first_line(error) or type(error).__name__, _advice(str(error))
    alone = f"the model cannot be traced: {first}; {advice}"
    return _placed(error, torch, alone, "the model cannot be traced here", f"torch.export says: {first}\n{advice}")


def _mismatch(error: BaseException, model: torch.nn.Module, arguments: Any) -> None:
    """DataError where forward cannot even be called so."""
    import inspect

    try:
        inspect.signature(model.forward).bind(*arguments[0], **arguments[1])
    except TypeError as wrong:
        raise DataError(f"sample_inputs do not fit {type(model).__name__}.forward: {wrong}") from error


def _own_error(model: torch.nn.Module, arguments: Any, torch: Any) -> Exception | None:
    """What forward raises when it is called as it is, without torch.export: None of a model that runs.

    Called on copies of the buffers and with the random state put back, so that the model is afterwards as it was.
    """
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(), torch.no_grad(), _without_cache(model):
        try:
            torch.func.functional_call(model, buffers, arguments[0], arguments[1])
        except Exception as error:
            return error
    return None


def _fail(model: torch.nn.Module, arguments: Any, error: Exception, torch: Any) -> NoReturn:
    """TraceError of the model's own error, where it has one; else of what torch.export cannot follow."""
    own = _own_error(model, arguments, torch)
    raise (_located(error, torch) if own is None else _failed(model, own, torch)) from (own or error)


def _failed(model: torch.nn.Module, own: Exception, torch: Any) -> TraceError:
    first, kind = _first_line(own), type(own).__name__
    what = f"{kind}: {first}" if first else kind
    fails = f"{type(model).__name__}.forward fails on sample_inputs"
    return _placed(own, torch, f"{fails}, without hyc, too: {what}", f"{fails} here, without hyc, too", what)


def _exported(model: torch.nn.Module, arguments: Any, length: int | None, torch: Any) -> tuple[Any, bool]:
    """The exported program, and whether its batch is dynamic; so is `length`, then, or it is an error."""
    wide = _widened(arguments, torch)

    def export(inputs: Any, dimension: Any) -> Any:
        # torch.export leaves marks on the tensors that it is given.
        inputs = torch.utils._pytree.tree_map(
            lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, inputs
        )
        shapes = None if dimension is None else _shapes_by_argument(model, inputs, dimension, length, torch)
        return torch.export.export(model, inputs[0], inputs[1], dynamic_shapes=shapes, strict=False)

    try:
        return export(wide, torch.export.Dim.DYNAMIC), True
    except Exception as error:
        _mismatch(error, model, arguments)
        if length is not None or not _is_batch_fixed(error, torch):
            _fail(model, arguments, error, torch)
    try:
        return export(arguments, None), False
    except Exception as error:
        _fail(model, arguments, error, torch)


def _length_of(exported: Any, torch: Any) -> str:
    """What torch calls the dimension, other than the first, that was left open."""
    found = set()
    for node in exported.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        if node.name in exported.graph_signature.user_inputs and isinstance(value, torch.Tensor):
            found |= {str(size) for size in value.shape[1:] if isinstance(size, torch.SymInt)}
    if len(found) != 1:
        raise DataError(
            f"the model's inputs have {len(found)} dimensions of lengths ({', '.join(sorted(found))}), expected one; "
            "compile with one length"
        )
    return found.pop()


def _shapes_by_argument(model: torch.nn.Module, inputs: Any, dimension: Any, length: int | None, torch: Any) -> Any:
    """As torch.export wants them: by the names of forward's arguments."""
    import inspect

    positional, named = _dynamic_shapes(inputs, dimension, length, torch)
    signature = inspect.signature(model.forward)
    try:
        return dict(signature.bind(*positional, **named).arguments) | {
            name: value
            for parameter in signature.parameters.values()
            if parameter.kind is parameter.VAR_KEYWORD
            for name, value in [(parameter.name, {n: v for n, v in named.items() if n not in signature.parameters})]
            if value
        }
    except TypeError as wrong:
        raise DataError(f"sample_inputs do not fit {type(model).__name__}.forward: {wrong}") from wrong


def _drop_stack_traces(exported: Any, torch: Any) -> None:
    """They are most of an archive, and hyc names ops by their modules."""
    for module in exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else []:
            node.meta.pop("stack_trace", None)


def _lay_in_rows(exported: Any, torch: Any) -> None:
    """Weights row by row, as hyc reads them, whatever their order in the model (channels_last, transposes). What is tied stays so."""
    made: dict[tuple[Any, ...], Any] = {}
    for name, value in exported.state_dict.items():
        if not isinstance(value, torch.Tensor) or value.is_contiguous():
            continue
        place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
        if place not in made:
            rows = value.detach().contiguous()
            made[place] = torch.nn.Parameter(rows, value.requires_grad) if isinstance(value, torch.nn.Parameter) else rows
        exported.state_dict[name] = made[place]


def trace(model: torch.nn.Module, sample_inputs: Any, path: pathlib.Path, length: int | None = None) -> Traced:
    """Writes the archive of `model`, as it is called with `sample_inputs`, to `path`.

    The first dimension is left open where the model lets it, and those of size `length`, which the model has to let; every other
    has the size that the samples have. The model is traced in the mode that it is in: after `model.train()` hyc drops out where it
    does.
    """
    import torch

    arguments = to_arguments(sample_inputs)
    _check_values(model)
    unseen.refuse_hooks(model)
    watch = unseen.Watch(model)
    with _without_cache(model), watch():
        exported, is_dynamic = _exported(model, arguments, length, torch)
    watch.tell()
    _refuse_generators(exported, torch)
    names = tuple(str(name) for name in exported.graph_signature.user_inputs if isinstance(name, str))
    _drop_stack_traces(exported, torch)
    _lay_in_rows(exported, torch)
    try:
        torch.export.save(exported, str(path), extra_files=dict(ARCHIVE_MARK))
    except (OSError, RuntimeError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputOutputError(f"cannot write the traced model to '{path}': {first}") from error
    return Traced(path, names, is_dynamic, "" if length is None else _length_of(exported, torch))
