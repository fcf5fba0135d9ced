"""The element types, each a row: name, bits, NumPy type that holds one element unpacked, and the integer range.

One table for everybody: the graph's types, the quantized numbers, the file format and the C printer read it.
`int4`, `uint4` and `binary` are held one per byte when unpacked; packing (two or eight a byte) is `lowbit.packing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lowbit.errors import DTypeError

Kind = Literal["float", "int", "uint", "bool", "binary", "complex"]


@dataclass(frozen=True)
class DType:
    """One element type. `min`/`max` are the integer range (None for float). binary holds -1 and +1, packed as bits 0 and 1."""

    name: str
    kind: Kind
    bits: int
    storage: str  # name of the NumPy (or ml_dtypes) dtype that holds one unpacked element
    min: int | None = None
    max: int | None = None

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one unpacked element."""
        if self.storage in _ML_DTYPES:
            import ml_dtypes  # comes with onnx; only models that use these formats pay for the import

            return np.dtype(getattr(ml_dtypes, self.storage))
        return np.dtype(self.storage)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "binary")

    def nbytes(self, count: int) -> int:
        """Bytes that `count` elements take when packed: 5 int4 take 3 bytes."""
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


def finfo(d: DType) -> Any:
    """What NumPy's finfo tells, of any float type: `eps`, `max` …"""
    import ml_dtypes

    return ml_dtypes.finfo(d.numpy) if d.storage in _ML_DTYPES else np.finfo(d.numpy)  # type: ignore[no-untyped-call]


_ML_DTYPES = frozenset({"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})


def _ints() -> list[DType]:
    rows = []
    for bits in (4, 8, 16, 32, 64):
        stored = max(bits, 8)
        rows.append(DType(f"int{bits}", "int", bits, f"int{stored}", -(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        rows.append(DType(f"uint{bits}", "uint", bits, f"uint{stored}", 0, (1 << bits) - 1))
    return rows


DTYPES: dict[str, DType] = {
    d.name: d
    for d in [
        DType("float32", "float", 32, "float32"),
        DType("float64", "float", 64, "float64"),
        DType("float16", "float", 16, "float16"),
        DType("bfloat16", "float", 16, "bfloat16"),
        DType("float8_e4m3fn", "float", 8, "float8_e4m3fn"),
        DType("float8_e4m3fnuz", "float", 8, "float8_e4m3fnuz"),
        DType("float8_e5m2", "float", 8, "float8_e5m2"),
        DType("float8_e5m2fnuz", "float", 8, "float8_e5m2fnuz"),
        DType("complex64", "complex", 64, "complex64"),
        DType("complex128", "complex", 128, "complex128"),
        *_ints(),
        DType("bool", "bool", 8, "bool", 0, 1),
        DType("binary", "binary", 1, "int8", -1, 1),
    ]
}


def dtype(d: str | DType | np.dtype[Any] | type) -> DType:
    """The row of the table for a name, a NumPy dtype or a DType.

    >>> dtype("int4").max, dtype(np.float32).name
    (7, 'float32')
    """
    if isinstance(d, DType):
        return d
    try:
        name = d if isinstance(d, str) else np.dtype(d).name if d is not None else "None"
    except Exception:  # np.dtype asks an object for its `dtype`, whatever that is
        name = str(d).split("\n")[0][:60]
    row = DTYPES.get(name)
    if row is None:
        raise DTypeError(f"dtype {name!r} is not one of lowbit's", hint="one of " + ", ".join(DTYPES))
    return row
