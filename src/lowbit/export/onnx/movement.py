"""Movement: reshape, transpose, concat, split, slice, pad, expand, tile; gathering and scattering."""

from __future__ import annotations

from typing import cast

import numpy as np

from lowbit.assumptions import larger
from lowbit.dims import Dim, Sym, at_least, product
from lowbit.dtypes import dtype
from lowbit.errors import UnsupportedOp
from lowbit.export.onnx.tensors import element_type
from lowbit.export.onnx.writer import Writer, spells
from lowbit.ir.graph import Node, Value
from lowbit.types import Shape


def source(node: Node, i: int = 0) -> Value:
    """An input that is there."""
    value = node.inputs[i]
    assert value is not None
    return value


def dims(node: Node, name: str) -> tuple[Dim, ...]:
    return cast("tuple[Dim, ...]", node.attrs[name])


def ints(node: Node, name: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", node.attrs[name])


@spells("reshape")
def reshape(w: Writer, node: Node) -> None:
    x, shape = source(node), dims(node, "shape")
    short = open_shape(x.shape, shape)
    w.node(node, "Reshape", x, w.ints(shape if short is None else short), allowzero=1 if 0 in shape else None)


def open_shape(x: Shape, shape: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """The target in numbers alone: 0 copies a symbolic size from the same axis, one -1 is what is left. None when that cannot say it."""
    if 0 in shape:
        return None
    found: list[int] = []
    for i, d in enumerate(shape):
        found.append(0 if isinstance(d, Sym) and i < len(x) and x[i] == d else -1 if isinstance(d, Sym) else d)
    others = product(d for d, f in zip(shape, found, strict=True) if f != -1)
    left = [d for d, f in zip(shape, found, strict=True) if f == -1]
    return tuple(found) if not left or (len(left) == 1 and product(x) // others == left[0]) else None


@spells("transpose")
def transpose(w: Writer, node: Node) -> None:
    w.node(node, "Transpose", source(node), perm=node.attrs["perm"])


@spells("concat")
def concat(w: Writer, node: Node) -> None:
    w.node(node, "Concat", *node.inputs, axis=node.attrs["axis"])


@spells("split")
def split(w: Writer, node: Node) -> None:
    w.node(node, "Split", source(node), w.ints(dims(node, "sizes")), axis=node.attrs["axis"])


FAR = 2**63 - 1


@spells("slice")
def slice_(w: Writer, node: Node) -> None:
    """Our bounds count from the front, ONNX takes a negative one from the end. A bound that is a symbolic size minus a number is written as
    the negative number, which ONNX cuts to the axis as we do; an end before the first element is written as far away."""
    x = source(node)
    axes, steps = ints(node, "axes"), ints(node, "steps")

    def bound(d: Dim, axis: int, step: int, end: bool) -> Dim:
        if isinstance(d, Sym):
            behind = d - x.shape[axis]  # elements after the end of the axis
            if isinstance(behind, int):
                return FAR if behind >= 0 else behind
            if step < 0 and end and not at_least(d, 0, unknown=False):
                raise UnsupportedOp(f"a slice backwards to {d}, which may lie before the first element, has no spelling", where=node.where)
            return d if at_least(d, 0, unknown=False) else larger(d, 0)
        if d < 0:
            return -FAR if end or step > 0 else 0
        return d

    starts = [bound(s, a, step, False) for s, a, step in zip(dims(node, "starts"), axes, steps, strict=True)]
    ends = [bound(e, a, step, True) for e, a, step in zip(dims(node, "ends"), axes, steps, strict=True)]
    w.node(node, "Slice", x, w.ints(starts), w.ints(ends), w.ints(axes), w.ints(steps))


@spells("flip", respelled=True)
def flip(w: Writer, node: Node) -> None:
    axes = ints(node, "axes")
    n = len(axes)
    w.node(node, "Slice", source(node), w.ints([-1] * n), w.ints([-FAR] * n), w.ints(axes), w.ints([-1] * n))


@spells("roll")
def roll(w: Writer, node: Node) -> None:
    """Each axis is cut in two and put together the other way round."""
    x: str | Value = source(node)
    for shift, axis in zip(ints(node, "shifts"), ints(node, "axes"), strict=True):
        cut, where = w.ints([-shift]), w.ints([axis])
        back = w.step(node, "Slice", x, cut, w.ints([FAR]), where)
        front = w.step(node, "Slice", x, w.ints([0]), cut, where)
        size = source(node).shape[axis]
        whole = shift == 0 or (isinstance(size, int) and shift % size == 0)
        if isinstance(size, int) and not whole and not 0 < abs(shift) < size:
            return roll(w, _with_shifts(node))
        x = x if whole else w.step(node, "Concat", back, front, axis=axis)
    w.node(node, "Identity", x)


def _with_shifts(node: Node) -> Node:
    """The same roll with shifts inside the axes."""
    x = source(node)
    sizes = [x.shape[a] for a in ints(node, "axes")]
    shifts = tuple(s % n if isinstance(n, int) else s for s, n in zip(ints(node, "shifts"), sizes, strict=True))
    return Node(node.op, node.inputs, {**node.attrs, "shifts": shifts}, node.name, node.outputs)


@spells("pad", since=lambda node: 19 if node.attrs["mode"] == "wrap" else 17)
def pad(w: Writer, node: Node) -> None:
    x, value = source(node), node.attrs["value"]
    fill = w.scalar(value, like=x) if node.attrs["mode"] == "constant" and isinstance(value, int | float) and value else None
    w.node(node, "Pad", x, w.ints(dims(node, "pads")), fill, mode=node.attrs["mode"])


@spells("expand")
def expand(w: Writer, node: Node) -> None:
    w.node(node, "Expand", source(node), w.ints(dims(node, "shape")))


@spells("tile")
def tile(w: Writer, node: Node) -> None:
    w.node(node, "Tile", source(node), w.ints(dims(node, "repeats")))


@spells("reverse_sequence")
def reverse_sequence(w: Writer, node: Node) -> None:
    w.node(node, "ReverseSequence", *node.inputs, **node.attrs)


@spells("depth_to_space")
def depth_to_space(w: Writer, node: Node) -> None:
    w.node(node, "DepthToSpace", *node.inputs, blocksize=node.attrs["block"], mode=node.attrs["mode"])


@spells("space_to_depth")
def space_to_depth(w: Writer, node: Node) -> None:
    w.node(node, "SpaceToDepth", *node.inputs, blocksize=node.attrs["block"])


GATHER = {"gather": "Gather", "gather_elements": "GatherElements", "gather_nd": "GatherND"}
SCATTER = {"scatter_elements": "ScatterElements", "scatter_nd": "ScatterND"}


@spells(*GATHER)
def gather(w: Writer, node: Node) -> None:
    w.node(node, GATHER[node.op], *node.inputs, **node.attrs)


@spells(*SCATTER, since=lambda node: 18 if node.attrs["reduction"] in ("max", "min") else 17)
def scatter(w: Writer, node: Node) -> None:
    w.node(node, SCATTER[node.op], *node.inputs, **node.attrs)


# -- tensors out of attributes -----------------------------------------------------------------------------------------


@spells("fill")
def fill(w: Writer, node: Node) -> None:
    from lowbit.export.onnx.tensors import tensor_proto

    d = node.output.type.dtype
    value = np.asarray(node.attrs["value"]).astype(d.numpy).reshape(1)
    w.node(node, "ConstantOfShape", w.ints(dims(node, "shape")), value=tensor_proto("", value, d))


@spells("range")
def range_(w: Writer, node: Node) -> None:
    d = node.output.type.dtype
    ends = []
    for name in ("start", "limit", "step"):
        value = node.attrs[name]
        if isinstance(value, Sym):
            scalar = w.step(node, "Reshape", w.ints([value]), w.ints([]))
            ends.append(scalar if d.name == "int64" else w.step(node, "CastLike", scalar, w.scalar(0, like=node.output)))
        else:
            ends.append(w.scalar(cast("float", value), like=node.output))
    w.node(node, "Range", *ends)


@spells("eye")
def eye(w: Writer, node: Node) -> None:
    shape = w.ints((cast("Dim", node.attrs["rows"]), cast("Dim", node.attrs["cols"])))
    from lowbit.export.onnx.tensors import element_type

    w.node(node, "EyeLike", w.step(node, "ConstantOfShape", shape), k=node.attrs["k"], dtype=element_type(node.output.type.dtype))


@spells("one_hot")
def one_hot(w: Writer, node: Node) -> None:
    d = node.output.type.dtype
    values = np.array([node.attrs["off"], node.attrs["on"]]).astype(d.numpy)
    depth = w.ints((cast("Dim", node.attrs["depth"]),))
    w.node(node, "OneHot", source(node), depth, w.constant(values, d), axis=node.attrs["axis"])


@spells("dims")
def dims_(w: Writer, node: Node) -> None:
    w.node(node, "Reshape", w.ints(dims(node, "values")), w.ints(ints(node, "shape")))


@spells("channel_table")
def channel_table(w: Writer, node: Node) -> None:
    """The entries of all channels in one row, gathered by the byte and the channel's place in it."""
    x, table = source(node), source(node, 1)
    channels = cast("int", table.shape[0])
    index = w.step(node, "Cast", x, to=element_type(dtype("int64")))
    if channels > 1:
        axis = cast("int", node.attrs["axis"]) % x.type.rank
        starts = 256 * np.arange(channels, dtype=np.int64).reshape(-1, *(1,) * (x.type.rank - axis - 1))
        index = w.step(node, "Add", index, w.constant(starts))
    w.node(node, "Gather", w.step(node, "Reshape", table, w.ints([256 * channels])), index, axis=0)
