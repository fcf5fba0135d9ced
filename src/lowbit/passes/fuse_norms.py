"""Makes one op of layer norm, RMS norm, group norm and softmax that exporters write out as means, roots and divisions.

In two steps that meet in any order of scale and bias: the core (x - mean) / √(var + eps) becomes a norm without them, then a
multiplication or addition of a constant behind a norm becomes its scale or bias.

exp(x) / Σ exp(x) is NaN where exp(x) overflows (from x = 89 on in float32); the softmax that it becomes is not.
"""

from __future__ import annotations

import numpy as np

from lowbit.dims import product
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import axes, axis, options
from lowbit.passes.fold_affine import per_channel
from lowbit.passes.match import Const, Match, Num, Pattern, Var, close, either, layer_name, match, op, same_shape, swallows, times

X = Var("x")


def _square(x: Pattern) -> Pattern:
    return either(op("pow", x, Num(2.0)), op("mul", x, x))


def _root(variance: Pattern) -> Pattern:
    return op("sqrt", op("add", variance, Num("eps")))


def _normalized(x: Pattern, variance: Pattern) -> Pattern:
    """x / √(variance + eps), in the spellings of exporters."""
    root = _root(variance)
    return either(
        op("div", x, root),
        op("mul", x, op("reciprocal", root)),
        op("mul", x, op("div", Num(1.0), root)),
        op("mul", x, op("pow", op("add", variance, Num("eps")), Num(-0.5))),
        op("div", x, op("pow", op("add", variance, Num("eps")), Num(0.5))),
    )


def _mean(x: Pattern, name: str) -> Pattern:
    """The mean over axes: as itself, or as a sum times a number that must be 1/count."""
    return either(op("reduce_mean", x, name=name, keepdims=True), times(f"1/{name}", op("reduce_sum", x, name=name, keepdims=True)))


DIFFERENCE = op("sub", X, _mean(X, "mean"))
LAYER = _normalized(DIFFERENCE, _mean(_square(DIFFERENCE), "var"))
RMS = _normalized(X, _mean(_square(X), "var"))
VARIANCE = _mean(_square(DIFFERENCE), "var")
# TensorFlow's: x * r + (bias - mean * r) with r = scale / √(var + eps)
FACTOR = op("mul", either(op("reciprocal", _root(VARIANCE)), op("div", Num(1.0), _root(VARIANCE))), Const("scale"))
LAYER_BY_FACTOR = op("add", op("mul", X, FACTOR), op("sub", Const("bias"), op("mul", _mean(X, "mean"), FACTOR)))
EXP = op("exp", op("sub", X, op("reduce_max", X, keepdims=True, name="mean")))
SOFTMAX = either(*(op("div", e, op("reduce_sum", e, keepdims=True, name="var")) for e in (EXP, op("exp", X))))


def fuse_norms(graph: Graph) -> Graph:
    """The graph with layer, RMS, group norm and softmax as one op each, constant scales and biases inside."""
    return rewrite(graph, _fuse, "div", "mul", "add", "reshape")


def _fuse(editor: Editor, node: Node) -> None:
    if node.op in ("div", "mul") and (_core(editor, node) or node.op == "div"):
        return
    if node.op == "reshape":
        _group_norm(editor, node)
    elif node.op == "mul" or not _by_factor(editor, node):
        _scale_or_bias(editor, node)


def _by_factor(editor: Editor, node: Node) -> bool:
    found = match(editor, node, LAYER_BY_FACTOR)
    over = _axes(found) if found is not None else None
    if found is None or over is None or over != tuple(range(over[0], found["x"].type.rank)):
        return False
    scale, bias = (_tail(editor, found[n], found["x"], over[0]) for n in ("scale", "bias"))
    if scale is None or bias is None:
        return False
    attrs = {"axis": over[0], "eps": _eps(found)}
    return editor.become(node, "layer_norm", found["x"], scale, bias, name=found.layer, **attrs) is not None


def _core(editor: Editor, node: Node) -> bool:
    for made, pattern in (("layer_norm", LAYER), ("rms_norm", RMS), ("softmax", SOFTMAX)):
        if made == "softmax" and node.op != "div":
            continue
        found = match(editor, node, pattern)
        over = _axes(found) if found is not None else None
        if found is None or over is None:
            continue
        x = found["x"]
        if made == "softmax":
            if len(over) == 1 and editor.become(node, made, x, name=found.layer, axis=over[0]):
                return True
            continue
        if over != tuple(range(over[0], x.type.rank)):
            continue  # not the last axes: no op of ours
        if editor.become(node, made, x, name=found.layer, axis=over[0], eps=_eps(found)) is not None:
            return True
    return False


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
        norm = editor.producer(value)
        data = editor.constant_data(constant)
        if norm is None or norm.op not in NORMS or data is None or constant is None or value is None or not swallows(editor, (node, norm)):
            continue
        x, scale, bias = norm.input(0), norm.input(1), norm.input(2)
        if norm.op == "instance_norm":
            _affine_instance(editor, node, norm, value, constant)
            return
        if bias is not None or (node.op == "mul" and scale is not None) or (node.op == "add" and norm.op == "rms_norm"):
            continue
        made = norm.op
        attrs = options(norm)
        if norm.op == "group_norm":
            fitted = _vector(editor, constant, value)
        else:
            fitted = _tail(editor, constant, value, axis(norm))
            if fitted is None and norm.op == "layer_norm" and axis(norm) == 2 and scale is None and value.type.rank > 2:
                fitted, made, attrs = _vector(editor, constant, value), "instance_norm", {"eps": norm.attrs["eps"]}
        if fitted is None:
            continue
        dtype = value.type.dtype.numpy
        if node.op == "mul":
            scale = fitted
        else:
            bias = fitted
        if made == "instance_norm":
            stem = norm.name or norm.output.name
            scale = scale or editor.constant(np.ones(fitted.shape, dtype), name=f"{stem}.scale")
            bias = bias or editor.constant(np.zeros(fitted.shape, dtype), name=f"{stem}.bias")
        inputs = (x, scale) if made == "rms_norm" else (x, scale, bias)
        if editor.become(node, made, *inputs, name=layer_name((node, norm)), **attrs) is not None:
            return


def _affine_instance(editor: Editor, node: Node, norm: Node, value: Value, constant: Value) -> None:
    """instance_norm always has a scale and a bias: the constant is worked into them."""
    x, scale, bias = norm.inputs
    c = per_channel(editor.constant_data(constant), value, 1) if value.type == node.output.type else None  # type: ignore[arg-type]
    s, b = editor.constant_data(scale), editor.constant_data(bias)
    if c is None or s is None or b is None or scale is None or bias is None:
        return
    stem = norm.name or norm.output.name
    new_s, new_b = (s * c, b * c) if node.op == "mul" else (s, b + c)
    inputs = [editor.constant(np.asarray(d).astype(s.dtype), name=f"{stem}.{n}") for n, d in (("scale", new_s), ("bias", new_b))]
    editor.become(node, "instance_norm", x, *inputs, name=layer_name((node, norm)), **options(norm))


def _tail(editor: Editor, constant: Value, value: Value, first: int) -> Value | None:
    """The constant with leading 1s taken off so that it lies in the normalized axes; None when it varies outside them."""
    data = editor.constant_data(constant)
    assert data is not None
    tail = value.type.rank - first
    if data.ndim <= tail:
        return constant
    if any(d != 1 for d in data.shape[:-tail]):
        return None
    return editor.constant(data.reshape(data.shape[-tail:]), name=constant.name)


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
