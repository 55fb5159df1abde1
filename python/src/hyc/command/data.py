"""hyc data: text, instructions, chats or images to what hyc-run --data reads."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from ..errors import UsageError
from ..images import has_images, write_images
from ..text import ROW_LAYOUTS
from ..tokenise import tokenise
from .arguments import Parser, natural, numbers


def main(words: Sequence[str]) -> int:
    """The command."""
    parser = Parser("hyc data", __doc__ or "")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help='.jsonl with an object a line ({"text": …}, {"messages": …}, {"prompt": …, "completion": …}, or '
        '{"instruction": …, "output": …}), a .json that is an array of these, or text, a document each; patterns as in '
        '"corpus/**/*.txt"; .parquet, .arrow, '
        "a folder of datasets' save_to_disk or hf://OWNER/NAME, with :SPLIT; or a folder that has a folder of images for "
        "each class",
    )
    parser.add_argument("--tokenizer", metavar="FOLDER", help="a Hugging Face folder that has the tokenizer; of text")
    parser.add_argument(
        "-o", required=True, dest="output", metavar="NAME", help="NAME.bin or NAME.safetensors, and NAME.json"
    )
    parser.add_argument(
        "--sequence",
        type=natural,
        metavar="N",
        help="tokens of a sample; without it a stream, which hyc-run cuts. Longer instructions and chats are cut off",
    )
    parser.add_argument(
        "--pack",
        action="store_true",
        help="as many whole documents to a sample as fit, for models that read position_ids",
    )
    parser.add_argument(
        "--rows-as",
        choices=ROW_LAYOUTS,
        help="what rows are read as that have the keys of several, by the first of its keys",
    )
    parser.add_argument(
        "--size", type=natural, metavar="N", help="of images: N x N, with a margin of a seventh for crops [224]"
    )
    parser.add_argument("--mean", type=numbers, metavar="R,G,B", help="of images, taken away [0.485,0.456,0.406]")
    parser.add_argument("--std", type=numbers, metavar="R,G,B", help="of images, divided by [0.229,0.224,0.225]")
    parser.add_argument("--no-flip", action="store_true", help="of images: never mirror them")
    parser.add_argument("--no-crop", action="store_true", help="of images: no margin")
    given = parser.parse_args(words)
    if len(given.files) == 1 and has_images(pathlib.Path(given.files[0])):
        return _images(given)
    for name in ("size", "mean", "std", "no_flip", "no_crop"):
        if getattr(given, name):
            raise UsageError(f"--{name.replace('_', '-')} is of images, but '{given.files[0]}' has no folders of them")
    if given.tokenizer is None:
        raise UsageError("text becomes tokens by a model's tokenizer, expected its folder by --tokenizer FOLDER")
    done = tokenise(given.files, given.tokenizer, given.output, given.sequence, packs=given.pack, rows_as=given.rows_as)
    what = f"{done.documents} documents, {done.tokens} tokens"
    if done.counted != done.tokens:
        what += f", of which {done.counted} count"
    if done.samples is not None:
        what += f", in {done.samples} samples of {given.sequence}"
    if given.pack and done.samples:
        what += f", filled to {100 * done.tokens // (done.samples * given.sequence)} %"
    if done.cut:
        what += f"; {done.cut} were longer and are cut"
    print(f"wrote {done.path}: {what}; train with: hyc-run OUT --data {done.path}")
    return 0


def _images(given: object) -> int:
    options = vars(given)
    for name in ("tokenizer", "sequence", "pack", "rows_as"):
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} is of text, but '{options['files'][0]}' has folders of images")
    done = write_images(
        pathlib.Path(options["files"][0]),
        pathlib.Path(options["output"]),
        options["size"] or 224,
        options["mean"] or (0.485, 0.456, 0.406),
        options["std"] or (0.229, 0.224, 0.225),
        flips=not options["no_flip"],
        crops=not options["no_crop"],
    )
    what = f"{done.images} images of {len(done.classes)} classes"
    print(f"wrote {done.path}: {what}; train with: hyc-run OUT --data {done.path}")
    return 0
