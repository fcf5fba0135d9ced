"""lowbit run MODEL: runs a network once on arrays from files, or on random numbers."""

from __future__ import annotations

import argparse
import io
import time
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from lowbit.cli.common import UsageError, add_model_arguments, example_shapes, load_model, print_json, say, table, whole
from lowbit.data.bake import preprocessing_of
from lowbit.data.image_files import SUFFIXES as PICTURES
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.errors import FormatError, InputError, ShapeError, warn
from lowbit.files import check_target, write_whole
from lowbit.ir.graph import Graph
from lowbit.lower.integer import quantized_nodes
from lowbit.pipeline import compile
from lowbit.types import Array, TensorType

HELP = "run a network on arrays from .npy or .npz files (or on random numbers) and show or save the outputs"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=".npy or a picture for one input, .npz for several by name; may be repeated",
    )
    p.add_argument("--out", metavar="FILE.npz", help="save the outputs by name; .npy for the only one")
    p.add_argument("--seed", type=whole(0), default=0, help="of the random numbers for inputs without a file (default 0)")


def main(args: argparse.Namespace) -> None:
    if args.out:
        check_out(args.out)
    graph = load_model(args)
    if args.out and args.out.endswith(".npy") and len(graph.outputs) != 1:
        raise UsageError(f"a .npy holds one array, the network has {len(graph.outputs)} outputs", where=args.out, hint="--out FILE.npz")
    arrays = read_inputs(graph, args.input)
    random = [v.name for v in graph.inputs if v.name not in arrays]
    need_given(graph, arrays)
    rng = np.random.default_rng(args.seed)
    arrays |= {v.name: random_array(v.name, v.type, rng) for v in graph.inputs if v.name in random}
    warn_of_nonfinite(graph, arrays)
    session = compile(graph)
    start = time.perf_counter()
    outputs = session.run(arrays)
    ms = (time.perf_counter() - start) * 1000
    if args.out:
        save(args.out, outputs)
    rows = {name: summary(y) for name, y in outputs.items()}
    if args.json:
        print_json({"model": args.model, "backend": session.backend, "ms": ms, "random_inputs": random, "outputs": rows})
        return
    columns = {"output": "left", "type": "left", "min": "right", "max": "right", "mean": "right", "first values": "left"}
    cells = [
        [
            n,
            f"{r['dtype']}{r['shape']}",
            *(f"{r[k]:.6g}" if r[k] is not None else "" for k in ("min", "max", "mean")),
            ", ".join(f"{v:.5g}" for v in r["first"]),
        ]
        for n, r in rows.items()
    ]
    table("", columns, cells)
    compiled = " with compilation for these shapes" if graph.symbols else ""
    say(f"{ms:.1f} ms{compiled}, {session.backend}" + (f"; random numbers for {', '.join(random)}" if random else ""))
    if args.out:
        say(f"written: {args.out}")


def read_inputs(graph: Graph, specs: list[str]) -> dict[str, Array]:
    """Arrays by input name from [NAME=]FILE arguments. A .npy without a name is for the only input."""
    arrays: dict[str, Array] = {}
    names = [v.name for v in graph.inputs]
    for spec in specs:
        name, _, file = spec.rpartition("=")
        if name and name not in names:
            raise UsageError(f"--input {spec!r}: there is no input named {name!r}", hint=f"the inputs are {', '.join(names)}")
        if Path(file).suffix.lower() in PICTURES:
            at = name or only(names, file)
            if at in arrays:
                raise UsageError(f"--input gives {at!r} twice", where=file)
            arrays[at] = picture(graph, at, Path(file))
            continue
        try:
            with open(file, "rb") as f:
                loaded: Any = np.load(io.BytesIO(f.read()), allow_pickle=False)
        except FileNotFoundError as e:
            raise FormatError("there is no such file", where=file, hint="--input [NAME=]FILE with a .npy or .npz file") from e
        except (OSError, ValueError, EOFError, BadZipFile, MemoryError) as e:
            raise FormatError(f"not a readable .npy or .npz file ({e})", where=file) from e
        found = [name or names[0]] if isinstance(loaded, np.ndarray) and names else getattr(loaded, "files", [])
        twice = [n for n in found if n in arrays]
        if twice:
            raise UsageError(f"--input gives {twice[0]!r} twice", where=file)
        if isinstance(loaded, np.ndarray):
            arrays[name or only(names, file)] = loaded
        elif name:
            raise UsageError(f"--input {spec!r}: a .npz has names of its own", where=file, hint=f"--input {file}")
        else:
            arrays |= {k: member(loaded, k, file) for k in loaded.files}
    stray = [n for n in arrays if n not in names]
    if stray:
        raise InputError(f"there is no input named {stray[0]!r}", where=graph.name, hint=f"the inputs are {', '.join(names)}")
    return arrays


