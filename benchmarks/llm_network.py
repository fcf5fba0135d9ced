"""A Llama network as plans over its own bytes: from a GGUF file, or with random weights of given sizes. For benchmarks/llm_kernels.py."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import block_format
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.plan import Packed
from lowbit.plan.pages import aligned
from lowbit.runtime.token_plan import TokenPlan
from lowbit.types import TensorType

PAGE = 32
Array = NDArray[Any]


@dataclass(frozen=True)
class Sizes:
    layers: int
    hidden: int
    wide: int
    heads: int
    kv_heads: int
    vocabulary: int
    base: float = 10000.0
    eps: float = 1e-5

    @property
    def depth(self) -> int:
        return self.hidden // self.heads


TINYLLAMA = Sizes(22, 2048, 5632, 32, 4, 32000)


class Weights:
    """Tensors by ggml's names: (format, bytes)."""

    def __init__(self, sizes: Sizes, tensors: dict[str, tuple[str, Array]]) -> None:
        self.sizes, self.tensors = sizes, tensors

    @property
    def bytes_per_token(self) -> int:
        return sum(w.nbytes for name, (_, w) in self.tensors.items() if name != "token_embd.weight" or "output.weight" not in self.tensors)

    @staticmethod
    def of_file(path: Path) -> Weights:
        from gguf import GGUFReader

        reader = GGUFReader(path)
        tensors = {t.name: (t.tensor_type.name, np.asarray(t.data)) for t in reader.tensors}
        tensors = {n: (f, w.reshape(w.shape[0], -1).view(np.uint8) if w.ndim == 2 else w) for n, (f, w) in tensors.items()}

        def field(name: str, default: float = 0) -> float:
            f = reader.fields.get(f"llama.{name}")
            return default if f is None else f.parts[f.data[0]][0].item()

        heads = int(field("attention.head_count"))
        sizes = Sizes(
            int(field("block_count")), int(field("embedding_length")), int(field("feed_forward_length")), heads,
            int(field("attention.head_count_kv", heads)), tensors["token_embd.weight"][1].shape[0], field("rope.freq_base", 10000.0),
            field("attention.layer_norm_rms_epsilon"),
        )  # fmt: skip
        return Weights(sizes, tensors)

    @staticmethod
    def random(s: Sizes, format: str, head: str = "Q6_K") -> Weights:
        rng = np.random.default_rng(0)

        def matrix(name: str, n: int, k: int) -> tuple[str, Array]:
            f = block_format(name)
            raw = rng.integers(0, 256, (n, k // f.block, f.bytes), np.uint8)
            halves = {"Q4_0": (0,), "Q4_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}[name]
            for at in halves:
                raw[..., at : at + 2] = np.frombuffer(np.float16(2.0**-9).tobytes(), np.uint8)
            return name, raw.reshape(n, -1)

        tensors: dict[str, tuple[str, Array]] = {
            "token_embd.weight": matrix(head, s.vocabulary, s.hidden),
            "output.weight": matrix(head, s.vocabulary, s.hidden),
            "output_norm.weight": ("F32", np.ones(s.hidden, np.float32)),
        }
        kv = s.kv_heads * s.depth
        for i in range(s.layers):
            b = f"blk.{i}."
            for part, n, k in (
                ("attn_q", s.hidden, s.hidden), ("attn_k", kv, s.hidden), ("attn_v", kv, s.hidden), ("attn_output", s.hidden, s.hidden),
                ("ffn_gate", s.wide, s.hidden), ("ffn_up", s.wide, s.hidden), ("ffn_down", s.hidden, s.wide),
            ):  # fmt: skip
                tensors[f"{b}{part}.weight"] = matrix(format, n, k)
            for part in ("attn_norm", "ffn_norm"):
                tensors[f"{b}{part}.weight"] = ("F32", np.ones(s.hidden, np.float32))
        return Weights(s, tensors)

    def write(self, path: Path, name: str) -> None:
        """The same network as a GGUF file for other engines."""
        from gguf import GGMLQuantizationType, GGUFWriter

        s, w = self.sizes, GGUFWriter(path, "llama")
        w.add_name(name)
        w.add_block_count(s.layers)
        w.add_context_length(2048)
        w.add_embedding_length(s.hidden)
        w.add_feed_forward_length(s.wide)
        w.add_head_count(s.heads)
        w.add_head_count_kv(s.kv_heads)
        w.add_layer_norm_rms_eps(s.eps)
        w.add_rope_dimension_count(s.depth)
        w.add_vocab_size(s.vocabulary)
        w.add_tokenizer_model("no_vocab")
        for tensor, (format, data) in self.tensors.items():
            w.add_tensor(tensor, data, raw_dtype=GGMLQuantizationType[format])
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


def body(weights: Weights, rows: int, pages: int) -> Graph:
    """Rows of tokens → hidden states after the last norm, of all layers with their caches."""
    s, b = weights.sizes, Builder("llama")
    ids, positions, which = (b.input(n, TensorType((rows,), "int32")) for n in ("ids", "positions", "sequences"))
    table = b.input("table", TensorType((1, pages), "int32"))
    cos, sin = (b.input(n, TensorType((rows, s.depth // 2), "float32")) for n in ("cos", "sin"))

    def tensor(name: str) -> Value:
        return b.constant(weights.tensors[name][1], name)

    def linear(x: Value, name: str, residual: Value | None = None) -> Value:
        return b.add("block_linear", x, tensor(name), None, residual, format=weights.tensors[name][0], name=name)

    ends: dict[str, Value] = {}
    x = b.add("block_gather", tensor("token_embd.weight"), ids, format=weights.tensors["token_embd.weight"][0])
    for i in range(s.layers):
        at = f"blk.{i}."
        keys = b.input(f"k.{i}", TensorType((pages, s.kv_heads, s.depth, PAGE), "float16"))
        values = b.input(f"v.{i}", TensorType((pages, s.kv_heads, PAGE, s.depth), "float16"))
        h = b.add("rms_norm_rows", x, tensor(f"{at}attn_norm.weight"), eps=s.eps)
        q, k, v = (
            b.add("reshape", linear(h, f"{at}attn_{c}.weight"), shape=(rows, n, s.depth))
            for c, n in (("q", s.heads), ("k", s.kv_heads), ("v", s.kv_heads))
        )
        q, k = (b.add("rotary", t, cos, sin, style="neighbours", dims=s.depth) for t in (q, k))
        keys = ends[f"k.{i}:next"] = b.add("cache_store", keys, k, positions, which, table, keys=True)
        values = ends[f"v.{i}:next"] = b.add("cache_store", values, v, positions, which, table, keys=False)
        y = b.add("cache_attention", q, keys, values, positions, which, table, scale=s.depth**-0.5)
        x = linear(b.add("reshape", y, shape=(rows, s.hidden)), f"{at}attn_output.weight", x)
        h = b.add("rms_norm_rows", x, tensor(f"{at}ffn_norm.weight"), eps=s.eps)
        g = b.add("gate", linear(h, f"{at}ffn_gate.weight"), linear(h, f"{at}ffn_up.weight"), function="silu")
        x = linear(g, f"{at}ffn_down.weight", x)
    return b.finish({"hidden": b.add("rms_norm_rows", x, tensor("output_norm.weight"), eps=s.eps), **ends})


def head(weights: Weights) -> Graph:
    b, s = Builder("head"), weights.sizes
    name = "output.weight" if "output.weight" in weights.tensors else "token_embd.weight"
    x = b.input("hidden", TensorType((1, s.hidden), "float32"))
    format, w = weights.tensors[name]
    return b.finish({"logits": b.add("block_linear", x, b.constant(w, name), format=format)})


def fresh(shape: tuple[int, ...]) -> Array:
    """A cache of zeros, on huge pages where there are some."""
    out = aligned(2 * int(np.prod(shape))).view(np.float16).reshape(shape)
    out[...] = 0
    return out


class Network:
    """Plans of several chunk sizes over the same weights and caches."""

    def __init__(self, weights: Weights, threads: int, length: int = 1024, packed: Packed | None = None) -> None:
        s = self.sizes = weights.sizes
        self.weights, self.threads, self.pages = weights, threads, -(-length // PAGE)
        self.packed = Packed() if packed is None else packed
        self.states: dict[str, Array] = {}
        for i in range(s.layers):
            self.states[f"k.{i}"] = fresh((self.pages, s.kv_heads, s.depth, PAGE))
            self.states[f"v.{i}"] = fresh((self.pages, s.kv_heads, PAGE, s.depth))
        self.plans: dict[int, TokenPlan] = {}
        self.head = TokenPlan(head(weights), {}, {}, threads=threads, packed=self.packed)
        angles = np.arange(length)[:, None] * s.base ** (-np.arange(s.depth // 2) / (s.depth // 2))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def plan(self, rows: int) -> TokenPlan:
        if rows not in self.plans:
            updates = {name: f"{name}:next" for name in self.states}
            plan = TokenPlan(body(self.weights, rows, self.pages), self.states, updates, threads=self.threads, packed=self.packed)
            plan.inputs["table"][0] = np.arange(self.pages)
            self.plans[rows] = plan
        return self.plans[rows]

    def step(self, ids: Array, begin: int) -> Array:
        """The hidden states of tokens at `begin` …."""
        plan, end = self.plan(len(ids)), begin + len(ids)
        plan.inputs["ids"][:] = ids
        plan.inputs["positions"][:] = np.arange(begin, end)
        plan.inputs["cos"][:], plan.inputs["sin"][:] = self.cos[begin:end], self.sin[begin:end]
        return plan.run()["hidden"]

    def logits(self, hidden: Array) -> Array:
        self.head.inputs["hidden"][:] = hidden
        return self.head.run()["logits"]

    def prefill(self, ids: Array, chunk: int = 128) -> Array:
        for begin in range(0, len(ids), chunk):
            out = self.step(ids[begin : begin + chunk], begin)
        return self.logits(out[-1:])
