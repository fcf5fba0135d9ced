"""The ops of neural networks compute what PyTorch does, where ONNX's node tests do not reach."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowbit.dims import parse_dim
from lowbit.errors import ShapeError
from lowbit.ops import get_op
from lowbit.types import Array, TensorType, type_of

torch = pytest.importorskip("torch")
F = torch.nn.functional
quick = settings(max_examples=40, deadline=None)


def values(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def apply(op: str, *xs: Array | None, **attrs: Any) -> Any:
    """The op's outputs, which must be what its `infer` says; one output stands by itself."""
    definition = get_op(op)
    inferred = definition.infer_types([type_of(x) if x is not None else None for x in xs], attrs)
    with np.errstate(all="ignore"):
        outputs = definition.run(xs, attrs)
    assert [type_of(y) for y in outputs] == list(inferred)
    return outputs[0] if len(outputs) == 1 else outputs


def close(ours: Array, theirs: Any, tolerance: float = 2e-5) -> None:
    want = theirs.detach().numpy()
    assert ours.shape == want.shape
    scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
    np.testing.assert_allclose(ours, want, rtol=0, atol=tolerance * scale)


def t(x: Array | None) -> Any:
    return None if x is None else torch.from_numpy(x.copy())


# -- convolutions ------------------------------------------------------------------------------------------------------


@st.composite
def convolutions(draw: Any) -> dict[str, Any]:
    n = draw(st.integers(1, 3))
    side = st.integers(1, 3)

    def each(s: Any) -> tuple[int, ...]:
        return tuple(draw(s) for _ in range(n))

    kernel, stride, dilation = each(side), each(side), each(st.integers(1, 2))
    pads = tuple(draw(st.integers(0, 2)) for _ in range(2 * n))
    groups, per_in, per_out = draw(side), draw(side), draw(side)
    size = each(st.integers(1, 8 if n < 3 else 5))
    assume(all(s + pads[i] + pads[n + i] >= (kernel[i] - 1) * dilation[i] + 1 for i, s in enumerate(size)))
    return {
        "x": (draw(st.integers(0, 2)), groups * per_in, *size),
        "kernel": kernel,
        "per_in": per_in,
        "per_out": per_out,
        "bias": draw(st.booleans()),
        "attrs": {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups},
    }


@quick
@given(convolutions())
def test_conv_is_torchs_in_1d_2d_3d_with_groups_dilation_and_asymmetric_pads(case: dict[str, Any]) -> None:
    a, n = case["attrs"], len(case["kernel"])
    outs = case["per_out"] * a["groups"]
    x, w = values(case["x"]), values((outs, case["per_in"], *case["kernel"]), 1)
    b = values((outs,), 2) if case["bias"] else None
    padded = F.pad(t(x), [p for i in reversed(range(n)) for p in (a["pads"][i], a["pads"][n + i])])
    conv = getattr(F, f"conv{n}d")
    close(apply("conv", x, w, b, **a), conv(padded, t(w), t(b), a["stride"], 0, a["dilation"], a["groups"]))


@quick
@given(convolutions(), st.data())
def test_conv_transpose_is_torchs_in_1d_2d_3d(case: dict[str, Any], data: Any) -> None:
    a, n = case["attrs"], len(case["kernel"])
    half = a["pads"][:n]
    extra = tuple(data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(a["stride"], a["dilation"], strict=True))
    assume(
        all(
            (s - 1) * a["stride"][i] + (k - 1) * a["dilation"][i] + 1 + extra[i] > 2 * half[i]
            for i, (s, k) in enumerate(zip(case["x"][2:], case["kernel"], strict=True))
        )
    )
    x, w = values(case["x"]), values((case["x"][1], case["per_out"], *case["kernel"]), 1)
    b = values((case["per_out"] * a["groups"],), 2) if case["bias"] else None
    ours = apply("conv_transpose", x, w, b, **{**a, "pads": half + half}, output_padding=extra)
    conv = getattr(F, f"conv_transpose{n}d")
    if x.shape[0]:  # torch refuses an empty batch here; the shape was checked
        close(ours, conv(t(x), t(w), t(b), a["stride"], half, extra, a["groups"], a["dilation"]))


