"""Turns regions between dequantize and quantize into integer ops, and lists the nodes that stay float, with reasons.

A node is lowered when every input its QuantSpec names comes from a dequantize with constant parameters, and its result goes to one
quantize (through a relu or clip that its clamp can hold). The op's own `lower` gives the integer op. This file knows by name only
the brackets, fill (a constant of any shape), channel_table (constants as well) and cast (it marks a layer that a rule keeps float).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.lower.shared import share_constants
from lowbit.lower.signed import signed
from lowbit.ops.q_elementwise import data_of_link, link, requantize_call, table_call
from lowbit.ops.quant import (
    QUANTIZABLE,
    Arg,
    Const,
    DynamicOperands,
    FloatOperand,
    NotLowered,
    OpCall,
    Operand,
    Operands,
    Outputs,
    QuantSpec,
    Ref,
    Result,
    RowsOperand,
    WeightsOnly,
    is_clamp,
)
from lowbit.quant_params import QUANT_DTYPES, PerAxis, PerBlock, PerTensor, QuantParams, quantize, requantize
from lowbit.types import Array

BRACKETS = ("quantize_linear", "dequantize_linear", "quantize_rows", "dequantize_rows")


def quantized_nodes(graph: Graph) -> list[Node]:
    """The nodes that only quantization makes: brackets, and integer ops."""
    return [n for n in graph.nodes if n.op in BRACKETS or n.op == "requantize" or n.op.startswith("q_")]


@dataclass(frozen=True)
class Island:
    """A node that stays float next to integers, and the reason."""

    layer: str
    op: str
    because: str


@dataclass(frozen=True)
class Lowered:
    """The integer graph, its float nodes, and its weight-only nodes (integer weights, float arithmetic)."""

    graph: Graph
    islands: tuple[Island, ...]
    weights_only: tuple[Island, ...] = ()


def lower(graph: Graph) -> Lowered:
    """The integer graph of a Q/DQ graph: the same meaning up to the rounding that the brackets allow (off by at most one).

    uint8 is computed as int8, with every code less by 128. Inputs and outputs stay uint8.
    """
    editor = Editor(signed(graph))
    islands, weights_only = [], []
    for node in editor.nodes():
        if node.op in BRACKETS:
            continue
        try:
            _lower_node(editor, node)
        except WeightsOnly as e:
            weights_only.append(Island(node.name or node.output.name, node.op, e.because))
        except NotLowered as e:
            if _touches_integers(editor, node):
                islands.append(Island(node.name or node.output.name, node.op, e.because))
    for node in editor.nodes():
        if node.op == "quantize_linear":
            _lower_boundary(editor, node)
        elif node.op == "cast" and node.inputs[0] is not None and node.inputs[0].type == node.output.type:
            editor.replace(node.output, node.inputs[0])  # it kept a layer float, as its rule says, and is not needed any more
    return Lowered(share_constants(editor.done()), tuple(islands), tuple(weights_only))


def _lower_node(editor: Editor, node: Node) -> None:
    if _lower_chain(editor, node):
        return
    entry = QUANTIZABLE.get(node.op)
    if entry is None:
        raise NotLowered(f"{node.op} has no integer form")
    operands = bracketed_operands(editor, node)
    unfit = None if entry.unfit is None else entry.unfit(tuple(v is not None for v in node.inputs), **node.attrs)
    if unfit is not None and not _weights_only(entry.spec, operands):
        raise NotLowered(unfit)
    if any(isinstance(o, RowsOperand) for o in operands):
        if entry.dynamic is None:
            raise NotLowered("it has no integer form for rows that are quantized at run time")
        lower = entry.dynamic
    else:
        check_quantized(entry.spec, operands)
        if entry.lower is None and len(node.outputs) > 1:
            _lower_split(editor, node, operands)
            return
        lower = entry.lower or _same_as(node)
    if lower is entry.dynamic:  # the scales of its result are known at run time only: it is float, and a quantize after it stays
        target, result = node.output, Result(node.output.type, None)
    else:
        target, result = find_result(editor, node, entry.spec.fuses_clip)
    made = lower(operands, result, **node.attrs) or _same_as(node)(operands, result, **node.attrs)
    if isinstance(made, Outputs):
        _emit_outputs(editor, node, made)
    else:
        editor.replace(target, emit(editor, made, node, target.name), inherit=True)


def _lower_chain(editor: Editor, node: Node) -> bool:
    """A chain of functions of one 8-bit value becomes one table: of integers before a quantize, else of reals."""
    at = _link(editor, node)
    x = None if at is None else operand(editor, node.inputs[at])
    if at is None or not isinstance(x, Operand) or x.data is not None or x.params.dtype.bits != 8 or x.params.scale.ndim:
        return False
    chain = [node]
    while (user := editor.only_user(chain[-1].output)) is not None and _link(editor, user) is not None:
        chain.append(user)
    if len(chain) < 2:
        return False
    target, result = chain[-1].output, Result(chain[-1].output.type, None)
    params = bracket_params(editor, user) if user is not None and user.op == "quantize_linear" else None
    if user is not None and params is not None:
        if params.dtype.bits != 8 or params.scale.ndim:
            return False
        target, result = user.output, Result(chain[-1].output.type, params, *params.code_range)

    def together(reals: Array) -> Array:
        for n in chain:
            reals = link(n.op, n.attrs, _numbers(editor, n))(reals)
        return reals

    made = emit(editor, table_call(x, result, together), node, target.name, (integers(editor, node, at),))
    editor.replace(target, made, inherit=True)
    return True


def _link(editor: Editor, node: Node) -> int | None:
    return data_of_link(node.op, _numbers(editor, node))


def _numbers(editor: Editor, node: Node) -> list[Array | None]:
    """The float constants among the inputs."""
    return [None if v is None or not v.type.dtype.is_float else editor.constant_data(v) for v in node.inputs]


def check_quantized(spec: QuantSpec, operands: DynamicOperands) -> None:
    """Raises NotLowered unless every input that the spec names is quantized; WeightsOnly if just the weights are."""
    floats = [i for i in spec.positions(len(operands)) if not isinstance(operands[i], Operand)]
    if not floats:
        return
    if (weights := _weights_only(spec, operands)) is not None:
        raise WeightsOnly(f"weights only: stored as {weights.params.dtype}, multiplied as floats")
    raise NotLowered(f"its input {floats[0]} is not quantized")


def _weights_only(spec: QuantSpec, operands: DynamicOperands) -> Operand | None:
    """The weight, if constant weights are the only quantized operands."""
    found = {i: o for i in spec.channel_axis if i < len(operands) and isinstance(o := operands[i], Operand) and o.data is not None}
    others = [operands[i] for i in spec.positions(len(operands)) if i not in found]
    return next(iter(found.values())) if found and all(isinstance(o, FloatOperand | None) for o in others) else None


def _same_as(node: Node) -> Callable[..., OpCall]:
    return lambda operands, result, **_: _same(node, operands, result)


def bracketed_operands(editor: Editor, node: Node) -> DynamicOperands:
    """The inputs of a node as `lower` sees them."""
    return tuple(operand(editor, v) for v in node.inputs)


def operand(editor: Editor, value: Value | None) -> Operand | RowsOperand | FloatOperand | None:
    """An input as `lower` sees it: quantized if a dequantize with constant parameters, or by rows, stands before it."""
    if value is None:
        return None
    node = editor.producer(value)
    if node is not None and node.op == "dequantize_rows":
        return RowsOperand(value.type)
    if node is not None and node.op == "dequantize_linear" and node.inputs[0] is not None:
        params = bracket_params(editor, node)
        if params is not None:
            return Operand(node.inputs[0].type, params, editor.constant_data(node.inputs[0]))
    return FloatOperand(value.type, editor.constant_data(value))


def integers(editor: Editor, node: Node, index: int) -> Value:
    """The integers that input `index` is dequantized from (the value itself if it is float)."""
    value = node.inputs[index]
    assert value is not None
    before = editor.producer(value)
    if before is None or not isinstance(operand(editor, value), Operand | RowsOperand):
        return value
    assert before.inputs[0] is not None
    return before.inputs[0]


def referred(editor: Editor, node: Node, ref: Ref) -> Value:
    """The part of an input that a Ref names."""
    value = node.inputs[ref.index]
    assert value is not None
    if ref.what == "integers":
        return integers(editor, node, ref.index)
    if ref.what == "scale":
        before = editor.producer(value)
        assert before is not None and before.inputs[1] is not None
        return before.inputs[1]
    return value


def bracket_params(editor: Editor, node: Node) -> QuantParams | None:
    """The parameters of a quantize or dequantize node, if they are constants of an integer type that QuantParams can name."""
    scale, zero = editor.constant_data(node.input(1)), editor.constant_data(node.input(2))
    data = node.inputs[0] if node.op == "dequantize_linear" else node.output
    assert data is not None
    if (
        scale is None
        or (zero is None and node.input(2) is not None)
        or data.type.dtype.name not in QUANT_DTYPES
        or scale.dtype != np.float32
    ):
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
    """The value that the integers represent, and their parameters: follows the only use to a quantize, past a clamp."""
    clips = [node] if is_clamp(node.op) else []
    end = node
    user = editor.only_user(end.output)
    if user is not None and is_clamp(user.op) and fuses_clip:
        clips.append(user)
        end, user = user, editor.only_user(user.output)
    params = bracket_params(editor, user) if user is not None and user.op == "quantize_linear" else None
    if params is None or user is None:
        return node.output, Result(node.output.type, None)  # float, and the clamp after it stays
    lo, hi = params.code_range
    for clip in clips:
        low, high = clip_bounds(clip)
        if low is not None:
            lo = max(lo, int(quantize(np.float32(low), params).max()))
        if high is not None:
            hi = min(hi, int(quantize(np.float32(high), params).min()))
    return user.output, Result(node.output.type, params, lo, hi)


def clip_bounds(node: Node) -> tuple[float | None, float | None]:
    bounds = QUANTIZABLE[node.op].bounds
    assert bounds is not None
    return bounds(**node.attrs)


def _same(node: Node, operands: Operands, result: Result) -> OpCall:
    """The same op on integers. Inputs with other parameters than the result are requantized first, constants at once.

    If the result stays float but all inputs have the same parameters, the integers are moved and dequantized afterwards.
    """
    entry = QUANTIZABLE[node.op]
    sides = {i: o for i in entry.spec.positions(len(operands)) if isinstance(o := operands[i], Operand)}
    for o in sides.values():
        o.per_tensor("input")
    params = result.params
    if params is None:
        first, *others = sides.values()
        if any(o.params != first.params for o in others):
            raise NotLowered("its result stays float")
        params = first.params
    target = Result(result.type, params, *params.code_range)
    target.per_tensor()
    args: list[Arg] = []
    for i, o in enumerate(operands):
        if i not in sides or sides[i].params == params:
            args.append(None if o is None else Ref(i))
        elif (data := sides[i].data) is not None:
            args.append(Const(requantize(data, sides[i].params, params), f"{i}", params.dtype.name))
        else:
            args.append(requantize_call(Ref(i), sides[i], target))
    attrs = node.attrs if entry.integer_attrs is None else entry.integer_attrs(params, **node.attrs)
    call = OpCall(node.op, tuple(args), attrs)
    return call if result.params is not None or not result.type.dtype.is_float else dequantize_call(call, params)


def dequantize_call(arg: Arg, params: QuantParams) -> OpCall:
    """The reals of integers."""
    scale = Const(np.asarray(params.scale), "scale")
    zero = Const(params.zero_point.astype(params.dtype.numpy), "zero", params.dtype.name)
    return OpCall("dequantize_linear", (arg, scale, zero), {"axis": 0, "block_size": 0})


def _lower_split(editor: Editor, node: Node, operands: DynamicOperands) -> None:
    """A node with several outputs on integers: reals get the input's parameters, or are requantized after; indices stay."""
    x, entry = operands[0], QUANTIZABLE[node.op]
    if entry.spec.output != "same" or not isinstance(x, Operand):
        raise NotLowered(f"{node.op} has no integer form")
    x.per_tensor("input")
    reals = [o for o in node.outputs if o.type.dtype.is_float and (editor.users(o) or editor.is_output(o))]
    targets = {o.name: find_result(editor, _with_output(node, o), False) for o in reals}
    inputs = [integers(editor, node, 0), *node.inputs[1:]]
    attrs: dict[str, Any] = dict(node.attrs if entry.integer_attrs is None else entry.integer_attrs(x.params, **node.attrs))
    parts = editor.add_node(node.op, *inputs, name=node.name, **attrs)
    for old, part in zip(node.outputs, parts, strict=True):
        if not old.type.dtype.is_float:
            editor.replace(old, part, inherit=True)
        elif old.name in targets:
            target, result = targets[old.name]
            editor.replace(target, _brought(editor, part, x, result, node), inherit=True)


