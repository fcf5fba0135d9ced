"""GGUF files: what they say about the network (fields) and its tensors, read and written by the `gguf` package, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lowbit.errors import FormatError, LowbitError, UnsupportedOp
from lowbit.frontends.gguf.blocks import KINDS, BlockTensor, from_bytes
from lowbit.numerics import F32

if TYPE_CHECKING:
    from gguf import GGUFReader

Tensor = BlockTensor | NDArray[np.float16] | NDArray[np.float32]


@dataclass(frozen=True)
class Field:
    """A value and its type in the file (for an array, that of its elements as well), by the names of the format: ("ARRAY", "STRING")."""

    value: Any
    types: tuple[str, ...]


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
        return t.dequantize() if isinstance(t, BlockTensor) else t.astype(np.float32)


def read(path: str | PathLike[str]) -> GGUFFile:
    """A file's fields and tensors: Q4_0, Q4_1, Q8_0, F16 and F32; other kinds of tensors are refused by name."""
    file = Path(path)
    if not file.is_file():
        raise FormatError("there is no such file", where=str(file), hint="the path of a .gguf file")
    reader = _reader(file)
    fields = {}
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):  # counts and the version, which the writer knows
            try:
                fields[name] = Field(field.contents(), tuple(t.name for t in field.types))
            except (ValueError, IndexError) as e:  # bytes that are no UTF-8, an array that is cut off
                raise FormatError(f"its field {name!r} cannot be read ({e})", where=file.name, hint="the file is damaged") from e
    tensors: dict[str, Tensor] = {}
    for t in reader.tensors:
        kind, shape = t.tensor_type.name, tuple(int(d) for d in reversed(t.shape))
        try:
            if kind in KINDS:
                tensors[t.name] = from_bytes(kind, np.asarray(t.data), shape)
            elif kind in ("F32", "F16"):
                tensors[t.name] = np.array(t.data).reshape(shape)
            else:
                hint = f"llama-quantize --allow-requantize to one of {', '.join(KINDS)}, or F16"
                raise UnsupportedOp(f"tensors of kind {kind} are not read", hint=hint)
        except LowbitError as e:
            raise e.at(f"tensor '{t.name}' of {file.name}") from None
    return GGUFFile(fields, tensors, file.name)


def _reader(file: Path) -> GGUFReader:
    try:
        from gguf import GGUFReader
    except ImportError as e:
        raise FormatError("GGUF files are read by the package gguf, which is not installed", hint="pip install 'lowbit[gguf]'") from e
    try:
        return GGUFReader(file)
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError, UnicodeDecodeError) as e:
        raise FormatError(f"not a GGUF file, or a damaged one ({type(e).__name__}: {e})", where=file.name) from e


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
