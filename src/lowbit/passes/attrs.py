"""Attributes of a node, read as the kind that its op says they are."""

from __future__ import annotations

from typing import Any, cast

from lowbit.dims import Dim
from lowbit.ir.graph import Node


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
