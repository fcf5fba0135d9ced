"""The points where noise is measured: the outputs, or the input of a final softmax, sigmoid or logarithm.

Such a function hides the noise of its input: a sharp softmax gives 1, 0, 0 … for noisy logits too. So the noise is measured before it. If
the outputs are classes, the answer itself is compared as well. Of an output that a concat joins, each part is measured by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from lowbit.decide.parts import PASSED, Group, find_parts
from lowbit.ir.graph import Graph
from lowbit.ir.masks import HIDDEN
from lowbit.report.ends import last_function
from lowbit.types import Array, normalize_axis

Kind = Literal["classes", "yes or no", "scores", "numbers", "integers"]  # scores: numbers whose largest may be an answer
PRODUCTS = ("linear", "matmul")
NO = 0.05  # a probability below this is a no, however small it is: neither signal nor noise
SURE = 1e-3  # probabilities nearer to 0 or 1 than this are not told apart, where the input of a sigmoid is computed from its output
YES = 1.0  # the signal that the noise of probabilities is compared with at least: one sure yes


@dataclass(frozen=True)
class Point:
    """The measured value of an output: `value` is its name in the float graph; classes lie along `axis`.

    parts         the parts of the output, if a concat joins it
    part          which of them this point measures; None: all of the value
    probabilities whether that part comes from a sigmoid or softmax
    """

    output: str
    value: str
    kind: Kind
    axis: int = -1
    parts: tuple[Group, ...] = ()
    part: int | None = None
    probabilities: bool = False

    @property
    def answers(self) -> bool:
        """Whether it gives answers (classes)."""
        return self.kind != "numbers"


def find_points(graph: Graph) -> tuple[Point, ...]:
    """The points of each output. Integer outputs count only if there are no others.

    The largest of a linear layer's numbers may be an answer, but not beside outputs that are classes for sure: there, other numbers are
    boxes, positions or features.
    """
    found = [p for name, v in graph.outputs.items() for p in _points(graph, name, v.name)]
    if any(p.kind in ("classes", "yes or no") for p in found):
        found = [replace(p, kind="numbers") if p.kind == "scores" else p for p in found]
    floats = tuple(p for p in found if p.kind != "integers")
    return floats or tuple(found)


def _points(graph: Graph, output: str, value: str) -> list[Point]:
    """A point for each part of a joined output, and for its answers one before the function that makes them."""
    parts = find_parts(graph, value)
    if not parts:
        return [_point(graph, output, value)]
    before = [[_point(graph, output, name) for name in group] for group in parts]
    answers = [[p for p in points if p.kind in ("classes", "yes or no")] for points in before]
    sure = [len(found) == len(group) for found, group in zip(answers, parts, strict=True)]
    joined = [Point(output, value, "numbers", parts=parts, part=i, probabilities=sure[i]) for i in range(len(parts))]
    return [*joined, *(p for found in answers for p in found)]


def _point(graph: Graph, output: str, value: str) -> Point:
    own = graph.values[value].type
    if not own.dtype.is_float:
        return _of_integers(graph, output, value)
    at = value
    while (node := graph.producers.get(at)) is not None and node.inputs[0] is not None:
        x = node.inputs[0]
        if node.op in ("softmax", "log_softmax"):
            axis = normalize_axis(node.attrs["axis"], x.type.rank)  # type: ignore[arg-type]
            return Point(output, x.name, "classes", axis)
        if node.op == "sigmoid":
            return Point(output, x.name, "yes or no")
        if node.op not in (*PASSED, "log") or not x.type.dtype.is_float:
            break
        at = x.name
    node = graph.producers.get(value)
    while node is not None and node.op == "add" and len(node.inputs) == 2:  # a bias of its own
        node = next((p for v in node.inputs if v is not None and (p := graph.producers.get(v.name)) is not None), None)
    if node is not None and node.op in PRODUCTS and own.rank == 2 and own.shape[1] != 1:
        return Point(output, value, "scores", 1)
    return Point(output, value, "numbers")


def _of_integers(graph: Graph, output: str, value: str) -> Point:
    """Class numbers of an argmax are measured by the scores that it reads; other integers only as equal or not."""
    last = last_function(graph, output) if graph.outputs[output].name == value else None
    if last is None or last.op != "argmax" or last.axis is None or not graph.values[last.value].type.dtype.is_float:
        return Point(output, value, "integers")
    scores = graph.values[last.value]
    own = _point(graph, output, scores.name)  # before a softmax, if there is one
    return own if own.kind == "classes" else Point(output, scores.name, "classes", normalize_axis(last.axis, scores.type.rank))


def rows_of(point: Point, want: Array, got: Array, rows: int, numbers: Array | None = None) -> tuple[Array, Array]:
    """Both values as (rows, elements): one row per sample if the first axis is the batch; classes without their mean.

    A softmax ignores a constant added to all logits, so the constant is neither signal nor noise. Masked logits are neither, too.
    Integers are equal or not: how far one number of a class is from another means nothing.
    `numbers` are those of the parts of a value (see `part_numbers`), if the point is one part.
    """
    x, y = want.astype(np.float64), got.astype(np.float64)
    if want.dtype.kind in "iub":
        x, y = np.ones(x.shape), (x == y).astype(np.float64)
    if point.kind == "classes":
        hidden = ~np.isfinite(x) | (x <= HIDDEN / 2)
        count = np.maximum((~hidden).sum(axis=point.axis, keepdims=True), 1)
        x, y = (np.where(hidden, 0.0, v) for v in (x, y))
        x, y = (np.where(hidden, 0.0, v - v.sum(axis=point.axis, keepdims=True) / count) for v in (x, y))
    apart = rows if x.ndim and x.shape[0] == rows else 1
    if numbers is None:
        return x.reshape(apart, -1), y.reshape(apart, -1)
    mine = numbers.reshape(apart, -1) == point.part
    if (mine == mine[:1]).all():
        x, y = (v.reshape(apart, -1)[:, mine[0]] for v in (x, y))
    else:  # joined along the batch
        x, y = (v.reshape(1, -1)[:, mine.reshape(-1)] for v in (x, y))
    no = point.probabilities & (x < NO) & (y < NO)
    return np.where(no, 0.0, x), np.where(no, 0.0, y)


def classes_last(point: Point, x: Array) -> Array:
    """Numbers of classes as (answers, classes)."""
    return np.moveaxis(x, point.axis, -1).reshape(-1, x.shape[point.axis])


def noise_of_rows(reference: Array, got: Array) -> tuple[Array, Array]:
    """Σ reference² and Σ (reference − got)² of each row. An element that is finite in only one of them counts as noise of the whole row."""
    with np.errstate(all="ignore"):
        off = np.where(reference == got, 0.0, reference - got)
        signal = np.where(np.isfinite(reference), reference, 0.0)
        power = np.einsum("ij,ij->i", signal, signal)
        wrong = ~np.isfinite(off) & ~(np.isnan(reference) & np.isnan(got))
        off = np.where(np.isfinite(off), off, 0.0)
    return power, np.einsum("ij,ij->i", off, off) + wrong.sum(axis=1) * np.maximum(power, 1.0)


def noise_at(point: Point, reference: Array, got: Array) -> tuple[Array, Array]:
    """`noise_of_rows` at a point. Probabilities have a scale of their own: their noise is compared with at least one sure yes."""
    signal, noise = noise_of_rows(reference, got)
    return (np.maximum(signal, YES) if point.probabilities else signal), noise


def before_sigmoid(p: Array) -> Array:
    """The input of a sigmoid, from its output."""
    clipped = np.clip(p.astype(np.float64), SURE, 1 - SURE)
    return np.asarray(np.log(clipped / (1 - clipped)))
