"""Networks as exporters spell them: each becomes the ops that it means, keeps its answer, and runs natively in fp32 and int8."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_answers import by_onnxruntime
from passes_laws import check, f32, ops

import lowbit
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.graph import Graph

INTEGERS = ("quantize_linear", "dequantize_linear", "reshape", "transpose", "slice", "split", "concat", "expand", "dims")


class Spelled:
    """An ONNX graph by calls: m.Mul(a, b), m.ReduceMean(x, axes=[-1]). Numbers and arrays are initializers."""

    def __init__(self, opset: int) -> None:
        self.opset, self.nodes, self.weights = opset, [], []

    def __getattr__(self, op: str) -> Callable[..., str]:
        def add(*inputs: Any, **attrs: Any) -> str:
            out = f"{op}_{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, [self.name(i) for i in inputs], [out], **attrs))
            return out

        return add

    def name(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        array = np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def reduce(self, op: str, x: str, axes: list[int], keepdims: int = 1) -> str:
        """Axes are an attribute up to opset 17 (12 for sums), an input from then on."""
        if self.opset >= (13 if op == "ReduceSum" else 18):
            return getattr(self, op)(x, np.array(axes), keepdims=keepdims)
        return getattr(self, op)(x, axes=axes, keepdims=keepdims)

    def axes(self, op: str, x: str, axes: list[int]) -> str:
        return getattr(self, op)(x, np.array(axes)) if self.opset >= 13 else getattr(self, op)(x, axes=axes)

    def model(self, y: str, inputs: dict[str, tuple[list[Any], int]]) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(n, t, shape) for n, (shape, t) in inputs.items()]
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "g", given, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def spelled(build: Callable[[Spelled, str], str], shape: list[Any], opset: int) -> onnx.ModelProto:
    m = Spelled(opset)
    return m.model(build(m, "x"), {"x": (shape, TensorProto.FLOAT)})


def kept(model: onnx.ModelProto, feed: dict[str, np.ndarray], tolerance: float = 1e-4) -> Graph:
    """The simplified graph, after its laws: the interpreter's answer stays, and fp32 is ONNX Runtime's, natively."""
    after = check(load_onnx(model.SerializeToString()), tolerance=tolerance, feed=feed)
    session = lowbit.compile(after)
    got = next(iter(session.run(feed).values()))
    want = by_onnxruntime(model, feed)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(float(np.abs(want).max()), 1e-3))
    assert session.backend == "native"
    return after


def integers_only(graph: Graph, feed: dict[str, np.ndarray], snr: float) -> Graph:
    """The int8 network, after it was seen to run natively, without floats between, within this signal to noise ratio (dB)."""
    made = lowbit.compile(lowbit.quantize(graph, [feed], guard=False))
    got, want = (next(iter(s.run(feed).values())).astype(np.float64) for s in (made, lowbit.compile(graph)))
    assert made.backend == "native"
    floats = [n.op for n in made.graph.nodes if not n.op.startswith("q_") and n.op not in INTEGERS and n.output.type.dtype.is_float]
    assert not floats, floats
    assert 10 * math.log10((want**2).sum() / max(((got - want) ** 2).sum(), 1e-30)) > snr
    return made.graph


# -- layer norm and RMS norm -------------------------------------------------------------------------------------------------

GAMMA, BETA, N = f32(8, low=0.5, high=1.5), f32(8), 8


def rsqrt(m: Spelled, v: str, how: str) -> str:
    if how == "pow":
        return m.Pow(v, -0.5)
    return m.Reciprocal(m.Sqrt(v)) if how == "reciprocal" else m.Div(1.0, m.Sqrt(v))


def one_pass(m: Spelled, x: str, clamp: bool, kept: bool = True) -> tuple[str, str]:
    """Mean, and E[x²] - E[x]² (at least 0)."""
    mean, mean2 = m.reduce("ReduceMean", x, [-1], int(kept)), m.reduce("ReduceMean", m.Mul(x, x), [-1], int(kept))
    var = m.Sub(mean2, m.Mul(mean, mean))
    return mean, m.Max(var, 0.0) if clamp else var


def flax(m: Spelled, x: str, how: str) -> str:
    """flax.linen.LayerNorm: statistics without their axis, expanded before they are used."""
    mean, var = one_pass(m, x, True, kept=False)
    mean, var = m.axes("Unsqueeze", mean, [-1]), m.axes("Unsqueeze", var, [-1])
    factor = m.Mul(rsqrt(m, m.Add(var, 1e-6), how), GAMMA.reshape(1, 1, 8))
    return m.Add(m.Mul(m.Sub(x, mean), factor), BETA.reshape(1, 1, 8))


def jax_sums(m: Spelled, x: str, how: str) -> str:
    """jnp.mean as jax writes it: a sum divided by the count, and broadcast_in_dim as Reshape and Expand."""
    total, squares = m.reduce("ReduceSum", x, [-1], 0), m.reduce("ReduceSum", m.Mul(x, x), [-1], 0)
    mean, mean2 = m.Div(total, 8.0), m.Div(squares, 8.0)
    var = m.Max(m.Sub(mean2, m.Mul(mean, mean)), 0.0)
    shape, full = np.array([2, 5, 1]), np.array([2, 5, 8])
    d = m.Sub(x, m.Expand(m.Reshape(mean, shape), full))
    factor = m.Mul(m.Expand(rsqrt(m, m.Add(m.Reshape(var, shape), 1e-6), how), full), m.Expand(m.Reshape(GAMMA, np.array([1, 1, 8])), full))
    return m.Add(m.Mul(d, factor), m.Expand(m.Reshape(BETA, np.array([1, 1, 8])), full))


def tensorflow(m: Spelled, x: str, how: str, one: bool = False) -> str:
    """tf.nn.batch_normalization of tf.nn.moments: x * inv + (beta - mean * inv)."""
    if one:
        mean, var = one_pass(m, x, True)
    else:
        mean = m.reduce("ReduceMean", x, [-1])
        d = m.Sub(x, mean)
        var = m.reduce("ReduceMean", m.Mul(d, d), [-1])
    inv = m.Mul(rsqrt(m, m.Add(var, 1e-3), how), GAMMA)
    return m.Add(m.Mul(x, inv), m.Sub(BETA, m.Mul(mean, inv)))


def keras3(m: Spelled, x: str, how: str) -> str:
    """keras.layers.LayerNormalization of Keras 3: x * inv + (-mean * inv + beta)."""
    mean, var = one_pass(m, x, False)
    inv = m.Mul(rsqrt(m, m.Add(var, 1e-3), how), GAMMA)
    return m.Add(m.Mul(x, inv), m.Add(m.Mul(m.Neg(mean), inv), BETA))


def paddle(m: Spelled, x: str, how: str) -> str:
    mean = m.reduce("ReduceMean", x, [-1])
    d = m.Sub(x, mean)
    var = m.reduce("ReduceMean", m.Pow(d, np.array([2.0], np.float32)), [-1])
    return m.Add(m.Mul(m.Div(d, m.Sqrt(m.Add(var, np.array([1e-5], np.float32)))), GAMMA), BETA)


def torch_by_hand(m: Spelled, x: str, how: str) -> str:
    """weight * (x - mean) / sqrt(var + eps) + bias, read from the left."""
    mean = m.reduce("ReduceMean", x, [-1])
    d = m.Sub(x, mean)
    var = m.reduce("ReduceMean", m.Mul(d, d), [-1])
    return m.Add(m.Div(m.Mul(GAMMA, d), m.Sqrt(m.Add(var, 1e-5))), BETA)


LAYER_NORMS = {f.__name__: f for f in (flax, jax_sums, tensorflow, keras3, paddle, torch_by_hand)}
LAYER_NORMS["tensorflow, one pass"] = lambda m, x, how: tensorflow(m, x, how, one=True)


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("how", ["reciprocal", "div", "pow"])
@pytest.mark.parametrize("build", LAYER_NORMS.values(), ids=LAYER_NORMS.keys())
def test_layer_norms_of_exporters_are_one_op_and_integers(build, how, opset):
    feed = {"x": f32(2, 5, 8)}
    after = kept(spelled(lambda m, x: build(m, x, how), [2, 5, 8], opset), feed)
    assert ops(after) == ["layer_norm"] and len(after.nodes[0].inputs) == 3
    integers_only(after, feed, 25.0)


def rms(m: Spelled, x: str, how: str, order: str) -> str:
    inv = rsqrt(m, m.Add(m.reduce("ReduceMean", m.Mul(x, x), [-1]), 1e-6), how)
    if order == "llama":
        return m.Mul(m.Mul(x, inv), GAMMA)
    return m.Mul(x, m.Mul(inv, GAMMA)) if order == "flax" else m.Mul(m.Mul(x, GAMMA), inv)


@pytest.mark.parametrize("how", ["reciprocal", "div", "pow"])
@pytest.mark.parametrize("order", ["llama", "flax", "scale first"])
def test_rms_norms_of_exporters_are_one_op_and_integers(order, how):
    feed = {"x": f32(2, 5, 8)}
    after = kept(spelled(lambda m, x: rms(m, x, how, order), ["batch", 5, 8], 13), feed)
    assert ops(after) == ["rms_norm"] and len(after.nodes[0].inputs) == 2
    integers_only(after, feed, 25.0)


def test_the_layer_norm_over_channels_of_images_is_found():
    """ConvNeXt's LayerNorm2d: the norm goes over axis 1, its weights are (C, 1, 1)."""

    def build(m: Spelled, x: str) -> str:
        y = m.Conv(x, f32(8, 8, 1, 1))
        d = m.Sub(y, m.reduce("ReduceMean", y, [1]))
        n = m.Div(d, m.Sqrt(m.Add(m.reduce("ReduceMean", m.Mul(d, d), [1]), 1e-6)))
        n = m.Add(m.Mul(n, GAMMA.reshape(8, 1, 1)), BETA.reshape(8, 1, 1))
        return m.Conv(n, f32(8, 8, 1, 1))

    feed = {"x": f32(2, 8, 5, 6)}
    after = kept(spelled(build, [2, 8, 5, 6], 13), feed)
    assert ops(after) == ["conv", "transpose", "layer_norm", "transpose", "conv"]
    integers_only(after, feed, 18.0)


