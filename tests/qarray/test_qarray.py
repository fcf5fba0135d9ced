"""A QArray is a NumPy array that stands for dequantize(ints): views keep their parameters, products are integer, all else is float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowbit import matmul as mm
from lowbit.dtypes import dtype
from lowbit.errors import CalibrationError, DTypeError, FormatError, LowbitError, QuantError, ShapeError
from lowbit.metrics import cosine, max_error, sqnr_db
from lowbit.packing import unpack
from lowbit.qarray import QArray, array, load_array, quantize_array, save_array
from lowbit.quant_params import QUANT_DTYPES, PerAxis, PerBlock, PerTensor, QuantParams

RNG = np.random.default_rng(5)


@st.composite
def qarrays(draw: Any, shape: tuple[int, ...] | None = None) -> QArray:
    shape = draw(own.shapes) if shape is None else shape
    params = draw(own.quant_params(shape))
    return QArray(draw(own.codes(shape, params)), params)


def same_bits(q: QArray, want: np.ndarray) -> None:
    got = q.dequantize()
    assert got.shape == want.shape and got.tobytes() == np.ascontiguousarray(want).tobytes()
    q.quant_params.check(q.shape)


def view_or_refusal(q: QArray, view: Any) -> None:
    """A view has the bits of the view of the floats, or its refusal names .dequantize(); per tensor nothing is refused."""
    want = view(q.dequantize())
    try:
        got = view(q)
    except QuantError as e:
        assert not isinstance(q.quant_params.granularity, PerTensor) and ".dequantize()" in str(e)
        return
    same_bits(got, want)


# --- making ---


@pytest.mark.parametrize("name", QUANT_DTYPES)
def test_a_qarray_is_its_integers_and_its_params(name: str) -> None:
    x = RNG.normal(size=(3, 5)).astype(np.float32)
    q = quantize_array(x, name)
    assert (q.shape, q.ndim, q.size, len(q), q.dtype.name) == ((3, 5), 2, 15, 3, name)
    assert q.nbytes == -(-15 * q.dtype.bits // 8) == q.packed.nbytes
    assert q.ints.dtype == q.dtype.numpy and not q.ints.flags.writeable
    same_bits(QArray(q.ints, q.quant_params), q.dequantize())
    assert np.array_equal(np.asarray(q), q.dequantize()) and np.asarray(q, np.float64).dtype == np.float64


def test_quantize_array_takes_scales_or_params_or_learns_them() -> None:
    x = [[0.0, 1.0, -2.0], [8.0, 4.0, 0.5]]
    assert quantize_array(x, "int8", scale=0.5).ints.tolist() == [[0, 2, -4], [16, 8, 1]]
    assert quantize_array(x, "uint8", scale=0.5, zero_point=4).ints.tolist() == [[4, 6, 0], [20, 12, 5]]
    assert quantize_array(x, scale=[1.0, 4.0], granularity=PerAxis(0)).ints.tolist() == [[0, 1, -2], [2, 1, 0]]
    learned = quantize_array(x, "int8", scheme="symmetric_restricted", granularity=PerAxis(0))
    assert learned.quant_params.scale.tolist() == [float(np.float32(2 / 127)), float(np.float32(8 / 127))]
    again = quantize_array(x, params=learned.quant_params)
    assert again.quant_params == learned.quant_params and np.array_equal(again.ints, learned.ints)
    assert quantize_array(x).dtype.name == "int8" and quantize_array(x, "uint8").quant_params.scheme == "asymmetric"
    assert np.array_equal(quantize_array(learned, params=learned.quant_params).ints, learned.ints)


def test_array_is_a_float_array_with_the_methods_that_quantize() -> None:
    a = array([[1.0, -1.0], [0.5, 0.0]])
    assert isinstance(a, np.ndarray) and a.dtype == np.float32 and (a + 1).sum() == 4.5
    assert a.quantize_int8().dtype.name == "int8" and a.quantize_uint8(granularity=PerAxis(0)).quant_params.scale.shape == (2,)
    assert a[0].quantize("int4", scale=1.0).ints.tolist() == [1, -1]
    assert array(a.quantize_int8(scale=0.5)).tolist() == a.tolist()


def test_astype_requantizes_in_one_rounding_or_gives_floats() -> None:
    q = quantize_array(RNG.normal(size=(4, 6)), "int16", granularity=PerAxis(0))
    assert q.astype("float32").tobytes() == q.dequantize().tobytes() and q.astype(np.float16).dtype == np.float16
    small = q.astype("int8")
    assert small.dtype.name == "int8" and small.quant_params.granularity == PerAxis(0)
    assert sqnr_db(q.dequantize(), small.dequantize()) > 38
    target = QuantParams("uint4", 0.5, 7)
    assert q.astype("uint4", params=target).quant_params == target
    assert q.astype("int16") is q


# --- views ---


@given(qarrays(), st.data())
@settings(max_examples=300)
def test_basic_indices_keep_the_meaning(q: QArray, data: st.DataObject) -> None:
    key = data.draw(hnp.basic_indices(q.shape, allow_newaxis=True))
    view_or_refusal(q, lambda a: np.asarray(a)[key] if isinstance(a, np.ndarray) else a[key])


@given(qarrays().filter(lambda q: q.ndim > 0 and 0 not in q.shape), st.data())
@settings(max_examples=300)
def test_integer_arrays_and_mixed_keys_keep_the_meaning(q: QArray, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=2, max_side=3))
    options = [
        lambda d: data.draw(hnp.arrays(np.intp, shape, elements=st.integers(-d, d - 1))),
        lambda d: data.draw(st.integers(-d, d - 1)),
        lambda d: data.draw(st.slices(d)),
        lambda d: slice(None),
    ]
    key = tuple(data.draw(st.sampled_from(options))(d) for d in q.shape)
    key = (*key, None) if data.draw(st.booleans()) else key
    view_or_refusal(q, lambda a: a[key])


@given(qarrays(), st.data())
def test_masks_keep_the_meaning(q: QArray, data: st.DataObject) -> None:
    mask = data.draw(hnp.arrays(np.bool_, q.shape[: data.draw(st.integers(0, q.ndim))])) if q.ndim else None
    if mask is not None and mask.ndim:
        view_or_refusal(q, lambda a: a[mask])


@given(qarrays(), st.data())
def test_transposes_and_squeezes_are_never_refused(q: QArray, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(q.ndim)))
    x = q.dequantize()
    same_bits(q.transpose(order), x.transpose(order))
    same_bits(q.permute(*order), x.transpose(order))
    same_bits(q.T, x.T)
    same_bits(q.squeeze(), x.squeeze())
    if q.ndim > 1:
        same_bits(q.mT, np.swapaxes(x, -1, -2))
        same_bits(np.moveaxis(q, 0, -1), np.moveaxis(x, 0, -1))


@given(qarrays(), st.data())
def test_broadcasts_are_never_refused(q: QArray, data: st.DataObject) -> None:
    grown = tuple(data.draw(st.integers(0, 4)) if d == 1 else d for d in q.shape)
    shape = (*data.draw(st.lists(st.integers(0, 3), max_size=2)), *grown)
    same_bits(np.broadcast_to(q, shape), np.broadcast_to(q.dequantize(), shape))


@given(qarrays(), st.data())
@settings(max_examples=300)
def test_reshapes_keep_the_meaning(q: QArray, data: st.DataObject) -> None:
    factors = [1, *q.shape, 1]
    cut = data.draw(st.integers(0, len(factors)))
    shape = (int(np.prod(factors[:cut])), int(np.prod(factors[cut:])))
    for new in (shape, -1 if q.size else 0, (*q.shape, 1), (1, *q.shape)):
        view_or_refusal(q, lambda a, new=new: a.reshape(new))


def test_scales_follow_their_axis() -> None:
    q = quantize_array(RNG.normal(size=(2, 3, 4)), granularity=PerAxis(1))
    scale = q.quant_params.scale.tolist()

    def kind(view: QArray) -> tuple[Any, Any]:
        return view.quant_params.granularity, view.quant_params.scale.tolist()

    assert kind(q.T) == (PerAxis(1), scale) and kind(q.transpose(1, 0, 2)) == (PerAxis(0), scale)
    assert kind(q[0]) == (PerAxis(0), scale) and kind(q[:, 1]) == (PerTensor(), scale[1])
    assert kind(q[:, ::-1]) == (PerAxis(1), scale[::-1]) and kind(q[..., None, 0]) == (PerAxis(1), scale)
    assert kind(q[:, [2, 0]]) == (PerAxis(1), [scale[2], scale[0]]) and kind(q[0, :, [1, 1]]) == (PerAxis(1), scale)
    assert kind(q.reshape(2, 3, 2, 2)) == (PerAxis(1), scale) and kind(q[0].reshape(1, 3, 4)) == (PerAxis(1), scale)
    assert [kind(row) for row in q[0]] == [(PerTensor(), s) for s in scale]


def test_blocks_follow_their_axis() -> None:
    q = quantize_array(RNG.normal(size=(4, 8)), "int4", granularity=PerBlock(1, 4))
    scale = q.quant_params.scale

    def kind(view: QArray) -> tuple[Any, Any]:
        return view.quant_params.granularity, view.quant_params.scale.tolist()

    assert kind(q.T) == (PerBlock(0, 4), scale.T.tolist())
    assert kind(q[1:3, 4:]) == (PerBlock(1, 4), scale[1:3, 1:].tolist())
    assert kind(q[:, 5]) == (PerAxis(0), scale[:, 1].tolist())
    assert kind(q[2, 5]) == (PerTensor(), float(scale[2, 1]))
    assert kind(q.ravel()) == (PerBlock(0, 4), scale.reshape(-1).tolist())
    assert kind(q.reshape(2, 16)) == (PerBlock(1, 4), scale.reshape(2, 4).tolist())


def test_iteration_and_scalars() -> None:
    q = quantize_array([[1.0, 2.0], [3.0, -4.0]], "int8", scale=0.5)
    assert [r.tolist() for r in q] == [[1.0, 2.0], [3.0, -4.0]] and float(q[1, 1]) == -4.0 and int(q[0, 1]) == 2 and bool(q[0, 0])
    packed = quantize_array([[1.0, 2.0], [3.0, -4.0]], "int4", scale=1.0)
    assert [r.tolist() for r in packed] == [[1.0, 2.0], [3.0, -4.0]]
    for call in (len, iter, list):
        with pytest.raises(TypeError, match="0-d QArray"):
            next(call(q[0, 0])) if call is iter else call(q[0, 0])


# --- NumPy ---


def test_products_of_two_are_integer_and_with_floats_are_float() -> None:
    a = quantize_array(RNG.normal(size=(5, 7)), "int8", granularity=PerAxis(0))
    b = quantize_array(RNG.normal(size=(7, 3)), "uint8", granularity=PerAxis(1))
    y = mm.matmul(a.ints, a.quant_params, b.ints, b.quant_params)
    out = np.empty((5, 3), np.float32)
    for got in (a @ b, np.matmul(a, b), np.dot(a, b), np.matmul(a, b, out=out), a.matmul(b, backend="reference")):
        assert isinstance(got, np.ndarray) and got.tobytes() == y.tobytes()
    assert np.matmul(a, b, out=out) is out
    x = RNG.normal(size=(7, 3)).astype(np.float32)
    assert (a @ x).tobytes() == (a.dequantize() @ x).tobytes() and (x.T @ a.T).tobytes() == (x.T @ a.T.dequantize()).tobytes()
    assert np.dot(a[0, 0], b).tobytes() == np.dot(a[0, 0].dequantize(), b.dequantize()).tobytes()


@pytest.mark.parametrize(
    "subscripts",
    ["ij,jk->ik", "ij,jk", "ij,kj->ki", "bij,bjk->bik", "bij,bkj->kbi", "ij,j->i", "j,jk->k", "j,j->", "bj,bj->b", "ji,jk->ik"],
)
def test_einsum_of_a_matrix_product_is_the_integer_one(subscripts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(QArray, "matmul", lambda a, b, real=QArray.matmul: calls.append(1) or real(a, b))
    dims = dict(b=2, i=3, j=4, k=5)
    left, right = subscripts.split("->")[0].split(",")
    a, b = (quantize_array(RNG.integers(-9, 9, [dims[c] for c in s]), scale=1.0) for s in (left, right))
    got, want = np.einsum(subscripts, a, b), np.einsum(subscripts, a.dequantize(), b.dequantize())
    assert calls and np.array_equal(got, want) and got.shape == want.shape


@pytest.mark.parametrize("subscripts", ["ij,ij->ij", "ij,ij->", "i,j->ij", "...j,jk->...k", "ii,ij->j", "ij,jk->k"])
def test_other_einsums_dequantize(subscripts: str) -> None:
    a = quantize_array(RNG.integers(-9, 9, [3] * (1 if subscripts[1] == "," else 2)), scale=1.0)
    b = quantize_array(RNG.integers(-9, 9, [3] * len(subscripts.split("->")[0].split(",")[1])), scale=1.0)
    assert np.array_equal(np.einsum(subscripts, a, b), np.einsum(subscripts, a.dequantize(), b.dequantize()))


CALLS = [
    lambda q: q + 1,
    lambda q: 2 * q - q,
    lambda q: -q,
    lambda q: q > 0.1,
    lambda q: np.exp(q),
    lambda q: np.add.reduce(q, axis=0),
    lambda q: np.sum(q, axis=1),
    lambda q: np.concatenate([q, q]),
    lambda q: np.stack([q, np.zeros((4, 6), np.float32)]),
    lambda q: np.where(q > 0, q, 0),
    lambda q: np.argmax(q),
    lambda q: np.sort(q, axis=-1),
    lambda q: np.linalg.norm(q),
    lambda q: np.tensordot(q, q, axes=([1], [1])),
    lambda q: np.reshape(q, (6, 4), order="F"),
    lambda q: np.take(q, [1, 2]),
    lambda q: np.allclose(q, q),
    lambda q: np.clip(q, a_min=-0.1, a_max=0.1),
]


@pytest.mark.parametrize("call", CALLS)
def test_every_other_function_sees_the_dequantized_array(call: Any) -> None:
    q = quantize_array(RNG.normal(size=(4, 6)), "int4", granularity=PerAxis(0))
    got, want = call(q), call(q.dequantize())
    assert type(got) is type(want) and np.array_equal(got, want)


VIEWS = [
    lambda q: np.reshape(q, (4, 3, 2)),
    lambda q: np.transpose(q),
    lambda q: np.transpose(q, (1, 0)),
    lambda q: np.swapaxes(q, 0, 1),
    lambda q: np.moveaxis(q, 0, 1),
    lambda q: np.expand_dims(q, (0, -1)),
    lambda q: np.squeeze(q[None]),
    lambda q: np.squeeze(q[:, :1], axis=1),
    lambda q: np.broadcast_to(q, (2, 4, 6)),
    lambda q: np.take(q, [3, 0], axis=0),
    lambda q: np.take(q, 1, axis=-1),
    lambda q: np.flip(q),
    lambda q: np.flip(q, axis=-1),
    lambda q: np.copy(q),
    lambda q: np.ravel(q[0]),
]


@pytest.mark.parametrize("call", VIEWS)
def test_views_by_numpy_functions_stay_quantized(call: Any) -> None:
    q = quantize_array(RNG.normal(size=(4, 6)), "int8", granularity=PerAxis(0))
    got = call(q)
    assert isinstance(got, QArray)
    same_bits(got, call(q.dequantize()))


def test_shape_questions_do_not_dequantize(monkeypatch: pytest.MonkeyPatch) -> None:
    q = quantize_array(np.ones((2, 3)))
    monkeypatch.setattr(QArray, "dequantize", None)
    assert (np.shape(q), np.ndim(q), np.size(q), np.size(q, 1)) == ((2, 3), 2, 6, 3)


def test_an_array_does_not_change_with_the_one_it_was_made_from() -> None:
    for d in ("int8", "int4", "int16"):
        source = np.zeros(3, dtype(d).numpy)
        q = QArray(source, QuantParams(d, 1.0))
        source[0] = 5
        assert q.ints.tolist() == [0, 0, 0]
    kept = np.zeros(3, np.int8)
    kept.flags.writeable = False
    assert np.shares_memory(QArray(kept, QuantParams("int8", 1.0)).ints, kept)


@pytest.mark.parametrize("kind", ["int4", "uint4", "binary"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 7, 3), (9,), (3, 0), (0, 3)])
def test_rows_of_packed_arrays_are_those_of_the_unpacked_ones(kind: str, shape: tuple[int, ...]) -> None:
    ints = np.random.default_rng(0).integers(0, 8, shape).astype(dtype(kind).numpy)
    q = QArray(np.where(ints > 3, 1, -1).astype(np.int8) if kind == "binary" else ints, QuantParams(kind, 1.0))
    keys = [0, -1, slice(1, 3), slice(None), slice(3, 1), slice(-2, None), slice(None, None, 2), ..., np.array([0, 1])]
    keys += [(1, slice(None)), (slice(1, 2), 0), (slice(1, 4), ..., slice(0, 2)), (2, 1)]
    for key in keys:
        try:
            expected = q.ints[key]
        except IndexError:
            with pytest.raises(ShapeError):
                q[key]
            continue
        np.testing.assert_array_equal(q[key].ints, expected)


def test_an_element_of_a_packed_array_unpacks_no_more_than_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    q = quantize_array(np.ones((64, 32)), "int4")
    seen: list[int] = []

    def counted(data: Any, d: Any, shape: Any) -> Any:
        seen.append(len(data))
        return unpack(data, d, shape)

    monkeypatch.setattr("lowbit.qarray.core.unpack", counted)
    assert float(q[7, 3]) == 1.0
    assert max(seen) == 16
    seen.clear()
    w = q.T  # unpacks q to pack it in another order
    assert np.array_equal(q @ w, q @ w) and len(seen) == 3


def test_wide_views_share_memory() -> None:
    q = quantize_array(RNG.normal(size=(40, 60)), "int16")
    for view in (q.T, q[1:, ::-2], q.reshape(60, 40), q.broadcast_to((2, 40, 60))):
        assert np.shares_memory(view.ints, q.ints)


# --- words, files, errors ---


def test_repr_tells_meaning_size_and_cost() -> None:
    q = quantize_array([[0.5, -1.0]], "int8")
    text = repr(q)
    assert text.startswith(
        "QArray([[ 0.5, -1. ]],\n  shape=(1, 2), int8, symmetric, per tensor, scale=0.0078125, zero_point=0, 2 + 4 bytes, SQNR inf dB"
    )
    assert "at most ±0.00391 inside the range" in text
    assert "error unknown" in repr(q[0]) and "SQNR" in repr(q.T)
    assert "2000 values" in repr(quantize_array(np.ones(2000), "binary")) and "±" not in repr(quantize_array([1.0], "binary"))


def test_the_kept_sqnr_is_that_of_the_original() -> None:
    x = RNG.normal(size=1000).astype(np.float32)
    q = quantize_array(x, "int8")
    assert q.sqnr_db == sqnr_db(x, q.dequantize()) and q.sqnr_db > 30
    assert quantize_array([np.nan, 1.0], scale=1.0).sqnr_db is None


@given(q=qarrays())
@settings(max_examples=50, deadline=None)
def test_saved_arrays_come_back(q: QArray, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("q") / "a.safetensors"
    q.save(path)
    back = load_array(path)
    assert back.quant_params == q.quant_params and np.array_equal(back.ints, q.ints) and back.ints.dtype == q.ints.dtype
    first = path.read_bytes()
    save_array(path, back)
    assert path.read_bytes() == first


def test_files_that_are_not_arrays_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    junk = tmp_path / "junk"
    junk.write_bytes(b"not safetensors at all")
    with pytest.raises(FormatError, match=r"^junk: not a quantized array"):
        load_array(junk)
    with pytest.raises(FormatError, match="missing: not a quantized array"):
        load_array(tmp_path / "missing")
    save_file({"data": np.zeros(3, np.int8)}, junk)
    with pytest.raises(FormatError, match=r"junk: not a quantized array \(TypeError"):
        load_array(junk)
    save_array(junk, quantize_array([1.0], "int8"))
    junk.write_bytes(junk.read_bytes().replace(b'\\"dtype\\": \\"int8\\"', b'\\"dtype\\": \\"int4\\"'))
    with pytest.raises(FormatError, match=r"^junk: holds int8, its parameters say int4, which is stored as uint8"):
        load_array(junk)


Q = quantize_array(np.arange(12.0).reshape(3, 4), granularity=PerAxis(1))
BLOCKS = quantize_array(np.arange(12.0).reshape(3, 4), "int4", granularity=PerBlock(1, 2))


def _assign(q: QArray) -> None:
    q[0] = 1.0


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: quantize_array([1.0], "int7"), DTypeError, "dtype 'int7' is not one of lowbit's"),
        (lambda: quantize_array([1.0], "float32"), DTypeError, "float32 is not a quantized dtype"),
        (lambda: quantize_array(np.array([None])), DTypeError, "x is an array of object, real numbers are needed"),
        (lambda: quantize_array([1 + 2j]), DTypeError, "x is an array of complex128"),
        (lambda: quantize_array([]), CalibrationError, "an array of shape (0,) has no values to take a range from.\n  Try: give scale="),
        (lambda: quantize_array([np.nan] * 3), CalibrationError, "the range holds NaN"),
        (lambda: quantize_array([1.0, np.inf]), CalibrationError, "the range holds infinity"),
        (lambda: quantize_array([1.0], zero_point=3), QuantError, "zero_point= needs scale="),
        (lambda: quantize_array([1.0], scale=1.0, params=QuantParams("int8", 1.0)), QuantError, "params= already has scale"),
        (lambda: quantize_array([1.0], "uint8", params=QuantParams("int8", 1.0)), QuantError, "dtype uint8 with parameters of int8"),
        (lambda: quantize_array([1.0], params=Q.quant_params), QuantError, "per axis 1 does not exist in an array of shape (1,)"),
        (lambda: quantize_array([[1.0]], params=Q.quant_params), QuantError, "scales of shape (4,) do not fit an array of shape (1, 1)"),
        (lambda: QArray([1.5], QuantParams("int8", 1.0)), DTypeError, "a QArray holds integers, got float64"),
        (
            lambda: QArray([300], QuantParams("int8", 1.0)),
            QuantError,
            "integers 300..300 are outside int8 symmetric, which holds -128..127",
        ),
        (lambda: QArray([0], QuantParams("binary", 1.0)), QuantError, "binary holds -1 and +1, found 0"),
        (lambda: Q.astype("int4", params=QuantParams("int8", 1.0)), QuantError, "astype(int4) with parameters of int8"),
        (lambda: Q.reshape(-1), QuantError, "reshape (3, 4) → (12,) cuts through the scales, which are per axis 1.\n  Try: .dequantize()"),
        (lambda: Q.reshape(5), ShapeError, "cannot reshape array of size 12 into shape (5,)"),
        (lambda: Q[:, np.array([[0, 1], [2, 3]])], QuantError, "an index of shape (2, 2) spreads the scales of axis 1 over 2 axes"),
        (lambda: BLOCKS[:, 1:], QuantError, "slice 1:4:1 does not start and go on with whole blocks of 2.\n  Try: .dequantize()"),
        (lambda: BLOCKS[:, ::-1], QuantError, "slice 3:-1:-1 does not start"),
        (lambda: Q[7], ShapeError, "index into shape (3, 4): index 7 is out of bounds"),
        (lambda: Q[0, 0, 0], ShapeError, "index into shape (3, 4): too many indices"),
        (lambda: Q[True], ShapeError, "a bool is not an index"),
        (lambda: Q["a"], ShapeError, "index into shape (3, 4)"),
        (lambda: Q.transpose(0, 0), ShapeError, "(0, 0) is not an order of the 2 axes"),
        (lambda: Q.swapaxes(0, 5), ShapeError, "axes 0 and 5 of an array of shape (3, 4)"),
        (lambda: Q.broadcast_to((3, 5)), ShapeError, "cannot broadcast shape (3, 4) to (3, 5)"),
        (lambda: Q.squeeze(0), ShapeError, "cannot squeeze axes (0,) of shape (3, 4)"),
        (lambda: Q.item(), ShapeError, "item() of an array of shape (3, 4)"),
        (lambda: Q @ Q, ShapeError, "matmul of shapes (3, 4) and (3, 4)"),
        (lambda: _assign(Q), QuantError, "a QArray does not change"),
        (lambda: np.add(1.0, 2.0, out=Q), QuantError, "np.add cannot write into a QArray"),
        (lambda: np.copyto(Q, 1.0), QuantError, "np.copyto cannot write into a QArray"),
        (lambda: np.fill_diagonal(a=Q, val=1.0), QuantError, "np.fill_diagonal cannot write into a QArray"),
        (lambda: np.add.at(Q, 0, 1.0), QuantError, "np.add cannot write into a QArray"),
        (lambda: sqnr_db([1.0], [1.0, 2.0]), ShapeError, "cannot compare shapes (1,) and (2,)"),
    ],
)
def test_bad_input_is_refused_with_what_was_found(call: Any, kind: type[LowbitError], text: str) -> None:
    with pytest.raises(kind) as e:
        call()
    assert text in str(e.value)


def test_in_place_arithmetic_is_refused_and_leaves_the_array() -> None:
    q = quantize_array([1.0, 2.0], scale=1.0)
    with pytest.raises(QuantError, match="does not change"):
        q += 1
    assert q.tolist() == [1.0, 2.0]


def test_metrics() -> None:
    assert sqnr_db([1.0, 2.0], [1.0, 2.0]) == float("inf") and sqnr_db([0.0], [1.0]) == float("-inf")
    assert max_error([1.0, 2.0], [1.0, 2.5]) == 0.5 and max_error([], []) == 0.0
    assert (
        cosine([1.0, 0.0], [0.0, 1.0]) == 0.0
        and cosine([2.0], [3.0]) == 1.0
        and cosine([0.0], [0.0]) == 1.0
        and cosine([0.0], [1.0]) == 0.0
    )
