"""Weights rounded so that a layer's output comes near the float network's, and biases that take up the rest, on real inputs.

Rounding each weight to the nearest integer makes the least error of the weights, not of the output: a layer's inputs are correlated (after
a ReLU all of them are positive), and so the errors of a row add up. `integer_least_squares` finds integers whose errors cancel.

Layers are rounded in the order in which they run. Each reads x̂, what the rounded layers before it really give, where the float layer reads
x. So it shall not give w·x̂, but w·x: the target is the float weight w with a correction that makes good the errors before it,

    t = w + (H + λI)⁻¹ E[x̂ (x - x̂)ᵀ] w,   H = E[x̂ x̂ᵀ]

Where the layer has a bias, H is the covariance: the bias takes up the mean error. Scales may shrink first, where clipping a row's largest
weights costs less than the finer steps gain (in few bits it does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lowbit.decide.brackets import Both, Env
from lowbit.decide.integer_least_squares import SWEEPS, Moments, clipped, solve
from lowbit.decide.samples import Sample
from lowbit.decide.weights import Layer, columns, rows, unrows, weighted_layers
from lowbit.ir.graph import Constant, Graph, Value, freeze
from lowbit.ir.interp import run_node
from lowbit.ops.quant import QUANTIZABLE
from lowbit.progress import progress
from lowbit.quant_params import code_range
from lowbit.runtime.replay import NativeRun
from lowbit.types import Array

F64 = NDArray[np.float64]
WIDEST = 1152  # inputs whose errors are made good together: the cost is their third power
ROWS = 256  # that are rounded at a time: a large layer takes no more memory than they
COLUMNS = 1024, 4096  # of a layer's input that are looked at, over all samples: at least, at most
FEWEST = 512  # at least where the layer has groups, which read few inputs each
EACH = 8  # columns for each input of a row, within these bounds
WORK = 2e10  # multiplications of coordinate descent on one layer at most
LARGE = 2.0**50  # of an input: sums of squares beyond it come near the end of float32


def better_weights(
    graph: Graph,
    quantized: Graph,
    samples: Sequence[Sample],
    *,
    rounding: bool = True,
    clip: bool = False,
    biases: bool = True,
    undo: bool = False,
    leave: frozenset[str] = frozenset(),
    each: Callable[[str], None] | None = None,
    means: dict[str, F64] | None = None,
) -> Graph:
    """The Q/DQ graph with other integers for weights (and with `clip` other scales) and biases, of the same types.

    The samples go through the quantized and the float graph side by side, layer by layer: a layer is rounded for the inputs that the
    layers before it really give, and its bias takes up the mean error that is left. With `undo` its weights also make good the errors of
    the layers before it: then they fit no others. Layers whose results are in `leave` stay as they are.
    `each` is told every layer done. `means` are kept for another call with the same float graph and samples: see `float_means`.
    """
    if not samples:
        return quantized
    both = Both.start(graph, quantized, samples, plain=undo and rounding)
    layers = {k: layer for layer in weighted_layers(graph, quantized) if (k := layer.node.output.name) not in leave}
    means = {} if means is None else means
    if biases:
        lacking = [k for k, layer in layers.items() if layer.bias is not None and k not in means]
        means.update(float_means(graph, samples, lacking) if lacking else {})
    changed: dict[str, Array] = {}
    for i, node in progress(list(enumerate(both.nodes)), "rounding weights"):
        layer = layers.get(node.output.name)
        if layer is not None and rounding:
            _round_layer(layer, graph, quantized, both, changed, clip, biases, undo)
        both.step(i)
        if layer is not None and biases:
            _correct_bias(layer, both.rounded, means, changed)
        if layer is not None and each is not None:
            each(node.name or node.output.name)
        both.free(i)
    constants = {k: Constant(c.value, freeze(changed[k])) if k in changed else c for k, c in quantized.constants.items()}
    return replace(quantized, constants=constants) if changed else quantized


def _round_layer(
    layer: Layer, graph: Graph, quantized: Graph, both: Both, changed: dict[str, Array], clip: bool, biases: bool, undo: bool
) -> None:
    weight = graph.constants[layer.source].data
    matrix = rows(layer, weight)
    stored, scale = quantized.constants[layer.stored], quantized.constants[layer.scale].data
    dtype = stored.value.type.dtype
    per_row = matrix is not None and scale.size in (1, len(matrix)) and not layer.weight.attrs["block_size"]
    if matrix is None or not per_row or layer.weight.input(2) is not None or dtype.name not in ("int8", "int4"):
        return
    read, real = _columns_of(layer, both, weight.shape, matrix.shape[1], biases and layer.bias is not None, undo)
    lo, hi = code_range(dtype, "symmetric_restricted")
    clip = clip and scale.size == len(matrix)
    groups, _, count = read.shape
    w = matrix.reshape(groups, -1, matrix.shape[1])
    scales = np.broadcast_to(scale.astype(np.float64).reshape(-1), len(matrix)).reshape(groups, -1).copy()
    if clip:
        importance = np.einsum("gdn,gdn->gd", read, read, dtype=np.float64) / count
        for some in _chunks(w.shape[1]):
            scales[:, some] = clipped(_turned(w[:, some]), scales[:, some], importance, lo, hi)
        scales = _holding_bias(layer, graph, quantized, scales.reshape(-1), scale).reshape(groups, -1)
    ints = _solved(w, scales, read, real, lo, hi)
    changed[layer.stored] = unrows(layer, ints.reshape(matrix.shape).astype(stored.data.dtype), weight.shape)
    if clip:
        changed[layer.scale] = scales.reshape(-1).astype(np.float32).reshape(scale.shape)
        _regrid(layer, graph, quantized, changed, both.rounded)
    _renew(layer, changed, both.rounded)


def _holding_bias(layer: Layer, graph: Graph, quantized: Graph, scales: F64, before: Array) -> F64:
    """The scales; those from before where the bias would need more than 30 bits on the grid of input scale × weight scale."""
    if layer.input_scale is None or layer.bias_source is None:
        return scales
    grid = quantized.constants[layer.input_scale.name].data.astype(np.float64).reshape(()) * scales
    need = np.maximum(np.abs(graph.constants[layer.bias_source].data.astype(np.float64)) / 2**30, 2.0**-110)
    return np.where(grid >= need, scales, before.reshape(-1))


def _columns_of(layer: Layer, both: Both, shape: tuple[int, ...], inputs: int, centred: bool, undo: bool) -> tuple[Array, Array | None]:
    """The layer's inputs (groups, inputs, columns) in the quantized network; and with `undo` those in the float network less these."""
    x = layer.node.inputs[layer.data]
    assert x is not None
    least, most = COLUMNS
    least = least if layer.node.attrs.get("groups", 1) == 1 else FEWEST
    share = -(-min(max(EACH * inputs, least), most) // len(both.rounded))
    found = []
    for envs in (both.rounded, both.plain) if undo else (both.rounded,):
        cols = np.concatenate([columns(layer, env[x.name], shape, share) for env in envs], axis=2).astype(np.float32, copy=False)
        if centred:
            cols -= cols.mean(2, keepdims=True)
        found.append(cols)
    power = tamed(found[0])
    found = [np.ldexp(cols, power) for cols in found] if power else found
    if not undo:
        return found[0], None
    found[1] -= found[0]
    return found[0], found[1]


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS, count)) for start in range(0, count, ROWS))


