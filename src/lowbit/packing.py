"""Sub-byte storage: int4 and uint4 two a byte (low nibble first), binary eight a byte (bit 0 first, bit 1 means +1).

Elements are packed in C order over the whole array, as ONNX does; unused bits of the last byte are 0. Wider dtypes are stored as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, FormatError, QuantError


def is_packed(dtype: str | DType) -> bool:
    """Whether elements of the dtype share bytes."""
    return dtype_of(dtype).bits < 8


def pack(ints: ArrayLike, dtype: str | DType) -> NDArray[np.uint8]:
    """The packed bytes (1-D) of unpacked integers.

    >>> pack([1, -1, 7], "int4").tolist(), pack([1, -1, 1, 1], "binary").tolist()
    ([241, 7], [13])
    """
    d = dtype_of(dtype)
    flat = np.asarray(ints).reshape(-1)
    if flat.dtype.kind not in "iub" and flat.size:
        raise DTypeError(f"cannot pack {flat.dtype} into {d.name}", hint="integers, as quantize gives them")
    _check_range(flat, d)
    if d.name == "binary":
        return np.packbits(flat > 0, bitorder="little")
    if d.bits != 4:
        raise DTypeError(f"{d.name} is not stored packed", hint="int4, uint4 or binary")
    nibbles = np.zeros(flat.size + flat.size % 2, np.uint8)
    nibbles[: flat.size] = flat.astype(np.uint8)
    nibbles &= 15
    return np.asarray(nibbles[0::2] | (nibbles[1::2] << 4))


def unpack(data: ArrayLike, dtype: str | DType, shape: Sequence[int]) -> NDArray[Any]:
    """The integers of `shape` that `pack` packed, in the dtype's unpacked form.

    >>> unpack([241, 7], "int4", (3,))
    array([ 1, -1,  7], dtype=int8)
    """
    d = dtype_of(dtype)
    packed = np.asarray(data, np.uint8).reshape(-1)
    count = prod(shape)
    if packed.size != d.nbytes(count):
        raise FormatError(f"{packed.size} bytes do not hold {d.name} of shape {tuple(shape)}, which takes {d.nbytes(count)}")
    if d.name == "binary":
        bits = np.unpackbits(packed, count=count, bitorder="little")
        return (bits.astype(np.int8) * 2 - 1).reshape(shape)
    if d.bits != 4:
        raise DTypeError(f"{d.name} is not stored packed", hint="int4, uint4 or binary")
    nibbles = np.empty(2 * packed.size, np.uint8)
    np.bitwise_and(packed, 15, out=nibbles[0::2])
    np.right_shift(packed, 4, out=nibbles[1::2])
    if d.is_signed:
        nibbles ^= 8
        nibbles -= 8  # wraps: 8..15 become 248..255, which are -8..-1
    return nibbles[:count].view(d.numpy).reshape(shape)


def _check_range(flat: NDArray[Any], d: DType) -> None:
    if not flat.size:
        return
    lo, hi = int(flat.min()), int(flat.max())
    if d.min is None or d.max is None or lo < d.min or hi > d.max:
        raise QuantError(f"values {lo}..{hi} do not fit {d.name}, which holds {d.min}..{d.max}", hint="saturate first: np.clip")
    if d.name == "binary" and not np.all(flat):
        raise QuantError("binary holds -1 and +1, found 0", hint="np.where(x < 0, -1, 1)")
