"""Element types, tensors and declarations in ONNX's own form."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import Sym
from lowbit.dtypes import DType
from lowbit.errors import DTypeError
from lowbit.packing import is_packed, pack
from lowbit.types import Array, TensorType

_OTHER_NAMES = {"float32": "FLOAT", "float64": "DOUBLE", "binary": "INT4"}  # -1 and 1 in the smallest type that holds them


def element_type(d: DType) -> int:
    """ONNX's number for an element type."""
    from onnx import TensorProto

    name = _OTHER_NAMES.get(d.name, d.name.upper().replace("_", ""))
    if name not in TensorProto.DataType.keys():  # noqa: SIM118 (it is no mapping)
        raise DTypeError(f"ONNX has no element type for {d}")
    return int(TensorProto.DataType.Value(name))


def tensor_proto(name: str, data: Array, d: DType) -> Any:
    """The constant as raw little-endian bytes; four-bit numbers two a byte."""
    from onnx import TensorProto

    t = TensorProto(name=name, data_type=element_type(d), dims=data.shape)
    if is_packed(d):
        t.raw_data = pack(data, "int4" if d.name == "binary" else d).tobytes()
    else:
        plain = data.dtype.kind in "fiuc" and data.dtype.itemsize > 1
        t.raw_data = np.ascontiguousarray(data.astype(data.dtype.newbyteorder("<"), copy=False) if plain else data).tobytes()
    return t


def value_info(name: str, t: TensorType) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, element_type(t.dtype), [str(d) if isinstance(d, Sym) else d for d in t.shape])
