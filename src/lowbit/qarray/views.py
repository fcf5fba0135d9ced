"""Parameters follow the axes of a view: what scale and zero point belong to the array after indexing, transposing, reshaping, broadcasting.

The law: `view(q).dequantize()` has the bits of `view(q.dequantize())`. A view whose elements no granularity can describe raises QuantError.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import QuantError, ShapeError
from lowbit.quant_params import Granularity, PerAxis, PerBlock, PerTensor, QuantParams

Item: TypeAlias = "int | slice | NDArray[Any] | None"
_HINT = ".dequantize() first, and quantize the result again if it must be small"


def transposed(p: QuantParams, axes: Sequence[int]) -> QuantParams:
    """Parameters after `transpose(axes)`; axes are a permutation of 0..n-1."""
    axis = p.axis(len(axes))
    if axis is None:
        return p
    g = p.granularity
    if isinstance(g, PerBlock):
        return _with(p, p.scale.transpose(axes), p.zero_point.transpose(axes), PerBlock(axes.index(axis), g.size))
    return _with(p, p.scale, p.zero_point, PerAxis(axes.index(axis)))


def reshaped(p: QuantParams, old: tuple[int, ...], new: tuple[int, ...]) -> QuantParams:
    """Parameters after a reshape: per-axis scales need their axis whole in the new shape, blocks must not be cut."""
    axis = p.axis(len(old)) if old else None
    g = p.granularity
    if axis is None or isinstance(g, PerTensor):
        return p
    same = [
        b
        for b in range(len(new))
        if new[b] == old[axis] and prod(new[:b]) == prod(old[:axis]) and prod(new[b + 1 :]) == prod(old[axis + 1 :])
    ]
    if isinstance(g, PerAxis):
        if same:
            return _with(p, p.scale, p.zero_point, PerAxis(same[0]))
        if p.scale.size == 1:
            return _with(p, p.scale.reshape(()), p.zero_point.reshape(()), PerTensor())
    elif same:
        shape = (*new[: same[0]], p.scale.shape[axis], *new[same[0] + 1 :])
        return _with(p, p.scale.reshape(shape), p.zero_point.reshape(shape), PerBlock(same[0], g.size))
    elif prod(old[axis + 1 :]) == 1 and old[axis] % g.size == 0 and 0 not in new and new[-1:] and new[-1] % g.size == 0:
        shape = (*new[:-1], new[-1] // g.size)  # whole blocks, neighbours in memory: they stay whole
        return _with(p, p.scale.reshape(shape), p.zero_point.reshape(shape), PerBlock(len(new) - 1, g.size))
    raise QuantError(f"reshape {old} → {new} cuts through the scales, which are {g}", hint=_HINT)


def broadcasted(p: QuantParams, old: tuple[int, ...], new: tuple[int, ...]) -> QuantParams:
    """Parameters after `broadcast_to(new)`; a repeated axis repeats its scale."""
    if not old or isinstance(p.granularity, PerTensor):
        return p
    g = p.granularity
    axis = g.axis % len(old) + len(new) - len(old)
    if isinstance(g, PerAxis):
        shape: tuple[int, ...] = (new[axis],)
        return _with(p, np.broadcast_to(p.scale, shape), np.broadcast_to(p.zero_point, shape), PerAxis(axis))
    blocks = -(-new[axis] // g.size)
    shape = (*new[:axis], blocks, *new[axis + 1 :])
    return _with(p, np.broadcast_to(p.scale, shape), np.broadcast_to(p.zero_point, shape), PerBlock(axis, g.size))


def indexed(p: QuantParams, shape: tuple[int, ...], key: Any) -> QuantParams:
    """Parameters after `array[key]` for an array of `shape`; the key is one that NumPy has accepted for it."""
    g = p.granularity
    if isinstance(g, PerTensor):
        return p
    items = parse_key(key, len(shape))
    axis = g.axis % len(shape)
    at = [i for i, item in enumerate(items) if item is not None][axis]  # where in the key the axis is
    layout = _layout(items)
    position = layout.index(at) if at in layout else None
    if isinstance(g, PerBlock):
        items[at] = _block_item(items[at], shape[axis], g)
        scale, zero_point = p.scale[tuple(items)], p.zero_point[tuple(items)]
        kept = isinstance(items[at], slice) and position is not None
        return _with(p, scale, zero_point, PerBlock(position or 0, g.size) if kept else _per_element(scale.ndim))
    item = items[at]
    if isinstance(item, slice) and position is not None:
        return _with(p, p.scale[item], p.zero_point[item], PerAxis(position))
    if isinstance(item, int):
        return _with(p, p.scale[item], p.zero_point[item], PerTensor())
    advanced = np.broadcast_shapes(*(i.shape for i in items if isinstance(i, np.ndarray)))
    if len(advanced) != 1:
        raise QuantError(f"an index of shape {advanced} spreads the scales of axis {axis} over {len(advanced)} axes", hint=_HINT)
    scale, zero_point = np.broadcast_to(p.scale[item], advanced), np.broadcast_to(p.zero_point[item], advanced)
    return _with(p, scale, zero_point, PerAxis(layout.index(_ADVANCED)))


_ADVANCED = -1


def parse_key(key: Any, ndim: int) -> list[Item]:
    """The key as one item per axis (and None for each new axis): ellipsis filled in, masks turned into integer arrays."""
    items: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, (list, np.ndarray)) and np.asarray(item).dtype == np.bool_:
            items.extend(np.asarray(item).nonzero())
        elif isinstance(item, (list, np.ndarray)) and np.ndim(item):
            items.append(np.asarray(item, np.intp))
        elif isinstance(item, (bool, np.bool_)):
            raise ShapeError("a bool is not an index", hint="a mask of the array's shape, or integers")
        else:
            items.append(item if item is None or item is Ellipsis or isinstance(item, slice) else int(item))
    used = sum(item is not None and item is not Ellipsis for item in items)
    gap = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    items[gap : gap + 1] = [slice(None)] * (ndim - used)
    return items


def _layout(items: list[Item]) -> list[int]:
    """For each axis of the result, the position in the key of what made it; _ADVANCED for those of integer arrays."""
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    made = [i for i, item in enumerate(items) if item is None or isinstance(item, slice)]
    if not arrays:
        return made
    group = [i for i, item in enumerate(items) if isinstance(item, (int, np.ndarray))]  # beside arrays, integers are arrays too
    together = group[-1] - group[0] == len(group) - 1
    start = sum(i < group[0] for i in made) if together else 0  # NumPy puts the axes of scattered arrays first
    made[start:start] = [_ADVANCED] * len(np.broadcast_shapes(*(a.shape for a in arrays)))
    return made


def _block_item(item: Item, dim: int, g: PerBlock) -> Item:
    if isinstance(item, slice):
        start, stop, step = item.indices(dim)
        if len(range(start, stop, step)) == 0:
            return slice(0, 0)
        if step != 1 or start % g.size:
            raise QuantError(f"slice {start}:{stop}:{step} does not start and go on with whole blocks of {g.size}", hint=_HINT)
        return slice(start // g.size, -(-stop // g.size))
    if isinstance(item, int):
        return item % dim // g.size
    return None if item is None else np.asarray(item % dim // g.size)


def _per_element(ndim: int) -> Granularity:
    """The granularity of one scale for each element."""
    return PerTensor() if ndim == 0 else PerAxis(0) if ndim == 1 else PerBlock(ndim - 1, 1)


def _with(p: QuantParams, scale: NDArray[Any], zero_point: NDArray[Any], granularity: Granularity) -> QuantParams:
    return QuantParams(p.dtype, scale, zero_point, p.scheme, granularity)
