"""Instruction sets of this machine, integer graphs of the zoo, and equality of bits."""

from __future__ import annotations

from typing import Any

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.runtime.session import Session
from lowbit.types import Array
from zoo import entry

ISAS = [isa for isa in native.isas() if all(k.available for k in native.kernels() if k.isa == isa)]


def same(want: dict[str, Array], got: dict[str, Array]) -> bool:
    """Bit for bit, NaN and the sign of zero, too."""
    alike = all((want[k].dtype, want[k].shape, want[k].tobytes()) == (got[k].dtype, got[k].shape, got[k].tobytes()) for k in want)
    return alike and want.keys() == got.keys()


def integer_graph(name: str) -> tuple[Graph, dict[str, Array]]:
    """The int8 graph of a network of the zoo, and an input for it."""
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))
    rules = [CalibratedQuantRule(".*", "int8")]
    return lower(lowbit.quantize(g, [x], rules=rules)).graph, x


def agrees(b: Builder, out: Any, feed: dict[str, Array]) -> bool:
    graph = b.finish({"y": out})
    sessions = [Session(graph, threads=t, isa=isa) for isa in ISAS for t in (1, 2)]
    return all(s.backend == "native" and same(run(graph, feed), s.run(feed)) for s in sessions)
