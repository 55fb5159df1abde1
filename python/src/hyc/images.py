"""Images in folders, a class each, as one file that hyc-run reads.

They are decoded and scaled once here, and cropped and mirrored as they are read.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from .datasets import GrowingSampleWriter
from .errors import DataError, UnavailableError, UsageError
from .outputs import appearing, refuse_foreign_data, refuse_inputs
from .tokenise import Progress

_ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"))


@dataclasses.dataclass(frozen=True)
class WrittenImages:
    """What was written."""

    path: pathlib.Path
    images: int
    classes: tuple[str, ...]


def _is_image(path: pathlib.Path) -> bool:
    return path.suffix.lower() in _ENDINGS and path.is_file()


def has_images(folder: pathlib.Path) -> bool:
    """Whether a folder in it has an image."""
    if not folder.is_dir():
        return False
    return any(any(map(_is_image, each.iterdir())) for each in folder.iterdir() if each.is_dir())


def _decode(path: pathlib.Path, side: int) -> numpy.ndarray:
    """Its middle square as [3, side, side], scaled; DataError for one that is torn, or none."""
    import PIL.Image
    import PIL.ImageOps

    try:
        with PIL.Image.open(path) as image:
            image.draft("RGB", (side, side))
            upright = PIL.ImageOps.exif_transpose(image).convert("RGB")
        square = PIL.ImageOps.fit(upright, (side, side), PIL.Image.Resampling.BICUBIC)
    except (OSError, ValueError, SyntaxError, EOFError, PIL.Image.DecompressionBombError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"'{path}' is no image that can be read: {first}") from error
    return numpy.ascontiguousarray(numpy.asarray(square, dtype=numpy.uint8).transpose(2, 0, 1))


def _decoded(paths: Sequence[pathlib.Path], side: int) -> Iterator[numpy.ndarray]:
    """In order, by as many threads as there are cores; a few ahead at a time."""
    workers = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting: list[Any] = []
        for path in paths:
            waiting.append(pool.submit(_decode, path, side))
            if len(waiting) > 4 * workers:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()


def write_images(
    folder: pathlib.Path,
    output: pathlib.Path,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    flips: bool = True,
    crops: bool = True,
) -> WrittenImages:
    """Writes OUTPUT.safetensors: pixel_values [images, 3, side, side] of bytes, and labels.

    With `crops` the side is a seventh more than `size`, which hyc-run takes out of it, each time another part (the middle
    when it evaluates); with `flips` it mirrors every other one. `mean` and `std` are of values from 0 to 1, as it
    normalises them.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise UnavailableError("Pillow is not installed; pip install pillow") from error
    if not all(value > 0 for value in std):
        raise UsageError(f"--std is {','.join(map(str, std))}, expected numbers above 0")
    side = size * 8 // 7 if crops else size
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir() and any(map(_is_image, each.iterdir())))
    found = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).iterdir())
        if _is_image(path)
    ]
    stem = output.with_suffix("") if output.suffix == ".safetensors" else output
    target, about_path = stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")
    refuse_inputs(f"-o {output}", [target, about_path], [str(path) for path, _ in found])
    refuse_foreign_data(f"-o {output}", [target, about_path])
    about = {
        "image": "pixel_values",
        "size": str(size),
        "mean": " ".join(map(repr, map(float, mean))),
        "std": " ".join(map(repr, map(float, std))),
        "flip": "horizontal" if flips else "none",
    }
    progress = Progress(len(found), "images")
    with appearing(target) as name:
        writer = GrowingSampleWriter(name)
        try:
            for pixels, (_, label) in zip(_decoded([path for path, _ in found], side), found):
                writer.add({"pixel_values": pixels, "labels": numpy.array(label, dtype=numpy.int32)})
                progress.add(1)
            writer.close(about)
        except BaseException:
            writer.abandon()
            raise
        finally:
            progress.end()
    told = {"format_version": 1, "data": target.name, "classes": classes, "images": len(found), **about}
    with appearing(about_path) as name:
        name.write_text(json.dumps(told, indent=1) + "\n")
    return WrittenImages(target, len(found), tuple(classes))
