"""Documents out of text and JSONL files, and the tokenizer of a model's folder."""

from __future__ import annotations

import codecs
import dataclasses
import glob
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .errors import DataError, UnavailableError

_CHUNK = 1 << 20  # characters of a text that are tokenised at once, up to the end of a line
_PROMPTS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"))
#: What a row may be read as, by the first key that says it.
ROW_LAYOUTS = ("text", "messages", "conversations", "prompt", "question", "instruction")


@dataclasses.dataclass(frozen=True)
class Piece:
    """A document, or a part of a long one.

    Of plain text only `text` is there. Of instructions `prompt` does not count, and `text` answers it. `messages` are a chat.
    """

    place: str  # file:line
    text: str = ""
    prompt: str | None = None
    messages: Sequence[Any] | None = None
    ends_document: bool = True

    @property
    def is_masked(self) -> bool:
        """Whether a part of it does not count."""
        return self.prompt is not None or self.messages is not None


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of documents, or a Hugging Face data set."""

    name: str
    size: int  # bytes of a file; rows of a data set
    path: pathlib.Path | None = None
    rows: Any = None  # a datasets.Dataset


def find_files(patterns: Sequence[str]) -> list[pathlib.Path]:
    """The files that names and patterns mean; DataError for one that means none, or an empty file."""
    files: list[pathlib.Path] = []
    for pattern in patterns:
        found = [pathlib.Path(path) for path in sorted(glob.glob(pattern, recursive=True))]
        found = [path for path in found if path.is_file()]
        if not found:
            raise DataError(f"'{pattern}' is no file, and matches none")
        files += found
    for path in files:
        if path.stat().st_size == 0:
            raise DataError(f"'{path}' is empty, expected text or JSON lines")
    return list(dict.fromkeys(files))


def find_sources(patterns: Sequence[str]) -> list[Source]:
    """What names and patterns mean.

    Files, of which .parquet and .arrow are read by Hugging Face's datasets; a folder that `save_to_disk` has written, and
    hf://OWNER/NAME on its hub, with :SPLIT behind either ("train" without).
    """
    sources: list[Source] = []
    for pattern in patterns:
        folder, colon, split = pattern.rpartition(":")
        name = folder if colon and "/" not in split and not pathlib.Path(pattern).exists() else pattern
        split = split if name != pattern else ""
        if name.startswith("hf://") or pathlib.Path(name).is_dir():
            sources.append(_data_set(name, split))
            continue
        for path in find_files([pattern]):
            is_table = path.suffix in (".parquet", ".arrow")
            sources.append(_table(path) if is_table else Source(str(path), path.stat().st_size, path))
    return list({source.name: source for source in sources}.values())


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise UnavailableError("datasets is not installed; pip install datasets") from error
    return datasets


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _table(path: pathlib.Path) -> Source:
    kind = _datasets()
    try:
        rows = kind.Dataset.from_parquet(str(path)) if path.suffix == ".parquet" else kind.Dataset.from_file(str(path))
    except Exception as error:
        raise DataError(f"'{path}' is no {path.suffix[1:]} file: {_first_line(error)}") from error
    return _of_rows(str(path), rows)


def _data_set(name: str, split: str) -> Source:
    kind = _datasets()
    try:
        if name.startswith("hf://"):
            found = kind.load_dataset(name.removeprefix("hf://"))
        else:
            found = kind.load_from_disk(name)
    except Exception as error:
        raise DataError(f"'{name}' is no data set that datasets reads: {_first_line(error)}") from error
    if isinstance(found, dict):
        wanted = split or "train"
        if wanted not in found:
            raise DataError(f"'{name}' has no split '{wanted}', expected one of {', '.join(found)}")
        found = found[wanted]
    elif split:
        raise DataError(f"'{name}' has no splits, but :{split} is asked for")
    return _of_rows(f"{name}:{split}" if split else name, found)


def _of_rows(name: str, rows: Any) -> Source:
    if len(rows) == 0:
        raise DataError(f"'{name}' has no rows")
    return Source(name, len(rows), rows=rows)


_TOKENS = b"hyctoken"  # what a file of tokens begins with


def _lines(path: pathlib.Path, progressed: Callable[[int], None]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; `progressed` hears of each one's bytes."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                progressed(len(line))
                if number == 1 and line.startswith(_TOKENS):
                    raise DataError(
                        f"'{path}' holds tokens, as hyc data writes them, expected text: hyc compile and hyc run --data train on them"
                    )
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    mark = len(codecs.BOM_UTF8) if number == 1 and line.startswith(codecs.BOM_UTF8) else 0
                    at = error.start + mark
                    found = f"byte {at + 1} is 0x{line[at]:02x}"
                    raise DataError(f"{path}:{number}: {found}, no part of UTF-8") from error
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}") from error


def _text_pieces(path: pathlib.Path, progressed: Callable[[int], None]) -> Iterator[Piece]:
    """A file of text is one document."""
    held: list[str] = []
    size = first = 0
    for number, line in _lines(path, progressed):
        first = first or number
        held.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield Piece(f"{path}:{first}", "".join(held), ends_document=False)
            held, size, first = [], 0, 0
    yield Piece(f"{path}:{first}", "".join(held))


def _layouts_of(place: str, row: dict[str, Any], rows_as: str | None) -> dict[str, Piece]:
    """What a row may be read as, by the keys that say it; of those the ones that `rows_as` begins."""
    found: dict[str, Piece] = {}
    for key in ("messages", "conversations"):
        if isinstance(row.get(key), list) and row[key]:
            found[key] = Piece(place, messages=row[key])
    for prompt, answer in _PROMPTS:
        if isinstance(row.get(prompt), str) and isinstance(row.get(answer), str):
            found[f"{prompt} and {answer}"] = Piece(place, row[answer], row[prompt])
    if isinstance(row.get("instruction"), str) and isinstance(row.get("output"), str):
        context = row.get("input") or ""
        asked = row["instruction"] + ("\n" + context if context else "") + "\n"
        found["instruction and output"] = Piece(place, row["output"], asked)
    # Empty beside another one it is a column that the rows of a table have.
    if isinstance(row.get("text"), str) and (row["text"] or not found or rows_as == "text"):
        found = {"text": Piece(place, row["text"]), **found}
    return {name: piece for name, piece in found.items() if rows_as in (None, name.split()[0])}


def _piece_of(place: str, row: Any, rows_as: str | None) -> Piece:
    if not isinstance(row, dict):
        raise DataError(
            f"{place}: found a {type(row).__name__}, expected an object with text, messages, or prompt and completion"
        )
    found = _layouts_of(place, row, rows_as)
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        words = dict.fromkeys(name.split()[0] for name in found)
        way = f"choose with --rows-as {' or '.join(words)}" if len(words) > 1 else "leave the others out"
        raise DataError(
            f"{place}: found {' beside '.join(found)}, expected one of them: whether a prompt counts depends on it; {way}"
        )
    if rows_as is not None:
        raise DataError(f"{place}: found {_keys_of(row)}, expected {rows_as} (--rows-as)")
    raise DataError(
        f"{place}: found {_keys_of(row)}, expected text; messages; prompt and completion; or instruction, input and output"
    )


def _keys_of(row: dict[str, Any]) -> str:
    """The first of a row's keys; of those that would have been read what they hold, since it is not what they should."""
    read = {"text", "messages", "conversations", "instruction", "output", *(key for pair in _PROMPTS for key in pair)}
    wrong = {key for key in read if key in row and not isinstance(row[key], (str, list))}
    named = (f"{key} (of type {type(row[key]).__name__})" if key in wrong else key for key in list(row)[:8])
    return ", ".join(named) or "nothing"