@quick
@given(convolutions())
def test_conv_transpose_is_the_adjoint_of_conv(case: dict[str, Any]) -> None:
    """⟨conv(x), y⟩ = ⟨x, conv_transpose(y)⟩, with asymmetric pads too."""
    a, n = case["attrs"], len(case["kernel"])
    x = values(case["x"], dtype=np.float64)
    w = values((case["per_out"] * a["groups"], case["per_in"], *case["kernel"]), 1, np.float64)
    forward = apply("conv", x, w, None, **a)
    y = values(forward.shape, 2, np.float64)
    reach = [(k - 1) * d + 1 for k, d in zip(case["kernel"], a["dilation"], strict=True)]
    rest = tuple((s + a["pads"][i] + a["pads"][n + i] - reach[i]) % a["stride"][i] for i, s in enumerate(case["x"][2:]))
    back = apply("conv_transpose", y, w, None, **a, output_padding=rest)
    assert back.shape == x.shape
    np.testing.assert_allclose((forward * y).sum(), (x * back).sum(), rtol=1e-9, atol=1e-9)


def test_col2im_is_torchs_fold() -> None:
    x = values((2, 3 * 6, 5 * 4))
    ours = apply("col2im", x, image=(10, 9), kernel=(2, 3), stride=(2, 2), pads=(0, 1, 0, 1), dilation=(1, 2))
    close(ours, F.fold(t(x), (10, 9), (2, 3), (1, 2), (0, 1), (2, 2)))


def test_deform_conv_without_offsets_is_conv_and_with_whole_offsets_reads_the_pixel_there() -> None:
    x, w, b = values((2, 4, 6, 5)), values((6, 2, 3, 3), 1), values((6,), 2)
    attrs: dict[str, Any] = {"stride": (1, 2), "pads": (1, 0, 2, 1), "dilation": (1, 1), "groups": 2}
    plain = apply("conv", x, w, b, **attrs)
    offset = np.zeros((2, 2 * 9 * 2, *plain.shape[2:]), np.float32)
    np.testing.assert_allclose(apply("deform_conv", x, w, offset, b, None, **attrs, offset_groups=2), plain, atol=1e-5)
    down = offset.copy()
    down[:, 0::2] = 1  # every tap one row lower: the convolution of the image moved up
    moved = np.concatenate([x[:, :, 1:], np.zeros_like(x[:, :, :1])], axis=2)
    attrs["pads"] = (0, 0, 2, 1)  # the row before the first must not matter
    down, plain = down[:, :, : plain.shape[2] - 1], apply("conv", moved, w, b, **attrs)
    np.testing.assert_allclose(apply("deform_conv", x, w, down, b, None, **attrs, offset_groups=2), plain, atol=1e-5)
    half = np.full((2, 18, *plain.shape[2:]), 0.5, np.float32)
    masked = apply("deform_conv", x, w, down, None, half, **attrs, offset_groups=2)
    np.testing.assert_allclose(masked, (plain - b.reshape(-1, 1, 1)) / 2, atol=1e-5)


def test_conv_counts_multiply_accumulates() -> None:
    macs = get_op("conv").macs
    assert macs is not None
    attrs = {"stride": (2, 2), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 4}
    x, w = TensorType((parse_dim("b"), 8, 10, 10), "float32"), TensorType((16, 2, 3, 3), "float32")
    assert macs(x, w, **attrs) == parse_dim("b") * 16 * 5 * 5 * 2 * 9


# -- pools -------------------------------------------------------------------------------------------------------------


