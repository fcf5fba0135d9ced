"""Turns regions between dequantize and quantize into integer ops. What stays float is listed, with its reason.

A node is lowered when every input its QuantSpec names comes from a dequantize with constant parameters, and its result goes to one
quantize (through a relu or clip that its clamp can hold). The op's own `lower` says what to put in its place; this file knows no op by
name but the brackets, and relu and clip, which are clamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.ops.q_elementwise import requantize_call
from lowbit.ops.quant import QUANTIZABLE, Arg, Call, Const, FloatOperand, NotLowered, Operand, Ref, Result
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, quantize


@dataclass(frozen=True)
class Island:
    """A node that stays float beside integers, and why."""

    layer: str
    op: str
    because: str


@dataclass(frozen=True)
class Lowered:
    """The integer graph and what is left float in it."""

    graph: Graph
    islands: tuple[Island, ...]


def lower(graph: Graph) -> Lowered:
    """The integer graph of a Q/DQ graph: the same meaning up to the rounding that the brackets allow (off by at most one)."""
    editor = Editor(graph)
    islands = []
    for node in editor.nodes():
        if node.op in ("quantize_linear", "dequantize_linear"):
            continue
        try:
            _lower_node(editor, node)
        except NotLowered as e:
            if _touches_integers(editor, node):
                islands.append(Island(node.name or node.output.name, node.op, e.because))
    for node in editor.nodes():
        if node.op == "quantize_linear":
            _lower_boundary(editor, node)
    return Lowered(editor.done(), tuple(islands))


def _lower_node(editor: Editor, node: Node) -> None:
    entry = QUANTIZABLE.get(node.op)
    if entry is None:
        raise NotLowered(f"{node.op} has no integer form")
    operands = tuple(operand(editor, v) for v in node.inputs)
    floats = [i for i in entry.spec.positions(len(operands)) if not isinstance(operands[i], Operand)]
    if floats:
        raise NotLowered(f"its input {floats[0]} is not quantized")
    if len(node.outputs) > 1:
        _lower_split(editor, node, operands)
        return
    target, result = find_result(editor, node, entry.spec.fuses_clip)
    if entry.lower is not None:
        call = entry.lower(operands, result, **_clip_free(node))
    else:
        call = _same(node, operands, result, entry.spec.positions(len(operands)))
    editor.replace(target, emit(editor, call, node, target.name), inherit=True)


def _clip_free(node: Node) -> dict[str, Any]:
    """Attributes for `lower`; a clip's bounds are in the result's clamp already."""
    return {} if node.op in ("relu", "clip") else dict(node.attrs)


def operand(editor: Editor, value: Value | None) -> Operand | FloatOperand | None:
    """An input as `lower` sees it: quantized if a dequantize with constant parameters stands before it."""
    if value is None:
        return None
    node = editor.producer(value)
    if node is not None and node.op == "dequantize_linear" and node.inputs[0] is not None:
        params = bracket_params(editor, node)
        if params is not None:
            return Operand(node.inputs[0].type, params, editor.constant_data(node.inputs[0]))
    return FloatOperand(value.type, editor.constant_data(value))


def integers(editor: Editor, node: Node, index: int) -> Value:
    """The integers behind input `index` (or the value itself where it is float)."""
    value = node.inputs[index]
    assert value is not None
    before = editor.producer(value)
    if before is not None and before.op == "dequantize_linear" and before.inputs[0] is not None:
        return before.inputs[0]
    return value


def bracket_params(editor: Editor, node: Node) -> QuantParams | None:
    """The parameters of a quantize or dequantize node, if they are constants of an integer type that QuantParams can name."""
    scale, zero = editor.constant_data(node.input(1)), editor.constant_data(node.input(2))
    data = node.inputs[0] if node.op == "dequantize_linear" else node.output
    assert data is not None
    if scale is None or (zero is None and node.input(2) is not None) or not data.type.dtype.is_integer or scale.dtype != np.float32:
        return None
    axis, block = node.attrs["axis"], node.attrs["block_size"]
    assert isinstance(axis, int) and isinstance(block, int)
    if scale.size == 1 and not block:
        granularity: PerTensor | PerAxis | PerBlock = PerTensor()
        scale, zero = scale.reshape(()), None if zero is None else zero.reshape(())
    else:
        granularity = PerBlock(axis, block) if block else PerAxis(axis)
    zeros = np.zeros(scale.shape, np.int32) if zero is None else zero.astype(np.int32)
    return QuantParams(data.type.dtype, scale, zeros, None, granularity)


def find_result(editor: Editor, node: Node, fuses_clip: bool) -> tuple[Value, Result]:
    """The value the integers will stand for, and what they must be: follows the only use to a quantize, past a clamp."""
    clips = [node] if node.op in ("relu", "clip") else []
    end = node
    user = editor.only_user(end.output)
    if user is not None and user.op in ("relu", "clip") and fuses_clip:
        clips.append(user)
        end, user = user, editor.only_user(user.output)
    params = bracket_params(editor, user) if user is not None and user.op == "quantize_linear" else None
    if params is None or user is None:
        return node.output, Result(node.output.type, None)  # float, and the clamp behind it stays
    lo, hi = params.code_range
    for clip in clips:
        low, high = clip_bounds(clip)
        if low is not None:
            lo = max(lo, int(quantize(np.float32(low), params).max()))
        if high is not None:
            hi = min(hi, int(quantize(np.float32(high), params).min()))
    return user.output, Result(node.output.type, params, lo, hi)


def clip_bounds(node: Node) -> tuple[Any, Any]:
    return (0.0, None) if node.op == "relu" else (node.attrs["min"], node.attrs["max"])


def _same(node: Node, operands: tuple[Operand | FloatOperand | None, ...], result: Result, positions: tuple[int, ...]) -> Call:
    """The same op on integers; operands with other parameters than the result are requantized first."""
    first = operands[positions[0]]
    assert isinstance(first, Operand)
    if result.params is None:
        raise NotLowered("its result stays float")
    result.per_tensor()
    lo, hi = result.params.code_range
    target = Result(result.type, result.params, lo, hi)
    args: list[Arg] = []
    for i, o in enumerate(operands):
        if i in positions and isinstance(o, Operand):
            o.per_tensor("input")
            args.append(Ref(i) if o.params == result.params else requantize_call(Ref(i), o, target))
        else:
            args.append(None if o is None else Ref(i))
    attrs = dict(node.attrs)
    if node.op == "pad" and attrs["mode"] == "constant":
        value = attrs["value"]
        assert isinstance(value, int | float)
        attrs["value"] = float(quantize(np.float32(value), result.params))
    return Call(node.op, tuple(args), attrs)


def _lower_split(editor: Editor, node: Node, operands: tuple[Operand | FloatOperand | None, ...]) -> None:
    """A node with several outputs on integers: each result must have the input's parameters, or is requantized after."""
    x = operands[0]
    if QUANTIZABLE[node.op].spec.output != "same" or not isinstance(x, Operand):
        raise NotLowered(f"{node.op} has no integer form")
    x.per_tensor("input")
    targets = [find_result(editor, _with_output(node, o), False) for o in node.outputs]
    if any(r.params is None and editor.users(o) for o, (_, r) in zip(node.outputs, targets, strict=True)):
        raise NotLowered("one of its results stays float")
    inputs = [integers(editor, node, 0), *node.inputs[1:]]
    attrs: dict[str, Any] = dict(node.attrs)
    parts = editor.add_node(node.op, *inputs, name=node.name, **attrs)
    for part, (target, result) in zip(parts, targets, strict=True):
        if result.params is None:
            continue  # nobody reads it
        done = part if result.params == x.params else emit_requantize(editor, part, x, result, node)
        editor.replace(target, done, inherit=True)


