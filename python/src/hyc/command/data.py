"""hyc data: text, instructions or chats to what hyc-run --data reads."""

from __future__ import annotations

from collections.abc import Sequence

from ..tokenise import tokenise
from .arguments import Parser, natural


def main(words: Sequence[str]) -> int:
    """The command."""
    parser = Parser("hyc data", __doc__ or "")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help='.jsonl with an object a line ({"text": …}, {"messages": …}, {"prompt": …, "completion": …}, or {"instruction": …, '
        '"output": …}), or text, a document each; patterns as in "corpus/**/*.txt"',
    )
    parser.add_argument(
        "--tokenizer", required=True, metavar="FOLDER", help="a Hugging Face folder that has the tokenizer"
    )
    parser.add_argument(
        "-o", required=True, dest="output", metavar="NAME", help="NAME.bin or NAME.safetensors, and NAME.json"
    )
    parser.add_argument(
        "--sequence",
        type=natural,
        metavar="N",
        help="tokens of a sample, for instructions and chats: longer ones are cut",
    )
    given = parser.parse_args(words)
    done = tokenise(given.files, given.tokenizer, given.output, given.sequence)
    what = f"{done.documents} documents, {done.tokens} tokens"
    if done.samples is not None:
        what += f", of which {done.counted} count, in {done.samples} samples of {given.sequence}"
    if done.cut:
        what += f"; {done.cut} were longer and are cut"
    print(f"wrote {done.path}: {what}; train with: hyc-run OUT --data {done.path}")
    return 0
