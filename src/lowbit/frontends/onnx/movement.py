"""Movement: reshape and its kin, transpose, concat, split, slice, pad, expand, tile."""

from __future__ import annotations

from lowbit.assumptions import note_least
from lowbit.dims import Dim, Sym, at_least, ceil_div, product, symbol
from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, onnx_op
from lowbit.frontends.onnx.serialize import OnnxNode, number_of
from lowbit.ir.graph import Value
from lowbit.types import axis_of, normalize_axis, shape_text

FAR = 2**31 - 1  # exporters write this, or a larger number, for "to the end"


@onnx_op("Reshape")
def reshape(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    target = c.dims(node, 1, "shape")
    shape = target if target is not None else []
    if not node.attr("allowzero", 0):
        for i, d in enumerate(shape):
            if d == 0:
                if i >= x.type.rank:
                    raise ShapeError(f"shape {shape_text(shape)} copies axis {i}, input {shape_text(x.shape)} has none")
                shape[i] = x.shape[i]
    if shape and x.type.rank and (batch := next((n for n, a in c.anew.items() if a.first and x.shape[0] == symbol(n)), None)) is not None:
        rest, own = product(shape[1:]), product(x.shape[1:])
        if shape[0] == c.anew[batch].old and (-1 in shape[1:] or rest == own):
            shape[0] = x.shape[0]  # an exporter wrote the batch that it saw: each row has its own shape still
    return c.add("reshape", x, shape=resolve(shape, x.type.size))


def resolve(shape: list[Dim], size: Dim) -> list[Dim]:
    """The shape with its -1 replaced by what is left of `size`, which must divide."""
    open_ = [i for i, d in enumerate(shape) if d == -1]
    if not open_:
        return shape
    others = product(d for d in shape if d != -1)
    if len(open_) > 1 or others == 0 or (isinstance(size, int) and isinstance(others, int) and size % others):
        raise ShapeError(f"{size} elements do not fill shape {shape_text(shape)}")
    return [size // others if d == -1 else d for d in shape]


@onnx_op("Flatten")
def flatten(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    axis = node.attr("axis", 1)
    axis = axis + x.type.rank if axis < 0 else axis
    return c.add("reshape", x, shape=(product(x.shape[:axis]), product(x.shape[axis:])))


@onnx_op("Squeeze")
def squeeze(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    given = c.ints_attr_or_input(node, "axes", 1)
    axes = [i for i, d in enumerate(x.shape) if d == 1] if given is None else [normalize_axis(a, x.type.rank) for a in given]
    wrong = [a for a in axes if isinstance(x.shape[a], int) and x.shape[a] != 1]
    if wrong:
        raise ShapeError(f"axis {wrong[0]} of {shape_text(x.shape)} is not 1")
    return c.add("reshape", x, shape=[d for i, d in enumerate(x.shape) if i not in axes])


@onnx_op("Unsqueeze")
def unsqueeze(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    given = c.ints_attr_or_input(node, "axes", 1) or []
    rank = x.type.rank + len(given)
    axes = {normalize_axis(a, rank) for a in given}
    if len(axes) != len(given):
        raise ShapeError(f"axes {given} name one axis twice")
    old = iter(x.shape)
    return c.add("reshape", x, shape=[1 if i in axes else next(old) for i in range(rank)])


@onnx_op("Transpose")
def transpose(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    return c.add("transpose", x, perm=node.attr("perm") or tuple(reversed(range(x.type.rank))))


@onnx_op("Concat")
def concat(c: Importer, node: OnnxNode) -> Value:
    xs = [c.input(node, i) for i in range(len(node.inputs))]
    return c.add("concat", *xs, axis=normalize_axis(node.attr("axis", 1), xs[0].type.rank))


@onnx_op("Split")
def split(c: Importer, node: OnnxNode) -> tuple[Value, ...]:
    x = c.input(node, 0)
    axis = axis_of(node.attr("axis", 0), x.shape)
    sizes: list[Dim] | None = node.attr("split") or (c.dims(node, 1, "split") if c.opset >= 13 else None)
    if sizes is None:
        parts = node.attr("num_outputs", len(node.outputs))
        if parts < 1:
            raise ShapeError(f"{parts} outputs wanted")
        each = ceil_div(x.shape[axis], parts)
        sizes = [each] * (parts - 1) + [x.shape[axis] - each * (parts - 1)]
    if len(sizes) == 1:
        return (c.add("identity", x),)
    return c.add_node("split", x, axis=axis, sizes=sizes)


@onnx_op("Slice")
def slice_(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    starts: list[Dim] = (node.attr("starts") if c.opset < 10 else c.dims(node, 1, "starts")) or []
    ends: list[Dim] = (node.attr("ends") if c.opset < 10 else c.dims(node, 2, "ends")) or []
    axes = node.attr("axes") if c.opset < 10 else c.ints(node, 3, "axes")
    steps = (c.ints(node, 4, "steps") if c.opset >= 10 else None) or [1] * len(starts)
    axes = [normalize_axis(a, x.type.rank) for a in (axes if axes is not None else range(len(starts)))]
    if not len(axes) == len(starts) == len(ends) == len(steps):
        raise ShapeError(f"{len(axes)} axes, {len(starts)} starts, {len(ends)} ends and {len(steps)} steps given")
    return c.add(
        "slice",
        x,
        axes=axes,
        starts=[slice_bound(s, x.shape[a], step, start=True) for s, a, step in zip(starts, axes, steps, strict=True)],
        ends=[slice_bound(e, x.shape[a], step, start=False) for e, a, step in zip(ends, axes, steps, strict=True)],
        steps=steps,
    )


def slice_bound(v: Dim, size: Dim, step: int, *, start: bool) -> Dim:
    """A start or end counted from the front and cut to the axis; with a negative step, an end of -1 is before the first element.

    On a symbolic axis it is cut when the size is bound. A dim that may be negative is taken not to be, which is noted.
    An end of INT_MAX means the end of the axis in the direction of the step, as ONNX Runtime reads it.
    """
    if step < 0 and not start and v in (2**31 - 1, 2**63 - 1):
        return -1
    low = 0 if step > 0 or start else -1
    high = size if step > 0 else size - 1
    if isinstance(v, int) and isinstance(size, int):
        v = v + size if v < 0 else v
        return min(max(v, low), int(high))
    if isinstance(v, int) and abs(v) >= FAR:
        return high if v > 0 else low
    if not at_least(v, 0, unknown=True):
        v = size + v
    elif not at_least(v, 0, unknown=False):
        note_least(v, 0)
    return high if at_least(v, high, unknown=False) else v


@onnx_op("Pad")
def pad(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    mode = node.attr("mode", "constant")
    given: list[Dim] = (node.attr("pads") if c.opset < 11 else c.dims(node, 1, "pads")) or []
    axes = (
        [normalize_axis(a, x.type.rank) for a in (c.ints(node, 3, "axes") or [])]
        if len(node.inputs) > 3 and node.inputs[3]
        else range(x.type.rank)
    )
    if len(given) != 2 * len(axes):
        raise ShapeError(f"{len(given)} pads given for {len(axes)} axes")
    pads: list[Dim] = [0] * (2 * x.type.rank)
    for i, a in enumerate(axes):
        pads[a], pads[a + x.type.rank] = given[i], given[i + len(axes)]
    value = node.attr("value", 0.0) if c.opset < 11 else 0.0
    data = c.const(node, 2, "value") if c.opset >= 11 else None
    if data is not None and data.size:
        value = number_of(data)
    return c.add("pad", x, pads=pads, mode=mode, value=value)


@onnx_op("CenterCropPad")
def center_crop_pad(c: Importer, node: OnnxNode) -> Value:
    """Each axis is cut, or padded with zeros, on both sides alike; an odd one goes to the end."""
    x = c.input(node, 0)
    axes = [normalize_axis(a, x.type.rank) for a in node.attr("axes", range(x.type.rank))]
    pads: list[Dim] = [0] * (2 * x.type.rank)
    shape = c.dims(node, 1, "shape") or []
    if len(shape) != len(axes):
        raise ShapeError(f"{len(shape)} sizes given, {len(axes)} axes need one each")
    for a, target in zip(axes, shape, strict=True):
        more = target - x.shape[a]
        if isinstance(more, Sym):
            raise UnsupportedOp(f"its shape depends on '{more}'", hint="bind symbolic dimensions with shapes=")
        pads[a], pads[a + x.type.rank] = more // 2, more - more // 2
        if more < 0:
            pads[a], pads[a + x.type.rank] = -((-more) // 2), -((-more) - (-more) // 2)
    return c.add("pad", x, pads=pads, mode="constant", value=0)


@onnx_op("Expand")
def expand(c: Importer, node: OnnxNode) -> Value:
    x = c.input(node, 0)
    target = c.dims(node, 1, "shape") or []
    rank = max(x.type.rank, len(target))
    pairs = zip([1] * (rank - x.type.rank) + list(x.shape), [1] * (rank - len(target)) + target, strict=True)
    # of two symbols the target is what the network is written for; a number other than 1 is the result in any case
    return c.add("expand", x, shape=[d if t == 1 or (isinstance(d, int) and isinstance(t, Sym) and d != 1) else t for d, t in pairs])


@onnx_op("Tile")
def tile(c: Importer, node: OnnxNode) -> Value:
    return c.add("tile", c.input(node, 0), repeats=c.dims(node, 1, "repeats") or ())


@onnx_op("ReverseSequence")
def reverse_sequence(c: Importer, node: OnnxNode) -> Value:
    return c.add(
        "reverse_sequence", c.input(node, 0), c.input(node, 1), batch_axis=node.attr("batch_axis", 1), time_axis=node.attr("time_axis", 0)
    )
