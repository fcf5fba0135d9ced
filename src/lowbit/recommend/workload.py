"""Workload: what is to be computed, where, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowbit.arguments import is_real, is_whole, shown
from lowbit.codegen.targets import TARGETS
from lowbit.decide.limits import Limits
from lowbit.dims import symbol
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, need_graph
from lowbit.types import TensorType

# What `shape` says for each op.
SHAPES = {
    "linear": ("inputs", "outputs"),
    "matmul": ("inputs", "outputs"),
    "conv": ("channels", "height", "width", "filters", "kernel"),
}
NETWORK = "network"
LEAST_DB = 20.0  # signal to noise below which a candidate is no choice, if the workload does not say more


@dataclass(frozen=True)
class Workload:
    """An op with its sizes, or a network; the batch, the target and the requirements.

    op        "linear" or "matmul" with shape (inputs, outputs), "conv" with shape (channels, height, width, filters, kernel), or "network"
    batch     rows or images of one call
    target    "host": this machine, or a chip that `lowbit emit-c --list-targets` names
    max_ms    milliseconds of a call (measured here; a chip's cannot be), max_bytes: of the parameters, max_ram: beside them
    max_drop  the share of answers (the largest output of a row) that may change
    least_db  the least signal to noise ratio of the outputs, in dB (20)

    >>> Workload("linear", (256, 128), batch=8, max_bytes=40_000).macs
    262144
    """

    op: str
    shape: tuple[int, ...] = ()
    batch: int = 1
    target: str = "host"
    max_ms: float | None = None
    max_bytes: int | None = None
    max_ram: int | None = None
    max_drop: float | None = None
    least_db: float = LEAST_DB
    network: Graph | None = None

    def __post_init__(self) -> None:
        if self.op not in (*SHAPES, NETWORK):
            raise InputError(f"op={shown(self.op)} is no workload", hint=f"one of {', '.join(SHAPES)}, or Workload.of(graph)")
        if (self.network is not None) != (self.op == NETWORK):
            raise InputError("op='network' and a graph belong together", hint="Workload.of(graph)")
        if self.op in SHAPES:
            names, sizes = SHAPES[self.op], self.shape
            fits = isinstance(sizes, tuple | list) and len(sizes) == len(names) and all(is_whole(s) and s > 0 for s in sizes)
            if not fits:
                hint = f"Workload({self.op!r}, ({', '.join(map(str, (64, 32, 32, 64, 3)[: len(names)]))}))"
                raise InputError(f"shape={shown(sizes)}, ({', '.join(names)}) is needed for {self.op}", hint=hint)
            object.__setattr__(self, "shape", tuple(map(int, sizes)))
            if self.op == "conv" and self.shape[4] > min(self.shape[1:3]):
                raise InputError(
                    f"a kernel of {self.shape[4]} is larger than the image {self.shape[1:3]}", hint="Workload('conv', (64, 32, 32, 64, 3))"
                )
        if not is_whole(self.batch) or self.batch < 1:
            raise InputError(f"batch={shown(self.batch)}, a whole number from 1 on is needed", hint="batch=1")
        if not isinstance(self.target, str) or self.target not in TARGETS:
            raise InputError(f"target={shown(self.target)} does not exist", hint="one of " + ", ".join(TARGETS))
        Limits.of(self.max_ms, self.max_bytes, self.max_ram)
        if self.max_drop is not None and not (is_real(self.max_drop) and 0 <= self.max_drop < 1):
            raise InputError(f"max_drop={shown(self.max_drop)}, a share from 0 to 1 is needed", hint="max_drop=0.01")
        if not is_real(self.least_db):
            raise InputError(f"least_db={shown(self.least_db)}, a number of dB is needed", hint="least_db=30")

    @staticmethod
    def of(graph: Graph, **options: Any) -> Workload:
        """The workload that a network is: its batch and sizes are its own."""
        need_graph(graph, "Workload.of")
        known = {"batch", "target", "max_ms", "max_bytes", "max_ram", "max_drop", "least_db"}
        for name in options.keys() - known:
            raise InputError(f"{name}= is no requirement of a workload", hint="one of " + ", ".join(sorted(known)))
        return Workload(NETWORK, network=graph, **options)

    @property
    def limits(self) -> Limits:
        """The limits on time, bytes and memory."""
        return Limits.of(self.max_ms, self.max_bytes, self.max_ram)

    @property
    def macs(self) -> int | None:
        """Multiply-adds of a call; None for a network (`lowbit.inspect` counts them)."""
        if self.op == "conv":
            c, h, w, f, k = self.shape
            return self.batch * (h - k + 1) * (w - k + 1) * f * c * k * k
        return None if self.op == NETWORK else self.batch * self.shape[0] * self.shape[1]

    def graph(self) -> Graph:
        """The network, or a network of the op alone with normal weights."""
        if self.network is not None:
            return self.network
        rng, b = np.random.default_rng(0), Builder(self.op)
        n = symbol("batch")
        if self.op == "conv":
            c, h, w, f, k = self.shape
            x = b.input("x", TensorType((n, c, h, w), "float32"))
            weight = b.constant((rng.standard_normal((f, c, k, k)) / np.sqrt(c * k * k)).astype(np.float32), "weight")
            geometry: dict[str, Any] = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
            return b.finish({"y": b.add("conv", x, weight, b.constant(np.zeros(f, np.float32), "bias"), name="conv", **geometry)})
        k, m = self.shape
        x = b.input("x", TensorType((n, k), "float32"))
        weight = b.constant((rng.standard_normal((m, k)) / np.sqrt(k)).astype(np.float32), "weight")
        return b.finish({"y": b.add("linear", x, weight, b.constant(np.zeros(m, np.float32), "bias"), name=self.op)})

    def with_batch(self, batch: int) -> Workload:
        """The same work for another number of rows."""
        return replace(self, batch=batch)
