"""What torch.export leaves out without a word, found while it follows a model: gradients that are not those of forward's own
operations, and numbers that Python or numpy draws, which it takes for constants.

Nothing is raised within forward, which may catch it: the first of each is kept, and told of behind the trace.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import os
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .errors import HycWarning, TraceError

if TYPE_CHECKING:
    import torch

# Functions of libraries whose backward is the derivative of their forward, written to save memory.
_OWN_DERIVATIVE = {
    "transformers.models.bloom.modeling_bloom.GeLUFunction",
    "transformers.models.sew_d.modeling_sew_d.XSoftmax",
    "peft.tuners.c3a.utils.BlockCircularConvolution",
    "peft.tuners.loha.layer.HadaWeight",
    "peft.tuners.loha.layer.HadaWeightCP",
    "peft.tuners.randlora.layer.UniqueBaseGrad",
}
# Of torch's own all are, but for those that round, and those that ranks of torch's would exchange by.
_TORCHS_OTHERS = ("torch.ao.", "torch.distributed.", "torch.testing.")


def _bounded_root(x: torch.Tensor) -> torch.Tensor:
    """RecurrentGemma's root, whose derivative is bounded at 1,000: its value, and x over the bounded divisor less that, for the gradient."""
    import torch

    divisor = torch.sqrt(torch.clip(4.0 * x.detach(), min=1e-6))
    return torch.sqrt(x.detach()) + (x - x.detach()) / divisor


# Functions of libraries whose backward is another, said in forward: taken instead.
_SAID_IN_FORWARD: dict[str, Callable[..., Any]] = {
    "transformers.models.recurrent_gemma.modeling_recurrent_gemma.SqrtBoundDerivative": _bounded_root
}
_IN_FORWARD = (
    "say the gradient in forward: scale * x + ((1 - scale) * x).detach() has x's value and scale times its gradient, -1 reverses it; "
    "x + (f(x) - x).detach() has f's value and x's gradient"
)


def _refused(place: tuple[str, int, str] | None, what: str, way: str) -> TraceError:
    if place is None:
        return TraceError(f"{what}; {way}")
    file, line, code = place
    return TraceError(f"{file}:{line}: {f'{what}: {code}' if code else what}\n{way}", file, line, code)


def _code_of(function: Any) -> tuple[str, int, str] | None:
    """Where a function begins, and its first line."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    return code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno).strip()


def _calling(torch: Any) -> tuple[str, int, str] | None:
    """The innermost line on the stack that is neither torch's nor this package's."""
    passed = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, torch.__file__))
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*passed, "<")) and "contextlib" not in name:
            return name, frame.f_lineno, linecache.getline(name, frame.f_lineno).strip()
        frame = frame.f_back
    return None


def refuse_hooks(model: torch.nn.Module) -> None:
    """TraceError where gradients pass through Python: hooks of parameters, and backward hooks of modules."""
    from torch.nn.modules import module as everywhere

    found: list[tuple[str, Any]] = []
    for name, parameter in model.named_parameters():
        for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            found += [(f"parameter '{name}'", hook) for hook in (getattr(parameter, kind, None) or {}).values()]
    for name, module in model.named_modules():
        for kind in ("_backward_hooks", "_backward_pre_hooks"):
            whose = f"{f'module {name!r}' if name else 'the model'} ({type(module).__name__})"
            found += [(whose, hook) for hook in (getattr(module, kind, None) or {}).values()]
    for kind in ("_global_backward_hooks", "_global_backward_pre_hooks"):
        found += [("torch", hook) for hook in (getattr(everywhere, kind, None) or {}).values()]
    for whose, hook in found:
        way = "remove it by the handle that its registration gave (a step's grad_norm is told anyway), or " + _IN_FORWARD
        what = f"{whose} has a hook of its gradient, which a compiled step does not call"
        raise _refused(_code_of(hook), what, way)


def _comparable(state: Any) -> Any:
    """A generator's state as == takes it: numpy's holds arrays."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if hasattr(state, "tobytes") else state


def _generators(model: torch.nn.Module) -> dict[str, Callable[[], Any]]:
    """How the state of each generator that forward may draw from is asked: Python's, numpy's, and those that modules keep."""
    found: dict[str, Callable[[], Any]] = {"Python's random": random.getstate}
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return found
    found["numpy.random"] = lambda: numpy.random.get_state(legacy=False)
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            what = f"{name}.{key}".removeprefix(".")
            if isinstance(value, random.Random):
                found[what] = value.getstate
            elif isinstance(value, numpy.random.RandomState):
                found[what] = functools.partial(value.get_state, legacy=False)
            elif isinstance(value, numpy.random.Generator):
                found[what] = functools.partial(getattr, value.bit_generator, "state")
    return found


