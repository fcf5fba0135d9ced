"""The interpreter's cost of a node: element operations, and memory beside its results. Folding asks before it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from lowbit.ir.graph import Node
from lowbit.ops.op import Op
from lowbit.types import TensorType


def work(node: Node) -> int:
    """Element operations of a node without symbols, about."""
    types = [None if v is None else v.type for v in node.inputs]
    return operations(node.definition, types, [o.type for o in node.outputs], node.attrs)


def padding(node: Node) -> int:
    """Bytes of the padded input of a window op."""
    return padded_bytes([None if v is None else v.type for v in node.inputs], node.attrs)


def operations(op: Op, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> int:
    """Multiplications where the op counts them; else elements read, and elements written times the taps of a window."""
    counted = int(op.macs(*inputs, **attrs)) if op.macs is not None else 0
    taps = prod(attrs["kernel"]) if "kernel" in attrs else 1
    read = sum(int(t.size) for t in inputs if t is not None)
    return max(counted, read + taps * sum(int(t.size) for t in outputs))


def padded_bytes(inputs: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> int:
    """Bytes of the first input with its pads around it, where the op has pads; at the least of the kernel, which must fit in it."""
    x = inputs[0] if inputs else None
    pads = attrs.get("pads", ())
    if x is None or not pads or len(pads) % 2:
        return 0
    n = len(pads) // 2
    spatial = [int(d) + pads[i] + pads[n + i] for i, d in enumerate(x.shape[-n:])]
    return prod(int(d) for d in x.shape[:-n]) * prod(max(0, s) for s in spatial) * x.dtype.numpy.itemsize