@st.composite
def pools(draw: Any) -> dict[str, Any]:
    n = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(n))
    half = tuple(draw(st.integers(0, k // 2)) for k in kernel)  # what torch allows
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(n))
    size = tuple(draw(st.integers(1, 8)) for _ in range(n))
    assume(all(s + 2 * p >= (k - 1) * d + 1 for s, p, k, d in zip(size, half, kernel, dilation, strict=True)))
    stride = tuple(draw(st.integers(1, 4)) for _ in range(n))
    return {
        "x": (draw(st.integers(1, 2)), 2, *size),
        "kernel": kernel,
        "stride": stride,
        "half": half,
        "dilation": dilation,
        "ceil": draw(st.booleans()),
    }


@quick
@given(pools())
def test_max_pool_and_its_indices_are_torchs(p: dict[str, Any]) -> None:
    x = values(p["x"])
    n = len(p["kernel"])
    attrs = {"kernel": p["kernel"], "stride": p["stride"], "pads": p["half"] * 2, "dilation": p["dilation"], "ceil_mode": p["ceil"]}
    pool = getattr(F, f"max_pool{n}d")
    want, places = pool(t(x), p["kernel"], p["stride"], p["half"], p["dilation"], ceil_mode=p["ceil"], return_indices=True)
    close(apply("max_pool", x, **attrs), want, 0)
    y, indices = apply("max_pool_indices", x, **attrs)
    close(y, want, 0)
    image = np.arange(x.shape[0] * 2).reshape(x.shape[0], 2, *[1] * n) * int(np.prod(x.shape[2:]))
    real = np.isfinite(y)  # a window may hold nothing but padding, and has no place then
    np.testing.assert_array_equal(indices[real], (places.numpy() + image)[real])
    np.testing.assert_array_equal(x.reshape(-1)[indices][real], y[real])


@quick
@given(pools(), st.booleans())
def test_avg_pool_is_torchs_whatever_ceil_mode_adds(p: dict[str, Any], include: bool) -> None:
    n = len(p["kernel"])
    assume(n < 3 or all(s >= k for s, k in zip(p["x"][2:], p["kernel"], strict=True)))  # torch refuses smaller ones in 3d
    x = values(p["x"])
    pool = getattr(F, f"avg_pool{n}d")
    attrs = {"kernel": p["kernel"], "stride": p["stride"], "pads": p["half"] * 2, "dilation": (1,) * n, "ceil_mode": p["ceil"]}
    close(apply("avg_pool", x, **attrs, count_include_pad=include), pool(t(x), p["kernel"], p["stride"], p["half"], p["ceil"], include))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool_is_torchs(p: int) -> None:
    x = np.abs(values((2, 3, 7, 6)))
    close(
        apply("lp_pool", x, kernel=(3, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1), ceil_mode=False, p=p),
        F.lp_pool2d(t(x), p, (3, 2), 2),
    )


@quick
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_adaptive_pools_are_torchs(sizes: list[tuple[int, int]]) -> None:
    n, out = len(sizes), tuple(o for _, o in sizes)
    x = values((2, 3, *(s for s, _ in sizes)))
    close(
        apply("adaptive_avg_pool", x, output_size=out),
        (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[n - 1](t(x), out),
    )
    close(
        apply("adaptive_max_pool", x, output_size=out),
        (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[n - 1](t(x), out),
        0,
    )


def test_max_unpool_puts_maxima_back_and_refuses_an_index_outside() -> None:
    x = values((2, 3, 4, 4))
    y, indices = apply("max_pool_indices", x, kernel=(2, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1), ceil_mode=False)
    back = apply("max_unpool", y, indices, shape=x.shape)
    np.testing.assert_array_equal(back[back != 0], np.where(back != 0, x, 0)[back != 0])
    assert np.count_nonzero(back) == y.size
    with pytest.raises(ShapeError, match="an index is outside the 48 elements"):
        apply("max_unpool", y, indices, shape=(1, 3, 4, 4))


def test_the_place_of_a_maximum_is_never_padding() -> None:
    for x in (np.full((1, 1, 3), -128, np.int8), np.full((1, 1, 3), -np.inf, np.float32)):
        _, indices = apply("max_pool_indices", x, kernel=(2,), stride=(1,), pads=(1, 0), dilation=(1,), ceil_mode=False)
        assert indices.tolist() == [[[0, 0, 1]]]


def test_max_pool_of_integers_never_prefers_padding() -> None:
    x = np.full((1, 1, 3), -128, np.int8)
    assert apply("max_pool", x, kernel=(3,), stride=(1,), pads=(1, 1), dilation=(1,), ceil_mode=False).tolist() == [[[-128] * 3]]


# -- norms, softmax, products ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (3, 6, 4, 5), (1, 6, 2, 3, 4), (0, 6, 4)])
def test_norms_are_torchs(shape: tuple[int, ...]) -> None:
    x, s, b = values(shape) * 3 + 1, values((6,), 1), values((6,), 2)
    m, v = values((6,), 3), np.abs(values((6,), 4))
    close(apply("batch_norm", x, s, b, m, v, eps=1e-3), F.batch_norm(t(x), t(m), t(v), t(s), t(b), eps=1e-3))
    close(apply("group_norm", x, s, b, groups=3, eps=1e-5), F.group_norm(t(x), 3, t(s), t(b)))
    if len(shape) > 2 and shape[0]:
        close(apply("instance_norm", x, s, b, eps=1e-5), F.instance_norm(t(x), None, None, t(s), t(b)))
    for axis in range(1, len(shape)):
        tail = shape[axis:]
        scale, bias = values(tail, 5), values(tail, 6)
        close(apply("layer_norm", x, scale, bias, axis=axis, eps=1e-5), F.layer_norm(t(x), tail, t(scale), t(bias)))
        close(apply("layer_norm", x, axis=axis, eps=1e-5), F.layer_norm(t(x), tail))
        close(apply("rms_norm", x, scale, axis=axis, eps=1e-6), F.rms_norm(t(x), tail, t(scale), 1e-6))


def test_lrn_and_lp_norm_are_torchs() -> None:
    x = values((2, 7, 3, 4))
    close(apply("lrn", x, size=5, alpha=0.1, beta=0.7, bias=2.0), F.local_response_norm(t(x), 5, 0.1, 0.7, 2.0))
    close(apply("lp_norm", x, axis=1, p=2), F.normalize(t(x), 2, 1))
    close(apply("lp_norm", x, axis=2, p=1), F.normalize(t(x), 1, 2))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_and_its_logarithm_are_torchs_and_survive_huge_inputs(axis: int) -> None:
    x = values((3, 4, 5)) * 1e4
    close(apply("softmax", x, axis=axis), F.softmax(t(x), axis))
    close(apply("log_softmax", x, axis=axis), F.log_softmax(t(x), axis))
    close(apply("hardmax", x, axis=axis), F.one_hot(t(x).argmax(axis), x.shape[axis]).movedim(-1, axis).float(), 0)


WINDOW = {"stride": (2,), "pads": (1, 1), "dilation": (1,)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("conv", [(1, 64, 9), (4, 64, 3), (4,)], {"stride": (1,), "pads": (1, 1), "dilation": (1,), "groups": 1}),
        (
            "conv_transpose",
            [(1, 64, 9), (64, 4, 3)],
            {"stride": (2,), "pads": (1, 1), "dilation": (1,), "groups": 1, "output_padding": (0,)},
        ),
        ("matmul", [(3, 500), (500, 2)], {}),
        ("linear", [(3, 500), (2, 500), (2,)], {}),
        ("einsum", [(3, 500), (500, 2)], {"equation": "ab,bc"}),
        *((f"reduce_{f}", [(3, 500)], {"axes": (1,), "keepdims": False}) for f in ("sum", "mean", "prod", "l1", "l2", "sum_square")),
        *((f"reduce_{f}", [(9, 1, 3)], {"axes": (0,), "keepdims": True}) for f in ("log_sum", "log_sum_exp", "max", "min")),
        ("cumsum", [(3, 500)], {"axis": 1}),
        ("cumprod", [(3, 20)], {"axis": 1, "exclusive": True, "reverse": True}),
        *((f, [(500,)], {}) for f in ("hardswish", "sigmoid", "silu", "mish", "softplus", "softsign")),
        *((f, [(500,)], {"alpha": 0.3}) for f in ("leaky_relu", "elu", "celu", "thresholded_relu")),
        ("selu", [(500,)], {"alpha": 1.67, "gamma": 1.05}),
        ("hardsigmoid", [(500,)], {"alpha": 0.2, "beta": 0.5}),
        *(("gelu", [(500,)], {"approximate": a}) for a in ("none", "tanh")),
        ("shrink", [(500,)], {"lambd": 0.4, "bias": 0.3}),
        ("layer_norm", [(3, 500)], {"axis": 1, "eps": 1e-5}),
        ("group_norm", [(3, 4, 50)], {"groups": 2, "eps": 1e-5}),
        ("softmax", [(3, 500)], {"axis": 1}),
        ("attention", [(2, 9, 8), (2, 7, 8), (2, 7, 8)], {"scale": 0.3, "causal": True}),
        ("max_pool", [(1, 2, 9)], {"kernel": (3,), "stride": (2,), "pads": (1, 1), "dilation": (1,), "ceil_mode": True}),
        (
            "avg_pool",
            [(1, 2, 9)],
            {"kernel": (3,), "stride": (2,), "pads": (1, 1), "dilation": (1,), "ceil_mode": True, "count_include_pad": True},
        ),
        ("resize", [(1, 2, 9)], {"sizes": (1, 2, 20), "scales": (1.0, 1.0, None), "mode": "cubic", "coordinate_mode": "half_pixel"}),
    ],
)
def test_half_floats_are_summed_in_float32_and_rounded_once(op: str, shapes: Any, attrs: Any, dtype: str) -> None:
    half = TensorType((), dtype).dtype.numpy
    xs = [values(s, i).astype(half) for i, s in enumerate(shapes)]
    got = apply(op, *xs, **attrs)
    exact = apply(op, *(x.astype(np.float32) for x in xs), **attrs)
    np.testing.assert_array_equal(got.astype(np.float32), exact.astype(half).astype(np.float32))


def test_large_half_floats_do_not_overflow_on_the_way() -> None:
    x = np.array([20000, -20000], np.float16)
    np.testing.assert_array_equal(apply("hardswish", x), np.array([20000, 0], np.float16))
    np.testing.assert_array_equal(apply("reduce_l2", x[:1], axes=(0,), keepdims=False), np.float16(20000))
    np.testing.assert_array_equal(apply("gelu", x, approximate="tanh"), np.array([20000, 0], np.float16))


@quick
@given(
    st.sampled_from(
        [
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 4)),
            ((5, 2, 3), (3, 4)),
            ((5, 1, 2, 3), (6, 3, 4)),
            ((0, 2, 3), (3, 4)),
            ((2, 0), (0, 3)),
        ]
    )
)
def test_matmul_is_torchs_for_all_ranks(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = values(shapes[0]), values(shapes[1], 1)
    close(apply("matmul", a, b), torch.matmul(t(a), t(b)))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(7, 1, 2, 3), (5, 3, 4)]),
        ("i...,i...->...", [(3, 4, 5), (3, 4, 5)]),
        ("bii->bi", [(2, 3, 3)]),
        ("ij->", [(2, 3)]),
        ("a,b,c->cab", [(2,), (3,), (4,)]),
        ("bn, anm, bm -> ba", [(2, 3), (5, 3, 4), (2, 4)]),
    ],
)
def test_einsum_is_torchs(equation: str, shapes: list[tuple[int, ...]]) -> None:
    xs = [values(s, i) for i, s in enumerate(shapes)]
    close(apply("einsum", *xs, equation=equation), torch.einsum(equation, *map(t, xs)))