# -- masks -------------------------------------------------------------------------------------------------------------------

LOWEST = {"-inf": -np.inf, "finfo.min": np.finfo(np.float32).min, "-1e9": -1e9, "-65504": -65504.0, "-10000": -1e4}
FUTURE = np.triu(np.ones((6, 6), bool), 1)
PADDED = np.array([[True, True, True, True, False, False], [True] * 6]).reshape(2, 1, 1, 6)
TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL, np.dtype(np.int64): TensorProto.INT64}


def attended(mask: Callable[[Spelled, str, np.float32], str], low: float, feed: dict[str, np.ndarray]) -> onnx.ModelProto:
    """softmax(mask(q kᵀ / √8)) v."""
    m = Spelled(13)
    scores = m.Mul(m.MatMul("q", m.Transpose("k", perm=[0, 1, 3, 2])), 8**-0.5)
    y = m.MatMul(m.Softmax(mask(m, scores, np.float32(low)), axis=-1), "v")
    return m.model(y, {n: (list(a.shape), TYPES[a.dtype]) for n, a in feed.items()})


def heads() -> dict[str, np.ndarray]:
    return {n: f32(2, 2, 6, 8) for n in "qkv"}


CAUSAL = {
    "where": lambda m, s, low: m.Where(FUTURE, low, s),
    "where it is visible": lambda m, s, low: m.Where(~FUTURE, s, low),
    "addition": lambda m, s, low: m.Add(s, np.where(FUTURE, low, np.float32(0))),
}


