"""hyc: a training compiler. A model in, native programs for a mesh of ranks out; everything known before anything runs.

    job = hyc.compile(model, sample_inputs, loss="causal_lm", tp=2, dp=2)
    print(job.plan, job.memory, job.report)
    run = job.train(dataset, steps=1000, on_step=print)
    model.load_state_dict(run.state_dict())

Compiling and training are the tools' (hyc-compile, hyc-run); this package traces, calls them and reads what they write.
"""

from .errors import (
    DataError,
    HycError,
    HycWarning,
    InputOutputError,
    InternalError,
    TemporaryError,
    TraceError,
    UnavailableError,
    UsageError,
)
from .engine import Engine, initialize
from .job import Job, compile, from_pretrained
from .plan import Arena, Memory, Plan, Report, Sharding, StageMemory
from .run import Run, Step

__version__ = "0.1.0"
__all__ = [
    "Arena",
    "DataError",
    "Engine",
    "HycError",
    "HycWarning",
    "InputOutputError",
    "InternalError",
    "Job",
    "Memory",
    "Plan",
    "Report",
    "Run",
    "Sharding",
    "StageMemory",
    "Step",
    "TemporaryError",
    "TraceError",
    "UnavailableError",
    "UsageError",
    "compile",
    "from_pretrained",
    "initialize",
]


def __getattr__(name: str) -> object:
    """hyc.Trainer and hyc.TrainingArguments need transformers, which nothing else here does."""
    if name in ("Trainer", "TrainingArguments"):
        from . import trainer

        return getattr(trainer, name)
    raise AttributeError(f"module 'hyc' has no attribute {name!r}")
