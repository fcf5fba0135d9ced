"""Quantizes a language model, block by block: one block's floats are in memory at a time, and finished blocks survive an interruption."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lowbit.blas import one_thread
from lowbit.block_formats import block_format
from lowbit.errors import CalibrationError, InputError
from lowbit.files import check_target
from lowbit.frontends.gguf.file import RawTensor
from lowbit.frontends.gguf.header import Field
from lowbit.frontends.gguf.writer import TensorToWrite, write_file
from lowbit.kernels import threads as threads_of
from lowbit.llm.quantization.block import INPUT_OF, BlockRun, Moments, as_raw, moments_of
from lowbit.llm.quantization.budget import formats_under
from lowbit.llm.quantization.journal import Journal
from lowbit.llm.quantization.rounding import rounded
from lowbit.llm.quantization.scaling import scale_block
from lowbit.llm.quantization.source import Source, open_source
from lowbit.llm.quantization.survey import block_of, embedded, normalized, survey, without_texts
from lowbit.numerics import F32
from lowbit.progress import progress

BITS = {"int4": 4.85, "int8": 8.5}  # a weight, where nothing is said
WINDOW = 512  # tokens that are read together
TOKENS = 16384  # of the texts that are read
TABLE, HEAD = "token_embd.weight", "output.weight"
LOOKED_UP = 0.1  # what rows that are looked up count, of the mean of what the head's columns do
TABLE_ROWS = 8192  # of a table of tokens that are rounded together
# general.file_type: the format that most weights have
FILE_TYPES = {"Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "IQ4_NL": 25, "F16": 1}


@dataclass(frozen=True)
class Made:
    """What was written: matrices by format, bits a weight of all matrices, bytes of the file, tokens read, seconds."""

    path: Path
    formats: dict[str, str]
    bits: float
    nbytes: int
    tokens: int
    seconds: float
    resumed: bool

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(self.formats.values()).most_common())


def quantize(
    model: str | PathLike[str],
    out: str | PathLike[str],
    *,
    recipe: str = "int4",
    bits: float | None = None,
    texts: Iterable[str] | None = None,
    threads: int | None = None,
) -> Made:
    """Writes a GGUF file of few bits from a Hugging Face folder or a GGUF file of floats.

    bits   a weight, over all matrices: more are given where they take away the most noise
    texts  what the network will read: layers are rounded for the least error of their outputs on them. Without, of their weights

    >>> import tempfile
    >>> quantize(path, tempfile.mkdtemp() + "/small.gguf", recipe="int8").bits >= 8
    True
    """
    start, target = time.monotonic(), Path(out)
    if recipe not in BITS:
        raise InputError(f"recipe={recipe!r} is not known for language models", hint=f"one of {', '.join(BITS)}")
    check_target(target)
    source = open_source(model)
    ids = _windows(source, texts) if texts is not None else None
    asked = BITS[recipe] if bits is None else float(bits)
    journal = Journal(target, _settings(source, asked, ids))
    work = _Work(source, ids, threads_of.count(threads), journal)
    with one_thread():  # sums have one order, so that the file's bytes are always the same
        work.choose(asked)
        work.first()
        work.blocks()
        work.tables()
    work.write(target)
    weights = sum(prod(source.shapes[n]) for n in work.formats)
    size = sum(_nbytes(f, source.shapes[n]) for n, f in work.formats.items())
    tokens = 0 if ids is None else ids.size
    journal.close()
    return Made(target, work.formats, 8 * size / weights, target.stat().st_size, tokens, time.monotonic() - start, journal.resumed)


def _windows(source: Source, texts: Iterable[str]) -> NDArray[np.int64]:
    """The texts' tokens in windows of one length."""
    tokenizer, found = source.tokenizer(), []
    for text in texts:
        found += tokenizer.encode(text)
        if len(found) >= TOKENS:
            break
    length = min(WINDOW, source.config.context, len(found))
    if length < 32:
        raise CalibrationError(f"the texts have {len(found)} tokens, 32 are the least", hint="some pages of what the network will read")
    count = min(len(found), TOKENS) // length
    ids = np.array(found[: count * length], np.int64).reshape(count, length)
    if ids.max() >= source.config.vocabulary:
        raise InputError(f"token {ids.max()} is outside the vocabulary of {source.config.vocabulary:,}", where=source.name)
    return ids


def _settings(source: Source, bits: float, ids: NDArray[np.int64] | None) -> dict[str, object]:
    files = [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in source.files if f.is_file()]
    return {"version": 1, "files": files, "bits": bits, "texts": None if ids is None else hashlib.sha256(ids.tobytes()).hexdigest()}


def _nbytes(name: str, shape: Sequence[int]) -> int:
    return prod(shape[:-1]) * block_format(name).row_bytes(shape[-1])


