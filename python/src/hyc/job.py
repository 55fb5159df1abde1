"""hyc.compile: a model to native programs, and the job that trains by them."""

from __future__ import annotations

import fnmatch
import functools
import html
import json
import os
import pathlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import datasets, settings, tools, tracing, weights
from .errors import DataError, HycWarning, InputOutputError, UsageError
from .outputs import TracedArchive, refuse_inputs
from .plan import Memory, Plan, Report, programs_in
from .run import LogCopy, Run, Step, launch, temporary_folder
from .wandb_log import WandbLog

if TYPE_CHECKING:
    import torch

_MOST_WARNINGS = 8  # of one tool


class Job:
    """A compiled model: a folder of programs, one a pipeline stage, with all that was decided about them.

    Of several sizes (ranks=[8, 4]) plan, memory and report are those of the largest.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        inputs: datasets.Inputs,
        names: weights.Names | None = None,
        output: str = "",
        notes: tuple[str, ...] = (),
        keeps: object = None,
    ) -> None:
        self.folder = folder
        self._programs = programs_in(folder)
        self.inputs = inputs
        self.output = output  # what hyc-compile printed
        self.notes = notes  # what it remarked
        self._names = names
        self._keeps = keeps

    @functools.cached_property
    def plan(self) -> Plan:
        """Every decision."""
        return Plan.read(self._programs)

    @functools.cached_property
    def memory(self) -> Memory:
        """Every byte that ranks will have."""
        return Memory.read(self._programs)

    @functools.cached_property
    def report(self) -> Report:
        """Every exchange with its cause."""
        return Report.read(self._programs)

    @functools.cached_property
    def _manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self._programs / "manifest.json").read_text())
        return manifest

    def train(
        self,
        dataset: Any = None,
        *,
        steps: int = 100,
        on_step: Callable[[Step], object] | None = None,
        on_event: Callable[[Mapping[str, Any]], object] | None = None,
        evaluate_data: Any = None,
        wandb: bool | str | Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Run:
        """Trains from where the model started, on native ranks, and returns when they have ended.

        `dataset` is a dict of tensors by input name, each [samples, …]; a torch or Hugging Face data set of such samples; a
        stream of tokens, [tokens]; or a path that hyc-run --data takes. `on_step` hears of each step as it ends, and
        `on_event` of what else the log tells, as {"event": "checkpoint", "step": 200, …}. Further keywords are hyc-run's flags: seed=1, shuffle=False for --no-shuffle, checkpoint="runs", resume="auto", hostfile=….
        `wandb` is a project of Weights & Biases, True for its default, or a dict of wandb.init's arguments. Ctrl-C, and an exception in `on_step`, end the ranks.
        """
        keeps = temporary_folder()
        folder = pathlib.Path(keeps.name)
        arguments = [
            *self._data("data", dataset, steps, folder),
            *self._data("evaluate_data", evaluate_data, steps, folder),
        ]
        trains = self._manifest.get("entry", "train") != "evaluate"
        if trains:
            keywords.setdefault("save_weights", str(folder / "weights.safetensors"))
        keywords["steps"] = steps
        file = keywords.pop("log_file", None)
        arguments += settings.to_arguments(keywords, settings.of_run(), "job.train")
        log = WandbLog(wandb, self._described(steps)) if wandb else None
        failed = True
        said: list[str] = []
        try:
            copy = self._log_copy(file, keywords, dataset, evaluate_data)
            done, output = launch(self.folder, arguments, on_step, log.step if log else None, copy=copy, said=said, on_event=on_event)
            failed = False
        finally:
            if log:
                log.finish(failed)
        adapts = "adapter" in self._manifest and not keywords.get("merge")
        file = _file_of(keywords.get("save_weights"), adapts) if trains else None
        notes = tuple(dict.fromkeys(tools.notes_of("".join(said))))
        warn(notes, 2)
        return Run(done, output, file, None if adapts else self._names, keeps, notes)

    def _log_copy(self, file: Any, keywords: Mapping[str, Any], *data: Any) -> LogCopy | None:
        """The user's log_file, which this process writes, since hyc-run's own log comes to it. UsageError where it is another file."""
        if file is None:
            return None
        if not isinstance(file, (str, os.PathLike)):
            raise UsageError(f"log_file is {file!r}, expected text")
        path = pathlib.Path(file)
        names = [os.fspath(each) for each in (*data, *keywords.values()) if isinstance(each, (str, os.PathLike))]
        # Of a mixture, FILE=WEIGHT,FILE=WEIGHT.
        parts = [part.rpartition("=")[0] or part for name in names for part in name.split(",")]
        refuse_inputs(f"log_file={os.fspath(file)!r}", [path], [*names, *parts], "read or written, too")
        if self.folder.resolve() in path.resolve().parents:
            raise UsageError(f"log_file is '{path}', which is among the programs in '{self.folder}'; give another name")
        return LogCopy(path, bool(keywords.get("resume")) and not keywords.get("evaluate"))

    @property
    def has_evaluation(self) -> bool:
        """Whether train takes evaluate_data: a model may be one that cannot be evaluated beside its training."""
        return self._manifest.get("entry") == "train,evaluate"

    def state_dict(self, checkpoint: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
        """The weights of a checkpoint, as run.state_dict() has them of a run; of a folder of checkpoints those of the newest."""
        with temporary_folder() as folder:
            file = pathlib.Path(folder) / "weights.safetensors"
            tools.run("hyc-checkpoint", ["export", os.fspath(checkpoint), str(file)])
            return weights.load(file, None if "adapter" in self._manifest else self._names)

    def _described(self, steps: int) -> dict[str, Any]:
        """What a board shows of the run beside its metrics."""
        return {"steps": steps, "global_batch": self.plan.global_batch, "plan": dict(self.plan.values)}

    def evaluate(self, dataset: Any, **keywords: Any) -> float:
        """The mean loss over all whole global batches of `dataset`.

        By the weights that the model started from, or with `resume` by those of a checkpoint.
        """
        keeps = temporary_folder()
        arguments = self._data("data", dataset, 1, pathlib.Path(keeps.name))
        if self._manifest.get("entry") != "evaluate":
            keywords["evaluate"] = True
        file = keywords.pop("log_file", None)
        arguments += settings.to_arguments(keywords, settings.of_run(), "job.evaluate")
        copy = self._log_copy(file, keywords, dataset)
        said: list[str] = []
        done, _ = launch(self.folder, arguments, None, copy=copy, said=said)
        warn(tools.notes_of("".join(said)), 2)
        return done[-1].loss

    def _data(self, keyword: str, data: Any, steps: int, folder: pathlib.Path) -> list[str]:
        if data is None:
            return []
        most = steps * self.plan.global_batch
        path = datasets.write(data, self.inputs, folder, keyword, most)
        if path.parent == folder:  # what the user has a file of may serve several models
            self._tell_of_unread(keyword, datasets.tensors_of(path))
        return [f"--{keyword.replace('_', '-')}={path}"]

    def _tell_of_unread(self, keyword: str, names: Sequence[str]) -> None:
        """Warns of tensors that are none of the programs' inputs: one whose name is mistyped is another's default."""
        read = [rule.match for rule in self.plan.inputs]
        # Read without being inputs: hyc-run checks packed samples by the one, labels may be made by the other.
        known = [*read, "document_ids", *(["attention_mask"] if self.inputs.shifts_labels else [])]
        unread = [name for name in names if not any(name == each or fnmatch.fnmatchcase(name, each) for each in known)]
        if unread:
            warnings.warn(
                f"{keyword}: {', '.join(unread)} {'is' if len(unread) == 1 else 'are'} not read by the model, which reads "
                f"{', '.join(read)}",
                stacklevel=4,
            )

    def __repr__(self) -> str:
        return f"<hyc.Job in '{self.folder}': {self.plan}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.plan._repr_html_()}"


def _file_of(saved: Any, adapts: bool) -> pathlib.Path:
    """The file that --save-weights writes: the name itself, or one in the folder of that name."""
    path = pathlib.Path(saved)
    return path if path.suffix == ".safetensors" else path / f"{'adapter_model' if adapts else 'model'}.safetensors"


def _config_argument(config: Any, folder: pathlib.Path) -> list[str]:
    """A ds_config: a path, or the dict itself."""
    if config is None:
        return []
    if isinstance(config, Mapping):
        path = folder / "ds_config.json"
        try:
            path.write_text(json.dumps(dict(config)))
        except (TypeError, ValueError) as error:
            raise UsageError(f"config is no JSON: {error}") from error
        return [f"--config={path}"]
    if not isinstance(config, (str, os.PathLike)):
        raise UsageError(f"config is a {type(config).__name__}, expected a path or a dict")
    return [f"--config={os.fspath(config)}"]


def read_config(config: Any, keyword: str = "config") -> dict[str, Any]:
    """What a ds_config says, for what Python has to know of it: a path or a dict. Empty where there is none."""
    if not config or isinstance(config, Mapping):
        return dict(config or {})
    if not isinstance(config, (str, os.PathLike)):
        raise UsageError(f"{keyword} is a {type(config).__name__}, expected a path or a dict")
    name = os.fspath(config)
    try:
        values = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputOutputError(f"'{name}' ({keyword}) cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{name}:{error.lineno}:{error.colno}: {keyword} is no JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"'{name}' ({keyword}) is no UTF-8: byte {error.start} is {error.object[error.start]:#04x}") from error
    if not isinstance(values, dict):
        raise DataError(f"{name}:1:1: {keyword} is a {type(values).__name__}, expected an object")
    return values


def check_settings(config: Any, keywords: Mapping[str, Any], what: str) -> None:
    """Refuses settings and a configuration that are wrong whatever the model is, without compiling."""
    settings.check_loss(keywords.get("loss"))
    flags, optimizer = settings.split_optimizer(keywords)
    arguments = settings.to_arguments(flags, settings.of_compile(), what)
    with temporary_folder() as folder:
        given = _config_argument(_config_with(config, optimizer, flags), pathlib.Path(folder))
        tools.run("hyc-compile", ["--explain-config", *given, *arguments])


def _config_with(config: Any, optimizer: Mapping[str, Any], flags: Mapping[str, Any]) -> Any:
    """A configuration, be it a path, whose optimizer has `optimizer`, too: as it is where that is empty."""
    return settings.with_optimizer(read_config(config), optimizer, flags.get("optimizer") or "AdamW") if optimizer else config


def warn(notes: Sequence[str], stacklevel: int) -> None:
    """Warns of what a tool has warned of; of many the first, since the notes have them all."""
    told = list(dict.fromkeys(note for note in notes if "warning: " in note))
    for note in told[:_MOST_WARNINGS]:
        warnings.warn(note, HycWarning, stacklevel=stacklevel + 1)
    if len(told) > _MOST_WARNINGS:
        warnings.warn(f"and {len(told) - _MOST_WARNINGS} warnings more, which are among notes", HycWarning, stacklevel=stacklevel + 1)


def compile(
    model: torch.nn.Module | str | os.PathLike[str],
    sample_inputs: Any = None,
    *,
    loss: str | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None,
    lengths: Sequence[int] | None = None,
    **keywords: Any,
) -> Job:
    """Compiles a model to native programs that train it on any mesh of ranks.

    `model` is a torch.nn.Module, which is traced in the mode that it is in, or a path: a Hugging Face folder, a .pt2, an .onnx.
    `sample_inputs` is what forward is called with, a tensor, a tuple of arguments or a dict by name: any batch, since dimension
    0 is left open where the model lets it, and each other dimension of the size that it is to be trained with ([batch, sequence]
    integers for a language model). Neither is needed for a path.

    `loss` is "cross_entropy" (the default), "causal_lm" (transformers' own), "mse", "binary_cross_entropy" or the name of a
    scalar output. `config` is a DeepSpeed configuration, a path or a dict. Further keywords are hyc-compile's flags: tp=2,
    micro_batch=4, lr=3e-4, zero=3, device_memory="24GiB", dim={"seq": 512}, and betas and eps of the optimizer. `output` keeps the programs in a folder, and the
    traced model beside it as OUTPUT.pt2; without it both are temporary, as long as the job is.

    `lengths` are several sizes of a traced model's samples, as [128, 256, 512], for the dimension that sample_inputs' first tensor
    has second: each step is run at the smallest that its samples fit in (docs/sizes.md). Of a path dim={"seq": [128, 512]} says it.

    TraceError names the line of the model that cannot be traced; what hyc-compile refuses is the exception of its kind.
    """
    keeps = temporary_folder()
    scratch = pathlib.Path(keeps.name)
    folder = pathlib.Path(output) if output is not None else scratch / "out"
    names: weights.Names | None = None
    inputs: tuple[str, ...] = ()
    prefix = ""
    if isinstance(model, (str, os.PathLike)):
        if lengths is not None:
            raise UsageError('lengths are given with a path, expected dim={"seq": [128, 512]}, by the dimension\'s name')
        if sample_inputs is not None:
            raise UsageError("sample_inputs are given with a path, expected them with a torch.nn.Module only")
    else:
        tracing.check_module(model)
        inner, prefix = tracing.unwrapped(model)
        tracing.tell_of_wrapper(model, prefix)
        model = inner
        if sample_inputs is None:
            raise UsageError("sample_inputs are missing: they say what forward is called with, and in which sizes")
        if lengths is not None and keywords.get("dim") is not None:
            raise UsageError("lengths and dim are given, expected one of them: lengths says what sizes the dimension of samples has")
        # Said wrong, settings cost no export.
        check_settings(config, {**keywords, "loss": loss}, "hyc.compile")
    settings.check_loss(loss)
    keywords["loss"] = loss
    keywords, optimizer = settings.split_optimizer(keywords)
    config_argument = _config_argument(_config_with(config, optimizer, keywords), scratch)

    def programs_of(source: pathlib.Path) -> tuple[str, str]:
        arguments = [str(source), *config_argument]
        arguments += settings.to_arguments(keywords, settings.of_compile(), "hyc.compile")
        return tools.run("hyc-compile", [*arguments, "-o", str(folder)])

    if isinstance(model, (str, os.PathLike)):
        said_out, said = programs_of(pathlib.Path(model))
    else:
        open_length = None if lengths is None else tracing.length_of(sample_inputs)
        with TracedArchive(folder, scratch / f"{type(model).__name__}.pt2" if output is None else None) as archive:
            traced = tracing.trace(model, sample_inputs, archive.staged, open_length)
            if lengths is not None:
                keywords["dim"] = {traced.length: [int(length) for length in lengths]}
            with archive.placed():
                said_out, said = programs_of(archive.path)
        inputs, names = traced.inputs, weights.Names.of(model, prefix)
    reads = datasets.Inputs(inputs, keywords.get("labels") or "labels", loss == "causal_lm")
    notes = tuple(tools.notes_of(said))
    warn(notes, 2)
    return Job(folder, reads, names, said_out, notes, keeps)


def from_pretrained(
    folder: str | os.PathLike[str],
    *,
    loss: str | None = "causal_lm",
    output: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> Job:
    """Compiles a Hugging Face folder (config.json, and safetensors where there are weights), without tracing anything.

    `dim={"seq": 512}` says how long sequences are. Keywords are hyc.compile's.
    """
    if not (pathlib.Path(folder) / "config.json").is_file():
        raise UsageError(f"'{os.fspath(folder)}' is no Hugging Face folder: it has no config.json")
    return compile(folder, loss=loss, output=output, **keywords)
