"""Numbers and arrays as C text, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf, isnan
from typing import Any

import numpy as np

from lowbit.types import Array

C_TYPES = {
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
WIDTH = 132


def c_type(dtype: np.dtype[Any], no_float: bool = False) -> str:
    """The C type of one element; formats that C has no type for are held in integers of their size."""
    found = C_TYPES.get(dtype.name, f"uint{8 * dtype.itemsize}_t")
    return "lb_f32" if no_float and found == "float" else found


def real(value: float, no_float: bool = False) -> str:
    """A float32 as a hexadecimal constant, exactly; without floats, its bits."""
    if no_float:
        return f"{{0x{int(np.float32(value).view(np.uint32)):08x}u}}"
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    mantissa, _, exponent = float(np.float32(value)).hex().partition("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}p{exponent}f"


def decimal(value: float) -> str:
    """A finite float32 by as many decimal digits as tell it from every other: C++ before 2017 has no hexadecimal ones.

    >>> decimal(0.05), decimal(3.0), decimal(1e-20)
    ('0.0500000007f', '3.0f', '9.99999968e-21f')
    """
    digits = f"{np.float32(value):.9g}"
    return f"{digits}f" if "." in digits or "e" in digits else f"{digits}.0f"


def ratio(value: float) -> tuple[int, int]:
    """A float32 above 0 as multiplier / 2^shift, exactly, with the smallest multiplier.

    >>> ratio(0.125), ratio(48.0), ratio(float(np.float32(0.05)))
    ((1, 3), (3, -4), (13421773, 28))
    """
    multiplier, divisor = float(np.float32(value)).as_integer_ratio()
    zeros = (multiplier & -multiplier).bit_length() - 1
    return multiplier >> zeros, divisor.bit_length() - 1 - zeros


def integer(value: int) -> str:
    """An integer constant whose type holds it: the smallest negative ones are no constant with a sign."""
    if value == -(1 << 63):
        return "INT64_MIN"
    if value == -(1 << 31):
        return "INT32_MIN"
    return f"INT64_C({value})" if not -(1 << 31) <= value < 1 << 31 else str(value)


def number(value: Any, dtype: np.dtype[Any], no_float: bool = False) -> str:
    if dtype.name == "float32":
        return real(float(value), no_float)
    if dtype.name == "float64":
        return float(value).hex()
    return f"{int(value)}u" if dtype.kind == "u" and dtype.itemsize >= 4 else integer(int(value))


def elements(data: Array, no_float: bool = False) -> list[str]:
    """Every element of the array in order."""
    flat = np.ascontiguousarray(data).reshape(-1)
    if flat.dtype.kind == "b":
        flat = flat.astype(np.uint8)
    if flat.dtype.name not in C_TYPES or flat.dtype.name in ("float16", "bfloat16"):
        flat = flat.view(f"u{flat.dtype.itemsize}")
    if flat.dtype.kind in "iu" and flat.dtype.itemsize <= 2:
        return list(map(str, flat.tolist()))
    return [number(v, flat.dtype, no_float) for v in flat.tolist()]


def rows(items: Iterable[str], indent: str = "    ") -> str:
    """The items with commas, in lines that are not too long."""
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 2 > WIDTH and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    lines.append(line.rstrip().rstrip(","))
    return "\n".join(lines)
