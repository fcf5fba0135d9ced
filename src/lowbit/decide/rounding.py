"""Weights rounded so that their errors cancel in the layer's output, and biases that take up the rest, on real inputs.

Rounding each weight to the nearest integer makes the least error of the weights, not of the output: a layer's inputs are correlated (after
a ReLU all of them are positive), and so the errors of a row add up. Here the columns of a row are rounded one after another and the
error of each is made good by those that are not rounded yet, as the inputs' second moments H tell (optimal brain surgery, as in GPTQ):

    e = (w_j - q_j·s) / U_jj,   w_k -= e·U_jk for k > j,   U the upper Cholesky factor of H⁻¹

Scales may shrink first, where clipping a row's largest weights costs less than the finer steps gain (in few bits it does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.decide.brackets import Both, Env
from lowbit.decide.samples import Sample
from lowbit.decide.weights import COLUMNS, Layer, columns, rows, unrows, weighted_layers
from lowbit.ir.graph import Constant, Graph, freeze
from lowbit.ir.interp import run_node
from lowbit.ops.quant import QUANTIZABLE
from lowbit.quant_params import code_range
from lowbit.types import Array

F64 = NDArray[np.float64]
WIDEST = 1152  # inputs whose errors are made good together: the cost is their third power
BLOCK = 32
ROWS = 128  # that are rounded at a time: their floats fit the cache, and a large layer takes no more memory than they
DAMPING = 0.01
LARGE = 2.0**50  # of an input: sums of squares beyond it come near the end of float32


def better_weights(
    graph: Graph,
    quantized: Graph,
    samples: Sequence[Sample],
    *,
    rounding: bool = True,
    clip: bool = False,
    biases: bool = True,
    leave: frozenset[str] = frozenset(),
    each: Callable[[str], None] | None = None,
) -> Graph:
    """The Q/DQ graph with other integers for weights (and with `clip` other scales) and biases, of the same types.

    The samples go through the quantized and the float graph side by side, layer by layer: a layer is rounded for the inputs that the
    layers before it really give, and its bias takes up the mean error that is left. Layers whose results are in `leave` stay as they are.
    `each` is told every layer done.
    """
    if not samples:
        return quantized
    both = Both.start(graph, quantized, samples)
    layers = {k: layer for layer in weighted_layers(graph, quantized) if (k := layer.node.output.name) not in leave}
    changed: dict[str, Array] = {}
    for i, node in enumerate(both.nodes):
        layer = layers.get(node.output.name)
        if layer is not None and rounding:
            _round_layer(layer, graph, quantized, both.rounded, changed, clip)
        both.step(i)
        if layer is not None and biases:
            _correct_bias(layer, both, changed)
        if layer is not None and each is not None:
            each(node.name or node.output.name)
        both.free(i)
    constants = {k: Constant(c.value, freeze(changed[k])) if k in changed else c for k, c in quantized.constants.items()}
    return replace(quantized, constants=constants) if changed else quantized


def _round_layer(layer: Layer, graph: Graph, quantized: Graph, envs: Sequence[Env], changed: dict[str, Array], clip: bool) -> None:
    weight = graph.constants[layer.source].data
    matrix = rows(layer, weight)
    stored, scale = quantized.constants[layer.stored], quantized.constants[layer.scale].data
    dtype = stored.value.type.dtype
    per_row = matrix is not None and scale.size in (1, len(matrix)) and not layer.weight.attrs["block_size"]
    if matrix is None or not per_row or layer.weight.input(2) is not None or dtype.name not in ("int8", "int4"):
        return
    x = layer.node.inputs[layer.data]
    assert x is not None
    share = -(-COLUMNS // len(envs))
    parts = [columns(layer, env[x.name], weight.shape, share) for env in envs]
    lo, hi = code_range(dtype, "symmetric_restricted")
    clip = clip and scale.size == len(matrix)
    scales = np.broadcast_to(scale.astype(np.float64).reshape(-1, 1), (len(matrix), 1)).copy()
    ints = np.empty(matrix.shape, stored.data.dtype)
    per_group = len(matrix) // len(parts[0])
    for g in range(len(parts[0])):
        cols = tamed(np.concatenate([p[g] for p in parts], axis=1).astype(np.float32, copy=False))
        inputs = _inputs(cols)
        importance = np.einsum("ij,ij->i", cols, cols, dtype=np.float64) / max(cols.shape[1], 1)
        for start in range(g * per_group, (g + 1) * per_group, ROWS):
            some = slice(start, min(start + ROWS, (g + 1) * per_group))
            w = matrix[some].astype(np.float64)
            if clip:
                scales[some] = _clipped(w, scales[some], importance, lo, hi)
            ints[some] = _nearest_or_better(w, scales[some], inputs, lo, hi)
    changed[layer.stored] = unrows(layer, ints, weight.shape)
    if clip:
        changed[layer.scale] = scales.reshape(-1).astype(np.float32).reshape(scale.shape)
        _regrid(layer, graph, quantized, changed, envs)
    _renew(layer, changed, envs)


def tamed(cols: Array) -> Array:
    """The inputs, times a power of two where their squares would leave float32: what is better for the weights stays the same."""
    peak = float(np.abs(cols).max(initial=0))
    return np.ldexp(cols, -int(np.log2(peak))) if LARGE < peak < np.inf else cols


def _renew(layer: Layer, changed: dict[str, Array], envs: Sequence[Env]) -> None:
    """Lets the samples see the layer's new weights: made real once, for all of them."""
    for k, env in enumerate(envs):
        env[layer.stored] = changed[layer.stored]
        env[layer.scale] = changed.get(layer.scale, env[layer.scale])
        for node in (layer.weight, layer.bias):
            if node is not None:
                name = node.output.name
                env[name] = envs[0][name] if k else run_node(node, [None if v is None else env[v.name] for v in node.inputs])[0]


