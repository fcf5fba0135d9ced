"""The .lowbit file: one safetensors file. Large constants are tensors, the graph is text in the metadata. No pickle."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from lowbit.arguments import path as needed
from lowbit.dtypes import dtype
from lowbit.errors import FormatError, LowbitError
from lowbit.files import write_whole
from lowbit.ir.graph import Graph, PackedConstants, bits, stored_verdict
from lowbit.ir.tensors import CutOff, chunks, read
from lowbit.ir.text import parse_graph, print_graph, stands_in_text
from lowbit.ir.verify import verify
from lowbit.packing import is_packed, pack, unpack
from lowbit.types import Array

VERSION = 1
ANEW = "write it anew, from the network that it was made of"
PACKED = "packed "  # how the names of tensors begin that are no constants of the graph, but their copies for the kernels of some build


def save(graph: Graph, path: str | PathLike[str]) -> None:
    """Writes the graph; the same graph gives the same bytes. The old file stays whole until the new one is."""
    if needed(path).suffix != ".lowbit":  # load would not read it again
        hint = Path(path).with_suffix(".lowbit").name if Path(path).name else "m.lowbit"
        raise FormatError("a graph is written as .lowbit", where=str(path), hint=hint)
    tensors = {}
    views = {}
    packed = {}
    for name, c in graph.constants.items():
        if stands_in_text(c.data):
            continue
        if is_packed(c.value.type.dtype):
            tensors[name] = pack(c.data, c.value.type.dtype)
            packed[name] = [c.value.type.dtype.name, list(c.data.shape)]
        else:
            native = c.data.dtype.kind in "fiub"
            tensors[name] = c.data if native else np.ascontiguousarray(c.data).reshape(-1).view(np.uint8)
            if not native:
                views[name] = [
                    c.value.type.dtype.name,
                    list(c.data.shape),
                ]  # bfloat16, float8, complex: NumPy's safetensors cannot name them, bytes can
    kept = graph.packed.arrays if graph.packed is not None else {}
    tensors |= {PACKED + name: array for name, array in kept.items()}
    text = print_graph(graph)
    rows = {"version": VERSION, "bytes": views, "packed": packed, "notes": dict(graph.notes), "graph": text, "sha256": digest(text)}
    if graph.packed is not None:
        rows |= {"kernels": graph.packed.kernels, "packed sha256": packed_digest(kept)}
    meta = json.dumps(rows, sort_keys=True)
    write_whole(path, chunks(tensors, {"lowbit": meta}))


def digest(text: str) -> str:
    """Of the graph's text: small constants stand in it, where a flipped bit would be another number. Large ones have their own in it."""
    return hashlib.sha256(text.encode()).hexdigest()


def packed_digest(kept: Mapping[str, Array]) -> str:
    """Of packed weights, whose digests do not stand in the graph's text."""
    found = hashlib.sha256()
    for name in sorted(kept):
        found.update(f"{name} {kept[name].dtype} {kept[name].shape}".encode())
        found.update(bits(np.ascontiguousarray(kept[name])).data)
    return found.hexdigest()


def is_lowbit_file(data: bytes) -> bool:
    """Whether these bytes begin as a safetensors file does: the length of a JSON object, and the object."""
    return len(data) > 8 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data) - 8


def load(source: str | PathLike[str] | bytes) -> Graph:
    """The graph that `save` wrote, from the file or its bytes, verified; a FormatError when it is anything else."""
    where = "bytes" if isinstance(source, bytes) else Path(source).name
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
            data, metadata = read(file)
        meta = json.loads(metadata.get("lowbit", "null"))
    except LowbitError as e:
        raise e.at(where) from None
    except CutOff as e:
        raise FormatError(f"a .lowbit file that is cut off ({e})", where=where, hint=f"copy it again, or {ANEW}") from e
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError) as e:
        raise FormatError(f"not a .lowbit file ({e})", where=where, hint="lowbit.load reads .onnx, .lowbit and torch modules") from e
    if not isinstance(meta, dict) or meta.get("version") != VERSION or not isinstance(meta.get("graph"), str):
        raise FormatError(f"not a .lowbit file of version {VERSION}", where=where, hint="save it again with this version of lowbit")
    if "sha256" in meta and meta["sha256"] != digest(meta["graph"]):
        raise FormatError("the graph in it is damaged (its digest is another one)", where=where, hint=ANEW)
    try:
        for name, (element, shape) in meta["bytes"].items():
            data[name] = data[name].view(dtype(element).numpy).reshape(shape)
        for name, (element, shape) in meta["packed"].items():
            data[name] = unpack(data[name], element, shape)
        notes = {str(k): str(v) for k, v in meta.get("notes", {}).items()}
        kept = {name.removeprefix(PACKED): data.pop(name) for name in list(data) if name.startswith(PACKED)}
        packed = PackedConstants(str(meta["kernels"]), kept) if "kernels" in meta else None
        if packed is not None and meta.get("packed sha256") != packed_digest(kept):
            raise ValueError("its packed weights have another digest")
        return replace(verify(parse_graph(meta["graph"], data)), notes=notes, packed=packed, verdict=stored_verdict(notes))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError, MemoryError) as e:
        raise FormatError(f"the graph in it is damaged ({e})", where=where, hint=ANEW) from e
    except LowbitError as e:
        e.hint = e.hint or ANEW
        raise e.at(where) from None
