"""What hyc-compile decided and counted, read from the folder that it wrote."""

from __future__ import annotations

import dataclasses
import html
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from .errors import DataError


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"'{path}' holds a {type(value).__name__}, expected an object")
    return value


def programs_in(folder: pathlib.Path) -> pathlib.Path:
    """Where the plan and the programs lie: in the folder itself, or, of several sizes, in that of the largest, which hyc-run
    takes where nothing says otherwise."""
    if (folder / "plan.json").exists():
        return folder
    sizes = {int(each.name[6:]): each for each in folder.glob("ranks-*") if each.name[6:].isdigit()}
    return sizes[max(sizes)] if sizes else folder


def _page(path: pathlib.Path, otherwise: str) -> str:
    """A page of its own within a notebook's cell."""
    try:
        text = path.read_text()
    except OSError:
        return f"<pre>{html.escape(otherwise)}</pre>"
    return f'<iframe srcdoc="{html.escape(text)}" style="width:100%;height:40em;border:0"></iframe>'


@dataclasses.dataclass(frozen=True)
class Sharding:
    """How the tensors whose names match a pattern are divided: a list of mesh axes a dimension."""

    match: str
    sharding: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """Every decision: plan.json, which may be edited and given to hyc.compile(plan=…).

    Shows the plan page, plan.html, in a notebook.
    """

    path: pathlib.Path
    tp: int
    pp: int
    dp: int
    schedule: str
    ranks: int  # native processes that train
    micro_batch: int
    grad_accum: int
    sequence: int
    parameters: tuple[Sharding, ...]
    inputs: tuple[Sharding, ...]
    values: Mapping[str, Any] = dataclasses.field(repr=False)  # plan.json as a whole

    @property
    def global_batch(self) -> int:
        """Samples of one step over all ranks."""
        return self.micro_batch * self.grad_accum * self.dp

    @staticmethod
    def read(folder: pathlib.Path) -> Plan:
        """Of a folder that hyc-compile wrote."""
        values, account = _read_json(folder / "plan.json"), _read_json(folder / "memory.json")
        try:
            return Plan._of(folder, values, account)
        except KeyError as missing:
            raise DataError(
                f"'{folder}' tells no {missing} in plan.json or memory.json, as another hyc has compiled it; compile it again"
            ) from missing

    @staticmethod
    def _of(folder: pathlib.Path, values: dict[str, Any], account: dict[str, Any]) -> Plan:
        mesh = values["mesh"]

        def rules(key: str) -> tuple[Sharding, ...]:
            return tuple(Sharding(rule["match"], rule.get("sharding", "")) for rule in values.get(key, []))

        return Plan(
            folder / "plan.json",
            mesh["tp"],
            mesh["pp"],
            mesh["dp"],
            values["schedule"],
            sum(stage["ranks"] for stage in account["stages"]),
            account["micro_batch"],
            account["grad_accum"],
            account["sequence"],
            rules("parameters"),
            rules("inputs"),
            values,
        )

    @property
    def further_axes(self) -> dict[str, int]:
        """Sizes of the mesh's axes besides dp and tp, by name; parts of an axis are none of their own."""
        named = (axis.rsplit(":", 1) for axis in self.values["mesh"].get("axes", []))
        return {name: int(size) for name, size in named if "." not in name}

    def __str__(self) -> str:
        further = "".join(f" × {name} {size}" for name, size in self.further_axes.items())
        return (
            f"{self.ranks} ranks (tp {self.tp} × pp {self.pp} × dp {self.dp}{further}), {self.global_batch} samples a step "
            f"(micro-batch {self.micro_batch} × grad-accum {self.grad_accum} × dp {self.dp}), schedule {self.schedule}"
        )

    def _repr_html_(self) -> str:
        return _page(self.path.with_suffix(".html"), str(self))


@dataclasses.dataclass(frozen=True)
class Arena:
    """A rank's memory for one purpose."""

    name: str
    bytes: int
    lower_bound: int  # most bytes alive at one moment
    on_device: bool
    peak_op: str  # what runs when most is alive; empty: at all times


@dataclasses.dataclass(frozen=True)
class StageMemory:
    """What each rank of a pipeline stage needs."""

    stage: int
    first_rank: int
    ranks: int
    device_bytes: int
    total_bytes: int
    fixed_bytes: int
    arenas: tuple[Arena, ...]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Every byte that ranks will have, counted before anything runs: memory.json."""

    path: pathlib.Path
    stages: tuple[StageMemory, ...]

    @property
    def device_bytes(self) -> int:
        """Of the rank that needs most, on its device."""
        return max(stage.device_bytes for stage in self.stages)

    @property
    def total_bytes(self) -> int:
        """Of the rank that needs most, its part of the host's memory included."""
        return max(stage.total_bytes for stage in self.stages)

    @staticmethod
    def read(folder: pathlib.Path) -> Memory:
        """Of a folder that hyc-compile wrote."""

        def arena(entry: Mapping[str, Any]) -> Arena:
            peak = entry.get("peak") or {}
            return Arena(
                entry["arena"], entry["bytes"], entry["lower_bound"], entry["on_device"], str(peak.get("op", ""))
            )

        stages = tuple(
            StageMemory(
                entry["stage"],
                entry["first_rank"],
                entry["ranks"],
                entry["device_bytes"],
                entry["total_bytes"],
                entry["fixed_bytes"],
                tuple(arena(each) for each in entry["arenas"]),
            )
            for entry in _read_json(folder / "memory.json")["stages"]
        )
        return Memory(folder / "memory.json", stages)

    def __str__(self) -> str:
        lines = []
        for stage in self.stages:
            last = stage.first_rank + stage.ranks - 1
            lines.append(f"stage {stage.stage}, ranks {stage.first_rank} to {last}, each: {stage.total_bytes} bytes")
            lines += [f"  {arena.name:<14}{arena.bytes:>14}" for arena in stage.arenas]
            lines.append(f"  {'fixed':<14}{stage.fixed_bytes:>14}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclasses.dataclass(frozen=True)
class Report:
    """report.txt: every exchange with its cause, every arena with its peak, and what a step is estimated to take."""

    text: str
    step_ms: float | None  # estimated; None of plan_only=True

    @staticmethod
    def read(folder: pathlib.Path) -> Report:
        """Of a folder that hyc-compile wrote."""
        manifest = folder / "manifest.json"
        values = _read_json(manifest) if manifest.exists() else {}
        estimate = values.get("estimate", {}).get("own_thread", {})
        try:
            return Report((folder / "report.txt").read_text(), estimate.get("step_ms"))
        except OSError as error:
            raise DataError(f"'{folder / 'report.txt'}' cannot be read: {error}") from error

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"
