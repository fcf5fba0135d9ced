"""Writes GGUF files piece by piece: the header, then each tensor's bytes. No tensor need be in memory before its turn."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import block_format
from lowbit.errors import FormatError
from lowbit.files import write_whole
from lowbit.frontends.gguf.header import ARRAY, BOOL, CODES, NUMBERS, STRING, Field, alignment_of

VERSION = 3
KINDS = {name: number for number, name in NUMBERS.items()} | {"BOOL": BOOL, "STRING": STRING, "ARRAY": ARRAY}


@dataclass(frozen=True)
class TensorToWrite:
    """A tensor's place in the file, and how its bytes are made when their turn comes."""

    format: str
    shape: tuple[int, ...]
    data: Callable[[], NDArray[np.uint8]]

    @property
    def nbytes(self) -> int:
        return prod(self.shape[:-1]) * block_format(self.format).row_bytes(self.shape[-1])


def write_file(path: str | PathLike[str], fields: Mapping[str, Field], tensors: Mapping[str, TensorToWrite]) -> None:
    """Writes the file, whole or not at all."""
    write_whole(path, pieces(fields, tensors))


def pieces(fields: Mapping[str, Field], tensors: Mapping[str, TensorToWrite]) -> Iterator[bytes | memoryview]:
    alignment = alignment_of(dict(fields))
    head = [b"GGUF", struct.pack("<IQQ", VERSION, len(tensors), len(fields))]
    for name, field in fields.items():
        head += [_text(name), struct.pack("<I", KINDS[field.types[0]]), _value(field)]
    at = 0
    for name, t in tensors.items():
        head += [_text(name), struct.pack(f"<I{len(t.shape)}Q", len(t.shape), *reversed(t.shape))]
        head.append(struct.pack("<IQ", block_format(t.format).number, at))
        at += -(-t.nbytes // alignment) * alignment
    size = sum(map(len, head))
    yield b"".join(head) + bytes(-size % alignment)
    for name, t in tensors.items():
        data = np.ascontiguousarray(t.data()).view(np.uint8).reshape(-1)
        if data.nbytes != t.nbytes:
            raise FormatError(f"tensor {name!r} has {data.nbytes:,} bytes, {t.format} of {t.shape} has {t.nbytes:,}")
        yield data.data
        yield bytes(-t.nbytes % alignment)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(field: Field) -> bytes:
    kind, value = field.types[0], field.value
    if kind != "ARRAY":
        return _scalar(kind, value)
    of = field.types[1]
    head = struct.pack("<IQ", KINDS[of], len(value))
    if of in ("STRING", "BOOL"):
        return head + b"".join(_scalar(of, v) for v in value)
    return head + struct.pack(f"<{len(value)}{CODES[KINDS[of]]}", *value)


def _scalar(kind: str, value: Any) -> bytes:
    if kind == "STRING":
        return _text(value)
    if kind == "BOOL":
        return b"\1" if value else b"\0"
    return struct.pack("<" + CODES[KINDS[kind]], value)