def _with_output(node: Node, output: Value) -> Node:
    return Node(node.op, node.inputs, node.attrs, node.name, (output,))


def emit_requantize(editor: Editor, value: Value, x: Operand, result: Result, node: Node) -> Value:
    call = requantize_call(None, x, result)
    return editor.add(call.op, value, name=node.name, **call.attrs)


def emit(editor: Editor, call: Call, node: Node, out: str) -> Value:
    """The nodes of a call; constants are named after the layer."""

    def arg(a: Arg) -> Value | None:
        if isinstance(a, Ref):
            return integers(editor, node, a.index)
        if isinstance(a, Const):
            return editor.constant(a.data, name=f"{node.name or out}:{a.name}", dtype=a.dtype)
        return None if a is None else editor.add(a.op, *map(arg, a.args), name=node.name, **a.attrs)

    return editor.add(call.op, *map(arg, call.args), name=node.name, out=out, **call.attrs)


def _lower_boundary(editor: Editor, node: Node) -> None:
    """dequantize → quantize with nothing between is a requantize, or nothing."""
    x, params = operand(editor, node.inputs[0]), bracket_params(editor, node)
    if not isinstance(x, Operand) or params is None or x.data is not None:
        return
    lo, hi = params.code_range
    try:
        call = requantize_call(Ref(0), x, Result(node.output.type, params, lo, hi))
    except NotLowered:
        return
    same = x.params == params
    editor.replace(node.output, integers(editor, node, 0) if same else emit(editor, call, node, node.output.name))


def _touches_integers(editor: Editor, node: Node) -> bool:
    """Whether a float node stands beside quantized values: only then is it worth telling."""
    before = any(isinstance(operand(editor, v), Operand) for v in node.inputs)
    return before or any(u.op == "quantize_linear" for o in node.outputs for u in editor.users(o))
