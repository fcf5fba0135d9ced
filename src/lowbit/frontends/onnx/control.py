"""If, Loop and Scan without control flow: a graph has none.

If     the branch that is taken stands in its place; where that is known only at run time, both do, and `where` chooses
Loop   its body stands there once for each round, where their number is known at load time
Scan   its body stands there once for each slice of its inputs
"""

from __future__ import annotations

import numpy as np

from lowbit.errors import FormatError, LowbitError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, NeedsConstant, onnx_op
from lowbit.frontends.onnx.serialize import OnnxGraph, OnnxNode
from lowbit.ir.graph import Value
from lowbit.types import normalize_axis

MOST_NODES = 50_000  # of a loop that is written out


@onnx_op("If")
def if_(c: Importer, node: OnnxNode) -> list[Value]:
    condition = c.constant_data(c.input(node, 0))
    if condition is not None:
        return c.inline(branch(node, "then_branch" if condition.any() else "else_branch"))
    return both_ways(c, node)


def both_ways(c: Importer, node: OnnxNode) -> list[Value]:
    """Both branches, and a choice between their results."""
    said = f"its condition (input {node.inputs[0]!r}) is computed from data"
    hint = f"{c.fixable(c.input(node, 0))}make it a constant when exporting"
    try:
        results = [c.inline(branch(node, name)) for name in ("then_branch", "else_branch")]
    except LowbitError as e:
        raise NeedsConstant(f"{said}, and one of its branches cannot run with these shapes ({e.message})", node.inputs[0], hint=hint) from e
    for then, other in zip(*results, strict=False):
        if then.type != other.type:
            raise NeedsConstant(f"{said}, and its branches give {then.type} and {other.type}", node.inputs[0], hint=hint)
    condition = c.input(node, 0)
    scalar = c.add("reshape", condition, shape=()) if condition.type.rank else condition
    return [then if then.name == other.name else c.add("where", scalar, then, other) for then, other in zip(*results, strict=False)]


def branch(node: OnnxNode, name: str) -> OnnxGraph:
    found = node.attr(name)
    if not isinstance(found, OnnxGraph):
        raise FormatError(f"its {name} is missing")
    return found


@onnx_op("Loop")
def loop(c: Importer, node: OnnxNode) -> list[Value]:
    body = branch(node, "body")
    states = [c.input(node, i) for i in range(2, len(node.inputs))]
    if len(body.inputs) != 2 + len(states) or len(body.outputs) < 1 + len(states):
        raise FormatError(
            f"its body has {len(body.inputs)} inputs and {len(body.outputs)} outputs, which do not fit its {len(states)} states"
        )
    rounds = c.ints(node, 0, "number of rounds")
    goes_on = c.const(node, 1, "condition")
    most = (rounds or [2**63])[0]
    kept = c.weights(body)
    scans: list[list[Value]] = [[] for _ in body.outputs[1 + len(states) :]]
    done = 0
    while done < most and (goes_on is None or goes_on.any()):
        enough(done, body)
        given = [c.constant(np.array(done, np.int64)), c.constant(np.array(True)), *states]
        condition, *made = c.inline(body, dict(zip([v.name for v in body.inputs], given, strict=True)) | kept)
        states, parts = made[: len(states)], made[len(states) :]
        for scan, part in zip(scans, parts, strict=True):
            scan.append(part)
        goes_on = c.constant_data(condition)
        done += 1
        if goes_on is None and done < most:
            said = f"whether it goes on after round {done} is computed from data"
            raise NeedsConstant(said, node.inputs[0], hint=f"{c.fixable(condition)}export it with a fixed number of rounds")
    if not done and scans:
        raise UnsupportedOp("it has no rounds: the shape of what they would give is not known")
    return [*states, *(stacked(c, scan, 0) for scan in scans)]


@onnx_op("Scan")
def scan(c: Importer, node: OnnxNode) -> list[Value]:
    body, count = branch(node, "body"), int(node.attr("num_scan_inputs", 1))
    if c.opset < 9:
        raise UnsupportedOp("Scan of opset 8 has a batch of its own", hint="export it with opset 9 or later")
    given = [c.input(node, i) for i in range(len(node.inputs))]
    held = len(given) - count
    states, rows = given[:held], given[held:]
    if len(body.inputs) != len(given) or held < 0 or len(body.outputs) < held:
        raise FormatError(f"its body has {len(body.inputs)} inputs, {len(given)} are given")
    axes = [normalize_axis(a, v.type.rank) for a, v in zip(node.attr("scan_input_axes") or [0] * count, rows, strict=True)]
    back = node.attr("scan_input_directions") or [0] * count
    sizes = {v.shape[a] for v, a in zip(rows, axes, strict=True)}
    if len(sizes) != 1:
        raise FormatError(f"its inputs have {', '.join(map(str, sizes))} slices")
    size = int(sizes.pop())  # a symbol says how to bind it
    kept = c.weights(body)
    scans: list[list[Value]] = [[] for _ in body.outputs[held:]]
    for i in range(size):
        enough(i, body)
        slices = [one(c, v, a, size - 1 - i if b else i) for v, a, b in zip(rows, axes, back, strict=True)]
        made = c.inline(body, dict(zip([v.name for v in body.inputs], [*states, *slices], strict=True)) | kept)
        states = made[:held]
        for parts, part in zip(scans, made[held:], strict=True):
            parts.append(part)
    if not size and scans:
        raise UnsupportedOp("it has no slices: the shape of what they would give is not known")
    over = node.attr("scan_output_axes") or [0] * len(scans)
    turned = node.attr("scan_output_directions") or [0] * len(scans)
    return [*states, *(stacked(c, s[::-1] if t else s, a) for s, a, t in zip(scans, over, turned, strict=True))]


def enough(rounds: int, body: OnnxGraph) -> None:
    if rounds * max(1, len(body.nodes)) > MOST_NODES:
        raise UnsupportedOp(f"written out, its rounds have more than {MOST_NODES:,} nodes", hint="export it with fewer rounds")


def one(c: Importer, x: Value, axis: int, i: int) -> Value:
    """x[…, i, …]."""
    shape = [d for a, d in enumerate(x.shape) if a != axis]
    return c.add("reshape", c.add("slice", x, starts=[i], ends=[i + 1], axes=[axis], steps=[1]), shape=shape)


def stacked(c: Importer, parts: list[Value], axis: int) -> Value:
    """The parts side by side along a new axis."""
    at = normalize_axis(axis, parts[0].type.rank + 1)
    rows = [c.add("reshape", p, shape=[*p.shape[:at], 1, *p.shape[at:]]) for p in parts]
    return rows[0] if len(rows) == 1 else c.add("concat", *rows, axis=at)