#: Rows, each with its place.
_Rows = Iterator[tuple[str, Any]]


def _json_rows(path: pathlib.Path, progressed: Callable[[int], None]) -> _Rows:
    for number, line in _lines(path, progressed):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            torn = "" if line.endswith("\n") else "; the file ends within this line"
            raise DataError(f"{path}:{number}: no JSON: {error}{torn}") from error
        yield f"{path}:{number}", row


_BLANK = re.compile(r"[ \t\r\n]*")


def _rows_of_array(path: pathlib.Path, text: str) -> Iterator[tuple[int, Any]]:
    """The elements of the array that `text` is, each with the number of the line that it begins in."""
    decoder = json.JSONDecoder()
    blank = _BLANK.match
    number, seen = 1, 0

    def begins(at: int) -> int:
        nonlocal number, seen
        number, seen = number + text.count("\n", seen, at), at
        return number

    def skip(at: int) -> int:
        found = blank(text, at)
        return found.end() if found else at

    at = skip(0) + 1
    if text[skip(at) : skip(at) + 1] == "]":
        return
    while True:
        at = skip(at)
        line = begins(at)
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{line}: no JSON, in an array of rows: {getattr(error, 'msg', error)}") from error
        yield line, row
        at = skip(at)
        if text[at : at + 1] == ",":
            at += 1
            continue
        is_over = text[at : at + 1] == "]"
        at = skip(at + 1) if is_over else at
        if is_over and at == len(text):
            return
        found = repr(text[at]) if at < len(text) else "the end of the file"
        behind, expected = ("the array of rows", "nothing") if is_over else ("a row of an array", "a comma or ]")
        raise DataError(f"{path}:{begins(at)}: found {found} behind {behind}, expected {expected}")


