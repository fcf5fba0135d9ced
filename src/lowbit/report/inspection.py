"""The structure of a network: a row for each node (layer, op, shape, parameters, MACs, bytes) and totals."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from lowbit.dims import Dim
from lowbit.ir.graph import Graph, Node, need_graph
from lowbit.report.text import size


@dataclass(frozen=True)
class LayerRow:
    """One node. Symbolic numbers (an unbound batch) are text."""

    index: int
    layer: str
    op: str
    output: str  # type of the first output
    parameters: int
    macs: int | str
    weight_bytes: int
    inputs: tuple[str, ...]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class Inspection:
    """Rows and totals. A shared constant counts at its first use, so the rows add up to the totals."""

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    rows: tuple[LayerRow, ...]
    parameters: int
    parameter_bytes: int
    macs: int | str
    ops: dict[str, int]
    symbols: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """A line for each node and the totals."""
        heads = ("#", "layer", "op", "output", "parameters", "MACs")
        cells = [heads, *((str(r.index), r.layer, r.op, r.output, _count(r.parameters), _count(r.macs)) for r in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
        right = (0, 4, 5)  # numbers
        lines = [
            "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))) for row in cells
        ]
        totals = f"{len(self.rows)} nodes, {_count(self.parameters)} parameters, {_count(self.macs)} MACs, {size(self.parameter_bytes)}"
        return "\n".join([self.name, *(line.rstrip() for line in lines), totals])

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


def inspect(graph: Graph) -> Inspection:
    """The structure of the graph.

    >>> import lowbit
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> found = lowbit.inspect(g)
    >>> found.parameter_bytes
    60
    """
    need_graph(graph, "inspect")
    seen: set[str] = set()
    rows = []
    total: Dim = 0
    for i, node in enumerate(graph.nodes):
        count = node_macs(node)
        total = total + count
        fresh = [graph.constants[v.name] for v in node.inputs if v is not None and v.name in graph.constants and v.name not in seen]
        fresh = list({c.value.name: c for c in fresh}.values())
        seen.update(c.value.name for c in fresh)
        rows.append(
            LayerRow(
                index=i,
                layer=node.name or node.output.name,
                op=node.op,
                output=str(node.output.type),
                parameters=sum(c.data.size for c in fresh),
                macs=_number(count),
                weight_bytes=sum(c.value.type.nbytes for c in fresh),
                inputs=tuple("" if v is None else str(v.type) for v in node.inputs),
                attrs={k: _plain(a) for k, a in node.attrs.items()},
            )
        )
    return Inspection(
        name=graph.name,
        inputs={v.name: str(v.type) for v in graph.inputs},
        outputs={k: str(v.type) for k, v in graph.outputs.items()},
        rows=tuple(rows),
        parameters=graph.parameter_count,
        parameter_bytes=graph.parameter_bytes,
        macs=_number(total),
        ops=dict(Counter(n.op for n in graph.nodes).most_common()),
        symbols=graph.symbols,
    )


def node_macs(node: Node) -> Dim:
    """Multiply-accumulates of a node; 0 for ops whose cost is something else."""
    macs = node.definition.macs
    return 0 if macs is None else macs(*(v.type if v is not None else None for v in node.inputs), **node.attrs)


def _count(n: int | str) -> str:
    return f"{n:,}" if isinstance(n, int) else n


def _number(d: Dim) -> int | str:
    return d if isinstance(d, int) else str(d)


def _plain(a: Any) -> Any:
    if isinstance(a, tuple):
        return [_plain(x) for x in a]
    return a if a is None or isinstance(a, bool | int | float | str) else str(a)
