"""Ranges from a histogram: the part of the observed values that is worth covering, by percentile, entropy or squared error.

The two searches share one walk over ranges, and differ in what they call the loss of quantizing with a range's own parameters (dtype,
scheme, rounded scale and zero point: what `params_from_range` makes of it, not an idealized 128 levels).

**Squared error.** The mean of (x - Q(x))², each bin's values spread evenly over the bin. For an affine Q with step s the integral has a
closed form: with n = clamp(rne(x/s)) and r = x - n·s, an antiderivative of (x - Q(x))² is n·s³/12 + r³/3, inside the range and outside.

**Entropy.** A quantizer divides the line into cells, one for each code, and forgets where in its cell a value was. What is lost is
KL(P ‖ Q): P is the histogram of the clipped values, Q what the codes of the values that are not clipped tell of it, each cell's mass spread
evenly over the cell's bins. A wide range loses in wide cells. A narrow one loses in the outermost cells, where P has the clipped values and
Q has not (it has half a value more than it saw there, so that a far and lonely outlier costs little and not infinitely much). Clipped
values are spread over their cell, so the number of bins does not matter once cells are wider than bins. Exact zeros are left out: every
range keeps them, and after a ReLU they would drown the rest. Q is not scaled up to P's mass: no code tells of a clipped value, and else a
range that clips nearly everything would lose nearly nothing. Among ranges that lose the same, the widest is taken; so more codes than bins
mean the whole range, and so does binary, whose two cells do not move.

A histogram of few values (fewer than `FEW`) is spikes, of which finer cells seem to tell ever more. It is smoothed first, by a Gaussian
whose width follows Silverman's rule: what is left is the density that the values come from, as far as so many of them tell. An outlier
stays a lonely bump, and a range must gain `GAIN` nats over the whole one.

With more values bins are made wider until a bin that has values has `VALUES_PER_BIN` of them on average, no range is tried whose cells are
narrower than bins, and what chance alone would make a cell lose is taken off its loss. Where the whole range loses no more than chance
explains, it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lowbit.calibration.histogram import Bins
from lowbit.calibration.statistics import F64
from lowbit.dtypes import DType
from lowbit.quant_params import PerAxis, QuantParams, Scheme, dequantize, quantize
from lowbit.ranges import params_from_range

VALUES_PER_BIN = 8
FEW = 100_000  # values of a histogram that is smoothed before its information is counted
GAIN = 3.0  # nats of all values together: a smaller gain is not worth a clipped value
SILVERMAN = 0.9  # bandwidth = 0.9 · min(σ, IQR / 1.34) · n^(-1/5)
Range = tuple[float, float]
Loss = Callable[[F64, F64], F64]  # of the ranges (lo[i], hi[i])


def is_one_threshold(dtype: DType, scheme: Scheme) -> bool:
    """Whether only the larger end of a range matters: the format has as much room below zero as above."""
    return scheme != "asymmetric" and (dtype.is_signed or scheme != "logarithmic")


def percentile_range(b: Bins, percentile: float, one_threshold: bool) -> Range:
    """The smallest range made of whole bins outside of which at most (100 - percentile) % of the values that are not zero lie.

    With one threshold the largest magnitudes are cut, otherwise half of the cut is made at each end.
    """
    cut = int(int(b.counts.sum()) * (100 - percentile) / 100)
    if b.counts.size == 0:
        return b.lo, b.hi
    if one_threshold:
        outer = np.maximum(np.abs(b.edges[:-1]), np.abs(b.edges[1:]))
        order = np.argsort(-outer, kind="stable")
        kept = np.cumsum(b.counts[order]) > cut
        limit = float(outer[order[int(np.argmax(kept))]])
        return max(b.lo, -limit), min(b.hi, limit)
    below, above = np.cumsum(b.counts), np.cumsum(b.counts[::-1])
    first, last = int(np.argmax(below > cut // 2)), len(b.counts) - 1 - int(np.argmax(above > cut // 2))
    return min(float(b.edges[first]), 0.0), max(float(b.edges[last + 1]), 0.0)


def entropy_range(b: Bins, dtype: DType, scheme: Scheme) -> Range:
    """The range whose codes lose the least information about the histogram."""
    if dtype.bits > 16 or dtype.name == "binary":  # every bin has codes of its own in any range; the two cells do not move
        return b.lo, b.hi
    few = 0 < b.counts.sum() < FEW
    if few:
        b = smoothed(b)
    while not few and b.octaves > 0 and b.counts.sum() < VALUES_PER_BIN * np.count_nonzero(b.counts):
        b = b.coarser()

    def loss(lo: F64, hi: F64) -> F64:
        params = params_from_range(lo, hi, dtype, scheme, PerAxis(0))
        outermost = 4 if scheme == "logarithmic" else 1  # from 3/4 of the largest power
        cell = params.scale.astype(np.float64) / outermost
        return np.where(cell < b.width, np.inf, divergence(b, params, chance=not few))

    whole = loss(np.array([b.lo]), np.array([b.hi]))[0]
    if whole == np.inf:
        return b.lo, b.hi
    found = search(loss, b, is_one_threshold(dtype, scheme))
    if few and (whole - loss(np.array([found[0]]), np.array([found[1]]))[0]) * b.counts.sum() < GAIN:
        return b.lo, b.hi
    return found


def mse_range(b: Bins, dtype: DType, scheme: Scheme) -> Range:
    """The range with the least mean squared error on the histogram; never worse there than the whole range."""
    if dtype.name == "binary":  # the error of ±s is least at the mean magnitude, and a range gives half of its larger end
        end = 2 * b.mean_magnitude()
        return -end, end
    return search(lambda lo, hi: squared_error(b, params_from_range(lo, hi, dtype, scheme, PerAxis(0))), b, is_one_threshold(dtype, scheme))


def smoothed(b: Bins) -> Bins:
    """The histogram as a density: its counts (as floats) are smoothed by a Gaussian, and reflected at the ends of the observed range."""
    across = (b.edges[:-1] < 0) & (b.edges[1:] > 0)  # bin 0 is two bins where there are values on both of its sides
    fine = np.repeat(b.counts / np.where(across, 2.0, 1.0), np.where(across, 2, 1))
    total, at = fine.sum(), np.arange(len(fine), dtype=np.float64)
    mean = fine @ at / total
    sigma = np.sqrt(fine @ (at - mean) ** 2 / total)
    first, third = np.searchsorted(np.cumsum(fine), [0.25 * total, 0.75 * total])
    spread = min(float(sigma), (third - first) / 1.34) or float(sigma)
    bandwidth = SILVERMAN * spread * float(total) ** -0.2  # in bins
    if bandwidth < 0.5:  # finer than bins: nothing to smooth
        return b
    reach = int(4 * bandwidth) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / bandwidth) ** 2)
    made = np.convolve(np.pad(fine, reach, mode="symmetric"), kernel / kernel.sum(), "valid")
    counts = np.add.reduceat(made, np.cumsum(np.where(across, 2, 1)) - np.where(across, 2, 1))
    return replace(b, counts=np.where(counts < 1e-3 / len(counts), 0.0, counts))


def divergence(b: Bins, params: QuantParams, *, chance: bool = True) -> F64:
    """KL(P ‖ Q) in nats, minus the share that chance explains, for each of the params' scales (`PerAxis(0)`)."""
    used = np.flatnonzero(b.counts)
    n, total = len(params.scale), float(b.counts.sum())
    if used.size == 0:
        return np.zeros(n)
    counts = np.broadcast_to(b.counts[used].astype(np.float64), (n, used.size))
    centres = ((b.edges[:-1] + b.edges[1:]) / 2)[used]
    # Bin 0 is twice as wide as the others if there are values on both of its sides.
    widths = np.broadcast_to(np.where((b.edges[used] < 0) & (b.edges[used + 1] > 0), 2.0, 1.0), counts.shape)
    lowest, highest = params.code_range
    codes = quantize(np.broadcast_to(centres.astype(np.float32), counts.shape), params).astype(np.int64) - lowest
    below, above = _reach(params)
    clipped = np.where(centres < below[:, None], -1, np.where(centres > above[:, None], 1, 0))
    inside, cells = clipped == 0, highest - lowest + 1

    where = (codes + np.arange(n)[:, None] * cells)[inside]
    # astype: without any value inside, bincount forgets that its weights are floats
    seen, room = (np.bincount(where, v[inside], n * cells).reshape(n, cells).astype(np.float64) for v in (counts, widths))
    q, extra = seen.copy(), np.zeros((n, cells))
    for end, side in ((0, -1), (-1, 1)):
        lost = (counts * (clipped == side)).sum(axis=1)
        q[:, end] += np.where(lost > 0, 0.5, 0.0)
        extra[:, end] += lost
    empty = (room == 0) & (extra > 0)  # clipped values only: one bin of their own
    loss = (extra * np.log(np.where(empty, extra / np.where(empty, q, 1.0), 1.0))).sum(axis=1)
    share = widths / np.where(inside, np.take_along_axis(room, codes, 1), 1.0)
    p = np.where(inside, counts + np.take_along_axis(extra, codes, 1) * share, 1.0)
    loss += np.where(inside, p * np.log(p / np.where(inside, np.take_along_axis(q, codes, 1) * share, 1.0)), 0.0).sum(axis=1)
    return np.asarray((loss - (_chance(seen, room) if chance else 0.0)) / total)


