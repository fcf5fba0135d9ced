"""Files of one kind in a folder. Folders inside it that hold such files are classes, in the order of their names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from lowbit.data.rows import Rows, only_input
from lowbit.errors import CalibrationError
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

        return Rows(read, len(files), files.where, {name: t}, self.batch, files.labels, files.classes, {name: how.to_json()})


def found_files(folder: Path, suffixes: tuple[str, ...], kind: str) -> Files:
    """The files of a kind ("pictures") in a folder, or the one file that is named."""
    if folder.is_file():
        return Files((folder,), str(folder))
    if not folder.is_dir():
        raise CalibrationError("there is no such file or folder", where=str(folder), hint=f"a folder of {kind}")
    direct = inside(folder, suffixes)
    by_class = {} if direct else {p.name: every(p, suffixes) for p in sorted(folder.iterdir()) if p.is_dir() and not hidden(p)}
    by_class = {name: paths for name, paths in by_class.items() if paths}
    found = [(p, 0) for p in direct] or [(p, c) for c, paths in enumerate(by_class.values()) for p in paths]
    if not found:
        hint = f"files that end in {', '.join(suffixes[:4])}"
        raise CalibrationError(f"there are no {kind} in this folder", where=str(folder), hint=hint)
    if not by_class:
        return Files(tuple(direct), str(folder))
    order = np.random.default_rng(SEED).permutation(len(found))
    labels = np.array([found[i][1] for i in order], np.int64)
    return Files(tuple(found[i][0] for i in order), str(folder), labels, tuple(by_class))


def inside(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes and p.is_file() and not hidden(p))


def every(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in suffixes and p.is_file() and not hidden(p))


def hidden(path: Path) -> bool:
    return path.name.startswith(".")