def _array_or_lines(path: pathlib.Path, progressed: Callable[[int], None]) -> _Rows:
    """A .json file: an array of rows, as data sets of instructions are often given, or an object a line."""
    with open(path, "rb") as file:
        begin = file.read(4096).removeprefix(codecs.BOM_UTF8)
    if not begin.lstrip().startswith(b"["):
        yield from _json_rows(path, progressed)
        return
    text = "".join(line for _, line in _lines(path, progressed))
    for number, row in _rows_of_array(path, text):
        yield f"{path}:{number}", row


def _rows_of_set(source: Source, progressed: Callable[[int], None]) -> _Rows:
    try:
        for index, row in enumerate(source.rows):
            progressed(1)
            yield f"{source.name}[{index}]", row
    except (OSError, ValueError) as error:
        raise DataError(f"'{source.name}' cannot be read: {_first_line(error)}") from error


def pieces(
    sources: Sequence[Source],
    progressed: Callable[[int], None],
    counts_rows: bool = False,
    rows_as: str | None = None,
) -> Iterator[Piece]:
    """What is in sources, in order: .jsonl and .ndjson have an object a line, .json may be an array of them, other files are
    text; of data sets a row each.

    `progressed` hears of the bytes of files, or, where there are none, of rows. `rows_as` is one of ROW_LAYOUTS, for rows that
    may be read as several.
    """
    readers = {".jsonl": _json_rows, ".ndjson": _json_rows, ".json": _array_or_lines}
    for source in sources:
        if source.path is None:
            rows = _rows_of_set(source, progressed if counts_rows else lambda _: None)
        elif source.path.suffix in readers:
            rows = readers[source.path.suffix](source.path, progressed)
        else:
            yield from _text_pieces(source.path, progressed)
            continue
        for place, row in rows:
            yield _piece_of(place, row, rows_as)


