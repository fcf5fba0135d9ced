"""Integer matmul is exact at every dtype pair, size and zero point; the float32 result follows its written rule to the bit."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st

from lowbit import matmul as mm
from lowbit.dtypes import dtype
from lowbit.errors import LowbitError, QuantError, ShapeError
from lowbit.matmul import Backend, Operand, accumulator, int_matmul, matmul, plan_matmul
from lowbit.packing import pack
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, dequantize

SIZES = [(1, 1, 1), (3, 7, 5), (2, 17, 1), (1, 64, 9), (0, 3, 2), (2, 0, 3), (2, 3, 0), (16, 33, 8)]


def fill(name: str, shape: tuple[int, ...], how: str) -> np.ndarray:
    d = dtype(name)
    rng = np.random.default_rng(3)
    if how == "random":
        ints = rng.integers(d.min, d.max, shape, endpoint=True)
    else:
        ints = np.full(shape, d.min if how == "min" else d.max)
    return np.where(ints < 0, -1, 1).astype(np.int8) if name == "binary" else ints.astype(d.numpy)


def operand(name: str, ints: np.ndarray, zero_point: int) -> Operand:
    return Operand(ints, dtype(name), np.full((1,) * ints.ndim, zero_point, np.int32))


def zero_points(name: str) -> tuple[int, ...]:
    d = dtype(name)
    return (0,) if name == "binary" else (d.min, 0, d.max)


@pytest.mark.parametrize(("left", "right"), list(product(own.MATMUL_DTYPES, repeat=2)))
def test_every_dtype_pair_is_exact_at_extremes_and_odd_sizes(left: str, right: str) -> None:
    for m, k, n in SIZES:
        for how in ("random", "min", "max"):
            qa, qb = fill(left, (m, k), how), fill(right, (k, n), how)
            for za, zb in product(zero_points(left), zero_points(right)):
                a, b = operand(left, qa, za), operand(right, qb, zb)
                want = (qa.astype(np.int64) - za) @ (qb.astype(np.int64) - zb)
                got = int_matmul(a, b, "reference")
                assert np.array_equal(got, want) and got.dtype == accumulator(a, b) and got.shape == (m, n)


def test_accumulators_are_int64_exactly_where_int32_could_overflow() -> None:
    def kind(left: str, right: str, k: int, zero_point: int = 0) -> str:
        a, b = fill(left, (1, k), "min"), fill(right, (k, 1), "min")
        return str(accumulator(operand(left, a, zero_point), operand(right, b, zero_point)))

    assert kind("int8", "int8", 131071) == "int32"  # 131071 · 128² = 2^31 - 2^14
    assert kind("int8", "int8", 131072) == "int64"
    assert kind("int8", "int8", 131071, zero_point=127) == "int64"  # |q - z| up to 255
    assert kind("int16", "int16", 1) == "int32"
    assert kind("int16", "int16", 2) == "int64"
    assert kind("binary", "binary", 10**6) == "int32"
    with pytest.raises(QuantError, match="int32 × int32 over 2 terms can overflow int64"):
        kind("int32", "int32", 2)


@pytest.mark.parametrize(
    ("left", "right", "k"), [("int32", "int8", 20_000), ("uint16", "uint16", 2_200_000), ("int32", "int16", 1000), ("int32", "int32", 1)]
)
def test_sums_beyond_what_float64_holds_are_exact(left: str, right: str, k: int) -> None:
    a, b = fill(left, (1, k), "min" if left == "int32" else "max"), fill(right, (k, 1), "max")
    a[0, -1] = a[0, -1] + 1 if left == "int32" else a[0, -1] - 1  # an odd end, which float64 would round away
    got = int_matmul(operand(left, a, 0), operand(right, b, 0), "reference")
    want = sum(x * y for x, y in zip(a[0].tolist(), b[:, 0].tolist()))
    assert int(got[0, 0]) == want


def test_binary_products_are_xnor_and_popcount() -> None:
    a, b = fill("binary", (5, 37), "random"), fill("binary", (37, 4), "random")
    got = int_matmul(operand("binary", a, 0), operand("binary", b, 0), "reference")
    for i, j in product(range(5), range(4)):
        differ = np.bitwise_xor(pack(a[i], "binary"), pack(b[:, j], "binary"))
        assert got[i, j] == 37 - 2 * int(np.unpackbits(differ).sum())


def by_rule(qa: np.ndarray, a: QuantParams, qb: np.ndarray, b: QuantParams) -> np.ndarray:
    """The written rule, one element at a time, in NumPy float32 scalars."""
    (m, k), n = qa.shape, qb.shape[1]
    (sa, za), (sb, zb) = (tuple(np.broadcast_to(v, q.shape) for v in p.expand(q.shape)) for q, p in ((qa, a), (qb, b)))
    blocks = [p.granularity.size for p in (a, b) if isinstance(p.granularity, PerBlock)]
    cuts = sorted({0, k, *(e for size in blocks for e in range(0, k, size))}) if blocks else [0, k]
    y = np.zeros((m, n), np.float32)
    for i, j in product(range(m), range(n)):
        for start, stop in pairwise(cuts):
            acc = sum((int(qa[i, t]) - int(za[i, t])) * (int(qb[t, j]) - int(zb[t, j])) for t in range(start, stop))
            term = np.float32(acc) * (sa[i, start] * sb[start, j]) if stop > start else np.float32(0)
            y[i, j] = y[i, j] + term if blocks else term
    return y


@given(st.data())
@settings(deadline=None)
def test_float32_results_follow_the_rule_to_the_bit(data: st.DataObject) -> None:
    m, k, n = (data.draw(st.integers(1, 5)) for _ in range(3))
    a = data.draw(own.quant_params((m, k), own.MATMUL_DTYPES, data.draw(st.sampled_from([PerTensor(), PerAxis(0), PerBlock(1, 2)]))))
    b = data.draw(own.quant_params((k, n), own.MATMUL_DTYPES, data.draw(st.sampled_from([PerTensor(), PerAxis(-1), PerBlock(0, 3)]))))
    qa, qb = data.draw(own.codes((m, k), a)), data.draw(own.codes((k, n), b))
    with np.errstate(all="ignore"):
        got = matmul(qa, a, qb, b)
        if "logarithmic" in (a.scheme, b.scheme):
            assert plan_matmul((m, k), a, (k, n), b).kind == "float"
            assert got.tobytes() == np.matmul(dequantize(qa, a), dequantize(qb, b)).tobytes()
        else:
            assert got.tobytes() == by_rule(qa, a, qb, b).tobytes()


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((5, 2, 4), (4, 3)),
        ((5, 2, 4), (5, 4, 3)),
        ((1, 5, 2, 4), (6, 1, 4, 3)),
        ((4,), (5, 4, 3)),
    ]
    + [((5, 2, 4), (4,)), ((0, 2, 4), (4, 3)), ((2, 0), (0, 3)), ((0,), (0,))],
)
def test_shapes_are_those_of_numpy(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = fill("int8", a_shape, "random"), fill("uint8", b_shape, "random")
    for pa, pb in [
        (QuantParams("int8", 1.0), QuantParams("uint8", 1.0, 0)),
        (QuantParams("int8", np.ones(_blocks(a_shape, -1)), granularity=PerBlock(-1, 2)), QuantParams("uint8", 1.0, 0)),
    ]:
        got = matmul(a, pa, b, pb)
        want = np.matmul(a.astype(np.int64), b.astype(np.int64))
        assert np.array_equal(got, want) and got.shape == np.shape(want) and got.dtype == np.float32


def _blocks(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(-(-d // 2) if i == axis % len(shape) else d for i, d in enumerate(shape))


def test_a_result_beyond_float32_is_said_by_numpy_as_ever() -> None:
    huge = QuantParams("int8", 1e30)
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert matmul(np.ones((1, 1), np.int8), huge, np.ones((1, 1), np.int8), huge)[0, 0] == np.inf


def test_scales_per_batch_and_per_row_stay_in_integers() -> None:
    a, b = fill("int8", (3, 2, 4), "random"), fill("int8", (3, 4, 5), "random")
    for axis in (0, 1):
        pa = QuantParams("int8", np.arange(1, a.shape[axis] + 1), granularity=PerAxis(axis))
        pb = QuantParams("int8", [0.5, 1.0, 2.0], granularity=PerAxis(0))
        assert plan_matmul(a.shape, pa, b.shape, pb).kind == "integer"
        assert np.array_equal(matmul(a, pa, b, pb), dequantize(a, pa) @ dequantize(b, pb))


def test_the_plan_says_why_a_product_is_not_integer() -> None:
    plain = QuantParams("int8", 1.0)

    def plan(a: QuantParams, b: QuantParams = plain) -> str:
        p = plan_matmul((2, 4), a, (4, 3), b)
        return f"{p.kind}: {p.because}"

    assert plan(plain) == "integer: no scale varies along the axis that is summed"
    per_k = QuantParams("int8", np.ones(4), granularity=PerAxis(1))
    assert plan(per_k) == "float: the left side has a scale for each index of the axis that is summed"
    assert plan(plain, QuantParams("int8", np.ones((4, 2)), granularity=PerBlock(1, 2))).startswith(
        "float: the right side has a scale for each"
    )
    assert plan(plain, QuantParams("int8", np.ones((2, 3)), granularity=PerBlock(0, 2))).startswith("blocks: the scales vary in blocks")
    assert plan(QuantParams("int4", 1.0, scheme="logarithmic")).startswith("float: the left side is logarithmic")
    assert plan(QuantParams("int32", 1.0), QuantParams("int32", 1.0)) == "float: sums of int32 × int32 can overflow int64"
    assert plan_matmul((2, 5), plain, (5, 3), QuantParams("int8", np.ones((2, 3)), granularity=PerBlock(0, 3))).segments == ((0, 3), (3, 5))


def test_a_new_backend_is_the_default_and_what_it_lacks_goes_to_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def none_for_int8(a: Operand, b: Operand) -> np.ndarray | None:
        asked.append((a.dtype.name, b.dtype.name))
        return None

    monkeypatch.setattr(mm, "BACKENDS", {"reference": mm.BACKENDS["reference"], "new": Backend(none_for_int8)})
    p = QuantParams("int8", 1.0)
    one = np.ones((2, 2), np.int8)
    assert matmul(one, p, one, p).tolist() == [[2, 2], [2, 2]] and asked == [("int8", "int8")]
    assert matmul(one, p, one, p, backend="reference").tolist() == [[2, 2], [2, 2]] and len(asked) == 1


PLAIN = QuantParams("int8", 1.0)


@pytest.mark.parametrize(
    ("a", "b", "backend", "kind", "text"),
    [
        ((2, 3), (4, 5), None, ShapeError, "matmul of shapes (2, 3) and (4, 5): 3 columns on the left, 4 rows on the right"),
        ((), (4,), None, ShapeError, "matmul needs arrays of one or more dimensions, got a scalar"),
        ((2, 1, 3), (3, 3, 1), None, ShapeError, "the batch dimensions (2,) and (3,) do not broadcast"),
        ((1, 1), (1, 1), "gpu", QuantError, "matmul backend 'gpu' does not exist.\n  Try: one of reference"),
    ],
)
def test_bad_products_are_refused_with_what_was_found(
    a: tuple[int, ...], b: tuple[int, ...], backend: str | None, kind: type[LowbitError], text: str
) -> None:
    with pytest.raises(kind) as e:
        matmul(np.ones(a, np.int8), PLAIN, np.ones(b, np.int8), PLAIN, backend=backend)
    assert text in str(e.value)
