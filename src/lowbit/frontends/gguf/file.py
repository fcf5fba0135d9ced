"""GGUF files: what they say about the network (fields) and its tensors, read here and written by the `gguf` package, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import dequantize
from lowbit.errors import FormatError, LowbitError
from lowbit.frontends.gguf.blocks import KINDS, BlockTensor, from_bytes
from lowbit.frontends.gguf.header import Field as Field
from lowbit.frontends.gguf.header import read_header
from lowbit.numerics import F32


@dataclass(frozen=True, eq=False)
class RawTensor:
    """A tensor as the file's own bytes, mapped and not copied: rows of whole blocks."""

    format: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]  # (…, bytes of a row)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def rows(self, begin: int, end: int) -> RawTensor:
        """Some rows of a matrix, still the file's bytes."""
        return RawTensor(self.format, (end - begin, *self.shape[1:]), self.data[begin:end])

    def dequantize(self) -> F32:
        """The float32 tensor it stands for, as the `gguf` package gives it."""
        rows = self.data.reshape(-1, self.data.shape[-1])
        return dequantize(self.format, rows).reshape(self.shape)


Tensor = BlockTensor | RawTensor | NDArray[np.float16] | NDArray[np.float32]


@dataclass(frozen=True)
class GGUFFile:
    """Fields and tensors by name, in the file's order. Tensors have their shape as in NumPy: the axis that lies together is the last."""

    fields: Mapping[str, Field]
    tensors: Mapping[str, Tensor]
    name: str = "gguf"

    def __getitem__(self, field: str) -> Any:
        """A field's value."""
        if field not in self.fields:
            raise FormatError(f"there is no field {field!r}", where=self.name)
        return self.fields[field].value

    def get(self, field: str, otherwise: Any = None) -> Any:
        return self.fields[field].value if field in self.fields else otherwise

    def shape(self, tensor: str) -> tuple[int, ...]:
        """A tensor's shape."""
        return self.tensor(tensor).shape

    def tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise FormatError(f"there is no tensor {name!r}", where=self.name)
        return self.tensors[name]

    def real(self, tensor: str) -> F32:
        """A tensor as float32."""
        t = self.tensor(tensor)
        return t.dequantize() if isinstance(t, BlockTensor | RawTensor) else t.astype(np.float32)


def mapped(path: str | PathLike[str]) -> GGUFFile:
    """A file's fields and tensors, all of them raw: the file is mapped, only the header is read."""
    file = Path(path)
    if not file.is_file():
        raise FormatError("there is no such file", where=str(file), hint="the path of a .gguf file")
    try:
        data = np.memmap(file, np.uint8, "r") if file.stat().st_size else np.zeros(0, np.uint8)
        header = read_header(np.asarray(data))
    except OSError as e:
        raise FormatError(f"the file cannot be read: {e.strerror or e}", where=file.name) from None
    except LowbitError as e:
        raise e.at(file.name) from None
    tensors: dict[str, Tensor] = {}
    for t in header.tensors.values():
        raw = np.asarray(data[t.offset : t.offset + t.nbytes])
        tensors[t.name] = RawTensor(t.format.name, t.shape, raw.reshape(*t.shape[:-1], t.format.row_bytes(t.shape[-1])))
    return GGUFFile(header.fields, tensors, file.name)


def read(path: str | PathLike[str]) -> GGUFFile:
    """A file's fields and tensors, in memory: Q4_0, Q4_1, Q8_0 as integers, F16 and F32 as arrays, other formats raw."""
    file = mapped(path)
    return replace(file, tensors={name: _loaded(t) for name, t in file.tensors.items()})


def _loaded(t: Tensor) -> Tensor:
    if not isinstance(t, RawTensor):
        return t
    if t.format in KINDS:
        return from_bytes(t.format, t.data, t.shape)
    if t.format in ("F32", "F16"):
        return np.array(t.data).view(np.float32 if t.format == "F32" else np.float16).reshape(t.shape)
    return replace(t, data=np.array(t.data))


def write(file: GGUFFile, path: str | PathLike[str]) -> None:
    """Writes a file, whole or not at all; reading and writing one back gives the same bytes where it was laid out as ggml does."""
    from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

    part = Path(path).with_name(Path(path).name + ".part")
    writer = GGUFWriter(part, str(file.get("general.architecture", "")))
    writer.kv_data[0].clear()  # it puts the architecture first; the file's own order holds
    for name, field in file.fields.items():
        types = [GGUFValueType[t] for t in field.types]
        writer.add_key_value(name, field.value, types[0], types[-1] if len(types) > 1 else None)
    writer.data_alignment = int(file.get("general.alignment", writer.data_alignment))
    for name, t in file.tensors.items():
        if isinstance(t, BlockTensor):
            writer.add_tensor(name, t.to_bytes(), raw_dtype=GGMLQuantizationType[t.kind.name])
        elif isinstance(t, RawTensor):
            writer.add_tensor(name, t.data, raw_dtype=GGMLQuantizationType[t.format])
        else:
            writer.add_tensor(name, t)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