def _chance(k: F64, m: F64) -> F64:
    """The most that cells of k values in m bins are expected to lose although their values are spread evenly.

    E[Σ n·log(n·m/k)] is k·E[log(n·m/k)] over the bin of a value drawn at random, whose n is one more than k - 1 others give it on average
    (k - 1)/m; the logarithm of a mean bounds the mean of logarithms: k·log(1 + (m - 1)/k).
    """
    k = np.where(m > 1, k, 1.0)
    return np.asarray((k * np.log1p(np.maximum(m - 1, 0) / k)).sum(axis=1))


def _reach(params: QuantParams) -> tuple[F64, F64]:
    """Where the outermost cells end when they are as wide on their outer side as on their inner one; beyond, values are clipped."""
    scale, zp = params.scale.astype(np.float64), params.zero_point.astype(np.float64)
    lowest, highest = params.code_range
    if params.scheme == "logarithmic":  # the power below the largest is half of it
        return (-1.25 * scale if params.dtype.is_signed else np.zeros(len(scale))), 1.25 * scale
    return (lowest - zp - 0.5) * scale, (highest - zp + 0.5) * scale


def squared_error(b: Bins, params: QuantParams) -> F64:
    """Mean squared error for each of the params' scales (`PerAxis(0)`), by the closed form, or by the levels of a format that has few."""
    width = np.diff(b.edges)
    density = np.divide(b.rest, width, out=np.zeros(len(width)), where=b.rest > 0)
    n = len(params.scale)
    if params.scheme == "logarithmic" or params.dtype.name == "binary":
        spread = np.array([density @ np.diff(_integral(b.edges, _levels(params, i))) if len(density) else 0.0 for i in range(n)])
    else:
        spread = np.asarray(np.diff(_affine_integral(b.edges, params), axis=1) @ density)
    at = np.broadcast_to(b.atoms.astype(np.float32), (n, len(b.atoms)))
    off = at.astype(np.float64) - dequantize(quantize(at, params), params)
    return np.asarray((spread + off**2 @ b.atom_counts) / b.total)


