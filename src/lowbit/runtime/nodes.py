"""Runs single nodes natively: the interpreter's walk over a graph, with the kernels that a session would use.

A session fuses nodes and shares memory between them, so only its outputs are visible. Calibration and the measurements of `decide` need
every value, or run a network from the middle on: they run it node by node. Integers have the bits of the session; float sums may differ in
their last bits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from lowbit.errors import LowbitError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Node, Value
from lowbit.ir.interp import run_node
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

VIEWS = ("reshape", "identity", "transpose")  # NumPy does them without a copy
KEPT = 256 << 20  # bytes of packed weights that are kept for the next run of their node


@dataclass(frozen=True)
class _Compiled:
    session: Session | None  # None: the node has no kernel, the interpreter runs it
    weights: tuple[Array, ...]  # kept alive: nodes are known by the addresses of their weights
    positions: tuple[int, ...]  # of the inputs that are given at each run

    @property
    def bytes(self) -> int:
        return sum(w.nbytes for w in self.weights)


class NodeRunner:
    """`runner(node, inputs)` gives the node's outputs. Compiled once for a node, its types and its weights.

    `fixed` are the positions of inputs that stay the same arrays from run to run: weights, which kernels want packed.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads
        self._compiled: dict[tuple[object, ...], _Compiled] = {}
        self._bytes = 0

    def __call__(self, node: Node, inputs: list[Array | None], fixed: Collection[int] = ()) -> tuple[Array, ...]:
        if node.op in VIEWS or any(x is not None and not x.size for x in inputs):
            return run_node(node, inputs)
        key = (
            node.output.name, node.op, node.outputs, tuple(sorted(node.attrs.items(), key=lambda item: item[0])),
            tuple(None if x is None else id(x) if i in fixed else (x.shape, x.dtype.str) for i, x in enumerate(inputs)),
        )  # fmt: skip
        found = self._compiled.get(key)
        if found is None:
            found = self._compile(node, inputs, fixed)
            self._keep(key, found)
        if found.session is None:
            return run_node(node, inputs)
        given = {f"x{i}": x for i in found.positions if (x := inputs[i]) is not None}
        made = found.session.run(given)
        return tuple(made[f"y{k}"] for k in range(len(node.outputs)))

    def clear(self) -> None:
        """Forgets every node, for callers that do not run them again."""
        self._compiled, self._bytes = {}, 0

    def _keep(self, key: tuple[object, ...], compiled: _Compiled) -> None:
        self._compiled[key] = compiled
        self._bytes += compiled.bytes
        while self._bytes > KEPT and len(self._compiled) > 1:
            oldest = next(iter(self._compiled))
            self._bytes -= self._compiled.pop(oldest).bytes

    def _compile(self, node: Node, inputs: list[Array | None], fixed: Collection[int]) -> _Compiled:
        b = Builder(node.name or node.output.name)
        values: list[Value | None] = []
        positions: list[int] = []
        for i, (v, x) in enumerate(zip(node.inputs, inputs, strict=True)):
            if v is None or x is None:
                values.append(None)
            elif i in fixed:
                values.append(b.constant(x, name=f"x{i}", dtype=v.type.dtype))
            else:
                positions.append(i)
                values.append(b.input(f"x{i}", TensorType(x.shape, v.type.dtype)))
        weights = tuple(x for i in fixed if i < len(inputs) and (x := inputs[i]) is not None)
        try:
            attrs: dict[str, Any] = dict(node.attrs)
            made = b.add_node(node.op, *values, name=node.name, **attrs)
            session = Session(b.finish({f"y{k}": o for k, o in enumerate(made)}), threads=self.threads)
        except LowbitError:
            return _Compiled(None, weights, ())  # the interpreter raises the error, if there is one
        return _Compiled(session if session.backend == "native" else None, weights, tuple(positions))
