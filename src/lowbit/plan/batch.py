"""Graphs whose rows along the first axis are independent, and how many rows to compute at once.

If the activations of a batch are larger than the caches, every layer reads them from memory. Slices that fit, one after the other in the
same arena, give the same rows, and the arena is as large as one slice needs.
"""

from __future__ import annotations

from collections.abc import Callable

from lowbit.dims import Sym, symbol, symbols
from lowbit.ir.graph import Attr, Graph, Node, Value
from lowbit.types import normalize_axis

SLICE = 4 << 20  # bytes of an arena for each thread: layers find their inputs in the caches, and no step is too short
LEAST = 2  # rows: products of one row sum floats in another order
WASTE = 16  # at most 1 / 16 of the rows are computed twice, where slices overlap

Rule = Callable[[Node, Callable[[Value], bool]], bool]  # whether rows stay independent, given the values that have rows


def _first(node: Node, has: Callable[[Value], bool]) -> bool:
    """Rows come from the first input; the other inputs belong to the layer."""
    return not any(v is not None and has(v) for v in node.inputs[1:])


def _broadcast(node: Node, has: Callable[[Value], bool]) -> bool:
    rank = node.output.type.rank
    given = [v for v in node.inputs if v is not None]
    return all(v.type.rank == rank if has(v) else v.type.rank < rank or v.shape[0] == 1 for v in given)


def _axis(node: Node, has: Callable[[Value], bool]) -> bool:
    """The op works along one axis, which is not the first; all inputs have rows, or the first alone."""
    axis, x = node.attrs["axis"], node.inputs[0]
    assert isinstance(axis, int) and x is not None
    return normalize_axis(axis, x.type.rank) != 0 and (_first(node, has) or all(v is not None and has(v) for v in node.inputs))


def _axes(node: Node, has: Callable[[Value], bool]) -> bool:
    axes, x = node.attrs["axes"], node.inputs[0]
    assert isinstance(axes, tuple) and x is not None
    return all(isinstance(a, int) and normalize_axis(a, x.type.rank) != 0 for a in axes)


def _norm(node: Node, has: Callable[[Value], bool]) -> bool:
    return _axis(node, has) and _first(node, has)


def _pads(node: Node, has: Callable[[Value], bool]) -> bool:
    pads, x = node.attrs["pads"], node.inputs[0]
    assert isinstance(pads, tuple) and x is not None
    return pads[0] == pads[x.type.rank] == 0


def _perm(node: Node, has: Callable[[Value], bool]) -> bool:
    perm = node.attrs["perm"]
    return isinstance(perm, tuple) and perm[0] == 0


def _rows(node: Node, has: Callable[[Value], bool]) -> bool:
    """Rows times weights; a vector has no rows."""
    x = node.inputs[0]
    return x is not None and x.type.rank >= 2 and _first(node, has)


def _looked_up(node: Node, has: Callable[[Value], bool]) -> bool:
    """Rows of indices into a table."""
    table, index = node.inputs
    return table is not None and index is not None and not has(table) and has(index) and node.attrs["axis"] == 0


def _one_scale(node: Node, has: Callable[[Value], bool]) -> bool:
    """Scales for the whole tensor, or along another axis."""
    x, scale, axis = node.inputs[0], node.inputs[1], node.attrs["axis"]
    assert x is not None and scale is not None and isinstance(axis, int)
    return _first(node, has) and not node.attrs["block_size"] and (not scale.type.rank or normalize_axis(axis, x.type.rank) != 0)


IMAGES = (
    "conv conv_transpose q_conv q_conv_transpose max_pool avg_pool q_avg_pool adaptive_avg_pool adaptive_max_pool q_adaptive_avg_pool "
    "batch_norm q_batch_norm group_norm q_group_norm instance_norm q_instance_norm depth_to_space space_to_depth resize q_resize"
)
UNARY = (
    "requantize q_table identity relu relu6 clip sigmoid silu swish hardswish hardsigmoid tanh gelu erf exp log sqrt abs neg reciprocal "
    "leaky_relu elu softplus mish floor ceil round cast reshape"
)
OPS: tuple[tuple[str, Rule], ...] = (
    (IMAGES, _first),
    (UNARY, _first),
    ("add mul sub div maximum minimum pow prelu q_add q_mul q_div q_prelu", _broadcast),
    ("concat split softmax log_softmax q_softmax q_log_softmax argmax argmin", _axis),
    ("layer_norm rms_norm q_layer_norm q_rms_norm", _norm),
    ("q_reduce_mean q_reduce_sum reduce_mean reduce_sum reduce_max reduce_min slice", _axes),
    ("linear q_linear", _rows),
    ("quantize_linear dequantize_linear", _one_scale),
    ("pad", _pads),
    ("transpose", _perm),
    ("gather", _looked_up),
)
RULES = {op: rule for ops, rule in OPS for op in ops.split()}
SIZED = ("reshape", "resize", "q_resize")  # ops whose attributes give the size of the output


def batch_symbol(graph: Graph) -> str | None:
    """The symbol of the first axis of all inputs and outputs, if every output row depends on the same row of the inputs alone."""
    ends = [*graph.inputs, *graph.outputs.values()]
    firsts = {v.shape[0] if v.type.rank else 0 for v in ends}
    first = firsts.pop() if len(firsts) == 1 else 0
    name = next(iter(symbols(first)), "")
    if not name or first != symbol(name) or any(name in symbols(a.a) | symbols(a.b) for a in graph.assumed):
        return None

    def has(value: Value) -> bool:
        return any(name in symbols(d) for d in value.shape)

    def apart(value: Value) -> bool:
        return not has(value) or (value.shape[0] == first and not any(name in symbols(d) for d in value.shape[1:]))

    for node in graph.nodes:
        if node.op not in SIZED and any(_names(a, name) for a in node.attrs.values()):
            return None
        given = [v for v in node.inputs if v is not None]
        rule = RULES.get(node.op)
        if not all(map(apart, [*given, *node.outputs])):
            return None
        if any(map(has, given)) and (rule is None or not all(map(has, node.outputs)) or not rule(node, has)):
            return None
    return name


def _names(attr: Attr, name: str) -> bool:
    """Whether an attribute depends on a symbol."""
    if isinstance(attr, tuple):
        return any(_names(a, name) for a in attr)
    return isinstance(attr, Sym) and name in symbols(attr)


def rows_at_once(rows: int, arena: int, constants: int, threads: int) -> int:
    """How many rows of a batch are computed at once: as many as fit an arena of the size of a slice.

    Every slice reads the weights again, so a slice is at least as large as they are. All rows, if slices would overlap too far.
    """
    limit = max(SLICE * threads, constants)
    if arena <= limit or rows <= LEAST:
        return rows
    fits = max(LEAST, rows * limit // arena)
    found = min(range(max(LEAST, fits // 2), min(2 * fits, rows) + 1), key=lambda n: (-(-rows // n) * n - rows, abs(n - fits)))
    return found if (-(-rows // found) * found - rows) * WASTE <= rows else rows
