"""GGUF headers that lie: every file ends in a LowbitError or in tensors inside the file, soon and in little memory."""

from __future__ import annotations

import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from lowbit.block_formats import FORMATS
from lowbit.errors import FormatError, LowbitError
from lowbit.frontends.gguf.file import RawTensor, mapped
from lowbit.frontends.gguf.header import Header, read_header

gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")


def text(s: bytes) -> bytes:
    return struct.pack("<Q", len(s)) + s


def field(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def entry(name: bytes = b"t", dims: tuple[int, ...] = (32, 2), kind: int = 8, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def header(
    fields: tuple[bytes, ...] = (), tensors: tuple[bytes, ...] = (), *, version: int = 3, counts: tuple[int, int] | None = None
) -> bytes:
    n = counts or (len(tensors), len(fields))
    return b"GGUF" + struct.pack("<IQQ", version, *n) + b"".join(fields) + b"".join(tensors)


def padded(head: bytes, data: int = 256, alignment: int = 32) -> bytes:
    return head + bytes(-len(head) % alignment) + bytes(data)


def parse(data: bytes) -> Header:
    return read_header(np.frombuffer(data, np.uint8))


def test_a_header_gives_fields_and_places() -> None:
    fields = (field(b"a", 4, struct.pack("<I", 7)), field(b"b", 9, struct.pack("<IQ", 8, 2) + text("ä".encode()) + text(b"")))
    data = padded(header(fields, (entry(), entry(b"u", (64,), 1, 96))))
    found = parse(data)
    assert found.fields["a"].value == 7 and found.fields["b"].value == ["ä", ""] and found.fields["b"].types == ("ARRAY", "STRING")
    t, u = found.tensors.values()
    assert (t.shape, t.format.name, t.nbytes) == ((2, 32), "Q8_0", 68) and u.offset - t.offset == 96 and t.offset % 32 == 0


WRONG = {
    "it begins with b'GGML'": b"GGML" + bytes(100),
    "it begins with b''": b"",
    "version 1, 2 and 3 are read": header(version=1),
    "may be big-endian": header(version=0x03000000),
    "it ends in the header": header()[:-3],
    "18,446,744,073,709,551,615 tensors, at most": header(counts=((1 << 64) - 1, 0)),
    "9,223,372,036,854,775,808 fields, at most": header(counts=(0, 1 << 63)),
    "two fields are named 'a'": header((field(b"a", 0, b"1"), field(b"a", 0, b"1"))),
    "two tensors are named 't'": padded(header((), (entry(), entry()))),
    "a text of 18,446,744,073,709,551,615 bytes": header((field(b"a", 8, struct.pack("<Q", (1 << 64) - 1)),)),
    "a text is not UTF-8": header((field(b"a", 8, text(b"\xff\xfe")),)),
    "field 'a': not a GGUF file, or a damaged one: an array of arrays": header((field(b"a", 9, struct.pack("<IQ", 9, 1)),)),
    "an array of the unknown type 99": header((field(b"a", 9, struct.pack("<IQ", 99, 1)),)),
    "a value of the unknown type 77": header((field(b"a", 77, b""),)),
    "elements of an array, at most": header((field(b"a", 9, struct.pack("<IQ", 8, 1 << 60)),)),
    "it ends in the header, at byte": header((field(b"a", 9, struct.pack("<IQ", 8, 1 << 20) + text(b"x")),)),
    "arrays of more than 2,097,152 elements together": header(
        (field(b"a", 9, struct.pack("<IQ", 0, 1 << 21) + bytes(1 << 21)), field(b"b", 9, struct.pack("<IQ", 0, 1) + b"1"))
    ),
    "a boolean that is neither 0 nor 1": header((field(b"a", 7, b"\2"),)),
    "general.alignment is 0": header((field(b"general.alignment", 4, struct.pack("<I", 0)),)),
    "general.alignment is 48": header((field(b"general.alignment", 4, struct.pack("<I", 48)),)),
    "general.alignment is x": header((field(b"general.alignment", 8, text(b"x")),)),
    "has 0 dimensions, 1 to 4": header((), (entry(dims=()),)),
    "has 5 dimensions, 1 to 4": header((), (entry(dims=(1, 1, 1, 1, 1)),)),
    "of kind Q8_0 has the shape (2, 33)": padded(header((), (entry(dims=(33, 2)),))),
    "has the shape (0, 32)": padded(header((), (entry(dims=(32, 0)),))),
    "is of the unknown kind 4242": header((), (entry(kind=4242),)),
    "begins at byte 7 of the data, which is no multiple of 32": padded(header((), (entry(offset=7),))),
    "the file has": padded(header((), (entry(dims=(32, 1 << 62)),))),
    "ends at byte 18,446,744,073": padded(header((), (entry(offset=(1 << 64) - 32),))),
    "the tensors 't' and 'u' overlap": padded(header((), (entry(), entry(b"u", (32,), 8, 32)))),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_header_that_lies_is_refused_with_the_reason(message: str) -> None:
    with pytest.raises(LowbitError) as error:
        parse(WRONG[message])
    assert message in str(error.value)


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_a_million_texts_are_read_in_a_second_and_200_megabytes() -> None:
    count = 1 << 20
    data = header((field(b"a", 9, struct.pack("<IQ", 8, count) + b"".join(text(b"%06x" % i) for i in range(count))),), counts=(1, 1))
    before, begin = peak(), time.process_time()
    with pytest.raises(FormatError, match="it ends in the header"):
        parse(data)
    assert time.process_time() - begin < 1 and peak() - before < 200 << 20


def whole_file(tmp_path: Path) -> Path:
    """A file that the gguf package wrote, with every format that is read."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(tmp_path / "all.gguf", "llama")
    writer.add_array("words", ["a", "ß", "漢"])
    writer.add_array("numbers", [1.5, 2.5])
    writer.add_bool("yes", True)
    for f in FORMATS.values():
        data = rng.integers(0, 256, (3, f.row_bytes(512)), np.uint8)
        writer.add_tensor(f.name, data, raw_dtype=gguf.GGMLQuantizationType[f.name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "all.gguf"


def test_a_mapped_file_gives_what_the_gguf_package_reads(tmp_path: Path) -> None:
    path = whole_file(tmp_path)
    file, reader = mapped(path), gguf.GGUFReader(path)
    assert {n: f.value for n, f in file.fields.items()} == {n: f.contents() for n, f in reader.fields.items() if not n.startswith("GGUF.")}
    assert list(file.tensors) == [t.name for t in reader.tensors] and len(file.tensors) == 14
    for t in reader.tensors:
        got = file.tensors[t.name]
        assert isinstance(got, RawTensor) and got.shape == (3, 512) and not got.data.flags.writeable and not got.data.flags.owndata
        assert np.array_equal(got.data.reshape(-1), np.asarray(t.data).view(np.uint8).reshape(-1))
        with np.errstate(all="ignore"):  # random scales are sometimes infinite
            want = gguf.quants.dequantize(got.data, gguf.GGMLQuantizationType[t.name])
            assert np.array_equal(got.dequantize(), want, equal_nan=True), t.name


def test_mutated_files_end_in_a_lowbit_error_or_in_tensors_inside_the_file(tmp_path: Path) -> None:
    good = np.frombuffer(whole_file(tmp_path).read_bytes(), np.uint8)
    end = min(t.offset for t in read_header(good).tensors.values())
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(3000):
        data = good.copy()
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, end))
            data[at : at + int(rng.integers(1, 9))] = rng.choice(np.array([0, 1, 127, 128, 255, rng.integers(256)], np.uint8))
        data = data[: int(rng.integers(0, data.size))] if rng.random() < 0.1 else data
        try:
            found = read_header(data)
        except LowbitError:
            refused += 1
        else:
            assert all(t.offset >= 0 and t.offset + t.nbytes <= data.size for t in found.tensors.values())
    assert 1000 < refused < 3000
