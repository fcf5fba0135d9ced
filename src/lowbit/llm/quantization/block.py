"""One block of a decoder on calibration texts: what it makes of the hidden states, and the second moments of its layers' inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lowbit.frontends.gguf.file import RawTensor
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.llm.architectures import Config
from lowbit.llm.architectures.layers import CacheShape, Decoder
from lowbit.llm.cache import PAGE
from lowbit.llm.weights import Weights
from lowbit.numerics import F32
from lowbit.runtime.token_plan import TokenPlan
from lowbit.types import TensorType

F64 = NDArray[np.float64]
ROWS = 128  # tokens of a call
COLLECTED = 1024  # rows of an input that go into one product
# The layers that read the same input, by the name that the input has here.
READERS = {
    "attention": ("attn_q", "attn_k", "attn_v", "attn_qkv"),
    "output": ("attn_output",),
    "feed_forward": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}
INPUT_OF = {layer: name for name, layers in READERS.items() for layer in layers}


def as_raw(x: F32) -> RawTensor:
    """Floats as a tensor of a file."""
    data = np.ascontiguousarray(x, np.float32)
    return RawTensor("F32", x.shape, data.view(np.uint8))


class Moments:
    """Σ x xᵀ and Σ |x| over the rows of a layer's input. Rows are collected, so that products are large."""

    def __init__(self, width: int) -> None:
        self.rows, self._second, self._first = 0, np.zeros((width, width)), np.zeros(width)
        self._kept, self._count = np.empty((COLLECTED, width), np.float32), 0

    def add(self, x: F32) -> None:
        if self._count + len(x) > COLLECTED:
            self._flush()
        self._kept[self._count : self._count + len(x)] = x
        self._count += len(x)
        self.rows += len(x)

    def add_all(self, x: F32) -> None:
        for at in range(0, len(x), COLLECTED):
            self.add(x[at : at + COLLECTED])

    def _flush(self) -> None:
        x = self._kept[: self._count]
        self._second += x.T @ x
        self._first += np.abs(x).sum(axis=0, dtype=np.float64)
        self._count = 0

    def add_to_diagonal(self, part: float) -> None:
        """As if every channel had so much more, of the mean of all, that goes with no other."""
        self._flush()
        at = np.arange(len(self._second))
        self._second[at, at] += part * np.diag(self._second).mean()

    @property
    def second(self) -> F64:
        self._flush()
        return self._second

    def divide(self, s: F32) -> None:
        """The moments of the same rows with their channels divided by s."""
        self._flush()
        self._second /= np.outer(s, s)
        self._first /= s

    @property
    def means(self) -> F32:
        """The mean magnitude of each channel."""
        self._flush()
        return (self._first / max(self.rows, 1)).astype(np.float32)

    @property
    def squares(self) -> F32:
        """The mean square of each channel: how much an error of its column counts."""
        return (np.diag(self.second) / max(self.rows, 1)).astype(np.float32)


class _Recorder(Decoder):
    """Remembers which value each linear layer reads."""

    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__(config, weights)
        self.read: dict[str, Value] = {}

    def linear(self, name: str, x: Value, w: RawTensor, bias: Value | None = None, residual: Value | None = None) -> Value:
        layer = name.split(".")[2]
        self.read.setdefault(INPUT_OF[layer], x)
        return super().linear(name, x, w, bias, residual)


class BlockRun:
    """Block i with the given tensors, compiled for windows of at most `length` tokens."""

    def __init__(self, config: Config, i: int, tensors: Mapping[str, RawTensor], length: int, threads: int, record: bool = False) -> None:
        self.config, self.index = config, i
        pages = -(-length // PAGE)
        self.shape = CacheShape(pages, 1, pages)
        graph, updates = self._graph(tensors, record)
        half = np.float16
        states = {f"k_cache.{i}": np.zeros(self.shape.keys(config), half), f"v_cache.{i}": np.zeros(self.shape.values(config), half)}
        self.plan = TokenPlan(graph, states, updates, threads=threads)
        self.plan.inputs["table"][:] = np.arange(pages)

    def _graph(self, tensors: Mapping[str, RawTensor], record: bool) -> tuple[Graph, dict[str, str]]:
        c, i, b = self.config, self.index, Builder(f"block {self.index}")
        decoder = _Recorder(c, Weights("block", c.architecture, {}, tensors))
        decoder.b = b
        x = b.input("x", TensorType((ROWS, c.width), "float32"))
        positions, sequences = (b.input(n, TensorType((ROWS,), "int32")) for n in ("positions", "sequences"))
        table = b.input("table", TensorType((1, self.shape.length), "int32"))
        turns = decoder._turns("", (c.local_rope if self._local() and c.local_rope else c.rope).dims, ROWS)
        k = b.input(f"k_cache.{i}", TensorType(self.shape.keys(c), "float16"))
        v = b.input(f"v_cache.{i}", TensorType(self.shape.values(c), "float16"))
        y, k, v = decoder.attention(i, x, k, v, (positions, sequences, table), turns)
        y = decoder.feed_forward(f"blk.{i}", y)
        updates = {f"k_cache.{i}": "k", f"v_cache.{i}": "v"}
        read = decoder.read if record else {}
        return b.finish({"y": y, **read, "k": k, "v": v}), updates

    def _local(self) -> bool:
        return bool(self.config.windows[self.index]) and self.config.local_rope is not None

    def __call__(self, hidden: F32, moments: Mapping[str, Moments] | None = None) -> F32:
        """The hidden states (windows, length, width) after the block; `moments` take in what its layers read."""
        out = np.empty_like(hidden)
        rope = self.config.local_rope if self._local() and self.config.local_rope else self.config.rope
        given = self.plan.inputs
        for window, result in zip(hidden, out):
            for at in range(0, len(window), ROWS):
                part = window[at : at + ROWS]
                n = len(part)
                positions = np.arange(at, at + ROWS, dtype=np.int32)
                given["x"][:n], given["x"][n:] = part, 0
                given["positions"][:] = np.where(np.arange(ROWS) < n, positions, 0)
                given["sequences"][:n], given["sequences"][n:] = 0, -1
                given["cos"][:], given["sin"][:] = rope.angles(given["positions"])
                found = self.plan.run()
                result[at : at + n] = found["y"][:n]
                for name, m in (moments or {}).items():
                    m.add(found[name][:n])
        return out


def moments_of(c: Config) -> dict[str, Moments]:
    """Empty moments of a block's inputs."""
    widths = {"attention": c.width, "output": c.heads * c.head, "feed_forward": c.width, "down": c.hidden}
    return {name: Moments(width) for name, width in widths.items()}
