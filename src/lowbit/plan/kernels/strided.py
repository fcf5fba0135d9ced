"""Where the elements of a value are among those of another: transposes, splits and reshapes as strides, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowbit.ir.graph import Graph, Node, Value
from lowbit.plan.kernels.movement import dense, shape_of, slice_start
from lowbit.types import normalize_axis


@dataclass(frozen=True)
class Strided:
    """Element (i, j, …) of a value is element offset + i·strides[0] + j·strides[1] + … of `base`."""

    base: Value
    offset: int
    strides: tuple[int, ...]


def strided(graph: Graph, value: Value) -> Strided:
    """The value as it stands in the earliest value of the graph that holds its elements."""
    node = graph.producers.get(value.name)
    step = _STEPS.get(node.op) if node is not None else None
    if node is not None and step is not None and node.inputs[0] is not None:
        found = step(node, value, strided(graph, node.inputs[0]))
        if found is not None:
            return found
    return Strided(value, 0, tuple(dense(shape_of(value))))


def restrided(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of another shape over the same elements in the same order; None where one stride for each axis cannot say it.

    >>> restrided((4, 6), (12, 1), (2, 2, 3, 2))
    (24, 12, 2, 1)
    """
    runs: list[list[int]] = []  # size, stride: neighbouring axes that are one
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    out = [0] * len(new)
    left, at = 1, 0
    for i in reversed(range(len(new))):
        if new[i] == 1:
            continue
        if left == 1:
            if not runs:
                return None
            left, at = runs.pop()
        if left % new[i]:
            return None
        out[i] = at
        at *= new[i]
        left //= new[i]
    return tuple(out) if left == 1 and not runs else None


def _transpose(node: Node, value: Value, x: Strided) -> Strided:
    perm: Any = node.attrs["perm"]
    return Strided(x.base, x.offset, tuple(x.strides[p] for p in perm))


def _reshape(node: Node, value: Value, x: Strided) -> Strided | None:
    source = node.inputs[0]
    assert source is not None
    strides = restrided(shape_of(source), x.strides, shape_of(value))
    return None if strides is None or 0 in shape_of(value) else Strided(x.base, x.offset, strides)


def _split(node: Node, value: Value, x: Strided) -> Strided:
    axis = normalize_axis(node.attrs["axis"], len(x.strides))  # type: ignore[arg-type]
    at = 0
    for o in node.outputs:
        if o.name == value.name:
            break
        at += shape_of(o)[axis]
    return Strided(x.base, x.offset + at * x.strides[axis], x.strides)


def _slice(node: Node, value: Value, x: Strided) -> Strided | None:
    if 0 in shape_of(value):
        return None
    first, step = slice_start(node)
    offset = sum(f * s for f, s in zip(first, x.strides, strict=True))
    return Strided(x.base, x.offset + offset, tuple(s * t for s, t in zip(x.strides, step, strict=True)))


def _same(node: Node, value: Value, x: Strided) -> Strided:
    return x


_STEPS = {"transpose": _transpose, "reshape": _reshape, "split": _split, "slice": _slice, "identity": _same}


def written_through(graph: Graph, node: Node) -> Node | None:
    """The transpose that alone reads what a node gives and keeps its last axis the last: the node may write where that would."""
    users = graph.users.get(node.output.name, ())
    if len(users) != 1 or users[0].op != "transpose" or any(v is node.output or v == node.output for v in graph.outputs.values()):
        return None
    perm: Any = users[0].attrs["perm"]
    return users[0] if perm[-1] == len(perm) - 1 else None
