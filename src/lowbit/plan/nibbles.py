"""Four-bit activations are stored in bytes: int8 kernels clamp to the narrower range, which is a parameter of their calls.

Only weights stay packed. An op whose result does not depend on a clamp (a table of 16 entries) keeps its four bits, between casts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowbit.dtypes import dtype
from lowbit.ir.graph import Attr, Constant, Graph, Node, Value, freeze

NARROW = ("int4", "uint4")
WIDE = dtype("int8")  # it holds the codes of both

WEIGHTED = ("q_conv", "q_linear", "q_conv_transpose", "q_matmul")  # input 1 may stay in four bits
# Their codes are bounded by lo and hi alone.
CLAMPED = frozenset({
    *WEIGHTED, "q_add", "q_sub", "q_mul", "q_div", "q_prelu", "requantize", "q_avg_pool",
    "q_adaptive_avg_pool", "q_reduce_mean", "q_reduce_sum", "q_layer_norm", "q_rms_norm", "q_batch_norm",
})  # fmt: skip
# They only select among the codes of their inputs.
MOVES = frozenset({
    "reshape", "transpose", "concat", "slice", "split", "expand", "gather", "max_pool", "maximum", "minimum", "depth_to_space", "tile",
})  # fmt: skip


def in_bytes(graph: Graph) -> Graph:
    """The same function; every integer that was int4 or uint4 between its ops is the same integer in int8."""
    if not any(is_narrow(v) for n in graph.nodes for v in (*n.inputs, *n.outputs) if v is not None and v.name not in graph.constants):
        return graph
    return _Widening(graph).run()


def is_narrow(value: Value) -> bool:
    return value.type.dtype.name in NARROW


def wide(value: Value, name: str | None = None) -> Value:
    return Value(name or value.name, value.type.with_dtype(WIDE))


class _Widening:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants: dict[str, Constant] = dict(graph.constants)
        self.bytes: dict[str, Value] = {}  # narrow value -> the same in a byte
        self.narrow: dict[str, Value] = {}  # and back, where something needs it so

    def run(self) -> Graph:
        for v in self.graph.inputs:
            if is_narrow(v):
                self.narrow[v.name] = v
                self.bytes[v.name] = self.cast(v, wide(v, f"{v.name}:byte"))
        for node in self.graph.nodes:
            self.node(node)
        outputs = {
            k: self.as_narrow(v) if is_narrow(v) and v.name not in self.graph.constants else v for k, v in self.graph.outputs.items()
        }
        return replace(self.graph, nodes=tuple(self.nodes), outputs=outputs, constants=self.constants)

    def cast(self, x: Value, y: Value) -> Value:
        self.nodes.append(Node("cast", (x,), {"to": y.type.dtype.name, "saturate": True}, "", (y,)))
        return y

    def as_narrow(self, v: Value) -> Value:
        if v.name not in self.narrow:
            self.narrow[v.name] = self.cast(self.bytes[v.name], Value(f"{v.name}:narrow", v.type))
        return self.narrow[v.name]

    def in_byte(self, v: Value | None) -> Value | None:
        """The byte value of a narrow one; a constant is stored again."""
        if v is None or not is_narrow(v):
            return v
        if v.name in self.graph.constants and v.name not in self.bytes:
            found = wide(v, f"{v.name}:byte")
            self.constants[found.name] = Constant(found, freeze(self.graph.constants[v.name].data.astype(np.int8)))
            self.bytes[v.name] = found
        return self.bytes[v.name]

    def node(self, node: Node) -> None:
        active = [v for v in node.inputs if v is not None and v.name not in self.graph.constants]
        if not any(is_narrow(v) for v in (*active, *node.outputs)):
            self.nodes.append(node)
        elif node.op in CLAMPED:
            weight = node.input(1) if node.op in WEIGHTED and self.graph.constant(node.input(1)) is not None else None
            self.put(node, [v if v is weight else self.in_byte(v) for v in node.inputs])
        elif node.op in MOVES or node.op == "dequantize_linear":
            self.put(node, [self.in_byte(v) for v in node.inputs])
        elif node.op == "quantize_linear" and node.input(2) is not None and self.graph.constant(node.input(2)) is not None:
            self.quantize(node)
        else:
            self.nodes.append(replace(node, inputs=tuple(self.as_narrow(v) if v in active and is_narrow(v) else v for v in node.inputs)))
            for o in node.outputs:
                if is_narrow(o):
                    self.narrow[o.name] = o
                    self.bytes[o.name] = self.cast(o, wide(o, f"{o.name}:byte"))

    def put(self, node: Node, inputs: list[Value | None]) -> None:
        changed = dict(node.attrs)
        if changed.get("to") in NARROW:
            changed["to"] = WIDE.name
        outputs = tuple(wide(o) if is_narrow(o) else o for o in node.outputs)
        self.bytes.update((o.name, w) for o, w in zip(node.outputs, outputs, strict=True) if is_narrow(o))
        self.nodes.append(replace(node, inputs=tuple(inputs), attrs=changed, outputs=outputs))

    def quantize(self, node: Node) -> None:
        """Quantizes to a byte, then clamps to four bits: both ranges contain 0, so both clamps together are the narrower one."""
        d, zero = node.output.type.dtype, self.graph.constant(node.input(2))
        assert zero is not None and d.min is not None and d.max is not None
        first = wide(node.output, f"{node.output.name}:byte")
        self.put(replace(node, outputs=(first,)), [self.in_byte(v) for v in node.inputs])
        z = int(zero.reshape(-1)[0])
        attrs: dict[str, Attr] = {"x_zero": z, "y_zero": z, "multiplier": 1.0, "lo": d.min, "hi": d.max, "to": WIDE.name}
        made = wide(node.output)
        self.nodes.append(Node("requantize", (first,), attrs, node.name, (made,)))
        self.bytes[node.output.name] = made