# -- attention and recurrent layers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", [None, "bool", "float", "row"])
def test_attention_is_torchs(mask: str | None, causal: bool) -> None:
    q, k, v = values((2, 3, 5, 8)), values((2, 3, 7, 8), 1), values((2, 3, 7, 6), 2)
    seen = np.random.default_rng(3).random((2, 1, 5, 7)) < 0.6
    m = {None: None, "bool": seen, "float": values((5, 7), 4), "row": seen & (np.arange(5) != 2)[:, None]}[mask]
    if mask is not None and causal:  # torch takes one of the two
        both = np.tril(np.ones((5, 7), bool))
        theirs = m & both if m.dtype == bool else np.where(both, m, -np.inf).astype(np.float32)
        want = F.scaled_dot_product_attention(t(q), t(k), t(v), t(theirs), scale=0.2)
    else:
        want = F.scaled_dot_product_attention(t(q), t(k), t(v), t(m), is_causal=causal, scale=0.2)
    close(apply("attention", q, k, v, m, scale=0.2, causal=causal), want)


def test_a_row_that_may_attend_to_nothing_gives_zeros() -> None:
    q, k, v = values((1, 2, 4)), values((1, 3, 4), 1), values((1, 3, 5), 2)
    mask = np.array([[False] * 3, [True] * 3])
    y = apply("attention", q, k, v, mask, scale=1.0, causal=False)
    assert np.all(y[0, 0] == 0)
    assert np.all(np.isfinite(y))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_keeps_lengths_and_depends_on_the_distance_of_positions_only(interleaved: bool) -> None:
    angle = np.arange(6)[:, None] * np.array([1.0, 0.3])
    q, k = np.tile(values((4,)), (6, 1)), np.tile(values((4,), 1), (6, 1))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    rq, rk = (apply("rotary_embedding", x, cos, sin, interleaved=interleaved) for x in (q, k))
    np.testing.assert_allclose(np.linalg.norm(rq, axis=1), np.linalg.norm(q, axis=1), rtol=1e-5)
    products = rq @ rk.T
    np.testing.assert_allclose(np.diagonal(products, 2), products[0, 2], rtol=1e-4)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "module", "order", "activations"),
    [
        ("lstm", torch.nn.LSTM, [0, 3, 1, 2], ("sigmoid", "tanh", "tanh")),
        ("gru", torch.nn.GRU, [1, 0, 2], ("sigmoid", "tanh")),
        ("rnn", torch.nn.RNN, [0], ("tanh",)),
    ],
)
def test_recurrent_layers_are_torchs(
    op: str, module: Any, order: list[int], activations: tuple[str, ...], direction: str, layout: int
) -> None:
    torch.manual_seed(0)
    both, hidden = direction == "bidirectional", 5
    layer = module(4, hidden, bidirectional=both, batch_first=bool(layout))
    suffixes = ["", "_reverse"][: 1 + both]

    def gates(name: str) -> Array:
        """torch's parameter with the gates in ONNX's order and a leading axis for the direction."""
        found = [getattr(layer, f"{name}_l0{s}").detach().numpy() for s in suffixes]
        return np.stack([np.concatenate([g.reshape(-1, hidden, *g.shape[1:])[i] for i in order]) for g in found])

    w, r = gates("weight_ih"), gates("weight_hh")
    b = np.concatenate([gates("bias_ih"), gates("bias_hh")], axis=1)
    x, h0, c0 = values((6, 3, 4)), values((1 + both, 3, hidden), 1), values((1 + both, 3, hidden), 2)
    states = (t(h0), t(c0)) if op == "lstm" else t(h0)
    y, last = layer(t(x.swapaxes(0, 1) if layout else x), states)
    last = last if op == "lstm" else (last,)
    if layout:
        x, h0, c0 = (a.swapaxes(0, 1).copy() for a in (x, h0, c0))
    attrs: dict[str, Any] = {"hidden": hidden, "direction": direction, "activations": activations * (1 + both), "layout": layout}
    if op == "gru":
        attrs["linear_before_reset"] = True  # torch's form
    inputs = (x, w, r, b, h0, c0) if op == "lstm" else (x, w, r, b, h0)
    ours, *ends = apply(op, *inputs, **attrs)
    joined = ours.reshape(*ours.shape[:2], -1) if layout else ours.transpose(0, 2, 1, 3).reshape(6, 3, -1)
    close(joined, y)
    for mine, theirs in zip(ends, last, strict=True):
        close(mine.swapaxes(0, 1) if layout else mine, theirs)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("layout", [0, 1])