class _Work:
    """The steps, each of which the journal may have already."""

    def __init__(self, source: Source, ids: NDArray[np.int64] | None, threads: int, journal: Journal) -> None:
        self.source, self.ids, self.threads, self.journal = source, ids, threads, journal
        self.formats: dict[str, str] = {}
        self.hidden: F32 | None = None

    def choose(self, bits: float) -> None:
        """The format of each matrix, under the budget."""
        if "plan" not in self.journal:
            found = without_texts(self.source) if self.ids is None else survey(self.source, self.ids, self.threads)
            chosen = formats_under(found, bits)
            self.journal.keep("plan", {"names": np.array(list(chosen)), "formats": np.array(list(chosen.values()))})
        plan = self.journal.load("plan")
        self.formats = {str(n): str(f) for n, f in zip(plan["names"], plan["formats"])}

    def first(self) -> None:
        """The hidden states that the first block reads: rows of the table, rounded."""
        if self.ids is None or any(f"hidden.{i}" in self.journal for i in range(self.source.config.layers + 1)):
            return
        used, at = np.unique(self.ids, return_inverse=True)
        rows = np.concatenate([self.source.rows(TABLE, i, i + 1) for i in used.tolist()])
        raw = rounded(rows, self.formats[TABLE], None)
        self.journal.keep("hidden.0", {"x": embedded(self.source, self.ids, raw.dequantize()[at.reshape(-1)])})

    def blocks(self) -> None:
        c = self.source.config
        for i in progress(range(c.layers), "quantizing blocks"):
            if f"blk.{i}" not in self.journal:
                self._block(i)

    def _block(self, i: int) -> None:
        c, block = self.source.config, block_of(self.source, i)
        moments: Mapping[str, Moments] | None = None
        if self.ids is not None:
            if self.hidden is None:
                self.hidden = self.journal.load(f"hidden.{i}")["x"]
            moments = moments_of(c)
            run = BlockRun(c, i, {n: as_raw(t) for n, t in block.items()}, self.ids.shape[1], self.threads, record=True)
            run(self.hidden, moments)
            scale_block(block, i, c, self.formats, moments)
        made: dict[str, RawTensor] = {}
        for name, t in block.items():
            input_of = None if moments is None or t.ndim < 2 else moments[INPUT_OF[name.split(".")[2]]]
            made[name] = as_raw(t) if t.ndim < 2 else rounded(t, self.formats[name], input_of)
        if self.hidden is not None and self.ids is not None:
            self.hidden = BlockRun(c, i, made, self.ids.shape[1], self.threads)(self.hidden)
            self.journal.keep(f"hidden.{i + 1}", {"x": self.hidden})
        self.journal.keep(f"blk.{i}", {n: t.data for n, t in made.items()})
        self.journal.drop(f"hidden.{i}")

    def tables(self) -> None:
        """The table of tokens, and the head's own where it has one, for the hidden states that the quantized blocks make.

        A table that is both is rounded for the head's outputs, and a tenth as much for the rows that are looked up.
        """
        tied = HEAD not in self.source.shapes
        for name in (TABLE,) if tied else (TABLE, HEAD):
            if name not in self.journal:
                moments = self._last() if tied or name == HEAD else None
                if moments is not None and tied:
                    moments.add_to_diagonal(LOOKED_UP)
                self.journal.keep(name, {name: self._by_rows(name, moments)})

    def _last(self) -> Moments | None:
        """The moments of what the head reads."""
        if self.ids is None:
            return None
        c = self.source.config
        x = self.hidden if self.hidden is not None else self.journal.load(f"hidden.{c.layers}")["x"]
        moments = Moments(c.width)
        moments.add_all(normalized(self.source, x).reshape(-1, c.width))
        return moments

    def _by_rows(self, name: str, moments: Moments | None) -> NDArray[np.uint8]:
        count, parts = self.source.shapes[name][0], []
        for at in range(0, count, TABLE_ROWS):
            rows = self.source.rows(name, at, min(at + TABLE_ROWS, count))
            parts.append(rounded(rows, self.formats[name], moments).data)
        return np.concatenate(parts)

    def write(self, target: Path) -> None:
        parts: dict[str, dict[str, NDArray[np.uint8]]] = {}

        def data(name: str) -> NDArray[np.uint8]:
            part = ".".join(name.split(".")[:2]) if name.startswith("blk.") else name
            if part not in self.journal:
                return as_raw(self.source.real(name)).data
            if part not in parts:
                parts.clear()  # one part is in memory at a time
                parts[part] = self.journal.load(part)
            return parts[part][name]

        weights = {f: sum(prod(self.source.shapes[n]) for n, g in self.formats.items() if g == f) for f in FILE_TYPES}
        kind = FILE_TYPES[max(weights, key=lambda f: weights[f])]
        fields = {**self.source.fields, "general.file_type": Field(kind, ("UINT32",))}
        fields["general.quantization_version"] = Field(2, ("UINT32",))
        tensors = {n: TensorToWrite(self.formats.get(n, "F32"), s, partial(data, n)) for n, s in self.source.shapes.items()}
        write_file(target, fields, tensors)
