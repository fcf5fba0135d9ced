"""A QArray as a safetensors file: the packed integers are the tensor `data`, shape and parameters are JSON in the metadata."""

from __future__ import annotations

import json
from os import PathLike

import numpy as np

from lowbit.arguments import path as needed
from lowbit.errors import FormatError, InputError, LowbitError
from lowbit.files import write_whole
from lowbit.packing import is_packed, unpack
from lowbit.qarray.core import QArray
from lowbit.quant_params import QuantParams

KEY = "lowbit.qarray"


def save_array(path: str | PathLike[str], q: QArray) -> None:
    """Writes the array; the same array gives the same bytes.

    >>> import lowbit, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_array(Path(folder) / "q.safetensors", lowbit.quantize_array([1.0, -2.0], scale=0.5))
    ...     load_array(Path(folder) / "q.safetensors").ints.tolist()
    [2, -4]
    """
    from safetensors.numpy import save as to_bytes

    if not isinstance(q, QArray):
        raise InputError(f"{type(q).__name__} given, a QArray is needed", hint="save_array(path, lowbit.quantize_array(x, dtype))")
    meta = {"version": 1, "shape": list(q.shape), "params": q.quant_params.to_dict(), "sqnr_db": repr(q.sqnr_db)}
    if q.original_dtype.name != "float32":
        meta["original_dtype"] = q.original_dtype.name
    # One metadata entry: the order of several is not fixed by the format.
    write_whole(path, to_bytes({"data": np.ascontiguousarray(q.packed)}, metadata={KEY: json.dumps(meta, sort_keys=True)}))


def load_array(path: str | PathLike[str]) -> QArray:
    """The array that `save_array` wrote; FormatError for anything else.

    >>> import tempfile, lowbit
    >>> path = tempfile.mkdtemp() + "/q.safetensors"
    >>> save_array(path, lowbit.full((2,), 3.0, "int8"))
    >>> load_array(path).tolist()
    [3.0, 3.0]
    """
    from safetensors import SafetensorError, safe_open

    where = needed(path).name
    try:
        with safe_open(str(path), framework="np") as f:
            meta = json.loads((f.metadata() or {}).get(KEY, "null"))
            data = f.get_tensor("data")
    except (SafetensorError, OSError, ValueError) as e:
        raise FormatError(f"not a quantized array ({e})", where=where, hint="a file that QArray.save wrote") from e
    try:
        params = QuantParams.from_dict(meta["params"])
        shape = tuple(int(d) for d in meta["shape"])
        stored = np.dtype(np.uint8) if is_packed(params.dtype) else params.dtype.numpy
        if data.dtype != stored:
            raise FormatError(f"holds {data.dtype}, its parameters say {params.dtype}, which is stored as {stored}")
        ints = unpack(data, params.dtype, shape) if is_packed(params.dtype) else data.reshape(shape)
        known = None if meta["sqnr_db"] == "None" else float(meta["sqnr_db"])
        return QArray(ints, params, sqnr_db=known, original_dtype=meta.get("original_dtype", "float32"))
    except (KeyError, TypeError, ValueError) as e:
        raise FormatError(f"not a quantized array ({type(e).__name__}: {e})", where=where, hint="a file that QArray.save wrote") from e
    except LowbitError as e:
        raise e.at(where) from e
