"""hyc train: from a Hugging Face folder and text to a folder that transformers loads, in one command."""

from __future__ import annotations

import difflib
import glob
import json
import math
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence

from .. import settings
from ..errors import DataError, InputOutputError, UsageError
from ..plan import programs_in
from ..run import launch
from ..signals import Relay, Stopped, taking_signals
from ..tokenise import tokenise
from ..wandb_log import WandbLog, check_installed
from .arguments import Parser, natural
from .children import call

_LONGEST = 1024
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx")
# What this command says itself, and by what it is told.
_OWN = {
    "data": "it is --data of this command",
    "steps": "it is --steps of this command",
    "o": "it is -o of this command",
    "loss": "it is causal_lm; other losses have hyc-compile and hyc-run (hyc compile, hyc run)",
    "save_weights": "it is -o that says where the trained model goes",
    "dim": "it is --sequence that says how many tokens a sample has",
}
# What belongs to a tokenizer, and is copied beside the weights.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)


def split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags of hyc-compile and those of hyc-run, each with its value; UsageError for what neither has."""
    compiles, runs = settings.of_compile(), settings.of_run()
    for_compile: list[str] = []
    for_run: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        keyword = flag.lstrip("-").replace("-", "_")
        option = compiles.get(keyword) or runs.get(keyword)
        if word.startswith("--") and keyword in _OWN:
            raise UsageError(f"{flag} is set by hyc train itself: {_OWN[keyword]}")
        if not word.startswith("--") or option is None:
            known = [each.flag for table in (compiles, runs) for each in table.values()]
            near = difflib.get_close_matches(flag, known, 1)
            raise UsageError(f"unknown flag '{flag}'" + (f"; the nearest is '{near[0]}'" if near else ""))
        taken = [word]
        if option.type not in ("bool", "flag") and not equals:
            if not rest:
                raise UsageError(f"{flag} has no value, expected one behind it")
            taken.append(rest.pop(0))
        if keyword in compiles:
            for_compile += taken
        else:
            for_run += taken
    return for_compile, for_run


def _sequence_of(folder: pathlib.Path) -> int:
    """As many tokens as the model has positions for, but no more than _LONGEST."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"'{folder / 'config.json'}' cannot be read: {error}") from error
    found = [config[key] for key in _LENGTHS if isinstance(config, Mapping) and isinstance(config.get(key), int)]
    return int(min([_LONGEST, *found]))


def _check_output(output: pathlib.Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"'{output}' (-o) is there already, expected a name that is free or an empty folder")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputOutputError(f"cannot write '{output}': {error.strerror}") from error


def _weighted(data: Sequence[str]) -> list[tuple[str, float | None]]:
    """Patterns with their weights: all have one, or none."""
    found: list[tuple[str, float | None]] = []
    for text in data:
        pattern, equals, number = text.rpartition("=")
        try:
            weight = float(number) if equals else None
        except ValueError:
            weight = None
        if weight is None or glob.glob(text, recursive=True):
            found.append((text, None))
        elif not 0 < weight < math.inf:
            raise UsageError(f"'{number}' is the weight of '{pattern}' (--data), expected a number above 0")
        else:
            found.append((pattern, weight))
    without = next((pattern for pattern, weight in found if weight is None), None)
    if without is not None and any(weight is not None for _, weight in found):
        raise UsageError(f"'{without}' (--data) has no weight, but others have one; give one to each, or to none")
    return found


def _tokenised(
    sources: Sequence[tuple[str, float | None]], model: str, scratch: pathlib.Path, sequence: int, packs: bool
) -> str:
    """What hyc-run --data takes: one file of all sources, or one each where they have weights."""
    if sources[0][1] is None:
        done = tokenise([pattern for pattern, _ in sources], model, str(scratch / "data"), sequence, packs=packs)
        print(f"{done.documents} documents, {done.tokens} tokens", flush=True)
        return str(done.path)
    mixed: list[str] = []
    for index, (pattern, weight) in enumerate(sources):
        done = tokenise([pattern], model, str(scratch / f"data{index}"), sequence, packs=packs)
        print(f"{pattern}: {done.documents} documents, {done.tokens} tokens, weight {weight:g}", flush=True)
        mixed.append(f"{done.path}={weight!r}")
    return ",".join(mixed)


