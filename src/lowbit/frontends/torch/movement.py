"""Views, joins and cuts. torch has worked out every resulting shape, so all its ways to say "reshape" are one function here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowbit.assumptions import larger
from lowbit.dims import Dim, product
from lowbit.errors import UnsupportedOp
from lowbit.frontends.torch.importer import Importer, aten
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis


@aten(
    "view.default",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "view_as",
    "reshape_as",
    "_unsafe_view",
    "ravel",
    "squeeze_copy",
    "view_copy",
)
def reshape(c: Importer, x: Value, *_: Any) -> Value:
    return c.reshape(x, c.shape())


@aten("permute")
def permute(c: Importer, x: Value, dims: Sequence[int]) -> Value:
    return c.transpose(x, [normalize_axis(d, x.type.rank) for d in dims])


@aten("transpose", "swapaxes", "swapdims")
def transpose(c: Importer, x: Value, a: int, b: int) -> Value:
    if x.type.rank == 0:
        return x
    perm = list(range(x.type.rank))
    a, b = normalize_axis(a, x.type.rank), normalize_axis(b, x.type.rank)
    perm[a], perm[b] = b, a
    return c.transpose(x, perm)


@aten("t")
def t(c: Importer, x: Value) -> Value:
    return transpose(c, x, 0, 1) if x.type.rank == 2 else x


@aten("numpy_T")
def numpy_t(c: Importer, x: Value) -> Value:
    return c.transpose(x, list(reversed(range(x.type.rank))))


@aten("mT", "adjoint", "mH")
def matrix_t(c: Importer, x: Value) -> Value:
    return transpose(c, x, -2, -1)


@aten("movedim", "moveaxis")
def movedim(c: Importer, x: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    rank = x.type.rank
    src = [normalize_axis(a, rank) for a in ([source] if isinstance(source, int) else source)]
    dst = [normalize_axis(a, rank) for a in ([destination] if isinstance(destination, int) else destination)]
    moved = dict(zip(dst, src, strict=True))
    others = iter(a for a in range(rank) if a not in src)
    return c.transpose(x, [moved[a] if a in moved else next(others) for a in range(rank)])


# -- join ----------------------------------------------------------------------------------------------------------------


@aten("cat", "concat", "concatenate")
def cat(c: Importer, xs: Sequence[Value], dim: int = 0) -> Value:
    rank = len(c.shape())
    parts = [c.cast(x, c.dtype()) for x in xs if x.type.rank == rank]  # torch lets an empty rank-1 tensor stand among others
    return parts[0] if len(parts) == 1 else c.add("concat", *parts, axis=normalize_axis(dim, rank))


@aten("stack")
def stack(c: Importer, xs: Sequence[Value], dim: int = 0) -> Value:
    axis = normalize_axis(dim, len(c.shape()))
    parts = [c.reshape(c.cast(x, c.dtype()), (*x.shape[:axis], 1, *x.shape[axis:])) for x in xs]
    return parts[0] if len(parts) == 1 else c.add("concat", *parts, axis=axis)


# -- cut -----------------------------------------------------------------------------------------------------------------


@aten("split", "split_with_sizes", "chunk", "tensor_split", "split_copy", "split_with_sizes_copy", "unsafe_split", "unsafe_chunk")
def split(c: Importer, x: Value, _: Any, dim: int = 0) -> Sequence[Value]:
    axis = normalize_axis(dim, x.type.rank)
    sizes = tuple(c.shape(i)[axis] for i in range(c.results()))
    return [x] if len(sizes) == 1 else c.add_node("split", x, axis=axis, sizes=sizes)


@aten("unbind")
def unbind(c: Importer, x: Value, dim: int = 0) -> Sequence[Value]:
    axis = normalize_axis(dim, x.type.rank)
    parts = [x] if c.results() == 1 else c.add_node("split", x, axis=axis, sizes=(1,) * c.results())
    return [c.reshape(p, c.shape(i)) for i, p in enumerate(parts)]


def from_front(index: Dim, size: Dim) -> Dim:
    """An index that may count from the end, counted from the front and kept inside where both are known."""
    if not isinstance(index, int):
        return index
    if index < 0:
        return larger(size + index, 0)
    return min(index, size) if isinstance(size, int) else index


@aten("slice", "slice_copy")
def slice_(c: Importer, x: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    return c.narrow(x, axis, from_front(start or 0, x.shape[axis]), c.shape()[axis], step)


@aten("narrow", "narrow_copy")
def narrow(c: Importer, x: Value, dim: int, start: Any, length: Dim) -> Value:
    if isinstance(start, Value):
        raise UnsupportedOp("narrow from a position computed at run time is not supported")
    axis = normalize_axis(dim, x.type.rank)
    return c.narrow(x, axis, from_front(start, x.shape[axis]), length)


@aten("select", "select_copy")
def select(c: Importer, x: Value, dim: int, index: Dim) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    return c.reshape(c.narrow(x, axis, from_front(index, x.shape[axis]), 1), c.shape())


@aten("diagonal", "diagonal_copy")
def diagonal(c: Importer, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes laid out as one: the diagonal is every (columns + 1)-th element."""
    a, b = normalize_axis(dim1, x.type.rank), normalize_axis(dim2, x.type.rank)
    rest = [d for d in range(x.type.rank) if d not in (a, b)]
    columns = x.shape[b]
    if not isinstance(columns, int):
        raise UnsupportedOp("the diagonal along a symbolic dimension is not supported", hint="leave that dimension out of dynamic=")
    flat = c.reshape(c.transpose(x, [*rest, a, b]), (*(x.shape[d] for d in rest), x.shape[a] * columns))
    first = offset if offset >= 0 else -offset * columns
    return c.narrow(flat, len(rest), first, c.shape()[-1], columns + 1)