def _brought(editor: Editor, part: Value, x: Operand, result: Result, node: Node) -> Value:
    """Integers with the parameters of `x` in the form of the result: unchanged, requantized, or dequantized."""
    if result.params == x.params:
        return part
    call = dequantize_call(Ref(0), x.params) if result.params is None else requantize_call(Ref(0), x, result)
    return emit(editor, call, node, part.name, (part,))


def _with_output(node: Node, output: Value) -> Node:
    return Node(node.op, node.inputs, node.attrs, node.name, (output,))


def emit(editor: Editor, call: OpCall, node: Node, out: str, operands: tuple[Value, ...] | None = None) -> Value:
    """The result of `emit_all` if there is exactly one."""
    return emit_all(editor, call, node, out, operands)[0]


def emit_all(editor: Editor, call: OpCall, node: Node, out: str, operands: tuple[Value, ...] | None = None) -> tuple[Value, ...]:
    """The nodes of a call; constants are named after the layer. Its Refs are `operands`, or the integers of the node's inputs."""

    def arg(a: Arg) -> Value | None:
        if isinstance(a, Ref):
            return referred(editor, node, a) if operands is None else operands[a.index]
        if isinstance(a, Const):
            return editor.constant(a.data, name=f"{node.name or out}:{a.name}", dtype=a.dtype)
        return None if a is None else editor.add(a.op, *map(arg, a.args), name=node.name, **a.attrs)

    return editor.add_node(call.op, *map(arg, call.args), name=node.name, outputs=(out,), **call.attrs)