@pytest.mark.parametrize("low", LOWEST.values(), ids=LOWEST.keys())
@pytest.mark.parametrize("mask", CAUSAL.values(), ids=CAUSAL.keys())
def test_a_mask_of_the_future_is_causal_attention(mask, low):
    feed = heads()
    after = kept(attended(mask, low, feed), feed)
    assert ops(after) == ["attention"] and after.nodes[0].attrs["causal"] and len(after.nodes[0].inputs) == 3
    integers_only(after, feed, 28.0)


def test_attention_with_its_values_on_the_left_is_attention():
    """YOLO11: v softmax(qᵀ k / √8)ᵀ, of features × pixels, from slices of one convolution."""
    feed = {"x": f32(2, 12, 4, 5)}

    def build(m: Spelled, x: str) -> str:
        qkv = m.Reshape(m.Conv(x, f32(64, 12, 1, 1)), np.array([2, 2, 32, 20]))
        q, k, v = (m.Slice(qkv, np.array([a]), np.array([b]), np.array([2])) for a, b in ((0, 8), (8, 16), (16, 32)))
        p = m.Softmax(m.Mul(m.MatMul(m.Transpose(q, perm=[0, 1, 3, 2]), k), 8**-0.5), axis=-1)
        y = m.Reshape(m.MatMul(v, m.Transpose(p, perm=[0, 1, 3, 2])), np.array([2, 32, 4, 5]))
        return m.Conv(y, f32(6, 32, 1, 1))

    after = kept(spelled(build, [2, 12, 4, 5], 13), feed)
    assert [o for o in ops(after) if o not in INTEGERS] == ["conv", "attention", "conv"]
    integers_only(after, feed, 18.0)