def test_a_gru_interpolates_its_inner_state_and_multiplies_h(layout: int, before: bool) -> None:
    w, r, b = values((1, 9, 2), 1), values((1, 9, 3), 2), values((1, 18), 3)
    attrs = {"hidden": 3, "direction": "forward", "activations": ("sigmoid", "tanh"), "linear_before_reset": before, "layout": layout}
    x, h0, s0 = values((4, 4, 2)), values((4, 1, 3) if layout else (1, 4, 3), 4), values((4, 1, 3) if layout else (1, 4, 3), 5)
    y, h = apply("gru", x, w, r, b, h0, **attrs)
    for got, want in zip(apply("gru", x, w, r, b, h0, None, h0, **attrs), (y, h, h), strict=True):
        assert np.array_equal(got, want)
    if before:  # s takes part in nothing but z * s
        one = x[:, :1] if layout else x[:1]
        of_h, of_s, of_0 = (apply("gru", one, w, r, b, h0, None, s, **attrs)[2] for s in (h0, s0, 0 * s0))
        np.testing.assert_allclose((of_s - of_0) * h0, (of_h - of_0) * s0, atol=1e-6)
        assert np.abs(of_s - of_h).max() > 1e-3


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates", "functions"), [("lstm", 4, 3), ("gru", 3, 2), ("rnn", 1, 1)])
def test_a_short_row_in_a_batch_is_the_row_alone(op: str, gates: int, functions: int, direction: str) -> None:
    d, hidden, lengths = 2 if direction == "bidirectional" else 1, 3, [5, 2, 0, 4]
    x = values((5, 4, 2))
    w, r, b = values((d, gates * hidden, 2), 1), values((d, gates * hidden, hidden), 2), values((d, 2 * gates * hidden), 3)
    names = ("sigmoid", "tanh", "tanh")[:functions] if functions > 1 else ("tanh",)
    attrs = {"hidden": hidden, "direction": direction, "activations": names * d}
    optional = [None] * (3 if op == "lstm" else 1)
    y, *ends = apply(op, x, w, r, b, *optional, np.array(lengths, np.int32), **attrs)
    for i, n in enumerate(lengths):
        alone, *last = apply(op, x[:n, i : i + 1], w, r, b, **attrs)
        np.testing.assert_allclose(y[:n, :, i], alone[:, :, 0], atol=1e-6)
        assert not y[n:, :, i].any()
        for end, want in zip(ends, last, strict=True):
            np.testing.assert_allclose(end[:, i], want[:, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("op", "weight", "attrs"),
    [
        ("conv", (8, 16, 5, 5), {"groups": 1}),
        ("conv", (16, 1, 5, 5), {"groups": 16}),
        ("max_pool", None, {"kernel": (5, 5), "ceil_mode": False}),
        ("avg_pool", None, {"kernel": (5, 5), "ceil_mode": False, "count_include_pad": True}),
        ("lp_pool", None, {"kernel": (5, 5), "ceil_mode": False, "p": 2}),
        ("max_pool_indices", None, {"kernel": (5, 5), "ceil_mode": False}),
    ],
)
def test_windows_that_overlap_are_not_all_copied_at_once(op: str, weight: Any, attrs: Any) -> None:
    x = values((2, 16, 100, 100))
    inputs = [x] if weight is None else [x, values(weight, 1)]
    geometry = {"stride": (1, 1), "pads": (2, 2, 2, 2), "dilation": (1, 1), **attrs}
    tracemalloc.start()
    get_op(op).run(inputs, geometry)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (8 * x.nbytes if op != "max_pool_indices" else 12 * x.nbytes)  # 25 taps


def test_a_convolution_by_parts_is_the_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = values((2, 6, 11, 9)), values((8, 3, 3, 2), 1)
    attrs = {"stride": (2, 1), "pads": (1, 0, 2, 1), "dilation": (1, 2), "groups": 2}
    want = F.conv2d(F.pad(t(x), (0, 1, 1, 2)), t(w), stride=(2, 1), dilation=(1, 2), groups=2)
    for limit in (1, 3000, 10**9):
        monkeypatch.setattr("lowbit.ops.conv.COLUMNS", limit)
        close(apply("conv", x, w, **attrs), want)


# -- resize and sampling -----------------------------------------------------------------------------------------------


def _resize(x: Array, out: tuple[int, ...], mode: str, coordinate: str, **more: Any) -> Any:
    return apply(
        "resize", x, sizes=(*x.shape[:2], *out), scales=(1.0, 1.0, *[None] * len(out)), mode=mode, coordinate_mode=coordinate, **more
    )


@quick
@given(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.tuples(st.integers(1, 12), st.integers(1, 12)), st.booleans())
def test_resize_is_torchs_interpolate(size: tuple[int, int], out: tuple[int, int], corners: bool) -> None:
    x = values((2, 3, *size))
    coordinate = "align_corners" if corners else "half_pixel"
    for ours, theirs in (("linear", "bilinear"), ("cubic", "bicubic")):
        close(_resize(x, out, ours, coordinate), F.interpolate(t(x), out, mode=theirs, align_corners=corners))
    if not corners and min(size[1], out[1]) > 1:  # torch 2.13 does not interpolate the rows of an image one pixel wide
        for ours, theirs, a in (("linear", "bilinear", -0.75), ("cubic", "bicubic", -0.5)):
            smooth = _resize(x, out, ours, coordinate, antialias=True, exclude_outside=True, cubic_coeff_a=a)
            close(smooth, F.interpolate(t(x), out, mode=theirs, antialias=True))
    assert _resize(x, size, "nearest", coordinate).tobytes() == x.tobytes()


@pytest.mark.parametrize("factor", [2, 3])
def test_nearest_resize_by_a_whole_number_repeats_elements_in_any_dimension(factor: int) -> None:
    for n in (1, 2, 3):
        x = values((1, 2, *(3, 4, 2)[:n]))
        ours = _resize(x, tuple(factor * s for s in x.shape[2:]), "nearest", "asymmetric", nearest_mode="floor")
        close(ours, F.interpolate(t(x), scale_factor=factor, mode="nearest"), 0)


def test_resize_of_integers_rounds_and_saturates() -> None:
    x = np.array([[[0, 255, 0, 255]]], np.uint8)
    y = _resize(x, (16,), "cubic", "half_pixel")
    want = np.rint(_resize(x.astype(np.float64), (16,), "cubic", "half_pixel")).clip(0, 255)
    assert want.max() == 255
    np.testing.assert_array_equal(y, want.astype(np.uint8))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("ours", "theirs"), [("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")])
