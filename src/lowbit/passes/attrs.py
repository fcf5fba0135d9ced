"""Attributes of a node, read as the kind that its op says they are."""

from __future__ import annotations

from typing import Any, cast

from lowbit.dims import Dim
from lowbit.ir.graph import Node
from lowbit.types import normalize_axis


def options(node: Node, **other: Any) -> dict[str, Any]:
    """All attributes, some of them changed: for making another node of the same op."""
    return {**node.attrs, **other}


def whole(node: Node, name: str) -> int:
    return cast(int, node.attrs[name])


def real(node: Node, name: str) -> float:
    return cast(float, node.attrs[name])


def ints(node: Node, name: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", node.attrs[name])


def dims(node: Node, name: str) -> tuple[Dim, ...]:
    return cast("tuple[Dim, ...]", node.attrs[name])


def axis(node: Node, name: str = "axis") -> int:
    """An axis of the first input, counted from the front."""
    return normalize_axis(whole(node, name), _rank(node))


def axes(node: Node, name: str = "axes") -> tuple[int, ...]:
    """Axes of the first input, counted from the front."""
    return tuple(normalize_axis(a, _rank(node)) for a in ints(node, name))


def _rank(node: Node) -> int:
    x = node.inputs[0]
    assert x is not None
    return x.type.rank