def _regrid(layer: Layer, graph: Graph, quantized: Graph, changed: dict[str, Array], envs: Sequence[Env]) -> None:
    """The bias on the grid of the new weight scales."""
    if layer.bias is None or layer.input_scale is None or layer.bias_source is None:
        return
    stored, scale = layer.bias.inputs[0], layer.bias.inputs[1]
    assert stored is not None and scale is not None
    grid = (quantized.constants[layer.input_scale.name].data.reshape(()) * changed[layer.scale]).astype(np.float32)
    data = graph.constants[layer.bias_source].data
    changed[scale.name] = grid
    changed[stored.name] = np.clip(np.rint(data / grid), -(2**31) + 1, 2**31 - 1).astype(np.int32)
    for env in envs:
        env[scale.name], env[stored.name] = changed[scale.name], changed[stored.name]


@dataclass(frozen=True)
class Inputs:
    """Some of a layer's inputs: their second moments H, damped, and what the errors of one mean for those that come after it."""

    part: slice
    moments: F64
    order: NDArray[np.intp]  # the inputs that matter most first, while there are many left to make good
    upper: F64 | None  # Cholesky factor of H⁻¹ in that order; None where there is none


def _inputs(cols: Array) -> list[Inputs]:
    """The inputs in blocks of at most WIDEST of them."""
    out = []
    d = len(cols)
    blocks = -(-d // WIDEST)
    for b in range(blocks):
        part = slice(d * b // blocks, d * (b + 1) // blocks)
        c = cols[part]
        h = (c @ c.T).astype(np.float64)
        h /= max(cols.shape[1], 1)
        mean = float(np.mean(np.diag(h)))
        h[np.diag_indices_from(h)] += DAMPING * mean if mean > 0 else 1.0
        out.append(Inputs(part, h, *factored(h)))
    return out


def factored(h: F64) -> tuple[NDArray[np.intp], F64 | None]:
    """An order of the inputs, and the upper Cholesky factor of H⁻¹ in that order."""
    order = np.argsort(-np.diag(h), kind="stable")
    try:
        return order, np.linalg.cholesky(np.linalg.inv(h[np.ix_(order, order)])).T
    except np.linalg.LinAlgError:
        return order, None


def _clipped(w: F64, s: F64, importance: F64, lo: int, hi: int) -> F64:
    """For each row the scale, of some no larger than the given one, with the least error of the output when rounded to nearest."""
    best: F64 = s.copy()
    least: F64 = np.full(s.shape, np.inf)
    for factor in np.arange(1.0, 0.39, -0.03):
        t = (s * factor).astype(np.float32).astype(np.float64)
        off = w - np.clip(np.rint(w / t), lo, hi) * t
        error = (off**2 @ importance)[:, None]
        best, least = np.where(error < least, t, best), np.minimum(error, least)
    return best


def _nearest_or_better(w: F64, s: F64, inputs: list[Inputs], lo: int, hi: int) -> F64:
    """Integers row by row: compensated where that has the smaller error in the output, else the nearest."""
    out: F64 = np.clip(np.rint(w / s), lo, hi)
    for x in inputs:
        if x.upper is None:
            continue
        tried = compensated(w[:, x.part], s, x.order, x.upper, lo, hi)
        a, b = (np.einsum("ij,ij->i", off @ x.moments, off) for off in (w[:, x.part] - out[:, x.part] * s, w[:, x.part] - tried * s))
        out[:, x.part] = np.where((b < a)[:, None], tried, out[:, x.part])
    return out


def compensated(w: F64, s: F64, order: NDArray[np.intp], upper: F64, lo: int, hi: int) -> F64:
    """Integers within lo … hi of each row of w, by scales s (rows, 1), whose errors cancel; `order` and `upper` are of `factored`."""
    left = w[:, order].T.copy()  # (inputs, rows): a step reads and writes whole rows
    scale = np.ascontiguousarray(s[:, 0])
    q = np.empty_like(left)
    d = len(left)
    for start in range(0, d, BLOCK):
        end = min(start + BLOCK, d)
        errors = np.empty((end - start, left.shape[1]))
        for j in range(start, end):
            q[j] = np.clip(np.rint(left[j] / scale), lo, hi)
            errors[j - start] = e = (left[j] - q[j] * scale) / upper[j, j]
            left[j + 1 : end] -= upper[j, j + 1 : end, None] * e
        left[end:] -= upper[start:end, end:].T @ errors
    out: F64 = np.empty(w.shape)
    out[:, order] = q.T
    return out


def _correct_bias(layer: Layer, both: Both, changed: dict[str, Array]) -> None:
    """Adds to the stored bias what the layer's output is off by in the mean, channel by channel."""
    if layer.bias is None:
        return
    rounded, plain = both.rounded, both.plain
    name, stored, scale = layer.node.output.name, layer.bias.inputs[0], layer.bias.inputs[1]
    assert stored is not None and scale is not None
    axis = 1 if layer.node.op in ("conv", "conv_transpose") else -1
    off: Any = 0.0
    for q, f in zip(rounded, plain, strict=True):
        d = f[name].astype(np.float64) - q[name]
        axes = tuple(i for i in range(d.ndim) if i != axis % d.ndim)
        off = off + d.mean(axis=axes)
    off = off / len(rounded)
    grid = rounded[0][scale.name].astype(np.float64)
    ints = rounded[0][stored.name].astype(np.int64)
    if off.shape != ints.shape or QUANTIZABLE[layer.node.op].spec.bias is None:
        return
    more = np.rint(off / grid)
    if not np.all(np.abs(ints + more) < 2**31):
        return
    changed[stored.name] = (ints + more).astype(np.int32)
    delta = (more * grid).astype(np.float32).reshape([-1 if i == axis % rounded[0][name].ndim else 1 for i in range(rounded[0][name].ndim)])
    for q in rounded:
        q[stored.name] = changed[stored.name]
        q[name] = q[name] + delta
