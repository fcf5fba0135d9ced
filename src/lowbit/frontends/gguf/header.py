"""The header of a GGUF file: fields and where tensors are. Every count, length and offset is checked before it is used.

    "GGUF" · version u32 · tensors u64 · fields u64 · fields (name, type, value) · tensors (name, dims, type, offset) · padding · data

The limits below are far above any known network. They bound time and memory for files that lie about their counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import FORMATS, BlockFormat
from lowbit.errors import FormatError, UnsupportedOp

MOST_BYTES = 64 << 20  # of the header
MOST_ELEMENTS = 1 << 21  # of all arrays together
MOST_FIELDS = 1 << 16
MOST_TENSORS = 1 << 16
MOST_NAME = 1 << 10  # bytes of a field's or tensor's name
MOST_ALIGNMENT = 1 << 20

Bytes = NDArray[np.uint8]
NUMBERS = {0: "UINT8", 1: "INT8", 2: "UINT16", 3: "INT16", 4: "UINT32", 5: "INT32", 6: "FLOAT32", 10: "UINT64", 11: "INT64", 12: "FLOAT64"}
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BOOL, STRING, ARRAY = 7, 8, 9
BY_NUMBER = {f.number: f for f in FORMATS.values()}
# Formats that files may have and that are not read, for the error's sake.
OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8",
    25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A value and its type in the file (for an array, that of its elements as well), by the names of the format: ("ARRAY", "STRING")."""

    value: Any
    types: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """Where a tensor's bytes are in the file. The shape is NumPy's: the axis that lies together is the last."""

    name: str
    format: BlockFormat
    shape: tuple[int, ...]
    offset: int  # from the beginning of the file
    nbytes: int


@dataclass(frozen=True)
class Header:
    fields: dict[str, Field]
    tensors: dict[str, Entry]


def damaged(what: str) -> FormatError:
    return FormatError(f"not a GGUF file, or a damaged one: {what}", hint="download the file again, and compare its size and checksum")


def read_header(data: Bytes) -> Header:
    """The header of a file with these bytes."""
    return _Reader(data).run()