class _Draws:
    """Which modules draw numbers that torch does not know of: states are compared wherever one module calls another."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        self._generators = _generators(model)
        self._running: list[torch.nn.Module] = []
        self._states = self._now()
        self.found: list[tuple[str, torch.nn.Module, str]] = []  # generator, module and its name

    def _now(self) -> dict[str, Any]:
        return {what: _comparable(state()) for what, state in self._generators.items()}

    def _compare(self) -> None:
        """What has been drawn since the last time was by the module that is running."""
        before, self._states = self._states, self._now()
        running = self._running[-1] if self._running else None
        if running is None or id(running) not in self._names:  # what torch draws by itself is no part of the model
            return
        drawn = [what for what, state in self._states.items() if state != before[what]]
        self.found += [(what, running, self._names[id(running)]) for what in drawn]

    def enter(self, module: torch.nn.Module, _: Any) -> None:
        self._compare()
        self._running.append(module)

    def leave(self, module: torch.nn.Module, *_: Any) -> None:
        self._compare()
        while self._running and self._running.pop() is not module:
            pass  # of modules that an exception has left

    def tell(self) -> None:
        """TraceError of a module in training mode; of one in evaluation mode, whose draws rarely matter, a warning."""
        told = set()
        for what, module, name in self.found:
            mode = "training" if module.training else "evaluation"
            who = f"{type(module).__name__} ({name or 'the model'}, in {mode} mode) draws by {what} in forward"
            frozen = "the compiled step has what was drawn while it was traced, in each step the same"
            if module.training:
                way = (
                    f"{frozen}; draw by torch (torch.rand, dropout), whose numbers each step has anew, or leave the draw out: by "
                    "eval() of this module, or under torch.compiler.is_exporting()"
                )
                raise _refused(_code_of(type(module).forward), who, way)
            if who not in told:
                warnings.warn(f"{who}: {frozen}", HycWarning, stacklevel=2)
            told.add(who)


class Watch:
    """The time of a trace, in which what torch.export leaves out is noted; `tell` refuses it afterwards."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._lost: tuple[tuple[str, int, str] | None, str, str] | None = None
        self._draws = _Draws(model)

    def tell(self) -> None:
        """TraceError of the first that is lost; a warning of what may be."""
        if self._lost is not None:
            raise _refused(*self._lost)
        self._draws.tell()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        from torch.nn.modules import module as everywhere

        with contextlib.ExitStack() as stack:
            stack.enter_context(self._functions())
            for name in ("register_hook", "register_post_accumulate_grad_hook"):
                stack.enter_context(self._tensor_hooks(name))
            for handle in (
                everywhere.register_module_forward_pre_hook(self._draws.enter),
                everywhere.register_module_forward_hook(self._draws.leave, always_call=True),
            ):
                stack.callback(handle.remove)
            yield

    @contextlib.contextmanager
    def _functions(self) -> Iterator[None]:
        """Calls of torch.autograd.Function: torch.export goes through their forward and forgets their backward."""
        import torch
        from torch.utils.checkpoint import CheckpointFunction

        base: Any = torch.autograd.Function
        had = inspect.getattr_static(base, "apply")
        is_own = "apply" in vars(base)
        knows_gradients = torch.is_grad_enabled()

        def apply(cls: Any, *arguments: Any, **keywords: Any) -> Any:
            # Its forward is in no_grad, which torch.export takes over, for itself and for all that comes after.
            if issubclass(cls, CheckpointFunction):
                return arguments[0](*arguments[2:], **keywords)
            if said := _SAID_IN_FORWARD.get(f"{cls.__module__}.{cls.__qualname__}"):
                return said(*arguments, **keywords)
            taken = [each for each in (*arguments, *keywords.values()) if isinstance(each, torch.Tensor) and each.requires_grad]
            has_gradient = not knows_gradients or (torch.is_grad_enabled() and bool(taken))
            if has_gradient and self._lost is None and not _is_own_derivative(cls):
                name = cls.__name__
                what = f"the gradient that {name} defines is lost here"
                way = f"torch.export follows {name}.forward alone, and its derivative would stand for {name}.backward; {_IN_FORWARD}"
                self._lost = (_calling(torch), what, way)
            return had.__get__(None, cls)(*arguments, **keywords)

        base.apply = classmethod(apply)
        try:
            yield
        finally:
            if is_own:
                base.apply = had
            else:
                del base.apply

    @contextlib.contextmanager
    def _tensor_hooks(self, name: str) -> Iterator[None]:
        """Calls of Tensor.register_hook and its like, but torch's own."""
        import torch

        had = getattr(torch.Tensor, name)
        own = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

        def register(tensor: Any, hook: Any) -> Any:
            if self._lost is None and not sys._getframe(1).f_code.co_filename.startswith(own):
                what = f"the hook that Tensor.{name} is given here is lost"
                self._lost = (_calling(torch), what, f"a compiled step calls no Python; {_IN_FORWARD}")
            return had(tensor, hook)

        setattr(torch.Tensor, name, register)
        try:
            yield
        finally:
            setattr(torch.Tensor, name, had)


def _is_own_derivative(function: type) -> bool:
    """Whether backward is known to be what forward's operations give."""
    module = function.__module__
    if module.split(".")[0] == "torch":
        return not module.startswith(_TORCHS_OTHERS)
    return f"{module}.{function.__qualname__}" in _OWN_DERIVATIVE
