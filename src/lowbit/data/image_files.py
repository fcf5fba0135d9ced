"""Folders of pictures (see `folders` for their classes)."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.data.folders import Files, found_files
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.data.rows import Rows, need_library, only_input
from lowbit.errors import CalibrationError, FormatError
from lowbit.files import unreadable
from lowbit.ir.beside import BATCH
from lowbit.ir.graph import Graph
from lowbit.types import Array

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True)
class Images:
    """Pictures for a network that is not known yet: `for_graph` gives their rows."""

    files: Files
    preprocessing: ImagePreprocessing
    batch: int = BATCH

    def for_graph(self, graph: Graph) -> Rows:
        files = self.files
        name, t = only_input(graph, files.where, "pictures")
        raw = str(t.dtype) == "uint8"
        if not t.dtype.is_float and not raw:
            raise CalibrationError(f"input {name!r} is {t}, pictures need float32 or uint8", where=files.where, hint="data as .npz files")
        how = self.preprocessing.for_input(name, t)
        read = _Reader(files.paths, name, how, raw)
        return Rows(read, len(files), files.where, {name: t}, self.batch, files.labels, files.classes, {name: how.to_json()})


@dataclass(frozen=True)
class _Reader:
    files: tuple[Path, ...]
    name: str
    how: ImagePreprocessing
    raw: bool

    def __call__(self, i: int) -> dict[str, Array]:
        x = read_image(self.files[i], self.how, self.raw)
        return {self.name: x}


def read_image(path: Path, how: ImagePreprocessing, raw: bool = False) -> Array:
    """One picture as a network takes it; `raw`: its pixels, for a network that holds its preprocessing."""
    images = need_library("PIL.Image", "images", "reading pictures")
    try:
        with images.open(path) as image:
            if not raw:
                return how.array(image)
            x = how.pixels(image)
            return np.ascontiguousarray(x.transpose(2, 0, 1)) if how.layout == "nchw" else x
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError) as e:  # SyntaxError: what Pillow says of broken files
        raise FormatError(f"it is not a readable picture ({unreadable(e)})", where=str(path), hint="leave it out, or save it anew") from e


def images(
    folder: str | PathLike[str], *, size: Any = None, mean: Any = None, std: Any = None, layout: str | None = None,
    channels: str | None = None, fit: str | None = None, scale: float | None = None, batch: int = BATCH,
) -> Images:  # fmt: skip
    """The pictures of a folder, as data for quantize, evaluate, compare and the others.

    Folders inside it are classes: their pictures have the number of the class as label, in the order of the folders' names.

    size      224, or (height, width); without it, the size that the network's input has
    mean std  of the normalization, for pixels of 0 … 1: one number, or one for each channel
    layout    "nchw" or "nhwc", where the network's input does not say it
    channels  "rgb", "bgr" or "gray"
    fit       "crop" (the shorter side gets the size, the middle is cut out), "stretch" or "pad"
    scale     255: pixels are divided by it first
    """
    how = ImagePreprocessing.of(size=size, mean=mean, std=std, layout=layout, channels=channels, fit=fit, scale=scale)
    return Images(found_files(Path(folder), SUFFIXES, "pictures"), how, batch)
