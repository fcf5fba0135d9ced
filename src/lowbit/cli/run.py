"""lowbit run MODEL: runs a network once on arrays from files, or on random numbers."""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.cli.common import add_model_arguments, load_model, print_json, table
from lowbit.errors import FormatError, InputError, ShapeError
from lowbit.files import write_whole
from lowbit.ir.graph import Graph
from lowbit.pipeline import compile
from lowbit.types import Array, TensorType

HELP = "run a network on arrays from .npy or .npz files (or on random numbers) and show or save the outputs"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument(
        "--input", action="append", default=[], metavar="[NAME=]FILE", help=".npy for one input, .npz for several by name; may be repeated"
    )
    p.add_argument("--out", metavar="FILE.npz", help="save the outputs by name")
    p.add_argument("--seed", type=int, default=0, help="of the random numbers for inputs without a file (default 0)")


def main(args: argparse.Namespace) -> None:
    graph = load_model(args)
    arrays = read_inputs(graph, args.input)
    random = [v.name for v in graph.inputs if v.name not in arrays]
    rng = np.random.default_rng(args.seed)
    arrays |= {v.name: random_array(v.name, v.type, rng) for v in graph.inputs if v.name in random}
    session = compile(graph)
    start = time.perf_counter()
    outputs = session.run(arrays)
    ms = (time.perf_counter() - start) * 1000
    if args.out:
        save_npz(args.out, outputs)
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
    print(f"{ms:.1f} ms, {session.backend}" + (f"; random numbers for {', '.join(random)}" if random else ""))
    if args.out:
        print(f"written: {args.out}")


def read_inputs(graph: Graph, specs: list[str]) -> dict[str, Array]:
    """Arrays by input name from [NAME=]FILE arguments. A .npy without a name is for the only input."""
    arrays: dict[str, Array] = {}
    names = [v.name for v in graph.inputs]
    for spec in specs:
        name, _, file = spec.rpartition("=")
        try:
            with open(file, "rb") as f:
                loaded: Any = np.load(io.BytesIO(f.read()), allow_pickle=False)
        except (OSError, ValueError, EOFError) as e:
            raise FormatError(f"not a readable .npy or .npz file ({e})", where=file) from e
        if isinstance(loaded, np.ndarray):
            if not name and len(names) != 1:
                raise InputError(
                    f"the network has {len(names)} inputs",
                    where=file,
                    hint=f"--input NAME={Path(file).name} with NAME one of {', '.join(names)}",
                )
            arrays[name or names[0]] = loaded
        else:
            arrays |= {k: loaded[k] for k in loaded.files}
    stray = [n for n in arrays if n not in names]
    if stray:
        raise InputError(f"there is no input named {stray[0]!r}", where=graph.name, hint=f"the inputs are {', '.join(names)}")
    return arrays


def random_array(name: str, t: TensorType, rng: np.random.Generator) -> Array:
    """Standard normal floats, or zeros and ones for integers (legal as indices in nearly every network)."""
    if not t.is_static:
        raise ShapeError(
            f"{t} has open dimensions",
            where=f"input {name!r}",
            hint=" ".join(f"--shapes {s}=1" for s in sorted(t.symbols)) + ", or arrays from a file",
        )
    shape = tuple(int(d) for d in t.shape)
    if t.dtype.is_float:
        return rng.standard_normal(shape).astype(t.dtype.numpy)
    return rng.integers(0, 2, shape).astype(t.dtype.numpy)


def save_npz(path: str, arrays: dict[str, Array]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # the stub takes the names for its own keyword
    write_whole(path, buffer.getvalue())


def summary(y: Array) -> dict[str, Any]:
    real = y.astype(np.float64) if y.dtype.kind in "fiub" and y.size else None
    stats = {k: float(f(real)) if real is not None else None for k, f in (("min", np.min), ("max", np.max), ("mean", np.mean))}
    first = [float(v) for v in real.reshape(-1)[:4]] if real is not None else []
    return {"dtype": str(y.dtype), "shape": list(y.shape), **stats, "first": first}
