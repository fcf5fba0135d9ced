"""depth_to_space and its inverse: blocks of channels become squares of pixels (pixel shuffle)."""

from __future__ import annotations

from lowbit.errors import ShapeError, UnsupportedOp
from lowbit.ops.op import Op, register
from lowbit.types import Array, TensorType, shape_text


def infer_depth_to_space(x: TensorType, *, block: int, mode: str) -> TensorType:
    if mode not in ("DCR", "CRD"):
        raise UnsupportedOp(f"mode '{mode}' is not DCR or CRD")
    if x.rank != 4 or block < 1 or (isinstance(x.shape[1], int) and x.shape[1] % (block * block)):
        raise ShapeError(f"input {shape_text(x.shape)} given, (N, C, H, W) with C a multiple of {block * block} needed")
    n, c, h, w = x.shape
    return TensorType((n, c // (block * block), h * block, w * block), x.dtype)


def depth_to_space(x: Array, *, block: int, mode: str) -> Array:
    """Channel = (row in block, column in block, depth) for DCR, (depth, row in block, column in block) for CRD."""
    n, c, h, w = x.shape
    d = c // (block * block)
    if mode == "DCR":
        y = x.reshape(n, block, block, d, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, d, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, d, h * block, w * block)


def infer_space_to_depth(x: TensorType, *, block: int) -> TensorType:
    if x.rank != 4 or block < 1 or any(isinstance(d, int) and d % block for d in x.shape[2:]):
        raise ShapeError(f"input {shape_text(x.shape)} given, (N, C, H, W) with H and W multiples of {block} needed")
    n, c, h, w = x.shape
    return TensorType((n, c * block * block, h // block, w // block), x.dtype)


def space_to_depth(x: Array, *, block: int) -> Array:
    """The inverse of depth_to_space in mode DCR."""
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * block * block, h // block, w // block)


register(
    Op("depth_to_space", infer_depth_to_space, depth_to_space, moves=True),
    Op("space_to_depth", infer_space_to_depth, space_to_depth, moves=True),
)
