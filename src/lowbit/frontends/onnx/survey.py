"""The nodes of an ONNX file as they stand in it, and what lowbit lacks of them. Numbers are those that errors of loading tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lowbit.errors import LowbitError
from lowbit.frontends.onnx.importer import HANDLERS, place
from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxModel, subgraphs


class FileNode(NamedTuple):
    """One node; `number` is its place in the file, in a branch after that of the node which holds it: 3.0, 3.1 …"""

    number: str
    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    problem: str | None  # why it is not supported


def survey(model: OnnxModel, error: LowbitError | None = None) -> tuple[FileNode, ...]:
    """Every node of the file. The one at which `error` arose has its message."""
    return tuple(_nodes(model, model.graph, "", error))


def _nodes(model: OnnxModel, graph: OnnxGraph, within: str, error: LowbitError | None) -> Iterator[FileNode]:
    for n in graph.nodes:
        op = f"{n.domain}::{n.op_type}" if n.domain else n.op_type
        known = n.own or (n.domain, n.op_type) in HANDLERS
        here = error is not None and place(model.source, n) in (error.where or "")
        problem = "this operator is not supported" if not known else error.message if error is not None and here else None
        number = f"{within}{n.index}"
        yield FileNode(number, n.name or next(iter(n.outputs), ""), op, n.inputs, n.outputs, problem)
        for branch in subgraphs(n):
            yield from _nodes(model, branch, f"{number}.", error)