PADDING = {
    "masked_fill": lambda m, s, low: m.Where(m.Not("m"), low, s),
    "where": lambda m, s, low: m.Where("m", s, low),
    "addition of a where": lambda m, s, low: m.Add(s, m.Where("m", np.float32(0), low)),
    "causal too": lambda m, s, low: m.Where(FUTURE, low, m.Where("m", s, low)),
    "causal by addition too": lambda m, s, low: m.Add(m.Add(s, np.where(FUTURE, low, np.float32(0))), m.Where("m", np.float32(0), low)),
}


@pytest.mark.parametrize("low", LOWEST.values(), ids=LOWEST.keys())
@pytest.mark.parametrize("mask", PADDING.values(), ids=PADDING.keys())
def test_a_mask_of_padding_is_attention_s_and_stays_out_of_ranges(mask, low):
    feed = {**heads(), "m": PADDED}
    after = kept(attended(mask, low, feed), feed)
    node = after.nodes[-1]
    assert set(ops(after)) <= {"attention", "where", "logical_not"} and len(node.inputs) == 4
    assert node.attrs["causal"] == any(mask is PADDING[n] for n in ("causal too", "causal by addition too"))
    made = lowbit.compile(lowbit.quantize(after, [feed], guard=False))
    got, want = (next(iter(s.run(feed).values())) for s in (made, lowbit.compile(after)))
    assert made.backend == "native" and made.graph.nodes[-1].op == "q_attention"
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()


