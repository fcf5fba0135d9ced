"""Tables of numbers: a .csv with a row for each sample. A column called label, class, target or y holds the classes."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowbit.data.rows import Rows, only_input
from lowbit.errors import FormatError, ShapeError
from lowbit.files import unreadable
from lowbit.ir.beside import BATCH, KEYS
from lowbit.ir.graph import Graph
from lowbit.types import Array

_HINT = "a first line with headings (or none), then a line of numbers for each row"


@dataclass(frozen=True)
class Table:
    """Numbers for a network that is not known yet: `for_graph` gives their rows, in the shape of its input."""

    values: Array  # float64, rows × columns
    where: str
    labels: Array | None = None
    batch: int = BATCH

    def for_graph(self, graph: Graph) -> Rows:
        name, t = only_input(graph, self.where, "tables")
        sizes = t.shape[1:]
        open_axes = [d for d in sizes if not isinstance(d, int)]
        known = int(np.prod([d for d in sizes if isinstance(d, int)], dtype=np.int64))
        columns = self.values.shape[1]
        if not t.rank or len(open_axes) > 1 or (not open_axes and known != columns) or (open_axes and columns % max(known, 1)):
            said = f"{columns} columns of numbers, input {name!r} is {t}"
            raise ShapeError(
                said, where=self.where, hint=f"{known} columns beside one called label" if not open_axes else "data as .npz files"
            )
        shape = tuple(d if isinstance(d, int) else columns // known for d in sizes)
        arrays = self.values.astype(t.dtype.numpy).reshape(len(self.values), *shape)
        return Rows(lambda i: {name: arrays[i]}, len(arrays), self.where, {name: t}, self.batch, self.labels)


def read_csv(path: Path, batch: int = BATCH) -> Table:
    try:
        with open(path, newline="", encoding="utf-8-sig") as f:
            lines = [[cell.strip() for cell in row] for row in csv.reader(f) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error) as e:
        raise FormatError(f"not a readable .csv file ({unreadable(e)})", where=str(path), hint=_HINT) from e
    headings = lines.pop(0) if lines and not all(is_number(cell) for cell in lines[0]) else []
    if not lines:
        raise FormatError("it has no numbers", where=str(path), hint=_HINT)
    first = 1 + bool(headings)
    for i, row in enumerate(lines):
        bad = next((cell for cell in row if not is_number(cell)), None)
        if bad is not None or len(row) != len(lines[0]):
            said = f"{bad!r}, a number is needed" if bad is not None else f"{len(row)} cells, the first row has {len(lines[0])}"
            raise FormatError(f"line {i + first} has {said}", where=str(path), hint=_HINT)
    values = np.array(lines, np.float64)
    at = next((i for i, h in enumerate(headings) if h.lower() in KEYS), None)
    if at is None:
        return Table(values, str(path), batch=batch)
    labels = values[:, at]
    if not np.all(labels == np.floor(labels)):
        raise FormatError(f"column {headings[at]!r} has other than whole numbers", where=str(path), hint="classes as numbers from 0 on")
    return Table(np.delete(values, at, axis=1), str(path), labels.astype(np.int64), batch)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
