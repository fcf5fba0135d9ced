"""Files of one kind in a folder. Folders inside it that hold such files are classes, in the order of their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from lowbit.data.rows import Rows, only_input
from lowbit.errors import CalibrationError, warn
from lowbit.ir.beside import BATCH
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType

SEED = 0  # of the order: files lie sorted by class, and few batches shall hold all classes


@dataclass(frozen=True)
class Files:
    """Files in the order of their names; where folders give classes, in a fixed random order with them."""

    paths: tuple[Path, ...]
    where: str
    labels: Array | None = None
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)


class Preprocessing(Protocol):
    """How a file becomes an array of a network's input."""

    @property
    def rank(self) -> int: ...  # of the least input that takes one file: without an axis of rows

    def for_input(self, name: str, t: TensorType) -> Preprocessing: ...

    def row(self, path: Path, t: TensorType) -> Array: ...

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class FileRows:
    """Files for a network that is not known yet: `for_graph` gives their rows."""

    files: Files
    preprocessing: Preprocessing
    kind: str
    batch: int = BATCH

    def for_graph(self, graph: Graph) -> Rows:
        files = self.files
        name, t = only_input(graph, files.where, self.kind)
        how = self.preprocessing.for_input(name, t)

        def read(i: int) -> dict[str, Array]:
            return {name: how.row(files.paths[i], t)}

        stored, axis = {name: how.to_json()}, t.rank > how.rank
        return Rows(read, len(files), files.where, {name: t}, self.batch, files.labels, files.classes, stored, axis)


def found_files(folder: Path, suffixes: tuple[str, ...], kind: str) -> Files:
    """The files of a kind ("pictures") in a folder, or the one file that is named."""
    if folder.is_file():
        return Files((folder,), str(folder))
    if not folder.is_dir():
        raise CalibrationError("there is no such file or folder", where=str(folder), hint=f"a folder of {kind}")
    direct = inside(folder, suffixes)
    by_class = {p.name: every(p, suffixes) for p in sorted((p for p in folder.iterdir() if p.is_dir() and not hidden(p)), key=in_order)}
    if not any(by_class.values()):
        by_class = {}
    if direct and by_class:
        said = f"it holds {kind} ({direct[0].name}) beside folders of {kind} ({next(iter(by_class))})"
        raise CalibrationError(said, where=str(folder), hint="a folder for each class, or all in one folder")
    numbers = numbers_of(tuple(by_class))
    found = [(p, 0) for p in direct] or [(p, c) for c, paths in zip(numbers, by_class.values(), strict=True) for p in paths]
    if not found:
        hint = f"files that end in {', '.join(suffixes[:4])}"
        raise CalibrationError(f"there are no {kind} in this folder", where=str(folder), hint=hint)
    if empty := [name for name, paths in by_class.items() if not paths]:
        warn(f"{folder}: there are no {kind} in {', '.join(empty)}; the class keeps its number")
    if not by_class:
        return Files(tuple(direct), str(folder))
    order = np.random.default_rng(SEED).permutation(len(found))
    labels = np.array([found[i][1] for i in order], np.int64)
    names = dict(zip(numbers, by_class, strict=True))
    classes = tuple(names.get(c, "") for c in range(max(numbers) + 1))
    return Files(tuple(found[i][0] for i in order), str(folder), labels, classes)


def numbers_of(names: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers that the names begin with, if all do and none twice; else 0, 1, 2 … in the order of the names.

    >>> numbers_of(("0-cat", "2-dog")), numbers_of(("cat", "dog"))
    ((0, 2), (0, 1))
    """
    found = [re.match(r"\d{1,6}", name) for name in names]
    numbers = tuple(int(m[0]) for m in found if m is not None)
    return numbers if len(set(numbers)) == len(names) else tuple(range(len(names)))


def inside(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes and p.is_file() and not hidden(p))


def every(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    inner = (p for p in folder.rglob("*") if not any(part.startswith(".") for part in p.relative_to(folder).parts))
    return sorted(p for p in inner if p.suffix.lower() in suffixes and p.is_file())


def in_order(path: Path) -> tuple[bool, int, str]:
    """Folders whose names begin with a number in the order of the numbers: 2 before 10; then the others by name."""
    number = re.match(r"\d{1,9}", path.name)
    return number is None, int(number[0]) if number else 0, path.name


def hidden(path: Path) -> bool:
    return path.name.startswith(".")
