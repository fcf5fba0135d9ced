"""The laws that every pass keeps, as one function; and short ways to build the graphs that tests show to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.passes import PASSES, simplify
from lowbit.types import TensorType

rng = np.random.default_rng(7)


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return rng.uniform(low, high, shape).astype(np.float32)


class Net(Builder):
    """A builder that takes numbers and arrays for constants: net("mul", x, 0.5)."""

    def __call__(self, op: str, *inputs: Any, name: str = "", **attrs: Any) -> Value:
        return self.add(op, *(self.value(v) for v in inputs), name=name, **attrs)

    def value(self, v: Any) -> Value | None:
        if isinstance(v, float):
            v = np.array(v, np.float32)
        return self.constant(v) if isinstance(v, np.ndarray) else v

    def x(self, *shape: Any, name: str = "x", dtype: str = "float32") -> Value:
        return self.input(name, TensorType(shape, dtype))

    def graph(self, *outputs: Value) -> Graph:
        return verify(self.finish({f"y{i}": v for i, v in enumerate(outputs)}))


def net_of(f: Callable[..., Any], *shapes: tuple[Any, ...]) -> Graph:
    """The graph of f(net, x0, x1 …)."""
    net = Net()
    outputs = f(net, *(net.x(*s, name=f"x{i}") for i, s in enumerate(shapes)))
    return net.graph(*(outputs if isinstance(outputs, tuple) else (outputs,)))


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def inputs_for(graph: Graph, feed: Mapping[str, np.ndarray] | None = None, size: int = 3) -> dict[str, np.ndarray]:
    bound = bind(graph, dict.fromkeys(graph.symbols, size))
    found = dict(feed or {})
    for v in bound.inputs:
        if v.name not in found:
            kind = v.type.dtype.kind
            values = rng.integers(0, 2 if kind == "bool" else 5, v.shape) if kind != "float" else rng.normal(0, 2, v.shape)
            found[v.name] = values.astype(v.type.dtype.numpy)
    return found


def check(
    graph: Graph,
    one: Callable[[Graph], Graph] | None = None,
    exact: bool = False,
    tolerance: float = 1e-5,
    feed: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The simplified graph (by one pass, or by all), after it has kept every law.

    The interpreter's answer stays (exactly, or to a part of its range); every pass leaves a verified graph; a second time changes nothing.
    """
    verify(graph)
    after = graph
    for p in PASSES if one is None else (one,):
        after = verify(p(after))
    after = verify(simplify(graph)) if one is None else after
    again = one or simplify
    assert again(after) is after, f"not idempotent:\n{after}\n{again(after)}"
    data = inputs_for(graph, feed)
    want, got = run(graph, data), run(after, data)
    assert list(want) == list(got)
    for name, y in want.items():
        assert after.outputs[name].type == graph.outputs[name].type
        if exact or y.dtype.kind != "f":
            np.testing.assert_array_equal(got[name], y)
        else:
            spread = float(y.max() - y.min()) if y.size else 0.0
            np.testing.assert_allclose(got[name], y, rtol=0, atol=tolerance * max(spread, 1e-3))
    return after
