"""The compiled integer matmul gives the bits of `reference` and of int64 NumPy: every dtype pair, extreme, size, batch, thread count."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st

from lowbit.dtypes import dtype
from lowbit.errors import InputError
from lowbit.kernels import gemm, native, threads
from lowbit.matmul import Operand, accumulator, cpu_accumulate, cpu_product, int_matmul, matmul, side
from lowbit.quant_params import QUANT_DTYPES, PerAxis, PerBlock, PerTensor, QuantParams

NARROW = ("int8", "uint8", "int4", "uint4", "binary")
KERNELS = [d for d in QUANT_DTYPES if d != "int32"]
SIZES = [
    (1, 1, 1),
    (3, 7, 5),
    (4, 16, 16),
    (5, 17, 17),
    (3, 15, 33),
    (2, 65, 1),
    (1, 300, 9),
    (0, 3, 2),
    (2, 0, 3),
    (2, 3, 0),
    (37, 33, 18),
]


@pytest.fixture(params=["ref", "best"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "ref":
        monkeypatch.setenv("LOWBIT_ISA", "ref")
    else:
        monkeypatch.delenv("LOWBIT_ISA", raising=False)
    yield request.param


def fill(name: str, shape: tuple[int, ...], how: str) -> np.ndarray:
    d = dtype(name)
    if how == "random":
        ints = np.random.default_rng(7).integers(d.min, d.max, shape, endpoint=True)
    else:
        ints = np.full(shape, d.min if how == "min" else d.max)
    return np.where(ints < 0, -1, 1).astype(np.int8) if name == "binary" else ints.astype(d.numpy)


def operand(name: str, ints: np.ndarray, zero_point: np.ndarray | int = 0) -> Operand:
    z = np.asarray(zero_point, np.int32)
    return Operand(ints, dtype(name), z if z.ndim else z.reshape((1,) * ints.ndim))


def int64(a: Operand, b: Operand) -> np.ndarray:
    return np.matmul(a.ints.astype(np.int64) - a.zero_point, b.ints.astype(np.int64) - b.zero_point)


def expect_exact(a: Operand, b: Operand) -> None:
    got, want = cpu_accumulate(a, b), int64(a, b)
    assert got is not None
    assert got.dtype == accumulator(a, b) and got.shape == want.shape
    assert np.array_equal(got, want)
    assert np.array_equal(int_matmul(a, b, "reference"), want)


def extremes(name: str) -> tuple[int, ...]:
    d = dtype(name)
    return (0,) if name == "binary" else (d.min, d.max)  # type: ignore[return-value]  # integers have a range


@pytest.mark.parametrize(("left", "right"), list(product(KERNELS, repeat=2)))
def test_every_dtype_pair_is_exact_at_extremes_and_odd_sizes(isa: str, left: str, right: str) -> None:
    for m, k, n in SIZES:
        for fa, fb in [("random", "random"), ("min", "min"), ("max", "max"), ("min", "max")]:
            qa, qb = fill(left, (m, k), fa), fill(right, (k, n), fb)
            for za, zb in product(extremes(left), extremes(right)):
                expect_exact(operand(left, qa, za), operand(right, qb, zb))


@pytest.mark.parametrize(("left", "right"), list(product(["int8", "uint16", "uint4"], ["uint8", "int16", "int8"])))
def test_zero_points_for_each_row_and_column_are_exact(isa: str, left: str, right: str) -> None:
    rng = np.random.default_rng(5)
    a, b = fill(left, (2, 9, 20), "random"), fill(right, (2, 20, 19), "random")
    za = rng.integers(dtype(left).min, dtype(left).max, (1, 9, 1), endpoint=True).astype(np.int32)
    zb = rng.integers(dtype(right).min, dtype(right).max, (2, 1, 19), endpoint=True).astype(np.int32)
    expect_exact(operand(left, a, za), operand(right, b, zb))


@pytest.mark.parametrize(("left", "right", "k"), [("int8", "int8", 131071), ("uint8", "uint8", 33025), ("int8", "uint8", 65793)])
def test_the_longest_sums_that_fit_int32_do_and_one_more_goes_to_int64(isa: str, left: str, right: str, k: int) -> None:
    for length, kind in ((k, np.int32), (k + 1, np.int64)):
        a, b = (operand(d, fill(d, s, "min" if d == "int8" else "max")) for d, s in ((left, (2, length)), (right, (length, 17))))
        assert accumulator(a, b) == kind
        expect_exact(a, b)


def test_int16_sums_far_beyond_int32_are_exact(isa: str) -> None:
    for how in ("min", "max", "random"):
        expect_exact(operand("int16", fill("int16", (5, 3001), how)), operand("int16", fill("int16", (3001, 9), how)))


BATCHES = [((), ()), ((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((1,), (4,)), ((2, 3), (1, 1)), ((0,), ()), ((0,), (0,))]


@pytest.mark.parametrize("pair", [("int8", "uint8"), ("int16", "int16"), ("binary", "binary")])
@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_batch_dimensions_broadcast_as_in_numpy(pair: tuple[str, str], left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = fill(pair[0], (*left, 5, 19), "random"), fill(pair[1], (*right, 19, 6), "random")
    expect_exact(operand(pair[0], a), operand(pair[1], b))
    if pair[0] == "int8":
        pa, pb = QuantParams("int8", 0.5), QuantParams("uint8", 0.25, 3)
        assert matmul(a, pa, b, pb, backend="cpu").tobytes() == matmul(a, pa, b, pb, backend="reference").tobytes()


def test_any_strides_give_the_same_integers(isa: str) -> None:
    a, b = fill("int8", (40, 90), "random"), fill("uint8", (90, 70), "random")
    want = int64(operand("int8", a), operand("uint8", b))
    padded = np.zeros((90, 100), np.uint8)
    padded[:, 7:77] = b
    for left in (a, np.asfortranarray(a), a.repeat(2, 1)[:, ::2], a[::-1][::-1], np.ascontiguousarray(a[:, ::-1])[:, ::-1]):
        for right in (b, np.asfortranarray(b), padded[:, 7:77], b.repeat(3, 0)[::3], np.ascontiguousarray(b[::-1])[::-1]):
            got = cpu_accumulate(operand("int8", left), operand("uint8", right))
            assert got is not None and np.array_equal(got, want)


@given(st.data())
@settings(deadline=None)
def test_float32_products_are_the_bytes_of_reference(data: st.DataObject) -> None:
    m, k, n = (data.draw(st.integers(1, 40)) for _ in range(3))
    size = data.draw(st.integers(1, 40))
    grains = st.sampled_from([PerTensor(), PerAxis(0), PerBlock(1, size)])
    a = data.draw(own.quant_params((m, k), NARROW, data.draw(grains)))
    b = data.draw(
        own.quant_params((k, n), NARROW, data.draw(st.sampled_from([PerTensor(), PerAxis(-1), PerBlock(0, size), PerBlock(0, 3)])))
    )
    qa, qb = fill(a.dtype.name, (m, k), "random"), fill(b.dtype.name, (k, n), "random")
    with np.errstate(all="ignore"):
        assert matmul(qa, a, qb, b, backend="cpu").tobytes() == matmul(qa, a, qb, b, backend="reference").tobytes()


@pytest.mark.parametrize(
    ("dtypes", "block"), [(("int8", "int4"), 32), (("uint8", "uint4"), 32), (("int8", "int8"), 7), (("binary", "int4"), 64)]
)
def test_scales_in_blocks_along_k_are_one_kernel_call(isa: str, dtypes: tuple[str, str], block: int) -> None:
    rng = np.random.default_rng(11)
    qa, qb = fill(dtypes[0], (2, 9, 100), "random"), fill(dtypes[1], (100, 37), "random")
    blocks = -(-100 // block)
    z = None if dtypes[1][0] == "i" else rng.integers(0, 15, (blocks, 37))
    a = QuantParams(dtypes[0], 0.125)
    b = QuantParams(dtypes[1], rng.uniform(0.01, 1, (blocks, 37)), z, granularity=PerBlock(0, block))
    segments = tuple((s, min(s + block, 100)) for s in range(0, 100, block))
    got = cpu_product(side(qa, a, -1), side(qb, b, -2), segments)
    assert got is not None
    assert got.tobytes() == matmul(qa, a, qb, b, backend="reference").tobytes()


def test_a_single_product_keeps_the_sign_of_its_zero_and_a_sum_of_blocks_starts_from_plus_zero(isa: str) -> None:
    minus, one = np.full((1, 1), -1, np.int8), np.ones((1, 1), np.int8)
    tiny = QuantParams("int8", 1e-30)  # its square is no float32 but 0
    block = QuantParams("int8", np.full((1, 1), 1e-30), granularity=PerBlock(1, 1))
    assert np.signbit(matmul(minus, tiny, one, tiny, backend="cpu")[0, 0])
    assert not np.signbit(matmul(minus, block, one, tiny, backend="cpu")[0, 0])


@pytest.mark.parametrize("pair", [("int8", "int8"), ("uint8", "int4"), ("binary", "uint8"), ("int16", "int8"), ("binary", "binary")])
def test_a_product_that_was_made_ready_once_gives_the_bytes_of_reference_for_other_integers(
    isa: str, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    granularities = ((PerTensor(), PerTensor()), (PerAxis(0), PerAxis(1)))
    for (m, k, n), (of_a, of_b), workers in product([(1, 1, 1), (5, 33, 17), (40, 300, 200), (3, 0, 2)], granularities, ("1", "3")):
        monkeypatch.setenv("LOWBIT_THREADS", workers)
        counts = [1 if isinstance(g, PerTensor) else s[g.axis] for g, s in ((of_a, (m, k)), (of_b, (k, n)))]
        scales = [rng.uniform(0.01, 1, c).astype(np.float32) for c in counts]
        a, b = (
            QuantParams(d, s if isinstance(g, PerAxis) else s[0], granularity=g) for d, s, g in zip(pair, scales, (of_a, of_b), strict=True)
        )
        for how in ("random", "min"):
            qa, qb = fill(pair[0], (m, k), how), fill(pair[1], (k, n), how)
            for left, right in ((qa, qb), (np.asfortranarray(qa), np.asfortranarray(qb)), (qa[:, ::-1], qb[::-1])):
                want = matmul(left, a, right, b, backend="reference")
                assert matmul(left, a, right, b).tobytes() == want.tobytes()


def test_what_has_no_kernel_goes_to_reference() -> None:
    a, b = operand("int32", fill("int32", (2, 3), "random")), operand("int8", fill("int8", (3, 2), "random"))
    assert cpu_accumulate(a, b) is None
    assert np.array_equal(int_matmul(a, b, "cpu"), int64(a, b))


@pytest.mark.parametrize("name", ["int8", "int16", "binary"])
@pytest.mark.parametrize("workers", ["1", "2", "4"])
def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch, name: str, workers: str) -> None:
    monkeypatch.setattr(threads, "count", lambda: int(workers))
    monkeypatch.setattr(gemm, "_WORTH", 1000)
    for m, k, n in [(70, 50, 20), (20, 50, 130), (1, 5000, 33)]:
        expect_exact(operand(name, fill(name, (m, k), "random")), operand(name, fill(name, (k, n), "random")))
    expect_exact(operand(name, fill(name, (3, 40, 50), "random")), operand(name, fill(name, (3, 50, 20), "random")))


def test_a_right_side_that_is_packed_in_parts_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "_PACKED", 50 * 16)
    for m in (20, 200):
        expect_exact(operand("int8", fill("int8", (m, 50), "random")), operand("uint8", fill("uint8", (50, 130), "random"), 3))


def test_callers_that_share_the_threads_all_get_their_answer() -> None:
    a, b = operand("int8", fill("int8", (130, 200), "random")), operand("int8", fill("int8", (200, 300), "random"))
    want, answers = int64(a, b), []
    callers = [threading.Thread(target=lambda: answers.extend(cpu_accumulate(a, b) for _ in range(20))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(answers) == 80 and all(np.array_equal(x, want) for x in answers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads() -> None:
    a, b = operand("int8", fill("int8", (130, 200), "random")), operand("int8", fill("int8", (200, 300), "random"))
    expect_exact(a, b)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            expect_exact(a, b)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_lowbit_threads_caps_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWBIT_THREADS", "1")
    assert threads.count() == 1
    monkeypatch.setenv("LOWBIT_THREADS", "many")
    with pytest.raises(InputError, match="LOWBIT_THREADS=many is not a number of threads"):
        threads.count()


def test_an_instruction_set_has_all_kernels_that_share_a_packed_layout_or_none() -> None:
    family = [{k.isa for k in native.of(c)} for c in native.contracts() if c.startswith("gemm_s8_")]
    assert len(family) == 4 and all(isas == family[0] for isas in family)
