"""Masks: scores that are hidden from a softmax or a maximum by -inf, or by a number from -10,000 down, and the nodes that make masks.

Integers have no such numbers: as part of a range they would leave one step for all the rest. So the arithmetic that makes an attention's
mask stays float, and calibration sees a hidden score as one so far below the largest of its row that its weight vanishes. Quantization then
clips it there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.quant import QUANTIZABLE
from lowbit.types import Array, normalize_axis

HIDDEN = -1e4  # numbers from here down give a weight of exactly 0 beside any score that a network can have
MARGIN = 12.0  # below the largest score of a row: exp(-12) of a thousand hidden scores together is less than a step of the weights
MASK = 3  # the position of attention's mask
SOFT = ("softmax", "log_softmax")
LARGEST = ("reduce_max", "argmax", "topk", "max_pool")


def masked_scores(graph: Graph) -> dict[str, int | None]:
    """Values that are scores with a mask laid on (by `where` or `add`), and the axis of the softmax that reads them; None for a maximum."""
    outputs = {v.name for v in graph.outputs.values()}
    found: dict[str, int | None] = {}
    for node in reversed(graph.nodes):
        y = node.output
        users = graph.users.get(y.name, ())
        if node.op not in ("where", "add") or not y.type.dtype.is_float or y.name in outputs or not users:
            continue
        if all(u.op in SOFT or u.op in LARGEST or u.output.name in found for u in users):
            found[y.name] = next((_axis(u, y, found) for u in users if u.op not in LARGEST), None)
    return found


def _axis(user: Node, value: Value, found: Mapping[str, int | None]) -> int | None:
    """The softmax's axis as the value has it, which may have fewer axes; None where it has none of that."""
    axis = user.attrs["axis"] if user.op in SOFT else found[user.output.name]
    if not isinstance(axis, int):
        return None
    rank = user.output.type.rank
    at = normalize_axis(axis, rank) - rank + value.type.rank
    return at if at >= 0 else None


def added_masks(graph: Graph, scores: Mapping[str, int | None]) -> set[str]:
    """Values that are added to scores and nothing else: masks, in which numbers below HIDDEN mean no more than HIDDEN does."""
    found = set()
    for name, users in graph.users.items():
        if name not in scores and all(u.op == "add" and u.output.name in scores for u in users):
            found.add(name)
    return found


def visible(scores: Array, axis: int | None) -> Array:
    """The scores that are not hidden, and for each row with hidden ones what they are taken for."""
    hidden = scores <= HIDDEN / 2  # a sum of a score and a mask
    if not hidden.any():
        return scores
    seen = scores[~hidden]
    if axis is None or not seen.size:
        return seen
    top = np.max(scores, axis=axis, where=~hidden, initial=-np.inf)
    rows = top[hidden.any(axis=axis) & np.isfinite(top)]
    return np.concatenate([seen, (rows - scores.dtype.type(MARGIN)).astype(scores.dtype)])


def hides(graph: Graph, node: Node, data: Array, scores: Mapping[str, int | None]) -> bool:
    """Whether a constant that the node reads only stands for hidden scores."""
    return node.op == "where" and node.output.name in scores and bool((data <= HIDDEN).all())


def mask_makers(graph: Graph) -> list[str]:
    """Nodes (by their first output) whose results only go into masks of attention; layers with weights are none."""
    outputs = {v.name for v in graph.outputs.values()}
    found: set[str] = set()
    for node in reversed(graph.nodes):
        entry = QUANTIZABLE.get(node.op)
        users = [u for o in node.outputs for u in graph.users.get(o.name, ())]
        if not users or any(o.name in outputs for o in node.outputs) or (entry is not None and entry.spec.channel_axis):
            continue
        if all(u.output.name in found or _as_mask(u, node) for u in users):
            found.add(node.output.name)
    return [n.output.name for n in graph.nodes if n.output.name in found]


def _as_mask(user: Node, node: Node) -> bool:
    mine = {o.name for o in node.outputs}
    return user.op == "attention" and not any(v is not None and v.name in mine for v in user.inputs[:MASK])
