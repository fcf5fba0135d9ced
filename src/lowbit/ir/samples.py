"""Data for a graph: {input name: array}, however its maker spelled it. In code one such is a sample; to people, who count rows, a batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from lowbit.arguments import items
from lowbit.errors import CalibrationError, LowbitError, LowbitWarning
from lowbit.ir.graph import Graph
from lowbit.ir.interp import check_inputs
from lowbit.numerics import as_array
from lowbit.types import Array, shape_text


def as_sample(graph: Graph, sample: Any) -> dict[str, Array]:
    """A sample as {input name: array}: from a mapping, from a tuple in the order of the inputs, or from one array."""
    names = [v.name for v in graph.inputs]
    if isinstance(sample, Mapping):
        return {k: as_array(v, what=f"input {k!r}") for k, v in sample.items()}
    parts = list(sample) if isinstance(sample, tuple | list) else [sample]
    if len(parts) != len(names):
        raise CalibrationError(f"{len(parts)} arrays given, the network has {len(names)} inputs", hint=f"{{name: array}} with {names}")
    return {n: as_array(p, what=f"input {n!r}") for n, p in zip(names, parts, strict=True)}


def as_samples(graph: Graph, data: Iterable[Any]) -> Iterator[dict[str, Array]]:
    """The data as samples, one at a time. One whose names, dtypes or ranks do not fit the inputs is an error with its number."""
    hint = "data: an iterable of {input name: array}, tuples or arrays; one batch alone is [batch]"
    for i, given in enumerate(items("data", data, hint)):
        try:
            sample = check_inputs(graph, as_sample(graph, given))
            if sample and not any(x.size for x in sample.values()):  # one input alone may be: the keys before a first token
                name, x = next(iter(sample.items()))
                raise CalibrationError(f"input {name!r} of shape {shape_text(x.shape)} has no elements", hint="leave empty batches out")
        except LowbitError as e:
            if isinstance(data, np.ndarray) and e.hint is None:  # an array is an iterable, too: of its rows
                e.hint = "an array is taken as its rows: [x[i : i + 1] for i in range(len(x))], or [x] where it is one batch"
            raise e.at(f"batch {i}") from None
        yield sample


def says_something(graph: Graph, sample: Mapping[str, Array]) -> bool:
    """Whether a sample has a real number that is not zero; one without real inputs has indices, which always say something."""
    reals = [sample[v.name] for v in graph.inputs if v.type.dtype.is_float]
    return not reals or any(bool(np.any(x)) for x in reals)


def warn_of_zeros(stacklevel: int, so: str = "no range that is learned from them means anything") -> None:
    text = f"every batch is zero in all of its inputs: {so}"
    warnings.warn(text, LowbitWarning, stacklevel=stacklevel + 1)


def count(data: Iterable[Any]) -> int | None:
    """How many samples there are, where the data can say so: for progress bars."""
    return len(data) if isinstance(data, Sized) else None


def all_alike(samples: Sequence[Mapping[str, Array]]) -> bool:
    """Whether there are several samples, and all are the first one over again."""
    first = samples[0] if len(samples) > 1 else {}
    return len(samples) > 1 and all(np.array_equal(first[k], x) for sample in samples for k, x in sample.items())
