"""Makes one `attention` of matmul → scale → mask → softmax → matmul.

A row whose scores are all -inf gives NaN in a softmax; `attention` gives zeros, as those exporters do that guard against it.
"""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axis, ints, options
from lowbit.passes.match import Num, Var, close, either, layer_name, match, number, op, swallows, times
from lowbit.types import Array, Shape, broadcast

MASKED = -1e30  # numbers from here down put a weight of exactly 0 beside any score that a network can have

P = op("softmax", Var("scores"), name="softmax")
WEIGHTS = either(  # a row that may attend to nothing gives NaN, which torch's exporter turns to 0; `attention` gives 0 by itself
    P,
    op("where", op("isnan", P), Num(0.0), P),
    op("where", op("equal", Var("scores"), Num(float("-inf"))), Num(0.0), P),
)
ATTENTION = op("matmul", WEIGHTS, Var("v"))
SCORES = times("scale", op("matmul", times("q_scale", Var("q")), times("k_scale", Var("kt"))))


def fuse_attention(graph: Graph) -> Graph:
    """The graph with scaled dot-product attention as one op: softmax(q kᵀ * scale + mask) v. A mask that hides the future is `causal`."""
    return rewrite(graph, _fuse, "matmul", "attention")


def _fuse(editor: Editor, node: Node) -> None:
    if node.op == "attention":
        q, k, mask = node.input(0), node.input(1), node.input(3)
        if q is None or k is None or mask is None or mask.shape[-2:] != (q.shape[-2], k.shape[-2]):
            return
        if not node.attrs["causal"] and hides_the_future(editor, mask):
            editor.become(node, "attention", *node.inputs[:3], **options(node, causal=True))
        return
    outer = match(editor, node, ATTENTION)
    if outer is None or axis(outer.named["softmax"]) != outer["scores"].type.rank - 1:
        return
    scores, masks, covered = _peel_masks(editor, outer["scores"])
    root = editor.producer(scores)
    inner = match(editor, root, SCORES) if root is not None else None
    nodes = (*outer.nodes, *covered, *(inner.nodes if inner is not None else ()))
    if inner is None or not swallows(editor, nodes) or any(inner.numbers[n] == 0 for n in inner.numbers):
        return
    q, kt, v = inner["q"], inner["kt"], outer["v"]
    lead = broadcast(q.shape[:-2], kt.shape[:-2]) if min(q.type.rank, kt.type.rank) >= 2 else None
    if lead is None or v.type.rank < 2 or (*lead, q.shape[-2], kt.shape[-1]) != outer["scores"].shape:
        return
    if node.output.shape != (*broadcast(lead, v.shape[:-2]), q.shape[-2], v.shape[-1]) or not _one_mask(masks):
        return
    name = layer_name(nodes)
    perm = (*range(kt.type.rank - 2), kt.type.rank - 1, kt.type.rank - 2)
    k = _transposed(editor, kt, perm, name)
    mask = _combine(editor, masks, name)
    scale = inner.numbers["scale"] * inner.numbers["q_scale"] * inner.numbers["k_scale"]
    features = q.shape[-1]
    if isinstance(features, int) and close(scale, features**-0.5):
        scale = features**-0.5  # what was meant, before it was rounded
    editor.become(node, "attention", q, k, v, mask, name=name, scale=scale, causal=False)


def _peel_masks(editor: Editor, scores: Value) -> tuple[Value, list[tuple[Value, bool]], list[Node]]:
    """The scores before masks were laid on, the masks (bool ones with whether True means hidden), and the nodes that did it."""
    masks: list[tuple[Value, bool]] = []
    covered: list[Node] = []
    while True:
        node = editor.producer(scores)
        if node is None or node.op not in ("add", "where"):
            return scores, masks, covered
        if node.op == "where":
            cond, a, b = node.inputs
            hidden = number(editor, a) == float("-inf")
            if not hidden and number(editor, b) != float("-inf"):
                return scores, masks, covered
            inner, mask = (b, cond) if hidden else (a, cond)
        else:
            hidden = False
            left, right = node.inputs
            if not _is_product(editor, left, node):
                left, right = right, left
            inner, mask = (left, right) if _is_product(editor, left, node) else (None, None)
        if inner is None or mask is None or inner.type != node.output.type:
            return scores, masks, covered
        masks.append((mask, hidden))
        covered.append(node)
        scores = inner


