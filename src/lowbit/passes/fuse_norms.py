"""Makes one op of layer norm, RMS norm, group norm and softmax that exporters write out as means, roots and divisions.

In two steps that meet in any order of scale and bias: the core (x - mean) / √(var + eps) becomes a norm without them, then a
multiplication or addition of a constant after a norm becomes its scale or bias. Scales that are multiplied into 1 / √(var + eps), as JAX,
TensorFlow and Keras write them, are found with the core. A norm over axes that are not the last ones stands between two transposes.

E[x²] - E[x]² loses digits where the mean is far from 0; the norm that it becomes does not.

exp(x) / Σ exp(x) is NaN where exp(x) overflows (from x = 89 on in float32); the softmax that it becomes is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dims import product
from lowbit.errors import LowbitError
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.ops import get_op
from lowbit.passes.attrs import axes, axis, ints, options
from lowbit.passes.fold_affine import per_channel
from lowbit.passes.match import Const, Match, Num, Pattern, Var, close, either, layer_name, match, op, same_shape, swallows, times
from lowbit.types import TensorType

X = Var("x")
SCALE, BIAS = Const("scale"), Const("bias")


def _square(x: Pattern) -> Pattern:
    return either(op("pow", x, Num(2.0)), op("mul", x, x))


def _mean(x: Pattern, name: str) -> Pattern:
    """The mean over axes: as itself, or as a sum times a number that must be 1/count."""
    return either(op("reduce_mean", x, name=name, keepdims=True), times(f"1/{name}", op("reduce_sum", x, name=name, keepdims=True)))


def _root(variance: Pattern) -> Pattern:
    """√(variance + eps)."""
    inside = op("add", variance, Num("eps"))
    return either(op("sqrt", inside), op("pow", inside, Num(0.5)))


def _inverse(variance: Pattern) -> Pattern:
    """1 / √(variance + eps)."""
    root = _root(variance)
    return either(op("reciprocal", root), op("div", Num(1.0), root), op("pow", op("add", variance, Num("eps")), Num(-0.5)))


def _factor(variance: Pattern) -> Pattern:
    """1 / √(variance + eps), or scale / √(variance + eps)."""
    inverse = _inverse(variance)
    return either(inverse, op("mul", inverse, SCALE), op("div", SCALE, _root(variance)))


def _normalized(x: Pattern, variance: Pattern) -> Pattern:
    """x / √(variance + eps), with or without a scale, in the spellings of exporters."""
    scaled, root = op("mul", x, SCALE), _root(variance)
    return either(op("div", x, root), op("mul", x, _factor(variance)), op("div", scaled, root), op("mul", scaled, _inverse(variance)))


MEAN = _mean(X, "mean")
DIFFERENCE = op("sub", X, MEAN)
ONE_PASS = op("sub", _mean(_square(X), "var"), _square(MEAN))  # E[x²] - E[x]², which JAX and Keras 3 write; max(…, 0) is a relu by now
VARIANCE = either(_mean(_square(DIFFERENCE), "var"), op("relu", ONE_PASS), ONE_PASS)
FACTOR = _factor(VARIANCE)
SCALED_MEAN = op("mul", MEAN, FACTOR)
LAYER = either(
    _normalized(DIFFERENCE, VARIANCE),
    op("sub", op("mul", X, FACTOR), SCALED_MEAN),
    op("add", op("mul", X, FACTOR), either(op("sub", BIAS, SCALED_MEAN), times(-1.0, MEAN, FACTOR))),  # TensorFlow
    op("add", op("mul", X, FACTOR), op("add", BIAS, times(-1.0, MEAN, FACTOR))),  # Keras 3
)
RMS = _normalized(X, _mean(_square(X), "var"))
EXP = op("exp", op("sub", X, op("reduce_max", X, keepdims=True, name="mean")))


def _softmax(e: Pattern) -> Pattern:
    total = op("reduce_sum", e, keepdims=True, name="var")
    return either(op("div", e, total), op("mul", e, either(op("reciprocal", total), op("div", Num(1.0), total))))


SOFTMAX = either(_softmax(EXP), _softmax(op("exp", X)))
LOG_SOFTMAX = op("sub", X, op("reduce_log_sum_exp", X, keepdims=True, name="var"))


def fuse_norms(graph: Graph) -> Graph:
    """The graph with layer, RMS, group norm and softmax as one op each, constant scales and biases inside."""
    return rewrite(graph, _fuse, "div", "mul", "add", "sub", "reshape")


def _fuse(editor: Editor, node: Node) -> None:
    if node.op == "reshape":
        _group_norm(editor, node)
    elif not _core(editor, node) and node.op in ("mul", "add"):
        _scale_or_bias(editor, node)


CORES: tuple[tuple[str, Pattern, tuple[str, ...]], ...] = (
    ("layer_norm", LAYER, ("div", "mul", "add", "sub")),
    ("rms_norm", RMS, ("div", "mul")),
    ("softmax", SOFTMAX, ("div", "mul")),
    ("log_softmax", LOG_SOFTMAX, ("sub",)),
)


def _core(editor: Editor, node: Node) -> bool:
    for made, pattern, roots in CORES:
        if node.op not in roots:
            continue
        found = match(editor, node, pattern)
        over = _axes(found) if found is not None else None
        if found is None or over is None:
            continue
        x = found["x"]
        if made in ("softmax", "log_softmax"):
            if len(over) == 1 and editor.become(node, made, x, name=found.layer, axis=over[0]):
                return True
            continue
        if _norm(editor, node, made, found, over):
            return True
    return False


def _norm(editor: Editor, node: Node, made: str, found: Match, over: tuple[int, ...]) -> bool:
    """Makes the node a norm over these axes. Axes that are not the last ones are moved there and back."""
    x, rank = found["x"], found["x"].type.rank
    perm = (*(a for a in range(rank) if a not in over), *over)
    first, moved = rank - len(over), perm != tuple(range(rank))
    fitted = {
        n: _tail(editor, _moved(editor, found[n], perm) if moved else found[n], x, first) for n in ("scale", "bias") if n in found.values
    }
    if x.type != node.output.type or None in fitted.values():
        return False
    inputs = (x, fitted.get("scale"), fitted.get("bias"))
    attrs: dict[str, Any] = {"axis": first, "eps": _eps(found)}
    if not moved:
        return editor.become(node, made, *inputs, name=found.layer, **attrs) is not None
    if not _legal(editor, made, (Value(x.name, TensorType([x.shape[a] for a in perm], x.type.dtype)), *inputs[1:]), attrs):
        return False
    last = editor.add("transpose", x, name=found.layer, perm=perm)
    y = editor.add(made, last, *inputs[1:], name=found.layer, **attrs)
    return editor.become(node, "transpose", y, name=found.layer, perm=_inverse_of(perm)) is not None


def _legal(editor: Editor, op: str, inputs: tuple[Value | None, ...], attrs: dict[str, Any]) -> bool:
    """Whether a node of this op can stand on these inputs and gives the type of the first."""
    definition = get_op(op)
    while inputs[-1] is None:
        inputs = inputs[:-1]
    try:
        complete = definition.signature.complete(op, len(inputs), attrs)
        types = definition.infer_types([v.type if v is not None else None for v in inputs], complete)
    except LowbitError:
        return False
    return inputs[0] is not None and types == (inputs[0].type,)


def _inverse_of(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(perm.index(a) for a in range(len(perm)))


def _moved(editor: Editor, constant: Value, perm: tuple[int, ...]) -> Value:
    """The constant that broadcasts against a transposed tensor as this one does against the tensor itself."""
    data = editor.constant_data(constant)
    assert data is not None
    if data.size == 1 or data.ndim > len(perm):
        return constant
    whole = data.reshape((1,) * (len(perm) - data.ndim) + data.shape)
    return editor.constant(np.ascontiguousarray(whole.transpose(perm)), name=constant.name)


def _eps(found: Match) -> float:
    """The number that was meant before it was stored as float32: 1e-05, not 9.99999975e-06."""
    eps = found.numbers["eps"]
    return float(str(np.float32(eps))) if eps == np.float32(eps) else eps


def _axes(found: Match) -> tuple[int, ...] | None:
    """The axes that every reduction of the match goes over; None when they differ, or a sum is not divided by its count."""
    x = found["x"]
    all_axes: set[tuple[int, ...]] = set()
    for name, node in found.named.items():
        over = tuple(sorted(axes(node)))
        all_axes.add(over)
        share = found.numbers.get(f"1/{name}")
        if share is not None:
            count = product(x.shape[a] for a in over)
            if not isinstance(count, int) or not close(share * count, 1.0):
                return None
    return all_axes.pop() if len(all_axes) == 1 and () not in all_axes else None


NORMS = ("layer_norm", "rms_norm", "group_norm", "instance_norm")


def _scale_or_bias(editor: Editor, node: Node) -> None:
    for value, constant in (node.inputs, node.inputs[::-1]):
        before = editor.producer(value)
        turn = before if before is not None and before.op == "transpose" else None
        norm = editor.producer(turn.inputs[0]) if turn is not None else before
        data = editor.constant_data(constant)
        covered = (node, *((turn,) if turn is not None else ()), *((norm,) if norm is not None else ()))
        if norm is None or norm.op not in NORMS or data is None or constant is None or not swallows(editor, covered):
            continue
        if turn is not None:
            if data.ndim > norm.output.type.rank:
                continue
            constant = _moved(editor, constant, _inverse_of(ints(turn, "perm")))
        made = _with_affine(editor, node.op, norm, constant)
        if made is None or not _legal(editor, *made) or node.output.type != value.type:  # type: ignore[union-attr]
            continue
        op, inputs, attrs = made
        name = layer_name(covered)
        if turn is None:
            editor.become(node, op, *inputs, name=name, **attrs)
        else:
            y = editor.add(op, *inputs, name=name, **attrs)
            editor.become(node, "transpose", y, name=name, perm=turn.attrs["perm"])
        return


def _with_affine(editor: Editor, by: str, norm: Node, constant: Value) -> tuple[str, tuple[Value | None, ...], dict[str, Any]] | None:
    """The norm (op, inputs, attributes) multiplied by the constant, or with it added (`by`); None where the op cannot hold it."""
    value, made, attrs = norm.output, norm.op, options(norm)
    x, scale, bias = norm.input(0), norm.input(1), norm.input(2)
    if norm.op == "instance_norm":
        return _affine_instance(editor, by, norm, constant)
    if bias is not None or (by == "mul" and scale is not None) or (by == "add" and norm.op == "rms_norm"):
        return None
    if norm.op == "group_norm":
        fitted = _vector(editor, constant, value)
    else:
        fitted = _tail(editor, constant, value, axis(norm))
        if fitted is None and norm.op == "layer_norm" and axis(norm) == 2 and scale is None and value.type.rank > 2:
            fitted, made, attrs = _vector(editor, constant, value), "instance_norm", {"eps": norm.attrs["eps"]}
    if fitted is None:
        return None
    scale, bias = (fitted, bias) if by == "mul" else (scale, fitted)
    if made == "instance_norm":
        stem, dtype = norm.name or norm.output.name, value.type.dtype.numpy
        scale = scale or editor.constant(np.ones(fitted.shape, dtype), name=f"{stem}.scale")
        bias = bias or editor.constant(np.zeros(fitted.shape, dtype), name=f"{stem}.bias")
    return made, (x, scale) if made == "rms_norm" else (x, scale, bias), attrs


def _affine_instance(editor: Editor, by: str, norm: Node, constant: Value) -> tuple[str, tuple[Value | None, ...], dict[str, Any]] | None:
    """instance_norm always has a scale and a bias: the constant is worked into them."""
    x, scale, bias = norm.inputs
    c = per_channel(editor.constant_data(constant), norm.output, 1)  # type: ignore[arg-type]
    s, b = editor.constant_data(scale), editor.constant_data(bias)
    if c is None or s is None or b is None:
        return None
    stem = norm.name or norm.output.name
    new_s, new_b = (s * c, b * c) if by == "mul" else (s, b + c)
    inputs = [editor.constant(np.asarray(d).astype(s.dtype), name=f"{stem}.{n}") for n, d in (("scale", new_s), ("bias", new_b))]
    return "instance_norm", (x, *inputs), options(norm)


def _tail(editor: Editor, constant: Value, value: Value, first: int) -> Value | None:
    """The constant within the normalized axes: without leading axes along which it repeats; None when it varies outside them."""
    data = editor.constant_data(constant)
    assert data is not None
    tail = value.type.rank - first
    if data.ndim <= tail:
        return constant
    once = data[(0,) * (data.ndim - tail)] if data.size else data
    if data.size == 0 or (data != once).any():
        return None
    return editor.constant(once.copy(), name=constant.name)


def _vector(editor: Editor, constant: Value, value: Value) -> Value | None:
    """The constant as a vector over the channels; None when it is not per channel."""
    data = editor.constant_data(constant)
    assert data is not None
    c = per_channel(data, value, 1)
    return None if c is None else editor.constant(c.astype(data.dtype), name=constant.name)


GROUPED = op("reshape", op("instance_norm", op("reshape", X, name="grouped"), Const("scale"), Const("bias"), name="norm"))
GROUPED_LAYER = op("reshape", op("layer_norm", op("reshape", X, name="grouped"), name="norm"))


def _group_norm(editor: Editor, node: Node) -> None:
    """(N, C, …) seen as (N, G, rest), each group standardized, and seen as (N, C, …) again."""
    found = match(editor, node, GROUPED) or match(editor, node, GROUPED_LAYER)
    if found is None:
        return
    x, grouped, norm = found["x"], found.named["grouped"].output, found.named["norm"]
    if x.type.rank < 3 or grouped.type.rank < 3 or not same_shape(x.shape, node.output.shape) or x.shape[0] != grouped.shape[0]:
        return
    if norm.op == "instance_norm":
        scale, bias = (editor.constant_data(found[n]) for n in ("scale", "bias"))
        if scale is None or bias is None or (scale != 1).any() or (bias != 0).any():
            return
    elif axis(norm) != 2:
        return
    groups = grouped.shape[1]
    channels = x.shape[1]
    if not isinstance(groups, int) or not isinstance(channels, int) or channels % groups:
        return
    editor.become(node, "group_norm", x, name=found.layer, groups=groups, eps=norm.attrs["eps"])
