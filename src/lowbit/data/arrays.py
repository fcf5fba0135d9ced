"""Arrays in .npy and .npz files, read one file at a time.

A file holds samples along its first axis. Where the input's first size is a number, the array is cut into parts of that size; where it is
open, into parts of --batch. An array with one axis more than the input holds one sample for each index. A .npz has the arrays of several
inputs by name (others in it are left alone); a .npy is for a network with one input.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from lowbit.data.rows import said_rows
from lowbit.errors import CalibrationError, FormatError, InputError, ShapeError
from lowbit.files import unreadable
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType

SUFFIXES = (".npy", ".npz")
_HINT = "what np.save or np.savez wrote, whole, without Python objects"
# what zipfile, zlib and NumPy raise for damaged, encrypted or too large files
UNREADABLE = (OSError, ValueError, EOFError, KeyError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Part:
    """One sample: of each input's array in a file, where it begins and ends along the first axis (stop None: the index `start`)."""

    file: Path
    where: dict[str, tuple[int, int | None]]


@dataclass(frozen=True)
class FileData:
    """Samples that are read on demand; may be iterated repeatedly."""

    inputs: tuple[str, ...]
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def whole_rows(self) -> bool:
        """Whether the number of rows is known before they are read: not where each index of an array is a batch."""
        return all(stop is not None for part in self.parts for _, stop in part.where.values())

    @property
    def rows(self) -> int:
        """How many rows the batches hold, along the first axis of the first input."""
        first = [part.where[self.inputs[0]] for part in self.parts]
        return sum(1 if b is None else b - a for a, b in first)

    def __str__(self) -> str:
        return said_rows(len(self), self.rows)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        open_file, arrays = None, {}
        for part in self.parts:
            if part.file != open_file:
                open_file, arrays = part.file, read(part.file, self.inputs)
            yield {name: np.ascontiguousarray(arrays[name][a] if b is None else arrays[name][a:b]) for name, (a, b) in part.where.items()}


def array_files(paths: list[Path], graph: Graph, batch: int, limit: int | None = None) -> FileData:
    """The samples of the files, in the order of their names within a folder. Shapes are checked by headers alone."""
    inputs = {v.name: v.type for v in graph.inputs}
    parts = [part for file in files(paths) for part in cut(file, inputs, batch)]
    if not parts:
        raise CalibrationError("there are no samples in it", where=", ".join(map(str, paths)), hint="arrays with one row or more")
    return FileData(tuple(inputs), tuple(parts[:limit]))


def files(paths: list[Path]) -> list[Path]:
    found = []
    for path in paths:
        if not path.exists():
            raise FormatError(
                "there is no such file or folder", where=str(path), hint="the path of a .npy or .npz file, or of a folder of them"
            )
        inside = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".npz")) if path.is_dir() else [path]
        if not inside:
            raise CalibrationError("there is no .npy or .npz file in this folder", where=str(path), hint=_HINT)
        found += inside
    return found