@pytest.mark.parametrize("low", [-1e9, np.finfo(np.float32).min], ids=["-1e9", "finfo.min"])
def test_the_mask_that_transformers_compute_stays_float(low):
    """(1 - mask) * low, from a mask of int64."""
    feed = {**heads(), "m": PADDED[:, 0, 0].astype(np.int64)}

    def mask(m: Spelled, s: str, low: np.float32) -> str:
        return m.Add(s, m.Mul(m.Sub(1.0, m.Cast(m.Unsqueeze("m", np.array([1, 2])), to=TensorProto.FLOAT)), low))

    after = kept(attended(mask, low, feed), feed)
    assert ops(after) == ["reshape", "cast", "sub", "mul", "attention"]
    made = lowbit.compile(lowbit.quantize(after, [feed], guard=False))
    assert made.backend == "native" and [n.op for n in made.graph.nodes][-3:] == ["sub", "mul", "q_attention"]


ALONE = {
    "where": lambda m, s, low: m.Where("m", s, low),
    "addition of a where": lambda m, s, low: m.Add(s, m.Where("m", np.float32(0), low)),
    "addition of a constant": lambda m, s, low: m.Add(s, np.where(FUTURE, low, np.float32(0))),
    "addition of numbers": lambda m, s, low: m.Add(s, m.Mul(m.Sub(1.0, m.Cast("m", to=TensorProto.FLOAT)), max(low, np.float32(-1e30)))),
}


@pytest.mark.parametrize("low", LOWEST.values(), ids=LOWEST.keys())
@pytest.mark.parametrize("mask", ALONE.values(), ids=ALONE.keys())
def test_hidden_scores_of_a_softmax_alone_have_no_weight_in_int8(mask, low):
    """No attention: scores of a layer, as in pointer networks and routers. Here `quantize` refused -inf, or lost all other scores."""
    feed = {"x": f32(2, 2, 6, 8), "m": PADDED}
    m = Spelled(13)
    weights = m.Softmax(mask(m, m.MatMul("x", f32(8, 6)), np.float32(low)), axis=-1)
    y = m.MatMul(weights, np.eye(6, dtype=np.float32))
    if "m" not in [i for n in m.nodes for i in n.input]:
        feed.pop("m")
    model = m.model(y, {n: (list(a.shape), TYPES[a.dtype]) for n, a in feed.items()})
    after = kept(model, feed)
    made = lowbit.compile(lowbit.quantize(after, [feed], guard=False))
    got, want = (next(iter(s.run(feed).values())) for s in (made, lowbit.compile(after)))
    assert made.backend == "native" and np.abs(got - want).max() < 0.08
    assert (got[want == 0] == 0).all()


def test_masks_of_fewer_axes_than_the_scores_are_seen():
    feed = {"x": f32(2, 2, 6, 8), "b": f32(6), "m": PADDED[0, 0, 0]}
    m = Spelled(13)
    bias = m.Where("m", "b", np.float32(-1e9))
    y = m.MatMul(m.Softmax(m.Add(m.MatMul("x", f32(8, 6)), bias), axis=-1), np.eye(6, dtype=np.float32))
    after = kept(m.model(y, {n: (list(a.shape), TYPES[a.dtype]) for n, a in feed.items()}), feed)
    assert ops(after) == ["linear", "add", "where", "softmax", "linear"]
    made = lowbit.compile(lowbit.quantize(after, [feed], guard=False))
    got, want = (next(iter(s.run(feed).values())) for s in (made, lowbit.compile(after)))
    assert np.abs(got - want).max() < 0.08 and (got[want == 0] == 0).all()


def test_the_guard_takes_networks_with_masks():
    feeds = [{"x": f32(2, 2, 6, 8), "m": PADDED} for _ in range(4)]
    m = Spelled(13)
    y = m.MatMul(m.Softmax(m.Where("m", m.MatMul("x", f32(8, 6)), np.float32(-np.inf)), axis=-1), f32(6, 5))
    graph = lowbit.load(m.model(y, {"x": ([2, 2, 6, 8], TensorProto.FLOAT), "m": ([2, 1, 1, 6], TensorProto.BOOL)}))
    made = lowbit.compile(lowbit.quantize(graph, feeds))
    got, want = (next(iter(s.run(feeds[0]).values())) for s in (made, lowbit.compile(graph)))
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()


