"""The safetensors format, one tensor at a time: reading and writing take no memory beside the tensors themselves.

8 bytes: length of the header · header: JSON {name: {dtype, shape, data_offsets}, "__metadata__": {…}} · the tensors' bytes, without gaps
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np

from lowbit.limits import limits, over
from lowbit.types import Array

NAMES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
OF = {np.dtype(code): name for name, code in NAMES.items()}


class CutOff(ValueError):
    """A file that begins as one of these and ends too early."""


def chunks(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The bytes of a file with these tensors, piece by piece, the same for the same tensors. Wide elements first: all are aligned."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    at = 0
    for name in order:
        x = tensors[name]
        header[name] = {"dtype": OF[x.dtype.newbyteorder("=")], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        x = tensors[name]
        little = np.ascontiguousarray(x, x.dtype.newbyteorder("<"))
        if little.size:
            yield little.reshape(-1).view(np.uint8).data


def read(source: BinaryIO) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors and the metadata of a file; a ValueError that says what is wrong with it."""
    whole = source.seek(0, io.SEEK_END)
    source.seek(0)
    length, longest = int.from_bytes(source.read(8), "little"), limits().header_bytes
    if whole > 8 and whole - 8 < length <= longest and source.read(1) == b"{":
        raise CutOff(f"it has {whole:,} bytes, its header alone has {length:,}")
    if longest < length <= whole - 8:
        raise over("header_bytes", length, "bytes of its header")
    if whole < 8 or length > whole - 8:
        raise ValueError("its header is longer than the file" if whole >= 8 else "it is shorter than a header")
    header = json.loads(source.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    if len(header) > limits().nodes:
        raise over("nodes", len(header), "tensors")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise ValueError("its metadata are no object")
    entries = sorted(((name, *_entry(name, e)) for name, e in header.items()), key=lambda e: (e[3], e[4]))
    if entries and entries[-1][4] > whole - 8 - length:
        raise CutOff(f"it has {whole:,} bytes of {8 + length + entries[-1][4]:,}")
    tensors, at = {}, 0
    for name, dtype, shape, start, end in entries:
        if start != at or end - start != prod(shape) * dtype.itemsize or end > whole - 8 - length:
            raise ValueError(f"tensor {name!r} does not lie where its header says")
        tensors[name] = _tensor(source, dtype, shape)
        at = end
    if at != whole - 8 - length:
        raise ValueError("bytes are left after the last tensor")
    return tensors, metadata


def _entry(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    dtype, shape, (start, end) = NAMES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)):
        raise ValueError(f"tensor {name!r} has a shape or a place that is none")
    return np.dtype(dtype), shape, start, end


def _tensor(source: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    x = np.empty(shape, dtype)
    if x.size and source.readinto(x.reshape(-1).view(np.uint8).data) != x.nbytes:  # type: ignore[attr-defined]
        raise ValueError("the file ends inside a tensor")
    return np.asarray(x, x.dtype.newbyteorder("="))
