"""Laws of quantize, dequantize and requantize: exhaustive for 4 and 8 bits, equal to ONNX Runtime, drawn at random for the rest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, FormatError, LowbitError
from lowbit.numerics import dequantize_log, quantize_binary, quantize_log, quantize_with, requantize_with
from lowbit.packing import pack, unpack
from lowbit.quant_params import PerAxis, PerBlock, QuantParams, dequantize, quantize, requantize

SMALL = ("int4", "uint4", "int8", "uint8")
INF, NAN = float("inf"), float("nan")


def all_codes(name: str) -> np.ndarray:
    d = dtype(name)
    return np.arange(d.min, d.max + 1).astype(d.numpy)


@pytest.mark.parametrize("name", SMALL)
def test_quantize_inverts_dequantize_for_every_code_and_every_zero_point(name: str) -> None:
    k = all_codes(name)
    for scale in (1.0, 0.1, 2.0**-100, 1 / 3, 7e30):
        for zero_point in k.tolist():
            p = QuantParams(name, scale, zero_point, "asymmetric")
            assert np.array_equal(quantize(dequantize(k, p), p), k)
            assert dequantize([zero_point], p)[0] == 0.0


@pytest.mark.parametrize("name", ["int16", "uint16"])
def test_quantize_inverts_dequantize_for_every_16_bit_code(name: str) -> None:
    k = all_codes(name)
    for zero_point in (int(k[0]), 7, int(k[-1])):
        p = QuantParams(name, 1e-3, zero_point, "asymmetric")
        assert np.array_equal(quantize(dequantize(k, p), p), k)


@pytest.mark.parametrize("name", ["int4", "uint4", "int8"])
def test_every_logarithmic_code_survives_a_round_trip(name: str) -> None:
    p = QuantParams(name, 1.5, scheme="logarithmic")
    k = np.arange(p.code_range[0], p.code_range[1] + 1).astype(p.dtype.numpy)
    x = dequantize(k, p)
    assert np.array_equal(quantize(x, p), k)
    assert np.all(np.diff(x) > 0) and x[-1] == 1.5 and dequantize([0], p)[0] == 0.0


def test_logarithmic_rounds_to_the_nearest_power_of_two() -> None:
    x = np.geomspace(2.0**-6, 1.0, 5001, dtype=np.float64).astype(np.float32)
    powers = 2.0 ** np.arange(-6, 1)
    best = np.abs(x[:, None].astype(np.float64) - powers).min(axis=1)
    got = np.abs(dequantize_log(quantize_log(x, 1.0, "int4"), 1.0, "int4").astype(np.float64) - x)
    assert np.array_equal(got, best)
    assert np.all(got <= x.astype(np.float64) / 3)


def test_logarithmic_saturates_and_sends_nan_and_the_tiniest_to_zero() -> None:
    x = [INF, -INF, NAN, -0.0, 2.0**-7, np.nextafter(np.float32(2.0**-7), np.float32(0)), -(2.0**-7), 1.01, -3.0]
    assert quantize_log(x, 1.0, "int4").tolist() == [7, -7, 0, 0, 1, 0, -1, 7, -7]
    assert quantize_log([-1.0, 1.0, INF], 1.0, "uint4").tolist() == [0, 15, 15]


def test_binary_is_minus_one_below_zero_and_plus_one_elsewhere() -> None:
    assert quantize_binary([-1e-45, -0.0, 0.0, NAN, INF, -INF, 3.0]).tolist() == [-1, 1, 1, 1, 1, -1, 1]
    p = QuantParams("binary", 0.5)
    assert dequantize(quantize([-9.0, 9.0], p), p).tolist() == [-0.5, 0.5]


@pytest.mark.parametrize("name", own.AFFINE_DTYPES)
def test_infinities_saturate_and_nan_gives_the_zero_point(name: str) -> None:
    d = dtype(name)
    zero_point = 0 if name == "int32" else d.max - 2
    got = quantize_with([INF, -INF, NAN, 3e38, -3e38, 0.0, -0.0], 1e-3, zero_point, name)
    assert got.tolist() == [d.max, d.min, zero_point, d.max, d.min, zero_point, zero_point]
    assert got.dtype == d.numpy


def test_halves_round_to_even() -> None:
    assert quantize_with([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], 1.0, 0, "int8").tolist() == [0, 2, 2, 0, -2, -2]
    assert quantize_with([0.5, 1.5], 1.0, 1, "int8").tolist() == [1, 3]  # rounded before the zero point is added


def exact_quantize(x: float, scale: float, zero_point: int, lo: int, hi: int) -> int:
    """The contract in rational numbers, with the one fp32 division that it names."""
    quotient = np.float32(x) / np.float32(scale)
    if np.isinf(quotient):
        return hi if quotient > 0 else lo
    return min(max(round(Fraction(float(quotient))) + zero_point, lo), hi)


@given(own.any_floats.filter(lambda v: v == v), st.floats(2.0**-126, 2.0**127, width=32), st.sampled_from(own.AFFINE_DTYPES), st.data())
def test_quantize_is_the_contract(x: float, scale: float, name: str, data: st.DataObject) -> None:
    d = dtype(name)
    zero_point = 0 if name == "int32" else data.draw(st.integers(d.min, d.max))
    with np.errstate(all="ignore"):
        assert quantize_with(x, scale, zero_point, name) == exact_quantize(x, scale, zero_point, d.min, d.max)


@given(own.shapes, st.data())
def test_restricted_codes_are_opposite_for_opposite_values(shape: tuple[int, ...], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["int4", "int8", "int16"]))
    p = QuantParams(name, 0.1, scheme="symmetric_restricted")
    x = data.draw(own.float_arrays(shape))
    assert np.array_equal(quantize(x, p), -quantize(-x, p))


@given(own.shapes.filter(lambda s: 0 not in s), st.data())
def test_round_trip_costs_at_most_half_a_step_inside_the_range(shape: tuple[int, ...], data: st.DataObject) -> None:
    p = data.draw(own.quant_params(shape, tuple(d for d in own.AFFINE_DTYPES if d != "int32")))
    if p.scheme == "logarithmic":
        return
    scale, zero_point = (np.broadcast_to(v, shape).astype(np.float64) for v in p.expand(shape))
    lo, hi = ((end - zero_point) * scale for end in p.code_range)
    x = (lo + data.draw(st.floats(0, 1)) * (hi - lo)).astype(np.float32)
    steps = np.abs(x / scale) + 1
    # Half a step, and what one fp32 division and one fp32 multiplication round off.
    assert np.all(np.abs(dequantize(quantize(x, p), p) - x.astype(np.float64)) <= scale * (0.5 + 2 * steps * 2.0**-24))


@given(own.shapes, st.data())
def test_every_kind_of_params_survives_codes_and_zero(shape: tuple[int, ...], data: st.DataObject) -> None:
    p = data.draw(own.quant_params(shape, own.MATMUL_DTYPES))
    q = data.draw(own.codes(shape, p))
    assert np.array_equal(quantize(dequantize(q, p), p), q) or (p.scheme == "logarithmic" and p.dtype.name == "int8")
    if p.dtype.name != "binary":
        assert np.all(dequantize(quantize(np.zeros(shape), p), p) == 0.0)


def test_requantize_is_one_multiplication_of_the_rounded_accumulator() -> None:
    acc = np.array([2**24 + 1, 2**31 - 1, -(2**31), 3, 5, -3, 0], np.int32)
    m = np.float32(0.5)
    want = [min(max(round(float(np.float32(a)) * 0.5) + 7, -(2**15)), 2**15 - 1) for a in acc.tolist()]
    assert requantize_with(acc, m, 7, "int16").tolist() == want
    assert requantize_with(np.array([2**24 + 1]), np.float32(1), 0, "int32").tolist() == [2**24]  # fl32(acc) rounds to even


@pytest.mark.parametrize("name", SMALL)
def test_requantizing_to_the_same_params_changes_nothing(name: str) -> None:
    k = all_codes(name)
    for zero_point in (int(k[0]), 3, int(k[-1])):
        p = QuantParams(name, 0.3, zero_point, "asymmetric")
        assert np.array_equal(requantize(k, p, p), k)


def test_requantize_follows_axes_and_survives_extreme_ratios() -> None:
    k = all_codes("int8").reshape(2, 128)
    source = QuantParams("int8", [1.0, 2.0], 0, "symmetric", PerAxis(0))
    assert requantize(k, source, QuantParams("int16", 0.5)).tolist() == [(k[0] * 2.0).tolist(), (k[1] * 4.0).tolist()]
    huge, tiny = QuantParams("int8", 3e38), QuantParams("int8", 1e-40)
    assert requantize([-1, 0, 1], huge, tiny).tolist() == [-128, 0, 127]
    assert requantize([-128, 0, 127], tiny, huge).tolist() == [0, 0, 0]


def test_requantize_to_logarithmic_and_binary_goes_through_the_real_value() -> None:
    source = QuantParams("int8", 0.25)
    log = QuantParams("int4", 4.0, scheme="logarithmic")
    assert dequantize(requantize([4, -16, 3, 0], source, log), log).tolist() == [1.0, -4.0, 1.0, 0.0]
    assert requantize([4, -16, 0], source, QuantParams("binary", 1.0)).tolist() == [1, -1, 1]
    assert requantize([7, -5], log, source).tolist() == [16, -4]


# --- ONNX Runtime ---------------------------------------------------------------------------------------------------------------


def ort_run(
    op: str, x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, y_type: int, x_type: int, zp_type: int, **attrs: int
) -> np.ndarray:
    h = onnx.helper
    initializers = [
        h.make_tensor("s", onnx.TensorProto.FLOAT, scale.shape, scale.reshape(-1).tolist()),
        h.make_tensor("z", zp_type, zero_point.shape, zero_point.reshape(-1).tolist()),
    ]
    node = h.make_node(op, ["x", "s", "z"], ["y"], **attrs)
    info = [h.make_tensor_value_info("x", x_type, x.shape)], [h.make_tensor_value_info("y", y_type, x.shape)]
    model = h.make_model(h.make_graph([node], "g", *info, initializers), opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def a_million_floats(scale: float) -> np.ndarray:
    """Every kind: in range, exact halves and their neighbours, infinities, subnormals, all exponents."""
    rng = np.random.default_rng(7)
    halves = ((np.arange(-70000, 70000) + 0.5) * scale).astype(np.float32)
    neighbours = np.concatenate([halves, np.nextafter(halves, np.float32(INF)), np.nextafter(halves, np.float32(-INF))])
    bits = rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    subnormal = rng.integers(0, 2**23, 1000, dtype=np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, INF, -INF, 3.4e38, -3.4e38, 1e-45, -1e-45], np.float32)
    spread = rng.normal(0, 100 * scale, 300_000).astype(np.float32)
    x = np.concatenate([neighbours, bits[~np.isnan(bits)], subnormal, -subnormal, special, spread])
    assert x.size >= 10**6
    return x


ONNX_TYPES = {name: getattr(onnx.TensorProto, name.upper()) for name in ("int8", "uint8", "int16", "uint16", "int32")}


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("scale", [0.037, 0.5, 1e-41])
def test_a_million_values_quantize_to_the_bytes_of_onnx_runtime(name: str, scale: float) -> None:
    x, d = a_million_floats(scale), dtype(name)
    for zero_point in (d.min, d.min + 3, d.max):
        p = QuantParams(name, scale, zero_point, "asymmetric")
        theirs = ort_run("QuantizeLinear", x, p.scale, p.zero_point, ONNX_TYPES[name], onnx.TensorProto.FLOAT, ONNX_TYPES[name])
        assert quantize(x, p).tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32"])
def test_dequantize_has_the_bits_of_onnx_runtime(name: str) -> None:
    d = dtype(name)
    q = np.random.default_rng(1).integers(d.min, d.max, 10**6, dtype=d.numpy, endpoint=True)
    for zero_point in (d.min, 5, d.max) if name != "int32" else (0,):
        p = QuantParams(name, 0.037, zero_point)
        args = (p.scale, p.zero_point, onnx.TensorProto.FLOAT, ONNX_TYPES[name], ONNX_TYPES[name])
        assert dequantize(q, p).tobytes() == ort_run("DequantizeLinear", q, *args).tobytes()


def test_per_axis_quantizes_to_the_bytes_of_onnx_runtime() -> None:
    x = a_million_floats(0.037)[: 7 * 3 * 1000].reshape(7, 3, 1000)
    p = QuantParams("uint8", [0.037, 0.1, 7.0], [0, 128, 255], "asymmetric", PerAxis(1))
    theirs = ort_run("QuantizeLinear", x, p.scale, p.zero_point, 2, onnx.TensorProto.FLOAT, 2, axis=1)
    assert quantize(x, p).tobytes() == theirs.tobytes()


def test_per_block_quantizes_to_the_bytes_of_onnx_runtime() -> None:
    x = a_million_floats(0.037)[: 6 * 100 * 5].reshape(6, 100, 5)
    rng = np.random.default_rng(2)
    scale, zero_point = rng.uniform(0.01, 2, (6, 4, 5)), rng.integers(0, 255, (6, 4, 5))
    p = QuantParams("uint8", scale, zero_point, "asymmetric", PerBlock(1, 32))  # the last block has 4
    theirs = ort_run("QuantizeLinear", x, p.scale, p.zero_point, 2, onnx.TensorProto.FLOAT, 2, axis=1, block_size=32)
    assert quantize(x, p).tobytes() == theirs.tobytes()


# --- packing ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_every_pair_of_nibbles_packs_low_nibble_first(name: str) -> None:
    k = all_codes(name)
    pairs = np.array([(a, b) for a in k for b in k], k.dtype)
    assert pack(pairs, name).tolist() == [(a & 15) | (b & 15) << 4 for a, b in pairs.astype(int).tolist()]
    assert np.array_equal(unpack(pack(pairs, name), name, pairs.shape), pairs)


def test_every_byte_of_bits_packs_bit_0_first() -> None:
    bits = np.array([[1 if byte >> i & 1 else -1 for i in range(8)] for byte in range(256)], np.int8)
    assert pack(bits, "binary").tolist() == list(range(256))
    assert np.array_equal(unpack(pack(bits, "binary"), "binary", bits.shape), bits)


@given(own.shapes, st.data())
def test_unpack_inverts_pack(shape: tuple[int, ...], data: st.DataObject) -> None:
    p = data.draw(own.quant_params(shape, ("int4", "uint4", "binary")))
    q = data.draw(own.codes(shape, p))
    packed = pack(q, p.dtype)
    assert packed.nbytes == p.dtype.nbytes(q.size)
    back = unpack(packed, p.dtype, shape)
    assert np.array_equal(back, q) and back.dtype == q.dtype


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: pack([8], "int4"), LowbitError, "values 8..8 do not fit int4, which holds -8..7"),
        (lambda: pack([0, 1], "binary"), LowbitError, "binary holds -1 and +1, found 0"),
        (lambda: pack([1], "int8"), DTypeError, "int8 is not stored packed"),
        (lambda: pack([0.5], "int4"), DTypeError, "cannot pack float64 into int4"),
        (lambda: unpack([1, 2], "int4", (5,)), FormatError, "2 bytes do not hold int4 of shape (5,), which takes 3"),
        (lambda: quantize_with(["a"], 1, 0, "int8"), DTypeError, "x is an array of <U1, real numbers are needed"),
        (lambda: quantize_with(np.array([object()]), 1, 0, "int8"), DTypeError, "x is an array of object"),
        (lambda: quantize_with([1.0], 1, 0, "float16"), DTypeError, "cannot round to float16"),
        (lambda: quantize_log([1.0], 1, "uint8"), DTypeError, "the logarithmic scheme has no uint8"),
        (lambda: dequantize([1.5], QuantParams("int8", 1.0)), DTypeError, "quantized values are integers, got float64"),
    ],
)
def test_bad_input_is_refused_with_what_was_found(call: object, kind: type[LowbitError], text: str) -> None:
    with pytest.raises(kind) as e:
        call()  # type: ignore[operator]
    assert text in str(e.value)