# -- activations, gates, softmax by parts ------------------------------------------------------------------------------------

ROOT = math.sqrt(2 / math.pi)
SLOPES = np.array([0.1, 0.2, 0.3, 0.4], np.float32).reshape(4, 1, 1)


def by_parts(m: Spelled, x: str, axis: int, how: str) -> str:
    """exp(x - max x) / Σ."""
    keep = int(how != "expanded")
    top = m.reduce("ReduceMax", x, [axis], keep)
    e = m.Exp(m.Sub(x, top if keep else m.axes("Unsqueeze", top, [axis])))
    total = m.reduce("ReduceSum", e, [axis], keep)
    total = total if keep else m.axes("Unsqueeze", total, [axis])
    return m.Mul(e, m.Reciprocal(total)) if how == "reciprocal" else m.Div(e, total)


SPELLINGS: dict[str, tuple[str, Callable[[Spelled, str], str]]] = {
    "GELU, torch": ("gelu", lambda m, x: m.Mul(m.Mul(x, m.Add(m.Erf(m.Div(x, math.sqrt(2))), 1.0)), 0.5)),
    "GELU, TensorFlow": ("gelu", lambda m, x: m.Mul(0.5, m.Mul(x, m.Add(1.0, m.Erf(m.Mul(x, math.sqrt(0.5))))))),
    "GELU, JAX's erfc": ("gelu", lambda m, x: m.Mul(m.Mul(0.5, x), m.Sub(1.0, m.Erf(m.Mul(m.Neg(x), math.sqrt(0.5)))))),
    "GELU by tanh and a power": (
        "gelu",
        lambda m, x: m.Mul(m.Mul(0.5, x), m.Add(1.0, m.Tanh(m.Mul(ROOT, m.Add(x, m.Mul(0.044715, m.Pow(x, 3.0))))))),
    ),
    "GELU by tanh and products": (
        "gelu",
        lambda m, x: m.Mul(x, m.Mul(0.5, m.Add(1.0, m.Tanh(m.Mul(m.Mul(x, ROOT), m.Add(1.0, m.Mul(m.Mul(0.044715, x), x))))))),
    ),
    "GELU by sigmoid": (
        "gelu",
        lambda m, x: m.Mul(x, m.Sigmoid(m.Mul(2 * ROOT, m.Add(x, m.Mul(0.044715, m.Mul(x, m.Mul(x, x))))))),
    ),
    "quick GELU": ("swish", lambda m, x: m.Mul(x, m.Sigmoid(m.Mul(1.702, x)))),
    "SiLU": ("silu", lambda m, x: m.Mul(x, m.Sigmoid(x))),
    "SiLU by exp": ("silu", lambda m, x: m.Div(x, m.Add(1.0, m.Exp(m.Neg(x))))),
    "hard-swish, Paddle": ("hardswish", lambda m, x: m.Div(m.Mul(x, m.Clip(m.Add(x, 3.0), 0.0, 6.0)), 6.0)),
    "hard-swish by relu and min": ("hardswish", lambda m, x: m.Mul(m.Mul(x, m.Min(m.Relu(m.Add(x, 3.0)), 6.0)), 1 / 6)),
    "hard-swish by a gate": ("hardswish", lambda m, x: m.Mul(x, m.HardSigmoid(x, alpha=1 / 6, beta=0.5))),
    "hard-swish by a clip to 1": ("hardswish", lambda m, x: m.Mul(x, m.Clip(m.Add(m.Mul(x, 1 / 6), 0.5), 0.0, 1.0))),
    "LeakyReLU": ("leaky_relu", lambda m, x: m.LeakyRelu(x, alpha=0.1)),
    "LeakyReLU by max": ("leaky_relu", lambda m, x: m.Max(x, m.Mul(x, 0.1))),
    "LeakyReLU by where": ("leaky_relu", lambda m, x: m.Where(m.Greater(x, 0.0), x, m.Mul(x, 0.1))),
    "PReLU of one slope": ("leaky_relu", lambda m, x: m.PRelu(x, np.array([0.2], np.float32))),
    "PReLU": ("prelu", lambda m, x: m.PRelu(x, SLOPES)),
    "PReLU, Keras": ("prelu", lambda m, x: m.Add(m.Relu(x), m.Mul(-SLOPES, m.Relu(m.Neg(x))))),
    "PReLU by a negated relu": ("prelu", lambda m, x: m.Add(m.Relu(x), m.Mul(m.Neg(m.Relu(m.Neg(x))), SLOPES))),
    "PReLU by a difference": ("prelu", lambda m, x: m.Sub(m.Relu(x), m.Mul(SLOPES, m.Relu(m.Neg(x))))),
    "PReLU by the absolute value": ("prelu", lambda m, x: m.Add(m.Relu(x), m.Mul(m.Mul(SLOPES, m.Sub(x, m.Abs(x))), 0.5))),
    "softmax by parts": ("softmax", lambda m, x: by_parts(m, x, -1, "kept")),
    "softmax over channels by parts": ("softmax", lambda m, x: by_parts(m, x, 1, "kept")),
    "softmax by a reciprocal": ("softmax", lambda m, x: by_parts(m, x, -1, "reciprocal")),
    "softmax by parts, JAX": ("softmax", lambda m, x: by_parts(m, x, -1, "expanded")),
    "softmax by log-sum-exp": ("softmax", lambda m, x: m.Exp(m.Sub(x, m.ReduceLogSumExp(x, axes=[-1], keepdims=1)))),
    "instance norm": ("instance_norm", lambda m, x: m.InstanceNormalization(x, GAMMA[:4], BETA[:4])),
}


