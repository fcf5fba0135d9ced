"""Merges movement that follows movement: reshape∘reshape, transpose∘transpose, slice∘slice, concat∘concat, cast∘cast …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowbit.dtypes import DType
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axes, axis, ints, options


def fold_movement(graph: Graph) -> Graph:
    """The graph with the shortest equal chains of movement ops. `drop_identities` removes those that become identities."""
    return rewrite(graph, lambda editor, node: RULES[node.op](editor, node), *RULES)


def _reshape(editor: Editor, node: Node) -> None:
    """Only the last of several reshapes counts."""
    before = editor.producer(node.inputs[0])
    if before is not None and before.op == "reshape":
        editor.become(node, "reshape", before.inputs[0], **options(node))


def _transpose(editor: Editor, node: Node) -> None:
    """Two transposes are one; one that moves nothing but axes of size 1 is a reshape."""
    x = node.inputs[0]
    assert x is not None
    perm = ints(node, "perm")
    before = editor.producer(x)
    if before is not None and before.op == "transpose":
        inner = ints(before, "perm")
        merged = tuple(inner[p] for p in perm)
        if merged == tuple(range(len(merged))):
            editor.replace(node.output, before.inputs[0])  # type: ignore[arg-type]
        else:
            editor.become(node, "transpose", before.inputs[0], perm=merged)
        return
    moved = [p for p in perm if x.shape[p] != 1]
    if moved == sorted(moved):
        editor.become(node, "reshape", x, shape=node.output.shape)


def _slice(editor: Editor, node: Node) -> None:
    """A slice of a slice, on other axes or with steps of 1, is one slice. It ends where the first one does, at the latest."""
    before = editor.producer(node.inputs[0])
    if before is None or before.op != "slice" or editor.only_user(before.output) is None:
        return
    inner = {a: (s, e, t) for a, s, e, t in _ranges(before)}
    merged = dict(inner)
    for a, start, end, step in _ranges(node):
        if a in inner:
            first, last, by = inner[a]
            if by != 1 or step < 1 or not all(isinstance(d, int) and d >= 0 for d in (first, last, start, end)):
                return
            merged[a] = (first + start, min(first + end, last), step)
        else:
            merged[a] = (start, end, step)
    cut = tuple(sorted(merged))
    starts, ends, steps = zip(*(merged[a] for a in cut), strict=True)
    editor.become(node, "slice", before.inputs[0], axes=cut, starts=starts, ends=ends, steps=steps)


def _ranges(node: Node) -> list[tuple[int, int, int, int]]:
    return list(zip(axes(node), *(ints(node, k) for k in ("starts", "ends", "steps")), strict=True))


def _concat(editor: Editor, node: Node) -> None:
    """Parts that are themselves joined along the same axis are parts; all parts of one split in their order are the whole.

    A concat of a value with itself stays: a chain of doublings would become as long as its result.
    """
    along = axis(node)
    parts: list[Value | None] = []
    for v in node.inputs:
        before = editor.producer(v)
        joined = before is not None and before.op == "concat" and axis(before) == along and editor.only_user(before.output) is not None
        if before is not None and joined and node.inputs.count(v) == 1:
            parts += before.inputs
        else:
            parts.append(v)
    split = editor.producer(parts[0])
    if split is not None and split.op == "split" and axis(split) == along and list(split.outputs) == parts:
        editor.replace(node.output, split.inputs[0])  # type: ignore[arg-type]
    elif len(parts) > len(node.inputs):
        editor.become(node, "concat", *parts, axis=along)


def _expand(editor: Editor, node: Node) -> None:
    """Only the last of several expansions counts."""
    before = editor.producer(node.inputs[0])
    if before is not None and before.op == "expand":
        editor.become(node, "expand", before.inputs[0], **options(node))


def _cast(editor: Editor, node: Node) -> None:
    """A cast through a type that holds every value of the first is a cast from the first."""
    before = editor.producer(node.inputs[0])
    if before is None or before.op != "cast" or before.inputs[0] is None:
        return
    source = before.inputs[0]
    if _holds(before.output.type.dtype, source.type.dtype):
        if source.type == node.output.type:
            editor.replace(node.output, source)
        else:
            editor.become(node, "cast", source, **options(node))


_MANTISSA = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_RANGE = {"float64": 1023, "float32": 127, "bfloat16": 127, "float16": 15}


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of the narrow type is one of the wide type."""
    if wide == narrow:
        return True
    if wide.name in _MANTISSA and narrow.name in _MANTISSA:
        return _MANTISSA[wide.name] >= _MANTISSA[narrow.name] and _RANGE[wide.name] >= _RANGE[narrow.name]
    if narrow.kind not in ("int", "uint", "bool") or narrow.min is None or narrow.max is None:
        return False
    if wide.name in _MANTISSA:
        return narrow.kind == "bool" or narrow.bits < min(_MANTISSA[wide.name], _RANGE[wide.name])
    if wide.kind not in ("int", "uint") or wide.min is None or wide.max is None:
        return False
    return wide.min <= narrow.min and narrow.max <= wide.max


def _flip(editor: Editor, node: Node) -> None:
    """Flipped twice is not flipped."""
    before = editor.producer(node.inputs[0])
    if before is not None and before.op == "flip":
        editor.become(node, "flip", before.inputs[0], axes=tuple(sorted(set(axes(before)) ^ set(axes(node)))))


def _reduce(editor: Editor, node: Node) -> None:
    """A reduction does not see a transpose if the axes that are left keep their order; else it makes less to transpose."""
    before = editor.producer(node.inputs[0])
    if before is None or before.op != "transpose":
        return
    perm = ints(before, "perm")
    reduced = reduced_before(node, perm)
    if reduced is not None:
        editor.become(node, node.op, before.inputs[0], **reduced)
    elif node.attrs["keepdims"] and axes(node):
        small = editor.add(node.op, before.inputs[0], name=node.name, axes=tuple(sorted(perm[a] for a in axes(node))), keepdims=True)
        editor.become(node, "transpose", small, name=before.name, perm=perm)


def reduced_before(node: Node, perm: tuple[int, ...]) -> dict[str, Any] | None:
    """Attributes with which a reduction of transposed data gives the same on the data before; None when the order would differ."""
    left = [p for i, p in enumerate(perm) if i not in axes(node)]
    if node.attrs["keepdims"] or left != sorted(left):
        return None
    return {"axes": tuple(sorted(perm[a] for a in axes(node))), "keepdims": False}


REDUCTIONS = tuple(f"reduce_{name}" for name in ("sum", "mean", "max", "min", "prod", "l1", "l2"))
RULES: dict[str, Callable[[Editor, Node], None]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concat": _concat,
    "expand": _expand,
    "cast": _cast,
    "flip": _flip,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