def _turned(w: Array) -> F64:
    """(groups, rows, inputs) -> (groups, inputs, rows)"""
    return np.ascontiguousarray(w.transpose(0, 2, 1), np.float64)


def _solved(w: Array, scales: F64, read: Array, real: Array | None, lo: int, hi: int) -> F64:
    """Integers (groups, rows, inputs), in blocks of at most WIDEST inputs: a block makes good the errors of those before it."""
    groups, count, d = w.shape
    blocks = -(-d // WIDEST)
    parts = [slice(d * b // blocks, d * (b + 1) // blocks) for b in range(blocks)]
    sweeps = int(min(SWEEPS, WORK // (groups * count * d * (parts[0].stop + 1))))
    ints: F64 = np.empty(w.shape)
    off = np.zeros(w.shape, np.float32)  # of the blocks that are rounded
    for part in parts:
        x = read[:, part]
        moments = Moments.of(_product(x, x))
        before = _product(x, real) if blocks == 1 and real is not None else None
        for some in _chunks(count):
            exact = target = _turned(w[:, some, part])
            if before is not None:
                target = moments.corrected(exact, before @ exact)
            elif blocks > 1:
                wrong = -off[:, some, : part.start] @ read[:, : part.start]
                wrong = wrong if real is None else wrong + w[:, some] @ real
                target = moments.corrected(exact, _product(x, wrong))
            q = solve(target, scales[:, some], moments, lo, hi, sweeps)
            ints[:, some, part] = q.transpose(0, 2, 1)
            off[:, some, part] = (q * scales[:, None, some] - exact).transpose(0, 2, 1)
    return ints


def _product(a: Array, b: Array) -> F64:
    """E[a·bᵀ] over the columns, in each group."""
    found: F64 = (a @ b.transpose(0, 2, 1)).astype(np.float64) / max(a.shape[2], 1)
    return found


def tamed(cols: Array) -> int:
    """The power of two for inputs whose squares would leave float32; 0 for others. What is better for the weights stays the same."""
    peak = max(float(cols.max(initial=0)), -float(cols.min(initial=0)))
    return -int(np.log2(peak)) if LARGE < peak < np.inf else 0


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
    ints = quantized.constants[stored.name].data.dtype
    most = float(2 ** (8 * ints.itemsize - 1) - 2 ** (8 * ints.itemsize - 32))
    changed[stored.name] = np.clip(np.rint(data / grid.astype(np.float64)), -most, most).astype(ints)
    for env in envs:
        env[scale.name], env[stored.name] = changed[scale.name], changed[stored.name]


def float_means(graph: Graph, samples: Sequence[Sample], layers: Iterable[str]) -> dict[str, F64]:
    """The mean of each channel that some layers (by first output) of the float graph give: of all samples, each as much as another."""
    names = [k for k in layers if k in graph.producers]
    found: dict[str, F64] = {}

    def see(value: Value, x: Array) -> None:
        mean = _channel_means(graph.producers[value.name].op, x) / len(samples)
        found[value.name] = found[value.name] + mean if value.name in found else mean

    run = NativeRun(graph, names, names)
    for sample in samples:
        run(sample, see)
    return found


def _channel_means(op: str, x: Array) -> F64:
    axis = 1 if op in ("conv", "conv_transpose") else x.ndim - 1
    found: F64 = x.mean(axis=tuple(i for i in range(x.ndim) if i != axis), dtype=np.float64)
    return found


def _correct_bias(layer: Layer, rounded: Sequence[Env], means: Mapping[str, F64], changed: dict[str, Array]) -> None:
    """Adds to the stored bias what the layer's output is off by in the mean, channel by channel."""
    name = layer.node.output.name
    if layer.bias is None or name not in means:
        return
    stored, scale = layer.bias.inputs[0], layer.bias.inputs[1]
    assert stored is not None and scale is not None
    off = means[name] - sum(_channel_means(layer.node.op, q[name]) for q in rounded) / len(rounded)
    grid = rounded[0][scale.name].astype(np.float64)
    ints = rounded[0][stored.name].astype(np.int64)
    if off.shape != ints.shape or QUANTIZABLE[layer.node.op].spec.bias is None:
        return
    more = np.rint(off / grid)
    kept = rounded[0][stored.name].dtype
    if not np.all(np.abs(ints + more) < 2.0 ** (8 * kept.itemsize - 1)):
        return
    changed[stored.name] = (ints + more).astype(kept)
    rank, axis = rounded[0][name].ndim, 1 if layer.node.op in ("conv", "conv_transpose") else -1
    delta = (more * grid).astype(np.float32).reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    for q in rounded:
        q[stored.name] = changed[stored.name]
        q[name] = q[name] + delta