def test_grid_sample_is_torchs(ours: str, theirs: str, padding: str, align: bool) -> None:
    x, grid = values((2, 3, 5, 4)), values((2, 6, 7, 2), 1) * 1.5
    got = apply("grid_sample", x, grid, mode=ours, padding_mode=padding, align_corners=align)
    close(got, F.grid_sample(t(x), t(grid), theirs, padding, align))
    if ours != "cubic":  # torch has no cubic in 3d
        x, grid = values((2, 3, 3, 5, 4)), values((2, 2, 6, 7, 3), 1) * 1.5
        got = apply("grid_sample", x, grid, mode=ours, padding_mode=padding, align_corners=align)
        close(got, F.grid_sample(t(x), t(grid), theirs, padding, align))


@pytest.mark.parametrize("align", [False, True])
def test_affine_grid_is_torchs(align: bool) -> None:
    for n in (2, 3):
        theta = values((2, n, n + 1))
        size = (4, 5, 2)[:n]
        close(apply("affine_grid", theta, size=size, align_corners=align), F.affine_grid(t(theta), [2, 1, *size], align_corners=align))


def test_depth_to_space_is_pixel_shuffle_and_space_to_depth_its_inverse() -> None:
    x = values((2, 12, 3, 4))
    close(apply("depth_to_space", x, block=2, mode="CRD"), F.pixel_shuffle(t(x), 2), 0)
    np.testing.assert_array_equal(apply("space_to_depth", apply("depth_to_space", x, block=2, mode="DCR"), block=2), x)
