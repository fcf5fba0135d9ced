"""A format: files to begin with, a mutation, and what a user does with such a file. Only LowbitErrors may come out of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lowbit
from fuzz import mutate

RUN_BYTES = 1 << 24  # graphs whose values take more are loaded and compiled, not run


@dataclass(frozen=True)
class Format:
    name: str
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[random.Random, bytes], bytes]
    use: Callable[[bytes], None]


@cache
def node_tests() -> list[Any]:
    """The models of ONNX's own node tests: every op, small."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend/test/data/node"
    files = sorted(p for p in folder.glob("*/model.onnx") if p.stat().st_size < 20_000)
    return [onnx.load(f) for f in files]


def mutated_onnx(rng: random.Random, data: bytes) -> bytes:
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.randint(1, 3)):
        try:
            mutate.protobuf(rng, model.graph if rng.random() < 0.9 else model, node_tests())
        except (ValueError, TypeError):  # protobuf refuses the value
            continue
    out: bytes = model.SerializeToString()
    return mutate.scrambled(rng, out) if rng.random() < 0.05 else out


def run(graph: lowbit.Graph) -> None:
    """Compiles the network and runs it once, open dimensions bound to 2."""
    from lowbit.dims import symbols
    from lowbit.ir.bind import bind

    bound = bind(graph, {s: 2 for v in graph.inputs for d in v.shape for s in symbols(d)})
    if sum(v.type.nbytes for v in bound.values.values()) > RUN_BYTES:
        return
    rng = np.random.default_rng(0)
    feeds = {}
    for v in bound.inputs:
        kind = v.type.dtype.numpy
        shape = tuple(int(d) for d in v.shape)
        feeds[v.name] = rng.standard_normal(shape).astype(kind) if kind.kind == "f" else rng.integers(0, 2, shape).astype(kind)
    with np.errstate(all="ignore"):
        lowbit.compile(bound).run(feeds)


def use_graph(data: bytes) -> None:
    run(lowbit.load(data))


def lowbit_seeds() -> list[bytes]:
    """Files of float graphs of node tests."""
    import tempfile

    out = []
    with tempfile.TemporaryDirectory() as folder:
        for model in node_tests()[::7]:
            try:
                lowbit.load(model, simplify=False).save(f"{folder}/g.lowbit")
            except lowbit.LowbitError:
                continue  # an op that lowbit lacks
            out.append(Path(f"{folder}/g.lowbit").read_bytes())
    return out


def mutated_lowbit(rng: random.Random, data: bytes) -> bytes:
    """Another text of the graph with a digest that fits, so that it is read."""
    from lowbit.ir.file import digest

    if rng.random() < 0.1:
        return mutate.scrambled(rng, data)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    meta = json.loads(header["__metadata__"]["lowbit"])
    for _ in range(rng.randint(1, 3)):
        meta["graph"] = mutate.text(rng, meta["graph"])
    meta["sha256"] = digest(meta["graph"])
    header["__metadata__"]["lowbit"] = json.dumps(meta)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def gguf_seeds() -> list[bytes]:
    import tempfile

    from gguf import GGUFWriter

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.gguf"
        w = GGUFWriter(path, "llama")
        for key, value in {"context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64}.items():
            w.add_uint32(f"llama.{key}", value)
        w.add_uint32("llama.attention.head_count", 2)
        w.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        w.add_array("tokenizer.ggml.tokens", ["a", "b", "c", "d"])
        rng = np.random.default_rng(0)
        sizes = {"token_embd": (4, 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
        sizes |= {f"blk.0.attn_{n}": (32, 32) for n in ("q", "k", "v", "output")}
        sizes |= {"blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
        for name, shape in sizes.items():
            w.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        return [Path(path).read_bytes()]


def mutated_header(rng: random.Random, data: bytes) -> bytes:
    """Bytes of the first two thousand change more often than those of the tensors."""
    head = min(len(data), 2000)
    return mutate.scrambled(rng, data[:head]) + data[head:] if rng.random() < 0.9 else mutate.scrambled(rng, data)


def use_file(suffix: str) -> Callable[[bytes], None]:
    def use(data: bytes) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=suffix) as f:
            f.write(data)
            f.flush()
            run(lowbit.load(f.name))

    return use


FORMATS = {
    f.name: f
    for f in (
        Format("onnx", lambda: [m.SerializeToString() for m in node_tests()], mutated_onnx, use_graph),
        Format("lowbit", lowbit_seeds, mutated_lowbit, use_graph),
        Format("gguf", gguf_seeds, mutated_header, use_file(".gguf")),
    )
}
