"""One door for data: whatever a caller gives becomes batches of a network's inputs, and the labels beside them are kept.

an iterable of {input name: array}, tuples or arrays      as always
a torch DataLoader, a list or generator of (x, labels)    the last part is taken for labels, where it is one whole number for each row
{"input_ids": …, "label": …}                              a key that names labels is no input
a Hugging Face Dataset                                    rows are put together to batches; columns that are no inputs are left alone
lowbit.data.images(…), sounds(…), texts(…)                read when they are needed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from lowbit.data.rows import BATCH, ForGraph, Rows
from lowbit.errors import InputError
from lowbit.ir.graph import Graph
from lowbit.types import Array

KEYS = ("label", "labels", "target", "targets", "y", "class")  # what datasets call the classes of their rows


class Given:
    """A caller's data for a graph. `labels` are those of the last pass over it, None where a batch had none."""

    def __init__(self, graph: Graph, data: Iterable[Any]) -> None:
        self.inputs = [v.name for v in graph.inputs]
        self.preprocessing: Mapping[str, str] = {}
        self.classes: tuple[str, ...] = ()
        self._found: list[Array | None] = []
        self._whole: Array | None = None
        if isinstance(data, ForGraph):
            rows = data.for_graph(graph)
            self.preprocessing, self.classes, self._whole, data = rows.preprocessing, tuple(rows.classes), rows.used_labels, rows
        elif is_dataset(data):
            data = DatasetBatches(data, self.inputs)
        self.data = data

    @property
    def labels(self) -> Array | None:
        if self._whole is not None:
            return self._whole
        found = [x for x in self._found if x is not None]
        return np.concatenate(found) if found and len(found) == len(self._found) else None

    @property
    def last_labels(self) -> Array | None:
        """Those of the batch that was given last."""
        return self._found[-1] if self._found else None

    def __iter__(self) -> Iterator[Any]:
        self._found = []
        at = 0
        for batch in self.data:
            sample, labels = without_labels(batch, self.inputs)
            if self._whole is not None and isinstance(self.data, Rows):
                rows = min(self.data.step, len(self._whole) - at)
                labels, at = self._whole[at : at + rows], at + rows
            self._found.append(labels)
            yield sample

    def __str__(self) -> str:
        return str(self.data) if isinstance(self.data, Rows) else type(self.data).__name__


class SizedGiven(Given):
    """Data that know how many batches they have."""

    def __len__(self) -> int:
        assert isinstance(self.data, Sized)
        return len(self.data)


def given(graph: Graph, data: Any) -> Given:
    """The data of a caller, ready for `as_samples`."""
    if isinstance(data, Given):
        return data
    found = Given(graph, data)
    sized = isinstance(found.data, Sized)
    if sized:
        try:
            len(found.data)  # type: ignore[arg-type]
        except TypeError:  # a loader over a stream has the method and no length
            sized = False
    return SizedGiven(graph, data) if sized else found


def without_labels(batch: Any, inputs: list[str]) -> tuple[Any, Array | None]:
    """The batch without its labels, and the labels."""
    if isinstance(batch, Mapping):
        keys = [k for k in KEYS if k in batch and k not in inputs]
        if not keys:
            return batch, None
        return {k: v for k, v in batch.items() if k not in keys}, class_numbers(batch[keys[0]])
    if isinstance(batch, tuple | list) and len(batch) == len(inputs) + 1:
        labels = class_numbers(batch[-1])
        if labels is not None:
            return tuple(batch[:-1]), labels
        what = f"{type(batch[-1]).__name__}{list(getattr(batch[-1], 'shape', []))}"
        raise InputError(
            f"{len(batch)} parts for {len(inputs)} inputs, and the last one ({what}) is no class number for each row",
            hint="batches without it: (x for x, _ in loader); metric= scores anything",
        )
    return batch, None


def class_numbers(given: Any) -> Array | None:
    """Whole numbers, one for each row; None for anything else."""
    try:
        found = np.asarray(given)
    except Exception:  # what another library's object raises that is no array
        return None
    found = found.reshape(-1) if found.ndim == 0 or (found.ndim == 2 and found.shape[1] == 1) else found
    return found.astype(np.int64) if found.ndim == 1 and found.dtype.kind in "iu" else None


def is_dataset(data: object) -> bool:
    return type(data).__module__.split(".")[0] == "datasets" and hasattr(data, "column_names")


class DatasetBatches:
    """Batches of a Hugging Face Dataset: the columns that are inputs, and that of the labels."""

    def __init__(self, data: Any, inputs: list[str]) -> None:
        columns = list(data.column_names or [])
        missing = [n for n in inputs if n not in columns]
        if missing and not (len(inputs) == 1 and len([c for c in columns if c not in KEYS]) == 1):
            raise InputError(
                f"the dataset has the columns {', '.join(columns)}, and no {missing[0]!r}",
                hint=f"dataset.map(…) that makes {', '.join(inputs)}, or dataset.rename_column",
            )
        self.data, self.inputs = data, inputs
        others = [c for c in columns if c not in KEYS]
        self.columns = {n: n if n in columns else others[0] for n in inputs}
        self.labels = next((c for c in columns if c in KEYS and c not in inputs), None)

    def __len__(self) -> int:
        return -(-len(self.data) // BATCH)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.data.with_format("numpy").iter(batch_size=BATCH):
            found = {name: np.stack(batch[column]) for name, column in self.columns.items()}
            yield found | ({} if self.labels is None else {"label": np.asarray(batch[self.labels])})
