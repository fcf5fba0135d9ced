"""Rows that are read one at a time and put together to batches: pictures, sounds, texts, lines of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lowbit.errors import CalibrationError, ShapeError
from lowbit.ir.beside import BATCH, KEYS
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType


@dataclass(frozen=True)
class Rows:
    """Batches of a network's inputs, each read when it is asked for, with its labels; may be iterated repeatedly.

    read            the arrays of a row, without the axis of rows
    count           how many rows there are
    labels          the class of each row, where the data say it; `classes` are their names
    preprocessing   by input: how a picture or a sound became an array, as JSON
    """

    read: Callable[[int], Mapping[str, Array]]
    count: int
    where: str
    types: Mapping[str, TensorType]
    batch: int = BATCH
    labels: Array | None = None
    classes: Sequence[str] = ()
    preprocessing: Mapping[str, str] = field(default_factory=dict)
    row_axis: bool = True  # whether the inputs have an axis of rows; else a batch is one row

    def __post_init__(self) -> None:
        if not self.count:
            raise CalibrationError("there are no samples in it", where=self.where, hint="one row or more")
        fixed = self.fixed_batch
        if fixed is not None and fixed > self.count:
            raise ShapeError(
                f"{self.count} rows, and the network takes {fixed} at once", where=self.where, hint="--shapes with another batch"
            )

    @property
    def fixed_batch(self) -> int | None:
        """How many rows the network takes at once, where it says so."""
        first = {t.shape[0] for t in self.types.values() if t.rank and self.row_axis}
        return next((d for d in first if isinstance(d, int)), None)

    @property
    def step(self) -> int:
        return (self.fixed_batch or self.batch) if self.row_axis else 1

    @property
    def rows(self) -> int:
        """How many rows the batches hold: with a fixed batch, what is left at the end is not used."""
        return self.count // self.step * self.step if self.fixed_batch else self.count

    def first(self, batches: int | None) -> Rows:
        """No more than so many batches."""
        if batches is None:
            return self
        count = min(self.count, batches * self.step)
        return replace(self, count=count, labels=None if self.labels is None else self.labels[:count])

    def __len__(self) -> int:
        return -(-self.rows // self.step)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for start in range(0, self.rows, self.step):
            rows = [self.read(i) for i in range(start, min(start + self.step, self.rows))]
            found = {name: self._batch(name, [row[name] for row in rows]) for name in rows[0]}
            yield found if self.labels is None else {**found, KEYS[0]: self.labels[start : start + len(rows)]}

    def _batch(self, name: str, arrays: Sequence[Array]) -> Array:
        if not self.row_axis:
            return arrays[0]
        if len({x.shape for x in arrays}) > 1:
            shapes = sorted({x.shape for x in arrays})
            said = f"rows of one batch have the shapes {list(shapes[0])} and {list(shapes[1])}"
            raise ShapeError(said, where=f"{self.where}: input {name!r}", hint="--batch 1, or rows of one length")
        return np.stack(arrays)

    def __str__(self) -> str:
        return said_rows(len(self), self.rows)

    whole_rows = True  # their number is known before they are read

    def for_graph(self, graph: Graph) -> Rows:
        return self


def said_rows(batches: int, rows: int) -> str:
    """
    >>> said_rows(1, 8)
    '1 batch (8 rows)'
    """
    return f"{batches:,} {'batch' if batches == 1 else 'batches'} ({rows:,} {'row' if rows == 1 else 'rows'})"


def only_input(graph: Graph, where: str, kind: str) -> tuple[str, TensorType]:
    """The input that takes the data, for kinds of data that give one array."""
    if len(graph.inputs) != 1:
        names = ", ".join(v.name for v in graph.inputs)
        said = f"the network has {len(graph.inputs)} inputs ({names}), {kind} give one"
        raise CalibrationError(said, where=where, hint="a .npz with an array for each, or file.py:function")
    v = graph.inputs[0]
    return v.name, v.type


def need_library(module: str, extra: str, what: str) -> Any:
    """An optional library, or an error that says which extra brings it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as e:
        raise CalibrationError(f"{what} needs {module.split('.')[0]}, which is not installed", hint=f"pip install 'lowbit[{extra}]'") from e
