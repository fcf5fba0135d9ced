"""Laws of integer attention and of lb_exp, the exponential it is built on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import own_numbers
import pytest
from own_numbers import normal
from own_numbers import numbers_of_a_test as numbers_of_a_test
from q_ops_laws import Road, graph_of, inner, road

from lowbit.dims import Sym, parse_dim
from lowbit.ir.interp import run
from lowbit.metrics import sqnr_db
from lowbit.numerics import lb_exp
from lowbit.ops.op import get_op
from lowbit.ops.q_attention import P_MAX
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.types import Array, TensorType


def attention(
    shape: tuple[Any, ...], mask: Array | None = None, causal: bool = False, behind: bool = True, dtype: str = "int8", seen: Any = ()
) -> Road:
    """softmax(q kᵀ/√E + mask) v, and a linear layer (the identity) behind it that wants integers."""

    def make(b: Any, q: Any, k: Any, v: Any) -> Any:
        m = None if mask is None else b.constant(mask, name="mask")
        y = b.add("attention", q, k, v, m, name="a", scale=shape[-1] ** -0.5, causal=causal)
        return b.add("linear", y, b.constant(np.eye(shape[-1], dtype=np.float32), name="w"), name="n") if behind else y

    bound = tuple(2 if isinstance(d, Sym) else d for d in shape)
    data = [[normal(*bound) for _ in range(3)] for _ in range(4)] + [list(seen)] * bool(seen)
    return road(graph_of(make, shape, shape, shape), data, [CalibratedQuantRule(".*", dtype)])


def test_lb_exp_is_within_one_ulp_of_exp() -> None:
    """All exponents, and a comb through every mantissa: at most 0.982 ulp (exhaustively measured; the comb finds 0.98 of it)."""
    bits = np.arange(int(np.float32(-1e-9).view(np.uint32)), int(np.float32(-87).view(np.uint32)) + 1, 997, dtype=np.int64)
    x = np.concatenate([bits.astype(np.uint32).view(np.float32), np.float32([0, -0.0, -87, -1e-38, -81.39479])])
    true = np.exp(x.astype(np.float64))
    ulp = np.abs(lb_exp(x).astype(np.float64) - true) / np.spacing(true.astype(np.float32)).astype(np.float64)
    assert ulp.max() <= 0.982
    assert ulp.max() > 0.9  # so the stated bound is not idle


def test_lb_exp_has_decided_ends() -> None:
    x = np.float32([0.0, -0.0, -87.0001, -np.inf, np.nan])
    assert lb_exp(x).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert lb_exp(np.float32(-87)) > 0


def test_lb_exp_takes_the_steps_that_the_page_says() -> None:
    """Each step again in exact fractions, rounded to float32 after every operation."""

    def fl(v: Fraction) -> Fraction:
        return Fraction(float(_nearest32(v)))

    for x in (-0.3, -1.0, -2.75, -17.3, -86.9, -1e-5):
        xf = Fraction(float(np.float32(x)))
        n = Fraction(round(fl(xf * Fraction(float(np.float32(1.44269502))))))
        hi, lo = Fraction(float(np.float32(0.693359375))), Fraction(float(np.float32(-2.12194440e-4)))
        r = fl(fl(xf - fl(n * hi)) - fl(n * lo))
        p = Fraction(float(np.float32(1.98756912e-4)))
        for c in (1.39819994e-3, 8.33345205e-3, 4.16657962e-2, 1.66666657e-1, 0.5):
            p = fl(fl(p * r) + Fraction(float(np.float32(c))))
        e = fl(fl(fl(p * fl(r * r)) + r) + 1) * Fraction(2) ** int(n)
        assert float(lb_exp(np.float32(x))) == float(e)


def _nearest32(v: Fraction) -> np.float32:
    """The float32 nearest to a fraction, ties to even: float64 first would round twice, so its neighbours are compared exactly."""
    guess = np.float32(float(v))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda c: (abs(Fraction(float(c)) - v), int(c.view(np.uint32)) & 1))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_int8_keeps_the_signal(causal: bool) -> None:
    arrays = [normal(2, 4, 24, 32) for _ in range(3)]
    r = attention((2, 4, 24, 32), causal=causal, seen=arrays)
    assert sorted(r.ops) == ["q_attention", "q_linear", *["quantize_linear"] * 3] and not r.lowered.islands
    (true,), _, (got,) = r.answers(*arrays)
    assert sqnr_db(true, got) >= 30


def test_attention_in_int16_keeps_much_more() -> None:
    arrays = [normal(2, 4, 24, 32) for _ in range(3)]
    r = attention((2, 4, 24, 32), dtype="int16", seen=arrays)
    (true,), _, (got,) = r.answers(*arrays)
    assert sqnr_db(true, got) >= 60


@pytest.mark.parametrize("kind", ["none", "float", "bool", "causal"])
def test_the_formula_again_in_python_integers(kind: str) -> None:
    """Bit for bit: scores and sums in Python integers, each float step on its own."""
    mask = {
        "float": np.where(own_numbers.rng.random((5, 5)) < 0.3, -np.inf, normal(5, 5)),
        "bool": own_numbers.rng.random((5, 5)) < 0.6,
    }.get(kind)
    if mask is not None:
        mask[2] = False if mask.dtype == bool else -np.inf  # a row with nothing to attend to
        mask = mask if mask.dtype == bool else mask.astype(np.float32)
    r = attention((2, 5, 8), mask=mask, causal=kind == "causal")
    (q, k, v, *_), (y,) = inner(r, "q_attention", *(normal(2, 5, 8) for _ in range(3)))
    a: Any = r.node("q_attention").attrs
    f = np.float32
    for n in range(2):
        for i in range(5):
            u = []
            for j in range(5):
                s = sum((int(q[n, i, e]) - a["q_zero"]) * (int(k[n, j, e]) - a["k_zero"]) for e in range(8))
                t = f(s) * f(a["score_scale"])
                if kind == "float":
                    t = t + mask[i, j]
                excluded = (kind == "bool" and not mask[i, j]) or (kind == "causal" and j > i)
                u.append(f(-np.inf) if excluded else t)
            top = max(u)
            p = [0 if np.isneginf(t) else int(np.rint(f(P_MAX) * lb_exp(t - top))) for t in u]
            for e in range(8):
                if not sum(p):
                    assert y[n, i, e] == a["y_zero"]
                    continue
                acc = sum(p[j] * (int(v[n, j, e]) - a["v_zero"]) for j in range(5))
                want = np.rint(f(acc) * (f(a["multiplier"]) / f(sum(p)))) + a["y_zero"]
                assert y[n, i, e] == np.clip(want, a["lo"], a["hi"])
                assert abs(acc) <= a["bound_per_key"] * 5


def test_integers_differ_from_brackets_by_what_rounded_probabilities_allow() -> None:
    """|Δy| ≤ ½ (rounding on each side) + Σ½|v − y| / Σp in steps of the result: each probability is off by at most a half."""
    r = attention((3, 16, 8))
    arrays = [normal(3, 16, 8) for _ in range(3)]
    (q, k, v, *_), (got,) = inner(r, "q_attention", *arrays)
    a: Any = r.node("q_attention").attrs
    u = np.matmul(q.astype(float) - a["q_zero"], (k.astype(float) - a["k_zero"]).swapaxes(-1, -2)) * a["score_scale"]
    p = np.exp(u - u.max(-1, keepdims=True))
    vs = v.astype(float) - a["v_zero"]
    y = (p / p.sum(-1, keepdims=True)) @ vs
    allowed = 0.5001 + (0.5 * np.abs(vs[:, None] - y[:, :, None]).sum(2) / np.rint(P_MAX * p).sum(-1)[..., None]) * a["multiplier"]
    assert np.all(np.abs(np.clip(y * a["multiplier"] + a["y_zero"], -128, 127) - got) <= allowed)


def test_a_float_result_is_the_same_sum_without_rounding() -> None:
    whole, real = attention((2, 6, 8)), attention((2, 6, 8), behind=False)
    assert real.node("q_attention").output.type.dtype.name == "float32"
    arrays = [normal(2, 6, 8) for _ in range(3)]
    (true,), _, (got,) = real.answers(*arrays)
    assert sqnr_db(true, got) >= 30
    assert whole.node("q_attention").output.type.dtype.name == "int8"


def test_batch_and_length_may_be_symbols() -> None:
    b, s = parse_dim("batch"), parse_dim("seq")
    r = attention((b, s, 8))
    assert not r.lowered.islands and r.node("q_attention").output.shape == (b, s, 8)
    for n, length in ((1, 3), (4, 7), (0, 5)):
        arrays = [normal(n, length, 8) for _ in range(3)]
        _, bracketed, (got,) = r.answers(*arrays)
        assert got.shape == bracketed[0].shape
        again = run(r.integers, {f"x{i}": a for i, a in enumerate(arrays)})["y0"]
        assert again.tobytes() == got.tobytes()


def test_features_that_are_a_symbol_leave_it_float_with_the_reason() -> None:
    e = parse_dim("features")
    r = road(
        graph_of(lambda b, q, k, v: b.add("attention", q, k, v, None, name="a", scale=0.5, causal=False), *[(2, 3, e)] * 3),
        [[normal(2, 3, 4)] * 3],
    )
    assert [i.because for i in r.lowered.islands] == ["the range of its scores cannot be proved while 'features' is not bound"]


def test_extremes_stay_in_the_proved_range() -> None:
    """All codes at their ends, and a scale so large that one key takes all."""
    attrs = dict(causal=False, q_zero=127, k_zero=-128, v_zero=-128, y_zero=0, lo=-128, hi=127, to="int8")
    op = get_op("q_attention")
    q, k, v = (np.full((1, 4, 64), c, np.int8) for c in (-128, 127, 127))
    k[0, 2] = 126
    common = {**attrs, "bound": 64 * 255 * 255, "bound_per_key": P_MAX * 255}
    v[0, 2] = -128
    (y,) = op.run([q, k, v], {**common, "score_scale": -1e31, "multiplier": 0.25})
    assert np.all(y == np.rint(255 * 0.25))  # the second of the keys is 255·64 steps below the others
    (y,) = op.run([q, k, v], {**common, "score_scale": 1e31, "multiplier": 0.25})
    assert np.all(y == 0)
    v[0, 2] = 127
    (y,) = op.run([q, k, v], {**common, "score_scale": 1.0, "multiplier": 1.0})
    assert np.all(y == 127)  # 255 saturates
    (y,) = op.run([q, k[:, :0], v[:, :0]], {**common, "score_scale": 1.0, "multiplier": 1.0})
    assert np.all(y == 0)  # no keys: the zero point


def test_a_mask_that_comes_in_at_run_time_stays_float() -> None:
    def make(b: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        return b.add("attention", q, k, v, m, name="a", scale=0.35, causal=False)

    def sample() -> list[Array]:
        return [*(normal(2, 6, 8) for _ in range(3)), normal(6, 6)]

    seen = sample()
    r = road(graph_of(make, *[(2, 6, 8)] * 3, (6, 6)), [seen])
    mask = r.node("q_attention").inputs[3]
    assert mask is not None and mask.type == TensorType((6, 6), "float32")
    (true,), _, (got,) = r.answers(*seen)
    assert sqnr_db(true, got) >= 30