def _without_folder(line: str) -> str:
    """Of what hyc-compile prints: not how to train by programs that are gone when this command ends."""
    return re.sub(r"^wrote .* in ([0-9.]+ s).*$", r"compiled in \1", line)


def _train_with_wandb(project: str, programs: str, arguments: Sequence[str]) -> None:
    """hyc-run on this terminal, and its steps on a board."""
    plan = json.loads((programs_in(pathlib.Path(programs)) / "plan.json").read_text())
    log = WandbLog(project, {"arguments": list(arguments), "plan": plan})
    failed = True
    try:
        relay = Relay()
        with taking_signals(relay.take):
            launch(pathlib.Path(programs), arguments, None, log.step, shows=True, relay=relay)
        failed = False
    finally:
        log.finish(failed)


def _copy_tokenizer(folder: pathlib.Path, to: pathlib.Path) -> None:
    for name in _TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, to / name)


def main(words: Sequence[str]) -> int:
    """The command. A signal that ends it ends the tools before, and leaves nothing of its own."""
    try:
        with taking_signals():
            return _train(words)
    except Stopped as stopped:
        raise stopped.as_error() from None


def _train(words: Sequence[str]) -> int:
    parser = Parser("hyc train", (__doc__ or "") + " Every other flag of hyc-compile and hyc-run may be given, too.")
    parser.add_argument(
        "model", metavar="MODEL_FOLDER", help="config.json, the tokenizer, and weights to start from if any"
    )
    parser.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="FILES[=WEIGHT]",
        help="as hyc data's; may be repeated, with weights for a mixture",
    )
    parser.add_argument("--steps", type=natural, default=100, metavar="N", help="training steps [100]")
    parser.add_argument("-o", required=True, dest="output", metavar="FOLDER", help="where the trained model goes")
    parser.add_argument(
        "--sequence", type=natural, metavar="N", help=f"tokens of a sample [the model's positions, at most {_LONGEST}]"
    )
    parser.add_argument("--wandb", metavar="PROJECT", help="tell Weights & Biases of each step, in this project")
    parser.add_argument(
        "--pack",
        action="store_true",
        help="as many whole documents to a sample as fit, kept apart (--separate-documents)",
    )
    given, rest = parser.parse_known_args(words)
    if given.wandb:
        check_installed()
    if given.wandb and any(word.partition("=")[0] == "--log-file" for word in rest):
        raise UsageError("--log-file and --wandb are both given, and wandb takes the log; leave one of them out")
    folder, output = pathlib.Path(given.model), pathlib.Path(os.path.abspath(given.output))
    if not (folder / "config.json").is_file():
        raise DataError(f"'{folder}' is no Hugging Face folder: it has no config.json")
    for_compile, for_run = split_flags(rest)
    if given.pack:
        for_compile.append("--separate-documents")
    sources = _weighted(given.data)
    _check_output(output)
    sequence = given.sequence or _sequence_of(folder)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as work:
        scratch = pathlib.Path(work)
        data = _tokenised(sources, given.model, scratch, sequence, given.pack)
        programs, trained = str(scratch / "out"), scratch / "trained"
        compiles = [given.model, "--loss=causal_lm", f"--dim=seq={sequence}", *for_compile, "-o", programs]
        stopped = call("hyc-compile", compiles, _without_folder)
        if stopped is not None:
            raise Stopped(stopped)
        arguments = [f"--data={data}", f"--steps={given.steps}", f"--save-weights={trained}", *for_run]
        if given.wandb:
            _train_with_wandb(given.wandb, programs, arguments)
        else:
            call("hyc-run", [programs, *arguments])
        _copy_tokenizer(folder, trained)
        try:
            trained.rename(output)
        except OSError as error:
            raise InputOutputError(f"cannot write '{output}': {error.strerror}") from error
    reader = "peft" if (output / "adapter_config.json").exists() else "transformers"
    print(f"wrote {output}: {reader} loads it", file=sys.stdout)
    return 0