def cut(file: Path, inputs: dict[str, TensorType], batch: int) -> Iterator[Part]:
    """The samples of one file."""
    found = headers(file, tuple(inputs))
    missing = [n for n in inputs if n not in found]
    if missing:
        has = ", ".join(f"{name} {header}" for name, header in found.items()) or "no arrays"
        rest = {k: h for k, h in found.items() if k not in inputs}
        needed = f"input {missing[0]!r} ({inputs[missing[0]]}) is missing, it has {has}"
        raise InputError(needed, where=str(file), hint=_remade(file, {n: inputs[n] for n in missing}, rest, inputs, found))
    for name, t in inputs.items():
        _check(file, name, t, inputs, found)
    cuts = {name: list(pieces(found[name].shape, t, batch, f"{file}: {name}")) for name, t in inputs.items()}
    counts = {name: len(c) for name, c in cuts.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{n} for {name}" for name, n in counts.items())
        raise ShapeError(f"it holds different numbers of batches: {said}", where=str(file), hint="as many rows of each input")
    for row in zip(*cuts.values(), strict=True):
        yield Part(file, dict(zip(cuts, row, strict=True)))


def pieces(shape: tuple[int, ...], t: TensorType, batch: int, where: str) -> Iterator[tuple[int, int | None]]:
    """Where samples of the type begin and end in an array of the shape."""
    if len(shape) == t.rank + 1:
        yield from ((i, None) for i in range(shape[0]))
        return
    if len(shape) != t.rank or t.rank == 0:
        raise ShapeError(f"an array of shape {list(shape)}, {t} is needed (or one axis more)", where=where)
    first = t.shape[0]
    step = first if isinstance(first, int) else batch
    if isinstance(first, int) and (step == 0 or shape[0] % step):
        raise ShapeError(
            f"{shape[0]} rows cannot be cut into batches of {step}",
            where=where,
            hint=f"{shape[0] // step * step} rows, or another batch by --shapes where the model allows it ({t} is needed)"
            if step
            else None,
        )
    yield from ((i, min(i + step, shape[0])) for i in range(0, shape[0], step))


@dataclass(frozen=True)
class Header:
    """The header of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def _check(file: Path, name: str, t: TensorType, inputs: dict[str, TensorType], found: dict[str, Header]) -> None:
    """Raises, before anything runs, if the array cannot hold samples of the type; the error shows a line of Python that converts it."""
    header = found[name]
    if _fits(header.shape, t) and header.dtype == t.dtype.numpy:
        return
    wrong = f"{header} given, {t} is needed" + ("" if _fits(header.shape, t) else " (any number of rows, or one axis more)")
    kind = InputError if _fits(header.shape, t) else ShapeError
    raise kind(wrong, where=f"{file}: {name}", hint=_remade(file, {name: t}, {name: header}, inputs, found))


def _fits(shape: tuple[int, ...], t: TensorType) -> bool:
    """Whether samples of the type can be cut from the shape: sizes that are numbers agree, the first one aside."""
    if t.rank == 0 or len(shape) not in (t.rank, t.rank + 1):
        return len(shape) == t.rank + 1
    whole = zip(shape[-t.rank :], t.shape, strict=True)
    return all(not isinstance(b, int) or a == b for a, b in list(whole)[1 if len(shape) == t.rank else 0 :])


def _remade(
    file: Path, inputs: dict[str, TensorType], headers: dict[str, Header], every: dict[str, TensorType], found: dict[str, Header]
) -> str:
    """A line of Python that converts the arrays of the file for these inputs, if there is an obvious way; else the needed form.

    The other inputs among `every` that are `found` in the file are included, converted if necessary.
    """
    made = {}
    others = {n for n in every if n not in inputs and n in found}
    inputs = {n: t for n, t in every.items() if n in inputs or n in others}
    headers = headers | {n: found[n] for n in others}
    for name, t in inputs.items():
        named = {name: headers[name]} if name in headers else {k: h for k, h in headers.items() if k not in others}
        ways = [f"{_loaded(file, k)}{way}" for k, h in named.items() if (way := _way(h, t)) is not None]
        if len(ways) != 1:
            return f"arrays named {', '.join(f'{n}: {t}' for n, t in inputs.items())}"
        made[name] = ways[0]
    scaled = any(t.dtype.is_float for t in inputs.values()) and any(h.dtype.kind in "iu" for h in headers.values())
    if all(name.isidentifier() for name in made):
        arrays = ", ".join(f"{name}={how}" for name, how in made.items())
    else:
        arrays = "**{" + ", ".join(f"{name!r}: {how}" for name, how in made.items()) + "}"
    return f'np.savez("samples.npz", {arrays})' + (", scaled as in training (/ 255 for 0 … 1)" if scaled else "")


def _loaded(file: Path, name: str) -> str:
    return f'np.load("{file}")["{name}"]' if file.suffix == ".npz" else f'np.load("{file}")'


def _way(header: Header, t: TensorType) -> str | None:
    """Methods of an array that bring it to the type: `.transpose(0, 3, 1, 2)`, `.reshape(-1, 1, 28, 28)`, `.astype(np.float32)`."""
    cast = "" if header.dtype == t.dtype.numpy else f".astype(np.{t.dtype.numpy})"
    if header.dtype.kind not in "biuf":
        return None  # texts are no numbers, and complex numbers would lose a half
    if _fits(header.shape, t):
        return cast
    if header.shape == t.shape[1:]:
        return f"[None]{cast}"  # one row, without the axis of rows
    rest, sizes = header.shape[1:], t.shape[1:]
    if not header.shape:
        return None
    if len(rest) == len(sizes) and len(rest) in (2, 3) and _fits((header.shape[0], rest[-1], *rest[:-1]), t):
        return f".transpose(0, {len(rest)}, {', '.join(map(str, range(1, len(rest))))}){cast}"  # channels last
    known = [int(d) for d in sizes if isinstance(d, int)]
    if len(known) != len(sizes):
        return None
    if rest and int(np.prod(rest)) == int(np.prod(known)):
        return f".reshape(-1, {', '.join(map(str, known))}){cast}"
    return None


def headers(file: Path, inputs: tuple[str, ...]) -> dict[str, Header]:
    """The headers of the arrays in a file, without reading the arrays."""
    try:
        if file.suffix == ".npz":
            with zipfile.ZipFile(file) as z:
                names = [n for n in z.namelist() if n.endswith(".npy")]
                return {n.removesuffix(".npy"): _header(z.open(n)) for n in names}
        with open(file, "rb") as f:
            header = _header(f)
    except UNREADABLE as e:
        raise FormatError(f"not a readable .npy or .npz file ({unreadable(e)})", where=str(file), hint=_HINT) from e
    if len(inputs) != 1:
        raise InputError(
            f"a .npy has one array, the network has {len(inputs)} inputs",
            where=str(file),
            hint=f"a .npz with the arrays {', '.join(inputs)}",
        )
    return {inputs[0]: header}


def _header(f: Any) -> Header:
    version = npy.read_magic(f)
    shape, _, dtype = npy.read_array_header_1_0(f) if version == (1, 0) else npy.read_array_header_2_0(f)
    if dtype.hasobject:
        raise ValueError("Python objects are not read")
    return Header(shape, dtype)


def read(file: Path, inputs: tuple[str, ...]) -> dict[str, Array]:
    """The arrays of the inputs; a .npy stays on disk until a part of it is asked for."""
    try:
        if file.suffix != ".npz":
            return {inputs[0]: np.load(file, mmap_mode="r", allow_pickle=False)}
        with np.load(file, allow_pickle=False) as z:
            return {name: z[name] for name in inputs}
    except UNREADABLE as e:
        raise FormatError(f"not a readable .npy or .npz file ({unreadable(e)})", where=str(file), hint=_HINT) from e