@pytest.mark.parametrize(("op", "build"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_activations_between_convolutions_are_one_op_and_integers(op, build):
    feed = {"x": f32(2, 4, 6, 6)}
    k1, k2 = f32(4, 4, 1, 1), f32(4, 4, 1, 1)
    after = kept(spelled(lambda m, x: m.Conv(build(m, m.Conv(x, k1)), k2), [2, 4, 6, 6], 13), feed)
    assert ops(after) == ["conv", op, "conv"]
    integers_only(after, feed, 18.0)


@pytest.mark.parametrize("pool", ["pool", "mean"])
@pytest.mark.parametrize("gate", ["sigmoid", "hard sigmoid", "linear layers"])
def test_squeeze_and_excite_is_integers_throughout(pool, gate):
    feed = {"x": f32(2, 4, 6, 6)}

    def build(m: Spelled, x: str) -> str:
        y = m.Conv(x, f32(4, 4, 1, 1))
        p = m.GlobalAveragePool(y) if pool == "pool" else m.reduce("ReduceMean", y, [2, 3])
        if gate == "linear layers":
            g = m.Sigmoid(m.Gemm(m.Relu(m.Gemm(m.Flatten(p), f32(4, 2))), f32(2, 4)))
            g = m.Reshape(g, np.array([2, 4, 1, 1]))
        else:
            g = m.Conv(m.Relu(m.Conv(p, f32(2, 4, 1, 1))), f32(4, 2, 1, 1))
            g = m.Sigmoid(g) if gate == "sigmoid" else m.HardSigmoid(g, alpha=0.2, beta=0.5)
        return m.Conv(m.Mul(y, g), f32(4, 4, 1, 1))

    after = kept(spelled(build, [2, 4, 6, 6], 13), feed)
    layers = [o for o in ops(after) if o != "reshape"]
    layer, gated = ("linear", "sigmoid") if gate == "linear layers" else ("conv", gate.replace("hard ", "hard"))
    assert layers == ["conv", "reduce_mean", layer, "relu", layer, gated, "mul", "conv"]
    integers_only(after, feed, 18.0)
