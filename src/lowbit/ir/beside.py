"""Data as loaders and datasets give them: what stands beside a network's inputs, and the labels among it.

(x, labels)                       a torch DataLoader's batch: the last part holds labels, if it is one whole number for each row
{"input_ids": …, "label": …}      a key that names labels is no input
a Hugging Face Dataset            rows are put together to batches; columns that are no inputs are left alone
an object with `for_graph`        lowbit.data.images(…) and the like: read for this network
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lowbit.errors import CalibrationError, InputError
from lowbit.types import Array

KEYS = ("label", "labels", "target", "targets", "y", "class")  # what datasets call the classes of their rows
BATCH = 8  # rows of a batch, where the network leaves that open


def together(labels: Sequence[Array | None]) -> Array | None:
    """The labels of all batches; None where one had none."""
    found = [x for x in labels if x is not None]
    return np.concatenate(found) if found and len(found) == len(labels) else None


def without_labels(batch: Any, inputs: Sequence[str]) -> tuple[Any, Array | None]:
    """The batch without its labels, and the labels."""
    if isinstance(batch, Mapping):
        keys = [k for k in KEYS if k in batch and k not in inputs]
        if not keys:
            return batch, None
        return {k: v for k, v in batch.items() if k not in keys}, class_numbers(batch[keys[0]])
    if isinstance(batch, tuple | list) and len(inputs) > 0 and len(batch) == len(inputs) + 1:
        labels = class_numbers(batch[-1])
        if labels is not None:
            return tuple(batch[:-1]), labels
        what = f"{type(batch[-1]).__name__}{list(getattr(batch[-1], 'shape', []))}"
        many = "input" if len(inputs) == 1 else "inputs"
        raise CalibrationError(
            f"{len(batch)} arrays given, the network has {len(inputs)} {many}; the last one ({what}) is no class number for each row",
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

    def __init__(self, data: Any, inputs: Sequence[str]) -> None:
        columns = list(data.column_names or [])
        others = [c for c in columns if c not in KEYS]
        missing = [n for n in inputs if n not in columns]
        if missing and not (len(inputs) == 1 and len(others) == 1):
            raise InputError(
                f"the dataset has the columns {', '.join(columns)}, and no {missing[0]!r}",
                hint=f"dataset.map(…) that makes {', '.join(inputs)}, or dataset.rename_column",
            )
        self.data = data
        self.columns = {n: n if n in columns else others[0] for n in inputs}
        self.labels = next((c for c in columns if c in KEYS and c not in inputs), None)

    def __len__(self) -> int:
        return -(-len(self.data) // BATCH)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.data.with_format("numpy").iter(batch_size=BATCH):
            found = {name: np.stack(batch[column]) for name, column in self.columns.items()}
            yield found | ({} if self.labels is None else {KEYS[0]: np.asarray(batch[self.labels])})