@aten("slice_scatter")
def slice_scatter(
    c: Importer, x: Value, src: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Value:
    """x with a slice replaced: what stands before, the new part, what stands after."""
    if step != 1:
        raise UnsupportedOp("assigning to a slice with a step is not supported", hint="use torch.where or torch.cat")
    axis = normalize_axis(dim, x.type.rank)
    size = x.shape[axis]
    first = from_front(start or 0, size)
    after = first + src.shape[axis]
    parts = [c.narrow(x, axis, 0, first)] if first != 0 else []
    parts.append(c.cast(src, x.type.dtype))
    if after != size:
        parts.append(c.narrow(x, axis, after, size - after))
    return parts[0] if len(parts) == 1 else c.add("concat", *parts, axis=axis)


@aten("select_scatter")
def select_scatter(c: Importer, x: Value, src: Value, dim: int, index: Dim) -> Value:
    axis = normalize_axis(dim, x.type.rank)
    one = c.reshape(src, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return slice_scatter(c, x, one, dim, from_front(index, x.shape[axis]))


@aten("copy")
def copy(c: Importer, x: Value, src: Value, non_blocking: bool = False) -> Value:
    return c.expand(c.cast(src, x.type.dtype), x.shape)


@aten("unfold")
def unfold(c: Importer, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along an axis; the window's own axis is the last one."""
    import numpy as np

    axis = normalize_axis(dim, x.type.rank)
    count = c.shape()[axis]
    if not isinstance(count, int):
        raise UnsupportedOp("unfold along a symbolic dimension is not supported", hint="leave that dimension out of dynamic=")
    index = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    y = c.add("gather", x, c.constant(index.astype(np.int64)), axis=axis)
    rest = [a for a in range(x.type.rank + 1) if a != axis + 1]
    return c.transpose(y, [*rest, axis + 1])


# -- repeat --------------------------------------------------------------------------------------------------------------


@aten("expand", "expand_as", "broadcast_to", "expand_copy")
def expand(c: Importer, x: Value, *_: Any, **__: Any) -> Value:
    return c.expand(x, c.shape())


@aten("repeat", "tile")
def repeat(c: Importer, x: Value, repeats: Sequence[Dim]) -> Value:
    times = (1,) * (x.type.rank - len(repeats)) + tuple(repeats)
    x = c.reshape(x, (1,) * (len(times) - x.type.rank) + x.shape)
    return x if all(n == 1 for n in times) else c.add("tile", x, repeats=times)


@aten("repeat_interleave.self_int")
def repeat_interleave(c: Importer, x: Value, repeats: int, dim: int | None = None, *, output_size: int | None = None) -> Value:
    if dim is None:
        x, dim = c.reshape(x, (x.type.size,)), 0
    axis = normalize_axis(dim, x.type.rank)
    wide = c.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    many = c.expand(wide, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
    return c.reshape(many, (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))


@aten("flip")
def flip(c: Importer, x: Value, dims: Sequence[int]) -> Value:
    return c.add("flip", x, axes=c.axes(x, dims, empty_is_all=False))


@aten("roll")
def roll(c: Importer, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        flat = c.add("roll", c.reshape(x, (x.type.size,)), shifts=tuple(shifts), axes=(0,))
        return c.reshape(flat, x.shape)
    return c.add("roll", x, shifts=tuple(shifts), axes=tuple(normalize_axis(d, x.type.rank) for d in dims))


@aten("tril")
def tril(c: Importer, x: Value, diagonal: int = 0) -> Value:
    return c.add("trilu", x, k=diagonal, upper=False)


@aten("triu")
def triu(c: Importer, x: Value, diagonal: int = 0) -> Value:
    return c.add("trilu", x, k=diagonal, upper=True)


# -- pad -----------------------------------------------------------------------------------------------------------------


def padded(c: Importer, x: Value, pads: Sequence[Dim], mode: str, value: float = 0.0) -> Value:
    """torch counts pads from the last axis: (left, right, top, bottom …)."""
    begin: list[Dim] = [0] * x.type.rank
    end: list[Dim] = [0] * x.type.rank
    for i in range(len(pads) // 2):
        begin[-1 - i], end[-1 - i] = pads[2 * i], pads[2 * i + 1]
    if all(p == 0 for p in pads):
        return x
    return c.add("pad", x, pads=(*begin, *end), mode=mode, value=value if x.type.dtype.is_float else int(value))


@aten("constant_pad_nd")
def constant_pad(c: Importer, x: Value, pads: Sequence[Dim], value: float = 0) -> Value:
    return padded(c, x, pads, "constant", float(value))


@aten("pad")
def pad(c: Importer, x: Value, pads: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Value:
    return padded(
        c, x, pads, {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode], float(value or 0)
    )


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(c: Importer, x: Value, pads: Sequence[Dim]) -> Value:
    return padded(c, x, pads, "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(c: Importer, x: Value, pads: Sequence[Dim]) -> Value:
    return padded(c, x, pads, "edge")


# -- pixels and channels -------------------------------------------------------------------------------------------------


@aten("pixel_shuffle")
def pixel_shuffle(c: Importer, x: Value, factor: int) -> Value:
    batch = x.shape[:-3]
    y = c.add("depth_to_space", c.reshape(x, (product(batch), *x.shape[-3:])), block=factor, mode="CRD")
    return c.reshape(y, c.shape())


@aten("pixel_unshuffle")
def pixel_unshuffle(c: Importer, x: Value, factor: int) -> Value:
    batch, (ch, h, w) = x.shape[:-3], x.shape[-3:]
    n = len(batch)
    y = c.reshape(x, (*batch, ch, h // factor, factor, w // factor, factor))
    y = c.transpose(y, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return c.reshape(y, c.shape())


@aten("channel_shuffle")
def channel_shuffle(c: Importer, x: Value, groups: int) -> Value:
    y = c.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return c.reshape(c.transpose(y, [0, 2, 1, *range(3, x.type.rank + 1)]), x.shape)
