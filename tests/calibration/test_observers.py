"""Observers: any split of the data and any order of merging give the same bits; ranges do what their method promises."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import strategies as own
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowbit.calibration import (
    METHODS,
    AdaptiveObserver,
    EntropyObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MSEObserver,
    Observer,
    PercentileObserver,
    calibrate_from_samples,
    make_observer,
    observer_from_dict,
)
from lowbit.calibration.clip import divergence, is_one_threshold, squared_error
from lowbit.calibration.histogram import Histogram
from lowbit.calibration.reservoir import Reservoir
from lowbit.calibration.statistics import as_batch
from lowbit.dtypes import dtype
from lowbit.errors import CalibrationError, DTypeError, FormatError, QuantError, ShapeError
from lowbit.metrics import sqnr_db
from lowbit.quant_params import PerAxis, PerTensor, dequantize, quantize
from lowbit.ranges import params_from_range

quick = settings(max_examples=30, deadline=None)
ORDER_FREE = [m for m in METHODS if m != "moving-average"]
SMALL: dict[str, dict[str, Any]] = {  # few bins and samples, so that small data widens, overflows and evicts
    "minmax": {},
    "moving-average": {"averaging_constant": 0.75},
    "percentile": {"bins": 8, "percentile": 80.0},
    "entropy": {"bins": 16},
    "mse": {"bins": 8},
    "adaptive": {"bins": 8, "samples": 5},
}
FORMATS = [
    ("int8", "symmetric"),
    ("uint8", "asymmetric"),
    ("int4", "symmetric_restricted"),
    ("int4", "logarithmic"),
    ("uint4", "logarithmic"),
    ("binary", "symmetric"),
    ("int16", "asymmetric"),
    ("int32", "symmetric"),
]

# Magnitudes far apart and repeated: what widens histograms, moves ends and fills samples.
values = st.one_of(
    own.finite_floats, st.sampled_from([0.0, -0.0, 1.0, -1.0, 6.0, 1e-45, -1e-45, 3.0e38, -3.4e38]), st.floats(-4, 4, width=32)
)
batches = st.lists(hnp.arrays(np.float32, st.integers(0, 9), elements=values), min_size=1, max_size=6)


def seen_by(method: str, data: list[np.ndarray], **options: Any) -> Observer:
    observer = make_observer(method, **{**SMALL[method], **options})
    for x in data:
        observer.observe(x)
    return observer


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


# --- merging and saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@quick
@given(batches, st.data())
def test_merged_observers_are_one_that_saw_all_batches_in_order(method: str, data: list[np.ndarray], draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=3)))
    groups = [data[a:b] for a, b in pairwise([0, *cuts, len(data)])]
    merged = seen_by(method, groups[0])
    for group in groups[1:]:
        merged = merged + seen_by(method, group)
    assert merged == seen_by(method, data)


@pytest.mark.parametrize("method", ORDER_FREE)
@quick
@given(batches, st.randoms(use_true_random=False))
def test_order_and_split_of_the_values_do_not_matter(method: str, data: list[np.ndarray], random: Any) -> None:
    pieces = [x[i : i + 1] for x in data for i in range(x.size)]
    random.shuffle(pieces)
    middle = random.randint(0, len(pieces))
    parts = seen_by(method, pieces[middle:]) + seen_by(method, pieces[:middle])
    whole = seen_by(method, [np.concatenate(data)])
    assert parts == whole
    if whole.count:
        assert parts.params("int8", "asymmetric") == whole.params("int8", "asymmetric")


@pytest.mark.parametrize("method", METHODS)
@quick
@given(batches, batches, batches)
def test_adding_is_associative(method: str, a: list[np.ndarray], b: list[np.ndarray], c: list[np.ndarray]) -> None:
    x, y, z = (seen_by(method, d) for d in (a, b, c))
    assert (x + y) + z == x + (y + z)


@pytest.mark.parametrize("method", ORDER_FREE)
@quick
@given(batches, batches)
def test_adding_is_commutative_where_order_does_not_count(method: str, a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert seen_by(method, a) + seen_by(method, b) == seen_by(method, b) + seen_by(method, a)


@pytest.mark.parametrize("method", METHODS)
def test_an_observer_that_saw_nothing_adds_nothing_and_adding_changes_neither(method: str) -> None:
    a, nothing = make_observer(method).observe(normal(100)), make_observer(method)
    before = a.to_dict()
    assert a + nothing == a == nothing + a and nothing.count == 0
    both = a + make_observer(method).observe(normal(100, 1) * 50)
    both.observe(normal(3) * 1000)
    assert a.to_dict() == before and both.count == 203


@pytest.mark.parametrize("method", METHODS)
@quick
@given(batches)
def test_observers_survive_json_to_the_bit_and_go_on(method: str, data: list[np.ndarray]) -> None:
    a = seen_by(method, data)
    back = observer_from_dict(json.loads(json.dumps(a.to_dict(), allow_nan=False)))
    assert type(back) is type(a) and back == a
    more = np.array([0.1, -7.0, 0.0], np.float32)
    assert back.observe(more) == a.observe(more)
    assert back.params("uint8") == a.params("uint8")


@pytest.mark.parametrize("method", METHODS)
def test_four_workers_give_the_parameters_of_one(method: str) -> None:
    data = [normal(5000, seed) * (1 + seed) for seed in range(8)]
    options = {"axis": None}
    workers = [make_observer(method, **options) for _ in range(4)]
    for i, x in enumerate(data):
        workers[i // 2].observe(x)
    one = make_observer(method, **options)
    for x in data:
        one.observe(x)
    merged = (workers[0] + workers[1]) + (workers[2] + workers[3])
    assert merged == one
    assert all(merged.params(d) == one.params(d) for d in ("int8", "uint8", "int4"))


@pytest.mark.parametrize("method", METHODS)
def test_memory_does_not_grow_with_the_data(method: str) -> None:
    observer = make_observer(method, **({"averaging_constant": 0.1} if method == "moving-average" else {}))
    sizes = []
    for seed in range(400):
        observer.observe(np.exp(normal(300, seed)))
        if seed in (199, 399):
            sizes.append(sum(v.nbytes for s in observer._statistics.values() for v in _arrays(vars(s))))
    assert sizes[0] == sizes[1]


def _arrays(found: Any) -> list[np.ndarray]:
    if isinstance(found, np.ndarray):
        return [found]
    items = found.values() if isinstance(found, dict) else found if isinstance(found, (list, tuple)) else ()
    return [a for item in items for a in _arrays(item)]


# --- channels ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_per_channel_is_per_tensor_of_each_channel(method: str, axis: int) -> None:
    data = [normal(60, seed).reshape(3, 4, 5) * np.float32([1, 10, 0.1, 1000, 3]) for seed in range(3)]
    data[0][1, 2, :] = 0
    whole = seen_by(method, data, axis=axis)
    for d, scheme in FORMATS[:6]:
        params = whole.params(d, scheme)
        assert params.granularity == PerAxis(axis)
        for c in range(data[0].shape[axis]):
            alone = seen_by(method, [x.take(c, axis) for x in data]).params(d, scheme)
            assert alone.granularity == PerTensor()
            assert alone.scale == params.scale[c] and alone.zero_point == params.zero_point[c]


# --- what the histogram holds --------------------------------------------------------------------------------------------------


@quick
@given(batches)
def test_every_value_is_in_its_bin_or_is_a_zero(data: list[np.ndarray]) -> None:
    h = Histogram(1, 8)
    for x in data:
        batch, _ = as_batch(x, None, False)
        if batch.parts:
            h.see(batch)
    x = np.concatenate(data)
    assert h.counts.sum() + h.zeros[0] == x.size
    if not x.size:
        return
    b = h.bins(0)
    assert b.total == x.size and b.zeros == np.count_nonzero(x == 0)
    assert {v: np.count_nonzero(x == np.float32(v)) for v in b.atoms} == dict(zip(b.atoms, b.atom_counts))
    assert set(b.atoms) == {x.min(), x.max()} | ({0.0} if (x == 0).any() else set())
    nonzero = x[x != 0].astype(np.float64)
    k = np.trunc(nonzero / b.width).astype(int)
    assert np.array_equal(np.bincount(k + 7, minlength=15), h.counts[0])
    if nonzero.size:  # the finest grid that has a bin for every value
        assert np.abs(k).max() < 8 <= np.abs(nonzero / (b.width / 2)).max()
    assert np.all(np.diff(b.edges) >= 0) and np.all(b.rest >= 0)
    assert not np.any(b.rest[np.diff(b.edges) == 0])


@quick
@given(own.float_arrays())
def test_a_sample_that_is_not_full_is_the_data_without_its_zeros(x: np.ndarray) -> None:
    sample = Reservoir(1, 5000)
    sample.see(as_batch(x, None, False)[0])
    values, counts = np.unique(x[x != 0], return_counts=True)
    order = np.argsort(sample.values(0))
    assert np.array_equal(sample.values(0)[order], values) and np.array_equal(sample.counts[0][order], counts)


def test_the_squared_error_on_the_histogram_is_that_of_the_data() -> None:
    x = np.concatenate([normal(200_000) * 2, np.zeros(50_000, np.float32), np.full(9000, 4.0, np.float32)]).clip(-3, 4)
    b = MSEObserver().observe(x).histogram()
    for d, scheme in FORMATS:
        for shrink in (1.0, 0.6):
            p = params_from_range(-3 * shrink, 4 * shrink, d, scheme)
            off = x.astype(np.float64) - dequantize(quantize(x, p), p)
            if d == "int32":
                continue  # its step is below float32's own
            many = params_from_range([-3 * shrink], [4 * shrink], d, scheme, PerAxis(0))
            assert squared_error(b, many)[0] == pytest.approx(np.mean(off**2), rel=0.02), (d, scheme, shrink)


# --- what each method promises --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d,scheme", FORMATS)
@quick
@given(batches.filter(lambda data: sum(x.size for x in data) > 0))
def test_mse_is_never_worse_than_minmax_by_its_own_measure(d: str, scheme: Any, data: list[np.ndarray]) -> None:
    observer = MSEObserver()
    for x in data:
        observer.observe(x)
    b = observer.histogram()
    lo, hi = observer.range(d, scheme)
    chosen, whole = (squared_error(b, params_from_range([a], [z], d, scheme, PerAxis(0)))[0] for a, z in ((lo, hi), (b.lo, b.hi)))
    assert chosen <= whole or chosen == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("d,scheme", [f for f in FORMATS if f[0] not in ("int16", "int32", "binary")])
def test_mse_finds_the_best_of_all_clips(d: str, scheme: Any) -> None:
    x = np.concatenate([normal(20_000), [30.0, -20.0]]).astype(np.float32)
    observer = MSEObserver().observe(x)
    lo, hi = observer.range(d, scheme)

    def error(a: float, z: float) -> float:
        p = params_from_range(a, z, d, scheme)
        return float(np.mean((x.astype(np.float64) - dequantize(quantize(x, p), p)) ** 2))

    if is_one_threshold(dtype(d), scheme):
        best = min(error(max(-20, -t), min(30, t)) for t in np.geomspace(0.1, 30, 400))
    else:
        best = min(error(-a, z) for a in np.geomspace(0.1, 20, 30) for z in np.geomspace(0.1, 30, 30))
    assert error(float(lo), float(hi)) <= best * 1.02


@pytest.mark.parametrize("percentile", [90.0, 99.0, 99.9, 100.0])
@pytest.mark.parametrize("d,scheme", [("int8", "symmetric"), ("uint8", "asymmetric")])
def test_percentile_leaves_out_at_most_its_share_and_hardly_less(percentile: float, d: str, scheme: Any) -> None:
    x = normal(50_000)
    x[:20_000] = 0  # zeros are exact in any range, and do not count
    lo, hi = PercentileObserver(percentile=percentile).observe(x).range(d, scheme)
    out = np.count_nonzero((x < lo) | (x > hi))
    allowed = round(30_000 * (100 - percentile) / 100)
    assert allowed * 0.8 - 20 <= out <= allowed


@pytest.mark.parametrize("method", ["percentile", "entropy"])
@pytest.mark.parametrize("d,scheme", [("int8", "symmetric"), ("uint8", "asymmetric"), ("int4", "symmetric"), ("int4", "asymmetric")])
def test_a_few_outliers_are_clipped_and_the_rest_is_finer(method: str, d: str, scheme: Any) -> None:
    x = np.append(normal(100_000), [60.0, -55.0]).astype(np.float32)
    observer = make_observer(method).observe(x)
    lo, hi = observer.range(d, scheme)
    assert -25 < lo < -1.5 and 1.5 < hi < 25
    clipped, whole = observer.params(d, scheme), MinMaxObserver().observe(x).params(d, scheme)
    typical = [np.median(np.abs(x - dequantize(quantize(x, p), p))) for p in (clipped, whole)]
    assert typical[0] < typical[1] / 2


@pytest.mark.parametrize("method", ["mse", "adaptive"])
@pytest.mark.parametrize("d,scheme", [("int8", "symmetric"), ("uint8", "asymmetric"), ("int4", "symmetric"), ("int4", "asymmetric")])
def test_heavy_tails_are_clipped_where_that_lowers_the_squared_error(method: str, d: str, scheme: Any) -> None:
    x = np.random.default_rng(3).laplace(size=200_000).astype(np.float32)
    clipped, whole = (make_observer(m).observe(x).params(d, scheme) for m in (method, "minmax"))
    mse = [np.mean((x.astype(np.float64) - dequantize(quantize(x, p), p)) ** 2) for p in (clipped, whole)]
    assert mse[0] < mse[1] * 0.8


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d,scheme", FORMATS[:6])
def test_what_fills_its_range_evenly_is_not_clipped(method: str, d: str, scheme: Any) -> None:
    x = np.linspace(-1, 1, 100_001, dtype=np.float32)
    lo, hi = make_observer(method).observe(x).range(d, scheme)
    if d != "binary" and scheme != "logarithmic":
        assert -1 <= lo < -0.9 and 0.9 < hi <= 1


@pytest.mark.parametrize("share", [0.5, 0.99])
@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_zeros_after_a_relu_do_not_move_the_range(method: str, share: float) -> None:
    x = np.abs(normal(20_000))
    zeros = np.zeros(int(20_000 * share / (1 - share)), np.float32)
    alone, among = make_observer(method).observe(x), make_observer(method).observe(zeros).observe(x)
    assert alone.params("uint8").scale == pytest.approx(float(among.params("uint8").scale), rel=1e-3)


def test_entropy_follows_the_number_of_levels() -> None:
    observer = EntropyObserver().observe(normal(200_000))
    ends = [float(observer.range(d)[1]) for d in ("int4", "int8", "int16")]
    assert 2 < ends[0] < 3 < 4 < ends[1] <= ends[2] == pytest.approx(float(observer.seen.hi[0]))


def test_entropy_is_the_divergence_of_its_definition() -> None:
    # Bins of width 1 hold 8, 4, 2, 0, 1 values; the divergence by hand:
    x = np.repeat(np.float32([0.5, 1.5, 2.5, 4.5]), [8, 4, 2, 1])
    b = EntropyObserver(bins=8).observe(x).histogram()
    assert b.width == 1 and b.counts.tolist() == [8, 4, 2, 0, 1]
    # uint4, scale 2: the centres 0.75, 1.5, 2.5 and 4.25 (bins end at the extremes 0.5 and 4.5) have codes 0, 1, 1, 2; none is clipped.
    p = params_from_range([0.0], [30.0], "uint4", "asymmetric", PerAxis(0))
    # Six values in two bins of one cell: chance alone may lose 6·log(1 + 1/6).
    assert divergence(b, p)[0] == pytest.approx((4 * np.log(4 / 3) + 2 * np.log(2 / 3) - 6 * np.log(7 / 6)) / 15)
    # A range of 3 with 15 codes: each bin has a cell of its own; the last bin is clipped into an empty cell, which has half a value.
    p = params_from_range([0.0], [3.0], "uint4", "asymmetric", PerAxis(0))
    assert divergence(b, p)[0] == pytest.approx(np.log(1 / 0.5) / 15)
    # A range that clips all but nothing loses the most, not the least.
    narrow = params_from_range([0.0], [0.01], "uint4", "asymmetric", PerAxis(0))
    assert divergence(b, narrow)[0] > 2


DATA = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "relu": lambda rng, n: np.maximum(rng.normal(size=n), 0),
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("d,scheme", [("int8", "symmetric"), ("uint8", "asymmetric"), ("int4", "symmetric"), ("int4", "logarithmic")])
def test_entropy_never_costs_much_of_what_minmax_keeps(kind: str, d: str, scheme: Any) -> None:
    for n, seeds in ((20, 12), (100, 12), (300, 12), (1000, 12), (3000, 6), (20_000, 2)):
        for seed in range(seeds):
            x = DATA[kind](np.random.default_rng(seed), n).astype(np.float32)
            entropy, whole = (calibrate_from_samples([x], d, m, scheme=scheme) for m in ("entropy", "minmax"))
            kept, all_of_it = (sqnr_db(x, dequantize(quantize(x, p), p)) for p in (entropy, whole))
            assert kept >= all_of_it - (3 if scheme == "logarithmic" else 1), (n, seed)


def test_coarser_bins_are_those_of_half_as_many() -> None:
    x = np.append(normal(500), 3.7).astype(np.float32)
    fine, coarse = (EntropyObserver(bins=n).observe(x).histogram() for n in (64, 32))
    made = fine.coarser()
    for a, b in ((made.edges, coarse.edges), (made.counts, coarse.counts), (made.rest, coarse.rest)):
        assert np.array_equal(a, b)
    assert (made.width, made.octaves) == (coarse.width, coarse.octaves)


@pytest.mark.parametrize("d,scheme", FORMATS)
def test_adaptive_takes_the_least_error_it_measured(d: str, scheme: Any) -> None:
    x = np.append(np.random.default_rng(1).laplace(size=30_000), 50.0).astype(np.float32)
    observer = AdaptiveObserver().observe(x)
    measured = observer.measured(d, scheme)
    assert list(measured) == ["minmax", "percentile 99.9", "percentile 99.99", "percentile 99.999", "entropy", "mse"]
    p = observer.params(d, scheme)
    real = np.mean((x.astype(np.float64) - dequantize(quantize(x, p), p)) ** 2)
    assert real == pytest.approx(min(measured.values()), rel=0.1)


def test_adaptive_measures_the_data_itself_while_it_fits_the_sample() -> None:
    x = normal(3000)
    observer = AdaptiveObserver().observe(x)
    p = MinMaxObserver().observe(x).params("int4")
    assert observer.measured("int4")["minmax"] == pytest.approx(np.mean((x.astype(np.float64) - dequantize(quantize(x, p), p)) ** 2))


def test_the_moving_average_moves_by_its_constant() -> None:
    observer = MovingAverageMinMaxObserver(averaging_constant=0.25)
    for hi in (4.0, 8.0, 0.0):
        observer.observe([0.0, -hi, hi])
    expected = 4.0 + 0.25 * (8.0 - 4.0)
    expected += 0.25 * (0.0 - expected)
    assert [float(v) for v in observer.range("int8")] == [-expected, expected]


def test_a_batch_older_than_float32_can_feel_is_forgotten() -> None:
    observer = MovingAverageMinMaxObserver(averaging_constant=0.5)
    for value in [1e9, *[1.0] * 24]:
        observer.observe([value])
    assert observer.range("int8")[1] == 1.0
    late = MovingAverageMinMaxObserver(averaging_constant=0.5)
    for value in [1e9, *[1.0] * 23]:
        late.observe([value])
    assert late.range("int8")[1] > 1.0


# --- degenerate data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [5.0, -5.0, 1e-45, 3.4e38])
def test_a_constant_is_kept(method: str, value: float) -> None:
    x = np.full(100, value, np.float32)
    for d, scheme in [("int8", "symmetric_restricted"), ("uint8", "asymmetric"), ("int8", "asymmetric"), ("int8", "logarithmic")]:
        p = make_observer(method).observe(x).params(d, scheme)
        if abs(value) < 1e-40:
            assert np.abs(dequantize(quantize(x, p), p)).max() < 1e-38  # scales are never subnormal
        else:
            assert dequantize(quantize(x, p), p) == pytest.approx(x, rel=1e-6), (d, scheme)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d,scheme", FORMATS)
def test_all_zero_has_scale_one(method: str, d: str, scheme: Any) -> None:
    p = make_observer(method).observe(np.zeros(10)).observe([-0.0]).params(d, scheme)
    assert p.scale == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_a_single_value_and_a_scalar_are_data(method: str) -> None:
    a, b = (make_observer(method).observe(x) for x in (2.0, [[2.0]]))
    assert a == b and a.count == 1
    assert dequantize(quantize(2.0, a.params("uint8")), a.params("uint8")) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_mirror_image_of_data_has_the_mirror_image_of_its_range(method: str) -> None:
    x = np.append(np.exp(normal(4000)), -3.0).astype(np.float32)
    (lo, hi), (mirror_lo, mirror_hi) = (make_observer(method).observe(v).range("int4", "symmetric_restricted") for v in (x, -x))
    assert lo == pytest.approx(-mirror_hi, rel=1e-6) and hi == pytest.approx(-mirror_lo, rel=1e-6)


def test_integers_bools_and_other_floats_are_observed_as_float32() -> None:
    for x in (np.arange(-3, 5), np.array([True, False]), np.arange(4, dtype=np.float16), np.arange(4.0)):
        seen = MinMaxObserver().observe(x).seen
        assert seen is not None and seen.lo[0] == x.min() and seen.hi[0] == x.max()


# --- bad input -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_nonfinite_values_are_named_or_left_out(method: str) -> None:
    x = np.array([1.0, np.nan, np.inf, -np.inf, -2.0], np.float32)
    with pytest.raises(CalibrationError, match=r"Observer: 1 NaN and 2 infinite of 5 values[^\n]*\n  Try: .*ignore_nonfinite=True"):
        make_observer(method).observe(x)
    tolerant = make_observer(method, ignore_nonfinite=True).observe(x)
    assert tolerant.ignored == 3 and tolerant.count == 2
    assert tolerant.params("int8") == make_observer(method).observe(x[[0, 4]]).params("int8")
    assert (tolerant + tolerant).ignored == 6


@pytest.mark.parametrize("method", METHODS)
def test_nonfinite_values_are_left_out_channel_by_channel(method: str) -> None:
    x = np.array([[1.0, np.nan], [-2.0, 3.0], [np.inf, 0.5]], np.float32)
    tolerant = make_observer(method, axis=1, ignore_nonfinite=True).observe(x)
    for c, kept in enumerate(([1.0, -2.0], [3.0, 0.5])):
        assert tolerant.params("int8").scale[c] == make_observer(method).observe(kept).params("int8").scale


def test_a_refused_batch_leaves_no_trace() -> None:
    observer = MSEObserver().observe([1.0, 2.0])
    before = observer.to_dict()
    with pytest.raises(CalibrationError):
        observer.observe([3.0, np.nan])
    assert observer.to_dict() == before


@pytest.mark.parametrize("method", METHODS)
def test_no_data_gives_no_parameters(method: str) -> None:
    for observer in (make_observer(method), make_observer(method).observe(np.zeros((0, 3)))):
        with pytest.raises(CalibrationError, match=r"no values seen: there is no range to learn\.\n  Try: observe"):
            observer.params("int8")
    with pytest.raises(CalibrationError, match="2 non-finite values and no other seen"):
        make_observer(method, ignore_nonfinite=True).observe([np.nan, np.nan]).params("int8")
    with pytest.raises(CalibrationError, match=r"channel 1 of axis 0 has no finite values \(1 channels have none\)"):
        make_observer(method, ignore_nonfinite=True, axis=0).observe([[1.0], [np.nan]]).params("int8")
    with pytest.raises(CalibrationError, match="no values seen"):
        calibrate_from_samples([], "int8", method)


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(
        CalibrationError, match=r"no calibration method 'kl'.\n  Try: one of minmax, moving-average, percentile, entropy, mse, adaptive"
    ):
        calibrate_from_samples([[1.0]], "int8", "kl")
    with pytest.raises(CalibrationError, match=r"percentile=5 is not in \(50, 100\]"):
        PercentileObserver(percentile=5)
    with pytest.raises(CalibrationError, match=r"averaging_constant=0 is not in \(0, 1\]"):
        MovingAverageMinMaxObserver(averaging_constant=0)
    with pytest.raises(CalibrationError, match="bins=1000 is not a power of two"):
        EntropyObserver(bins=1000)
    with pytest.raises(CalibrationError, match="a sample of 0 values measures nothing"):
        AdaptiveObserver(samples=0)
    with pytest.raises(ShapeError, match=r"an array of shape \(3,\) has no axis 1 to observe along"):
        MinMaxObserver(axis=1).observe(np.zeros(3))
    with pytest.raises(CalibrationError, match="an array with 4 channels along axis 0, the ones before had 3"):
        MinMaxObserver(axis=0).observe(np.zeros((3, 2))).observe(np.zeros((4, 2)))
    with pytest.raises(DTypeError, match="real numbers are needed"):
        MinMaxObserver().observe(np.array([object()]))
    with pytest.raises(DTypeError, match="float32 is not a quantized dtype"):
        MinMaxObserver().observe([1.0]).params("float32")
    with pytest.raises(QuantError, match="binary has no zero point"):
        MSEObserver().observe([1.0]).params("binary", "asymmetric")


def test_observers_that_differ_do_not_add_up() -> None:
    with pytest.raises(CalibrationError, match=r"MinMaxObserver\(\) of 0 values and MSEObserver\(bins=2048\) of 0 values do not add up"):
        MinMaxObserver() + MSEObserver()
    with pytest.raises(CalibrationError, match="do not add up"):
        EntropyObserver(bins=8) + EntropyObserver(bins=16)
    with pytest.raises(CalibrationError, match="3 channels and 4 channels do not add up"):
        MinMaxObserver(axis=0).observe(np.zeros(3)) + MinMaxObserver(axis=0).observe(np.zeros(4))
    with pytest.raises(TypeError):
        MinMaxObserver() + 1


def test_what_is_no_observer_is_refused() -> None:
    for bad in ({}, {"method": "minmax"}, {**MSEObserver().observe([1.0]).to_dict(), "state": {"seen": {}}}):
        with pytest.raises(FormatError, match="not an observer"):
            observer_from_dict(bad)


def test_samples_are_seen_one_by_one() -> None:
    x = normal(600).reshape(6, 100)
    p = calibrate_from_samples(iter(x), "uint8", "percentile", percentile=99.0)
    assert p == PercentileObserver(percentile=99.0).observe(x).params("uint8")
    assert calibrate_from_samples(x, "int8", scheme="asymmetric").scheme == "asymmetric"
    assert calibrate_from_samples([x, x], "int8", "mse", axis=1).scale.shape == (100,)
