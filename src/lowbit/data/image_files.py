"""Folders of pictures (see `folders` for their classes)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from lowbit.data.folders import FileRows, found_files
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.ir.beside import BATCH

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def images(
    folder: str | PathLike[str], *, size: Any = None, mean: Any = None, std: Any = None, layout: str | None = None,
    channels: str | None = None, fit: str | None = None, scale: float | None = None, batch: int = BATCH,
) -> FileRows:  # fmt: skip
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
    return FileRows(found_files(Path(folder), SUFFIXES, "pictures"), how, "pictures", batch)