def _emit_outputs(editor: Editor, node: Node, made: Outputs) -> None:
    """Replaces the node by the call, with a dequantize after each result. A dequantize before a quantize is lowered later."""
    parts = emit_all(editor, made.call, node, node.output.name)
    for old, part, params in zip(node.outputs, parts, made.params, strict=True):
        if editor.users(old) or editor.is_output(old):
            real = part if params is None else emit(editor, dequantize_call(Ref(0), params), node, old.name, (part,))
            editor.replace(old, real, inherit=True)


def _lower_boundary(editor: Editor, node: Node) -> None:
    """dequantize → quantize with nothing between is a requantize, or nothing. Constants and tables are quantized themselves."""
    x, params = operand(editor, node.inputs[0]), bracket_params(editor, node)
    made = editor.producer(node.inputs[0])
    if made is not None and made.op == "fill" and params is not None and isinstance(params.granularity, PerTensor):
        code = int(quantize(np.float32(made.attrs["value"]), params))  # type: ignore[arg-type]
        ints = editor.add("fill", out=node.output.name, shape=made.attrs["shape"], value=float(code), dtype=params.dtype.name)
        editor.replace(node.output, ints, inherit=True)
        return
    if made is not None and made.op == "channel_table" and params is not None and isinstance(params.granularity, PerTensor):
        if (entries := editor.constant_data(made.inputs[1])) is not None:
            table = editor.constant(quantize(entries, params), name=f"{node.output.name}.table", dtype=params.dtype)
            ints = editor.add("channel_table", made.inputs[0], table, name=made.name, out=node.output.name, axis=made.attrs["axis"])
            editor.replace(node.output, ints, inherit=True)
        return
    if not isinstance(x, Operand) or params is None or x.data is not None:
        return
    lo, hi = params.code_range
    try:
        call = requantize_call(Ref(0), x, Result(node.output.type, params, lo, hi))
    except NotLowered:
        return
    ints = integers(editor, node, 0) if x.params == params else emit(editor, call, node, node.output.name)
    editor.replace(node.output, ints, inherit=editor.producer(ints) is not None)


def _touches_integers(editor: Editor, node: Node) -> bool:
    """Whether a float node is next to quantized values: only then it is reported. A node without inputs is a constant."""
    if not node.inputs:
        return False
    before = any(isinstance(operand(editor, v), Operand) for v in node.inputs)
    return before or any(u.op == "quantize_linear" for o in node.outputs for u in editor.users(o))