class _Reader:
    def __init__(self, data: Bytes) -> None:
        self.size = data.size
        self.head = data[:MOST_BYTES].data  # a memoryview: nothing is copied
        self.at = 0
        self.elements = 0

    def run(self) -> Header:
        if bytes(self.head[:4]) != b"GGUF":
            raise damaged(f"it begins with {bytes(self.head[:4])!r}, not with b'GGUF'")
        self.at = 4
        version = self.number("I")
        if version not in (2, 3):
            big = f"{version:08x}".endswith("000000")
            raise damaged(f"version {version}, 2 and 3 are read" + (" (the file may be big-endian)" if big else ""))
        tensors = self.count(MOST_TENSORS, "tensors")
        count = self.count(MOST_FIELDS, "fields")
        fields: dict[str, Field] = {}
        for _ in range(count):
            name = self.text(MOST_NAME)
            if name in fields:
                raise damaged(f"two fields are named {name!r}")
            try:
                fields[name] = self.field()
            except FormatError as e:
                raise e.at(f"field {name!r}") from None
        entries = [self.entry() for _ in range(tensors)]
        return Header(fields, self.placed(entries, alignment_of(fields)))

    def take(self, count: int) -> int:
        """Where the next `count` bytes begin."""
        begin = self.at
        if count > len(self.head) - begin:
            cut = self.size > MOST_BYTES
            raise damaged(f"the header is longer than {MOST_BYTES >> 20} MiB" if cut else f"it ends in the header, at byte {self.size:,}")
        self.at = begin + count
        return begin

    def number(self, code: str) -> Any:
        return struct.unpack_from("<" + code, self.head, self.take(struct.calcsize("<" + code)))[0]

    def count(self, most: int, what: str) -> int:
        found: int = self.number("Q")
        if found > most:
            raise damaged(f"{found:,} {what}, at most {most:,} are read")
        return found

    def text(self, most: int = MOST_BYTES) -> str:
        length: int = self.number("Q")
        if length > most:
            raise damaged(f"a text of {length:,} bytes, at most {most:,} are read")
        begin = self.take(length)
        return decoded(self.head[begin : begin + length])

    def field(self) -> Field:
        kind: int = self.number("I")
        if kind in NUMBERS:
            return Field(self.number(CODES[kind]), (NUMBERS[kind],))
        if kind == BOOL:
            return Field(self.booleans(1)[0], ("BOOL",))
        if kind == STRING:
            return Field(self.text(), ("STRING",))
        if kind == ARRAY:
            return self.array()
        raise damaged(f"a value of the unknown type {kind}")

    def array(self) -> Field:
        kind: int = self.number("I")
        count = self.count(MOST_ELEMENTS, "elements of an array")
        self.elements += count
        if self.elements > MOST_ELEMENTS:
            raise damaged(f"arrays of more than {MOST_ELEMENTS:,} elements together")
        if kind in NUMBERS:
            dtype = np.dtype("<" + CODES[kind].replace("B", "u1").replace("b", "i1"))
            begin = self.take(count * dtype.itemsize)
            return Field(np.frombuffer(self.head, dtype, count, begin).tolist(), ("ARRAY", NUMBERS[kind]))
        if kind == BOOL:
            return Field(self.booleans(count), ("ARRAY", "BOOL"))
        if kind == STRING:
            return Field(self.texts(count), ("ARRAY", "STRING"))
        raise damaged("an array of arrays" if kind == ARRAY else f"an array of the unknown type {kind}")

    def booleans(self, count: int) -> list[bool]:
        begin = self.take(count)
        found = bytes(self.head[begin : begin + count])
        if found.strip(b"\0\1"):
            raise damaged("a boolean that is neither 0 nor 1")
        return [b == 1 for b in found]

    def texts(self, count: int) -> list[str]:
        """As `text`, in a loop without calls: vocabularies have some 100,000."""
        head, at, end, length = self.head, self.at, len(self.head), struct.Struct("<Q").unpack_from
        found = []
        for _ in range(count):
            if at + 8 > end:
                break
            begin = at + 8
            at = begin + length(head, at)[0]
            if at > end:
                break
            found.append(decoded(head[begin:at]))
        self.at = min(at, end)
        if len(found) < count:
            self.take(1 + end - self.at)  # says that it ends here
        return found

    def entry(self) -> tuple[str, BlockFormat, tuple[int, ...], int]:
        name = self.text(MOST_NAME)
        rank = self.number("I")
        if not 1 <= rank <= 4:
            raise damaged(f"tensor {name!r} has {rank} dimensions, 1 to 4 are read")
        shape = tuple(reversed([self.number("Q") for _ in range(rank)]))
        kind, offset = self.number("I"), self.number("Q")
        if kind not in BY_NUMBER:
            if kind not in OTHERS:
                raise damaged(f"tensor {name!r} is of the unknown kind {kind}")
            known = ", ".join(f.name for f in BY_NUMBER.values())
            raise UnsupportedOp(f"tensors of kind {OTHERS[kind]} are not read", where=f"tensor {name!r}", hint=f"a file of one of {known}")
        return name, BY_NUMBER[kind], shape, offset

    def placed(self, found: list[tuple[str, BlockFormat, tuple[int, ...], int]], alignment: int) -> dict[str, Entry]:
        """The entries with offsets in the file: aligned, inside the file, none over another."""
        begin = -(-self.at // alignment) * alignment
        entries: dict[str, Entry] = {}
        for name, kind, shape, offset in found:
            if name in entries:
                raise damaged(f"two tensors are named {name!r}")
            if 0 in shape or shape[-1] % kind.block:
                raise damaged(f"tensor {name!r} of kind {kind.name} has the shape {shape}: a row is a multiple of {kind.block} elements")
            nbytes = prod(shape[:-1]) * kind.row_bytes(shape[-1])
            if offset % alignment:
                raise damaged(f"tensor {name!r} begins at byte {offset:,} of the data, which is no multiple of {alignment}")
            if begin + offset + nbytes > self.size:
                raise damaged(f"tensor {name!r} ends at byte {begin + offset + nbytes:,}, the file has {self.size:,}")
            entries[name] = Entry(name, kind, shape, begin + offset, nbytes)
        ordered = sorted(entries.values(), key=lambda e: e.offset)
        for before, after in pairwise(ordered):
            if before.offset + before.nbytes > after.offset:
                raise damaged(f"the tensors {before.name!r} and {after.name!r} overlap")
        return entries


def decoded(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as e:
        raise damaged(f"a text is not UTF-8 ({e.reason} at byte {e.start})") from None


def alignment_of(fields: dict[str, Field]) -> int:
    """general.alignment: a power of two from 8 on; 32 where the file says nothing."""
    found = fields.get("general.alignment", Field(32, ("UINT32",)))
    value = found.value
    if found.types != ("UINT32",) or not 8 <= value <= MOST_ALIGNMENT or value & (value - 1):
        raise damaged(f"general.alignment is {str(value)[:40]} ({found.types[0]}), a power of two from 8 to {MOST_ALIGNMENT:,} is needed")
    return int(value)
