"""Checks of the arguments of quantize and search, before anything long runs."""

from __future__ import annotations

from lowbit.arguments import shown
from lowbit.errors import InputError, QuantError
from lowbit.ir.graph import Graph, need_graph, need_outputs
from lowbit.lower.integer import quantized_nodes


def need_float(graph: Graph, call: str) -> None:
    """Raises unless the graph is float: a quantized graph has lost the values that new ranges need."""
    made = quantized_nodes(need_outputs(need_graph(graph, call)))
    if made:
        raise QuantError(
            f"the network is quantized already ({len(made)} of {len(graph.nodes)} nodes, the first is {made[0].where})",
            where=graph.name,
            hint="the float network that it was made from; lowbit.compile runs this one as it is",
        )


def need_executor(executor: object) -> None:
    if executor is not None and not callable(getattr(executor, "submit", None)):
        hint = "concurrent.futures.ProcessPoolExecutor(4), or client.get_executor() of Dask"
        raise InputError(f"executor={shown(executor)} cannot take work", hint=hint)
