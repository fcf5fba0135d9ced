"""Networks with 4-bit weights, and the native session compared with the interpreter."""

from __future__ import annotations

from native_laws import ISAS, same

import lowbit
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.quantization.recipes import recipe
from lowbit.runtime.session import Session
from lowbit.types import Array
from zoo import entry


def check(g: Graph, feeds: list[dict[str, Array]], *kernels: str) -> None:
    """The interpreter's bits on every instruction set, by one of the kernels."""
    wants = [run(g, feed) for feed in feeds]
    for isa in ISAS:
        for threads in (1, 3):
            session = Session(g, threads=threads, isa=isa)
            assert session.backend == "native"
            assert {r.kernel.rpartition("__")[0] for r in session.profile(*feeds[0].values(), repeats=1).rows} & set(kernels)
            for feed, want in zip(feeds, wants, strict=True):
                assert same(want, session.run(feed)), (isa, threads)


def quantized(name: str, how: str) -> tuple[Graph, dict[str, Array]]:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))
    return lower(lowbit.quantize(g, [x], rules=recipe(how))).graph, x