class Tokenizer:
    """The tokenizer of a folder: its tokenizer.json by the tokenizers library, anything else by transformers."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        if not self.folder.is_dir():
            raise DataError(f"'{self.folder}' is no folder, expected one with a tokenizer")
        self._config = self._read("config.json")
        self._settings = self._read("tokenizer_config.json")
        self._fast: Any = None
        self._slow: Any = None
        if (self.folder / "tokenizer.json").is_file():
            try:
                import tokenizers
            except ImportError as error:
                raise UnavailableError("tokenizers is not installed; pip install tokenizers") from error
            try:
                self._fast = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            except Exception as error:
                raise DataError(f"'{self.folder / 'tokenizer.json'}' is no tokenizer: {error}") from error
        else:
            self._whole()
        self.end = self._end_of_text()

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            value = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise DataError(f"'{path}' cannot be read: {error}") from error
        return value if isinstance(value, dict) else {}

    def _whole(self) -> Any:
        """transformers' tokenizer, which knows chat templates."""
        if self._slow is None:
            try:
                import transformers
            except ImportError as error:
                raise UnavailableError(
                    f"'{self.folder}' needs transformers, which is not installed; pip install transformers"
                ) from error
            try:
                self._slow = transformers.AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)
            except Exception as error:
                raise DataError(
                    f"'{self.folder}' has no tokenizer that transformers reads: {_first_line(error)}"
                ) from error
        return self._slow

    def _end_of_text(self) -> int | None:
        if self._fast is None:
            end = self._slow.eos_token_id
            return None if end is None else int(end)
        named = self._settings.get("eos_token")
        text = named.get("content") if isinstance(named, dict) else named
        found = self._fast.token_to_id(text) if isinstance(text, str) else None
        if found is None:
            found = self._config.get("eos_token_id")
            found = found[0] if isinstance(found, list) and found else found
        return found if isinstance(found, int) else None

    @property
    def size(self) -> int:
        """Tokens that it knows."""
        return int(self._fast.get_vocab_size()) if self._fast is not None else len(self._slow)

    @property
    def vocabulary(self) -> int:
        """Tokens that the model has, by its config.json; without one, that the tokenizer knows."""
        config = self._config
        if isinstance(config.get("text_config"), dict):
            config = config["text_config"]
        found = config.get("vocab_size")
        return found if isinstance(found, int) else self.size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each, without any that begin or end a text. In parallel, where the tokenizer can."""
        if self._fast is not None:
            return [encoded.ids for encoded in self._fast.encode_batch(list(texts), add_special_tokens=False)]
        return [list(ids) for ids in self._slow(list(texts), add_special_tokens=False)["input_ids"]]

    def encode_chat(self, piece: Piece) -> tuple[list[int], list[bool]]:
        """Tokens of a chat by the model's template, and which of them count: what the assistant says."""
        whole, messages = self._whole(), [_message(piece.place, message) for message in piece.messages or ()]
        if not getattr(whole, "chat_template", None):
            raise DataError(f"{piece.place}: found messages, but '{self.folder}' has no chat template")
        if not whole.is_fast:
            raise DataError(
                f"{piece.place}: found messages, but '{self.folder}' has no tokenizer.json, which tells what is whose"
            )

        def rendered(count: int, prompts: bool) -> str:
            try:
                return str(whole.apply_chat_template(messages[:count], add_generation_prompt=prompts, tokenize=False))
            except Exception as error:
                raise DataError(f"{piece.place}: the chat template refuses it: {error}") from error

        text = rendered(len(messages), False)
        encoded = whole(text, add_special_tokens=False, return_offsets_mapping=True)
        tokens, places = list(encoded["input_ids"]), encoded["offset_mapping"]
        counts = [False] * len(tokens)
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before, after = rendered(index, True), rendered(index + 1, False)
            if not (text.startswith(before) and text.startswith(after)):
                raise DataError(
                    f"{piece.place}: the chat template writes message {index} otherwise where more follow, so that what the "
                    "assistant says cannot be told apart"
                )
            # By its end: a token may begin with the blank in front of the answer.
            for at, (_, end) in enumerate(places):
                counts[at] |= len(before) < end <= len(after)
        return tokens, counts


def _message(place: str, message: Any) -> dict[str, Any]:
    """{"role": …, "content": …}, or ShareGPT's {"from": …, "value": …}."""
    if isinstance(message, dict) and "role" in message and "content" in message:
        return message
    if isinstance(message, dict) and "from" in message and "value" in message:
        roles = {"human": "user", "gpt": "assistant"}
        return {"role": roles.get(message["from"], message["from"]), "content": message["value"]}
    raise DataError(f"{place}: found a message {message!r}, expected role and content")