def _affine_integral(x: F64, params: QuantParams) -> F64:
    """n·s³/12 + r³/3 at each x, as s³/12 · (n + 4·(r/s)³)."""
    s = params.scale.astype(np.float64)[:, None]
    lowest, highest = params.code_range
    zp = params.zero_point.astype(np.float64)[:, None]
    r = x / s
    n = np.rint(r)
    np.clip(n, lowest - zp, highest - zp, out=n)
    r -= n
    cube = r * r
    cube *= r
    cube *= 4
    cube += n
    cube *= s**3 / 12
    return cube


def _levels(params: QuantParams, i: int) -> F64:
    """All values that scale `i` can give, ascending."""
    lowest, highest = params.code_range
    codes = np.array([-1, 1]) if params.dtype.name == "binary" else np.arange(lowest, highest + 1)
    one = QuantParams(params.dtype, params.scale[i], params.zero_point[i], params.scheme)
    return np.unique(dequantize(codes, one).astype(np.float64))


def _integral(x: F64, levels: F64) -> F64:
    """An antiderivative of (x - nearest level)²."""
    limits = (levels[:-1] + levels[1:]) / 2
    up, down = (limits - levels[:-1]) ** 3 / 3, (limits - levels[1:]) ** 3 / 3
    start = np.concatenate([[0.0], np.cumsum(up - down)])  # so that it is continuous at each limit
    i = np.searchsorted(limits, x, side="right")
    return np.asarray(start[i] + (x - levels[i]) ** 3 / 3)


def search(loss: Loss, b: Bins, one_threshold: bool) -> Range:
    """The range inside [lo, hi] (with zero) of least loss that a walk over shrunken ranges finds; the widest among equals.

    Quarter octaves down to the width of a bin first, then ever finer steps about the best. With two ends: both together, then one by one.
    """
    lo, hi = min(b.lo, 0.0), max(b.hi, 0.0)
    if loss(np.array([lo]), np.array([hi]))[0] <= 0:  # nothing to gain
        return lo, hi
    if one_threshold:
        largest = max(-lo, hi)
        r = _least(lambda r: loss(np.maximum(lo, -r * largest), np.minimum(hi, r * largest)), b.octaves)
        return max(lo, -r * largest), min(hi, r * largest)
    if lo == 0 or hi == 0:
        r = _least(lambda r: loss(r * lo, r * hi), b.octaves)
        return r * lo, r * hi
    both = _least(lambda r: loss(r * lo, r * hi), b.octaves)
    low, high = both, both
    for octaves in (b.octaves, 0):  # far and wide once, then near by
        high = _least(lambda r, low=low: loss(np.full(len(r), low * lo), r * hi), octaves, high)  # type: ignore[misc]
        low = _least(lambda r, high=high: loss(r * lo, np.full(len(r), high * hi)), octaves, low)  # type: ignore[misc]
    return low * lo, high * hi


def _least(f: Callable[[F64], F64], octaves: int, start: float = 1.0) -> float:
    """A factor in (0, 1] with f(factor) no larger than at `start` and at every quarter of so many octaves, the largest among equals."""
    step = 0.25
    factors = np.unique(np.append(2.0 ** -np.arange(0, octaves, step), start))[::-1]
    values = f(factors)
    best, least = float(factors[np.argmin(values)]), float(values.min())
    for _ in range(3):
        factors = np.unique(np.minimum(best * 2.0 ** (np.arange(-3, 4) * (step / 4)), 1.0))[::-1]
        values = f(factors)
        if values.min() < least:
            best, least = float(factors[np.argmin(values)]), float(values.min())
        step /= 4
    return best
