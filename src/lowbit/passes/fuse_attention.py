"""Makes one `attention` of matmul → scale → mask → softmax → matmul.

Masks hide scores by -inf or by a number from -10,000 down, which exporters put there by `where`, `masked_fill` or an addition. A row whose
scores are all hidden has no defined result: a softmax gives NaN, equal weights or the weights without the mask; `attention` gives zeros for
conditions, as those exporters do that guard against it, and adds finite numbers to the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.dims import Dim
from lowbit.dtypes import DType
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.masks import HIDDEN
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axis, ints, options
from lowbit.passes.match import Num, Var, close, either, layer_name, match, number, op, swallows, times
from lowbit.types import Array, Shape, broadcast

P = op("softmax", Var("scores"), name="softmax")
WEIGHTS = either(  # a row that may attend to nothing gives NaN, which torch's exporter turns to 0; `attention` gives 0 by itself
    P,
    op("where", op("isnan", P), Num(0.0), P),
    op("where", op("equal", Var("scores"), Num(float("-inf"))), Num(0.0), P),
)
ATTENTION = op("matmul", WEIGHTS, Var("v"))
TURNED = op("matmul", Var("v"), op("transpose", WEIGHTS, name="turn"))  # v pᵀ, of features × keys, as YOLO writes it: (p vᵀ)ᵀ
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
    outer = match(editor, node, ATTENTION) or match(editor, node, TURNED)
    if outer is None or axis(outer.named["softmax"]) != outer["scores"].type.rank - 1:
        return
    turn, swapped = outer.named.get("turn"), _swapped(outer["v"].type.rank)
    if turn is not None and (outer["v"].type.rank < 2 or ints(turn, "perm") != _swapped(turn.output.type.rank)):
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
    rows, features = (q.shape[-2], v.shape[-1]) if turn is None else (v.shape[-2], q.shape[-2])
    if node.output.shape != (*broadcast(lead, v.shape[:-2]), rows, features):
        return
    name = layer_name(nodes)
    soft = [m for m in masks if not causal(editor, m, q, kt.shape[-1])]
    k = _transposed(editor, kt, _swapped(kt.type.rank), name)
    mask = _combine(editor, soft, name, q.type.dtype)
    scale = inner.numbers["scale"] * inner.numbers["q_scale"] * inner.numbers["k_scale"]
    depth = q.shape[-1]
    if isinstance(depth, int) and close(scale, depth**-0.5):
        scale = depth**-0.5  # the intended number, before rounding
    attrs: dict[str, Any] = {"scale": scale, "causal": len(soft) < len(masks)}
    if turn is None:
        editor.become(node, "attention", q, k, v, mask, name=name, **attrs)
    else:
        y = editor.add("attention", q, k, _transposed(editor, v, swapped, name), mask, name=name, **attrs)
        editor.become(node, "transpose", y, name=name, perm=_swapped(y.type.rank))


@dataclass(frozen=True)
class Mask:
    """A mask of scores: a condition (`where` it is `hides`, the score is hidden), or a number that is added.

    `number` of a condition: what stands in the place of hidden scores, and decides how a row is treated that is hidden as a whole.
    """

    value: Value
    hides: bool | None = None  # None: it is added
    number: float = float("-inf")


def _peel_masks(editor: Editor, scores: Value) -> tuple[Value, list[Mask], list[Node]]:
    """The scores before masks were laid on, the masks, and the nodes that did it."""
    masks: list[Mask] = []
    covered: list[Node] = []
    while True:
        node = editor.producer(scores)
        if node is None or node.op not in ("add", "where"):
            return scores, masks, covered
        if node.op == "where":
            inner, mask = _condition(editor, node)
        else:
            left, right = node.inputs
            if not _is_product(editor, left, node):
                left, right = right, left
            inner, mask = (left, _added(editor, right)) if _is_product(editor, left, node) and right is not None else (None, None)
        if inner is None or mask is None or inner.type != node.output.type:
            return scores, masks, covered
        masks.append(mask)
        covered.append(node)
        scores = inner


def _condition(editor: Editor, node: Node) -> tuple[Value | None, Mask | None]:
    """The visible input of a `where`, and its condition with the number for hidden scores; (None, None) if it hides nothing."""
    cond, a, b = node.inputs
    assert cond is not None
    for inner, other, hides in ((b, a, True), (a, b, False)):
        n = number(editor, other)
        if n is not None and n <= HIDDEN:
            return inner, Mask(cond, hides, n)
    return None, None


def _added(editor: Editor, value: Value) -> Mask:
    """A mask that is added; as a condition where it is 0 or hides, and says so: where(c, 0, -inf), or a constant."""
    node = editor.producer(value)
    if node is not None and node.op == "where" and editor.only_user(value) is not None:
        visible, mask = _condition(editor, node)
        if visible is not None and mask is not None and number(editor, visible) == 0 and mask.number == float("-inf"):
            return mask
    return Mask(value)


def causal(editor: Editor, mask: Mask, q: Value, keys: Dim) -> bool:
    """Whether the mask hides the future and nothing else."""
    return mask.value.shape[-2:] == (q.shape[-2], keys) and hides_the_future(editor, mask.value, mask.hides is True)


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


def _combine(editor: Editor, masks: list[Mask], name: str, dtype: DType) -> Value | None:
    """One mask equal to all of them: a condition, or floats to add if one of them is not only a condition."""
    seen: Value | None = None
    added: Value | None = None
    for mask in masks:
        if mask.hides is None:
            added = mask.value if added is None else editor.add("add", mask.value, added, name=name)
        elif mask.number == float("-inf") or _shows_some(editor, mask):
            part = editor.add("logical_not", mask.value, name=name) if mask.hides else mask.value
            seen = part if seen is None else editor.add("logical_and", part, seen, name=name)
        else:
            part = _numbers(editor, mask, name, dtype)
            added = part if added is None else editor.add("add", part, added, name=name)
    if seen is None or added is None:
        return added if seen is None else seen
    return editor.add("where", seen, added, editor.constant(np.array(-np.inf, dtype.numpy), dtype=dtype), name=name)


def _numbers(editor: Editor, mask: Mask, name: str, dtype: DType) -> Value:
    """A condition as numbers to add: a wholly hidden row keeps the effect of finite numbers."""
    zero, low = (editor.constant(np.array(n, dtype.numpy), dtype=dtype) for n in (0.0, mask.number))
    return editor.add("where", mask.value, *((low, zero) if mask.hides else (zero, low)), name=name)


def _shows_some(editor: Editor, mask: Mask) -> bool:
    """Whether a constant condition leaves something visible in every row."""
    data = editor.constant_data(mask.value)
    return data is not None and data.ndim > 0 and bool((data != mask.hides).any(axis=-1).all())


def hides_the_future(editor: Editor, mask: Value, flipped: bool = False) -> bool:
    """Whether row i of the mask shows columns up to i, for every head: a constant, or a triangle of whatever size the sequence has.

    `flipped`: True means hidden.
    """
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
    return bool((last[sees] == 0).all() and (last[~sees] <= HIDDEN).all())


def _swapped(rank: int) -> tuple[int, ...]:
    """The order of axes that swaps the last two."""
    return (*range(rank - 2), rank - 1, rank - 2)


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