def _is_product(editor: Editor, value: Value | None, added: Node) -> bool:
    """Whether the value comes from a matmul through masks and scales: the side of an addition that holds the scores."""
    if value is None or value.type != added.output.type:
        return False
    for _ in range(8):
        node = editor.producer(value)
        if node is None or node.op == "matmul":
            return node is not None
        if node.op not in ("mul", "div", "add", "where"):
            return False
        inside = [v for v in node.inputs if v is not None and v.type == node.output.type and editor.producer(v) is not None]
        if not inside:
            return False
        value = inside[0]
    return False


def _one_mask(masks: list[tuple[Value, bool]]) -> bool:
    """Whether the masks can be one: any number of additions, or of conditions."""
    kinds = {m.type.dtype.name == "bool" for m, _ in masks}
    return len(kinds) <= 1


def _combine(editor: Editor, masks: list[tuple[Value, bool]], name: str) -> Value | None:
    """One mask that does what all of them do."""
    total: Value | None = None
    for mask, hidden in masks:
        part = editor.add("logical_not", mask, name=name) if hidden else mask
        joined = "logical_and" if mask.type.dtype.name == "bool" else "add"
        total = part if total is None else editor.add(joined, part, total, name=name)
    return total


def hides_the_future(editor: Editor, mask: Value) -> bool:
    """Whether row i of the mask shows columns up to i, for every head: a constant, or a triangle of whatever size the sequence has."""
    flipped = False
    while True:
        data = editor.constant_data(mask)
        if data is not None:
            return _is_triangle(data, flipped)
        node = editor.producer(mask)
        if node is None:
            return False
        x = node.inputs[0] if node.inputs else None
        if node.op == "reshape" and x is not None and _only_ones_in_front(x.shape, mask.shape):
            mask = x
        elif node.op == "logical_not" and x is not None:
            mask, flipped = x, not flipped
        elif node.op == "trilu":
            filled = editor.producer(x)
            want = (True, 1) if flipped else (False, 0)
            ones = filled is not None and filled.op == "fill" and mask.type.dtype.name == "bool" and bool(filled.attrs["value"])
            return ones and mask.type.rank == 2 and (node.attrs["upper"], node.attrs["k"]) == want
        else:
            return False


def _only_ones_in_front(shape: Shape, longer: Shape) -> bool:
    extra = len(longer) - len(shape)
    return extra >= 0 and longer[extra:] == shape and all(d == 1 for d in longer[:extra])


def _is_triangle(data: Array, hidden: bool) -> bool:
    if data.ndim < 2 or any(d != 1 for d in data.shape[:-2]) or data.shape[-2] < 2:
        return False
    rows, columns = data.shape[-2:]
    last: Array = data.reshape(rows, columns)
    sees: Array = np.tri(rows, columns, dtype=np.bool_)
    if last.dtype == bool:
        return bool(((last ^ hidden) == sees).all())
    return bool((last[sees] == 0).all() and (last[~sees] <= MASKED).all())


def _transposed(editor: Editor, value: Value, perm: tuple[int, ...], name: str) -> Value:
    """The value with axes moved; a transpose that made it is undone instead of added to."""
    before = editor.producer(value)
    if before is not None and before.op == "transpose":
        inner = ints(before, "perm")
        merged = tuple(inner[p] for p in perm)
        source = before.inputs[0]
        assert source is not None
        if merged == tuple(range(len(merged))):
            return source
        return editor.add("transpose", source, name=before.name or name, perm=merged)
    return editor.add("transpose", value, name=name, perm=perm)