def only(names: list[str], file: str) -> str:
    """The only input of the network."""
    if len(names) != 1:
        hint = f"--input NAME={Path(file).name} with NAME one of {', '.join(names)}"
        raise InputError(f"the network has {len(names)} inputs", where=file, hint=hint)
    return names[0]


def picture(graph: Graph, name: str, path: Path) -> Array:
    """A picture as the network's calibration data were prepared, with the axis of rows."""
    t = next(v.type for v in graph.inputs if v.name == name)
    stored = preprocessing_of(graph, name)
    if stored is None:
        hint = "lowbit quantize --data photos/ --image … stores it; or --input with an array of the network's own kind"
        raise InputError("no preprocessing is stored with the network", where=str(path), hint=hint)
    x = ImagePreprocessing.from_json(stored).for_input(name, t).row(path, t)
    return x[None] if t.rank == 4 else x


def warn_of_nonfinite(graph: Graph, arrays: dict[str, Array]) -> None:
    """Warns if a quantized network is given NaN or infinities: integers have neither, so the answer looks like any other."""
    for name, x in arrays.items() if quantized_nodes(graph) else ():
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            warn(f"input {name!r} holds NaN or infinities, which a quantized network takes as numbers: its outputs mean nothing there")


def need_given(graph: Graph, arrays: dict[str, Array]) -> None:
    """An error where some inputs are given and one with open dimensions is not: it was forgotten, more likely than not."""
    sizes = {str(d): n for v in graph.inputs if v.name in arrays for d, n in zip(v.shape, arrays[v.name].shape, strict=False)}
    for v in graph.inputs if arrays else ():
        if v.name not in arrays and not v.type.is_static:
            shapes = " ".join(f"--shapes {s}={sizes.get(s, 1)}" for s in sorted(v.type.symbols))
            raise InputError(
                f"input {v.name!r} is not given, and for made-up data {v.type} has open dimensions",
                where=graph.name,
                hint=f"--input {v.name}=FILE.npy, or {shapes} to run on made-up data",
            )


def member(file: Any, name: str, path: str) -> Array:
    """One array of an .npz, which is read when it is asked for."""
    try:
        array: Array = file[name]
    except (OSError, ValueError, EOFError, BadZipFile, MemoryError, zlib.error) as e:
        raise FormatError(f"array {name!r} cannot be read ({e})", where=path) from e
    if not isinstance(array, np.ndarray):
        raise FormatError(f"{name!r} is no array", where=path)
    return array


def random_array(name: str, t: TensorType, rng: np.random.Generator) -> Array:
    """Standard normal floats, or zeros and ones for integers (legal as indices in nearly every network)."""
    if not t.is_static:
        raise ShapeError(
            f"{t} has open dimensions",
            where=f"input {name!r}",
            hint=f"{example_shapes([t])}, or arrays from a file",
        )
    shape = tuple(int(d) for d in t.shape)
    try:
        made = rng.standard_normal(shape) if t.dtype.is_float else rng.integers(0, 2, shape)
        return made.astype(t.dtype.numpy)
    except (MemoryError, ValueError) as e:  # ValueError: more than NumPy counts
        raise ShapeError(f"no memory for random numbers of {t}", where=f"input {name!r}", hint="smaller --shapes") from e


def check_out(path: str) -> None:
    if not path.endswith((".npz", ".npy")):
        raise UsageError("outputs are written as .npz, or .npy for one", where=path, hint="--out y.npz")
    check_target(path)


def save(path: str, arrays: dict[str, Array]) -> None:
    buffer = io.BytesIO()
    if path.endswith(".npy"):
        np.save(buffer, next(iter(arrays.values())))
    else:
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the names for its own keyword
    write_whole(path, buffer.getvalue())


def summary(y: Array) -> dict[str, Any]:
    real = y.astype(np.float64) if y.dtype.kind in "fiub" and y.size else None
    stats = {k: float(f(real)) if real is not None else None for k, f in (("min", np.min), ("max", np.max), ("mean", np.mean))}
    first = [float(v) for v in real.reshape(-1)[:4]] if real is not None else []
    return {"dtype": str(y.dtype), "shape": list(y.shape), **stats, "first": first}
