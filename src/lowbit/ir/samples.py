"""Data for a graph: {input name: array}, however its maker spelled it. In code one such is a sample; to people, who count rows, a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from lowbit.arguments import items
from lowbit.errors import CalibrationError, LowbitError, ShapeError, warn
from lowbit.ir.beside import BATCH, DatasetBatches, is_dataset, without_labels
from lowbit.ir.graph import Graph
from lowbit.ir.interp import check_inputs
from lowbit.numerics import as_array
from lowbit.types import Array, shape_text

RECURRENT = ("lstm", "gru", "rnn", "q_lstm", "q_gru", "q_rnn")


def as_sample(graph: Graph, sample: Any) -> dict[str, Array]:
    """A sample as {input name: array}: from a mapping, from a tuple in the order of the inputs, or from one array."""
    names = [v.name for v in graph.inputs]
    if isinstance(sample, Mapping):
        return {k: as_array(v, what=f"input {k!r}") for k, v in sample.items()}
    parts = list(sample) if isinstance(sample, tuple | list) else [sample]
    if len(parts) != len(names):
        said = (
            f"{len(parts)} array{'s' if len(parts) != 1 else ''} given, the network has {len(names)} input{'s' if len(names) != 1 else ''}"
        )
        raise CalibrationError(said, hint=f"{{name: array}} with {names}")
    return {n: as_array(p, what=f"input {n!r}") for n, p in zip(names, parts, strict=True)}


def as_samples(graph: Graph, data: Iterable[Any], labels: list[Array | None] | None = None) -> Iterator[dict[str, Array]]:
    """The data as samples, one at a time. One whose names, dtypes or ranks do not fit the inputs is an error with its number.

    One array of all rows, for a network with one input, is cut into batches (see `in_batches`). Labels beside the inputs are left out;
    those of each batch (or None) are appended to `labels`.
    """
    hint = "data: an iterable of {input name: array}, tuples or arrays; one batch alone is [batch]"
    inputs = [v.name for v in graph.inputs]
    for i, batch in enumerate(items("data", in_batches(graph, for_graph(graph, data)), hint)):
        try:
            given, own = without_labels(batch, inputs)
            if labels is not None:
                labels.append(own)
            sample = check_inputs(graph, as_sample(graph, given))
            rows = {x.shape[0] for x in sample.values() if x.ndim}
            if own is not None and len(rows) == 1 and len(own) not in rows | {1}:
                raise CalibrationError(f"{len(own)} labels for {rows.pop()} rows", hint="one label for each row")
            if sample and not any(x.size for x in sample.values()):  # one input alone may be: the keys before a first token
                name, x = next(iter(sample.items()))
                raise CalibrationError(f"input {name!r} of shape {shape_text(x.shape)} has no elements", hint="leave empty batches out")
        except LowbitError as e:
            first = graph.inputs[0].shape[:1] if graph.inputs else ()
            if isinstance(e, ShapeError) and e.hint is None and first and isinstance(first[0], int) and "rank" not in e.message:
                e.hint = f'batches of {first[0]}, or lowbit.load(module, inputs=…, dynamic={{"{graph.inputs[0].name}": {{0: "batch"}}}})'
            if isinstance(data, np.ndarray) and e.hint is None:  # an array is an iterable, too
                needed = ", ".join(f"{v.name}: {v.type}" for v in graph.inputs)
                e.hint = f"an array of all rows, or one axis more for batches ({needed})"
            raise e.at(f"batch {i}") from None
        yield sample


def for_graph(graph: Graph, data: Any) -> Any:
    """Data that are read for a network (lowbit.data.images) or come from a dataset, as batches; all else as it is."""
    if hasattr(data, "for_graph"):
        return data.for_graph(graph)
    return DatasetBatches(data, [v.name for v in graph.inputs]) if is_dataset(data) else data


def in_batches(graph: Graph, data: Any) -> Any:
    """One array of all rows, cut along its first axis: into batches of the network's own size, or of BATCH where that is open.

    Everything else is returned as it is: an array with one axis more holds a batch for each index. Steps of a recurrence are no rows.
    """
    if (
        not hasattr(data, "__array__")
        or len(graph.inputs) != 1
        or getattr(data, "ndim", None) != graph.inputs[0].type.rank
        or not data.ndim
    ):
        return data
    if any(n.op in RECURRENT for n in graph.nodes):
        hint = "[x] where it is one batch, or a list of batches"
        raise CalibrationError("one array is given, and a network with a recurrent layer may have time in its first axis", hint=hint)
    first, rows = graph.inputs[0].shape[0], int(data.shape[0])
    size = int(first) if isinstance(first, int) else BATCH
    if size < 1 or (rows % size and isinstance(first, int)):
        raise CalibrationError(f"an array of {rows:,} rows cannot be cut into batches of {size}", hint=f"x[:{rows - rows % max(1, size)}]")
    return [data[i : i + size] for i in range(0, rows, size)]


def says_something(graph: Graph, sample: Mapping[str, Array]) -> bool:
    """Whether a sample has a real number that is not zero; one without real inputs has indices, which always say something."""
    reals = [sample[v.name] for v in graph.inputs if v.type.dtype.is_float]
    return not reals or any(bool(np.any(x)) for x in reals)


def warn_of_zeros(so: str = "no range that is learned from them means anything") -> None:
    text = f"every batch is zero in all of its inputs: {so}"
    warn(text)


def count(data: Iterable[Any]) -> int | None:
    """How many samples there are, where the data can say so: for progress bars. An array may be one batch for each index, or be cut."""
    return len(data) if isinstance(data, Sized) and not hasattr(data, "__array__") else None


def all_alike(samples: Sequence[Mapping[str, Array]]) -> bool:
    """Whether there are several samples, and all are the first one over again."""
    first = samples[0] if len(samples) > 1 else {}
    return len(samples) > 1 and all(np.array_equal(first[k], x) for sample in samples for k, x in sample.items())
