"""Parameters chosen by measuring: every scheme, granularity and clip that a dtype has is tried on the array itself.

Finer granularity always has less error and always costs bytes. The exchange is the one that bits themselves have: a bit per value more is
worth 20·log10(2) = 6.02 dB, so a trial's worth is its SQNR less 6.02 dB for every bit per value that its scales and zero points take.
No SQNR counts for more than the 24 bits that a float32 has: exactness is not worth any number of scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log10, prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from lowbit import quant_params
from lowbit.calibration.observers import EntropyObserver, PercentileObserver
from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import CalibrationError, InputError, QuantError, ShapeError
from lowbit.metrics import sqnr_db
from lowbit.numerics import F32, LOG_DTYPES, as_float32
from lowbit.progress import progress
from lowbit.qarray.core import QArray, original_of
from lowbit.ranges import default_scheme, params_from_data, params_from_range, range_of

Prefer = Literal["accuracy", "speed"]

BLOCKS = (32, 64, 128)
_DB_PER_BIT = 20 * log10(2)
_SHRINKS = tuple(2.0 ** (-i / 8) for i in range(1, 17))  # clips down to a quarter of the range
_FINALISTS = 3


@dataclass(frozen=True)
class Trial:
    """Parameters that were tried, and what they cost: `worth` = SQNR less the price of their scales and zero points."""

    method: str
    params: quant_params.QuantParams
    sqnr_db: float
    bits_per_value: float  # with scales and zero points

    @property
    def worth(self) -> float:
        """dB, comparable between trials of one dtype."""
        return min(self.sqnr_db, 24 * _DB_PER_BIT) - _DB_PER_BIT * (self.bits_per_value - self.params.dtype.bits)

    def __str__(self) -> str:
        p = self.params
        return f"{p.scheme}, {p.granularity}, {self.method}: {self.sqnr_db:.2f} dB at {self.bits_per_value:.3f} bits a value"


class AutoQArray(QArray):
    """A QArray that remembers what else was tried, best first; views of it are plain QArrays."""

    __slots__ = ("tried",)

    tried: tuple[Trial, ...]


def auto_quantize(x: ArrayLike, dtype: str | DType = "int8", *, prefer: Prefer = "accuracy") -> AutoQArray:
    """`x` in few bits by the best parameters found; `.tried` has all that were measured, best first.

    >>> auto_quantize([0.0, 1.0, 2.0, 15.0], "uint4").tried[0].params
    QuantParams(uint4, asymmetric, per tensor, scale=1, zero_point=0)
    """
    array = as_float32(x.dequantize() if isinstance(x, QArray) else x)
    tried = try_params(array, dtype, prefer=prefer)
    best = tried[0]
    out = AutoQArray(quant_params.quantize(array, best.params), best.params, sqnr_db=best.sqnr_db, original_dtype=original_of(x))
    out.tried = tried
    return out


def optimal_params(x: ArrayLike, dtype: str | DType, prefer: Prefer = "accuracy") -> quant_params.QuantParams:
    """The best parameters for `x`. With prefer="speed", among those that the integer kernels run without correction terms:
    a zero point in the middle, and scales that do not vary inside a dot product (per tensor, or per index of the first axis).

    >>> optimal_params(np.linspace(0, 1, 100, dtype=np.float32), "uint8").zero_point.item()
    0
    """
    return try_params(x, dtype, prefer=prefer)[0].params


def try_params(x: ArrayLike, dtype: str | DType, *, prefer: Prefer = "accuracy") -> tuple[Trial, ...]:
    """All parameters that were measured on `x`, best first.

    Schemes and granularities compete with the whole range covered; the best few of them then try to clip: a walk down in squared
    error by each scale on its own, and percentile and entropy per tensor.
    """
    array, d = _checked(x, dtype, prefer)
    kinds = [(s, g) for s in _schemes(d, prefer) for g in _granularities(array, prefer)]
    first = [_trial(array, "minmax", params_from_data(array, d, s, g)) for s, g in progress(kinds, "trying parameters")]
    first.sort(key=_rank)
    finals = progress(first[:_FINALISTS], "trying to clip")
    clipped = [_trial(array, method, p) for t in finals for method, p in _clips(array, t.params)]
    return tuple(sorted([*first, *clipped], key=_rank))


def _rank(t: Trial) -> tuple[float, float, int]:
    """Best first; of equals the smaller, then the scheme that kernels like more."""
    return -t.worth, t.bits_per_value, quant_params.SCHEMES.index(t.params.scheme)


def _checked(x: ArrayLike, dtype: str | DType, prefer: str) -> tuple[F32, DType]:
    array, d = as_float32(x), quant_params.quant_dtype(dtype)
    if prefer not in get_args(Prefer):
        raise InputError(f"prefer={prefer!r} is not known", hint="prefer='accuracy' or prefer='speed'")
    if array.size == 0:
        raise CalibrationError(f"an array of shape {array.shape} has no values to choose parameters for")
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise CalibrationError(f"{count} of {array.size} values are NaN or infinite", hint="clean the data (np.nan_to_num, np.clip)")
    return array, d


def _schemes(d: DType, prefer: Prefer) -> list[quant_params.Scheme]:
    if d.name == "binary":
        return ["symmetric"]
    schemes: list[quant_params.Scheme] = ["symmetric", "symmetric_restricted"]
    if prefer == "accuracy" and d.name != "int32":
        schemes.append("asymmetric")
    if prefer == "accuracy" and d.name in LOG_DTYPES:
        schemes.append("logarithmic")
    return schemes


def _granularities(x: F32, prefer: Prefer) -> Iterator[quant_params.Granularity]:
    yield quant_params.PerTensor()
    if x.ndim < 2:
        axes: Sequence[int] = ()
    else:
        axes = (0,) if prefer == "speed" else range(x.ndim)
    yield from (quant_params.PerAxis(a) for a in axes if x.shape[a] > 1)
    if prefer == "accuracy" and x.ndim:
        yield from (quant_params.PerBlock(x.ndim - 1, size) for size in BLOCKS if size < x.shape[-1])


def _trial(x: F32, method: str, params: quant_params.QuantParams) -> Trial:
    bits = params.dtype.bits + 8 * params.nbytes / x.size
    return Trial(method, params, sqnr_db(x, quant_params.dequantize(quant_params.quantize(x, params), params)), bits)


def _clips(x: F32, whole: quant_params.QuantParams) -> Iterator[tuple[str, quant_params.QuantParams]]:
    d, scheme, g = whole.dtype, whole.scheme, whole.granularity
    if isinstance(g, quant_params.PerTensor):  # a histogram for each channel or block would be larger than what it describes
        for observer in (PercentileObserver(), EntropyObserver()):
            yield observer.method, observer.observe(x).params(d, scheme)
    yield "mse", _least_squares(x, whole)


def _least_squares(x: F32, whole: quant_params.QuantParams) -> quant_params.QuantParams:
    """For each scale on its own, the shrunken range with the least squared error on the values themselves."""
    lo, hi = (end.astype(np.float64) for end in range_of(x, whole.granularity))
    scale, zero_point = whole.scale.copy(), whole.zero_point.copy()
    least = _errors(x, whole)
    for r in _SHRINKS:
        p = params_from_range(r * lo, r * hi, whole.dtype, whole.scheme, whole.granularity)
        error = _errors(x, p)
        better = error < least
        scale, zero_point = np.where(better, p.scale, scale), np.where(better, p.zero_point, zero_point)
        least = np.where(better, error, least)
    return quant_params.QuantParams(whole.dtype, scale, zero_point, whole.scheme, whole.granularity)


def _errors(x: F32, params: quant_params.QuantParams) -> Any:
    """The sum of squared errors of each scale's values, in the shape of the scales."""
    off = np.asarray(np.subtract(x, quant_params.dequantize(quant_params.quantize(x, params), params), dtype=np.float64))
    np.multiply(off, off, out=off)
    g = params.granularity
    if isinstance(g, quant_params.PerBlock):
        return np.add.reduceat(off, np.arange(0, x.shape[g.axis], g.size), g.axis)
    if isinstance(g, quant_params.PerAxis):
        return off.sum(axis=tuple(i for i in range(x.ndim) if i != g.axis % x.ndim))
    return off.sum()


@dataclass(frozen=True)
class MemorySavings:
    """Bytes before and after: packed integers, and the scales and zero points they need."""

    original_bytes: int
    data_bytes: int
    param_bytes: int

    @property
    def quantized_bytes(self) -> int:
        return self.data_bytes + self.param_bytes

    @property
    def saved_bytes(self) -> int:
        return self.original_bytes - self.quantized_bytes

    @property
    def ratio(self) -> float:
        """How many times smaller; infinite for nothing from something, 1.0 for nothing from nothing."""
        if self.quantized_bytes == 0:
            return float("inf") if self.original_bytes else 1.0
        return self.original_bytes / self.quantized_bytes

    def __str__(self) -> str:
        parts = f"{self.data_bytes} of data, {self.param_bytes} of scales and zero points"
        return f"{self.original_bytes} → {self.quantized_bytes} bytes ({parts}), {self.ratio:.2f} times smaller"


def estimate_memory_savings(
    dtype: str | DType | QArray,
    shape: Sequence[int] | int | None = None,
    *,
    granularity: quant_params.Granularity | None = None,
    scheme: quant_params.Scheme | None = None,
    original: str | DType = "float32",
) -> MemorySavings:
    """The exact bytes of an array of `shape` in the dtype, with packing, scales (float32) and, if asymmetric, zero points (in the dtype).

    Without a shape: of eight values (or blocks), which fill their bytes: the `ratio` is that of large arrays. A QArray has all
    of it itself.

    >>> from lowbit import PerBlock
    >>> print(estimate_memory_savings("int4", (4096, 4096), granularity=PerBlock(1, 32)))
    67108864 → 10485760 bytes (8388608 of data, 2097152 of scales and zero points), 6.40 times smaller
    """
    if isinstance(dtype, QArray):
        if shape is not None or granularity is not None or scheme is not None:
            raise QuantError("a QArray has its own shape, granularity and scheme", hint="estimate_memory_savings(q)")
        size, params = dtype.size, dtype.quant_params
        return MemorySavings(dtype_of(original).nbytes(size), params.dtype.nbytes(size), params.nbytes)
    d, g = quant_params.quant_dtype(dtype), granularity or quant_params.PerTensor()
    scheme = default_scheme(d) if scheme is None else scheme
    if shape is None:
        if isinstance(g, quant_params.PerAxis):
            raise QuantError(f"{g}: how many scales that are depends on the shape", hint="estimate_memory_savings(dtype, shape, ...)")
        dims: tuple[int, ...] = (8, g.size) if isinstance(g, quant_params.PerBlock) else (8,)
        scales = 8 if isinstance(g, quant_params.PerBlock) else 0  # one scale for a whole tensor vanishes among its values
    else:
        dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)  # type: ignore[assignment]  # or what is no size
        if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in dims):
            raise ShapeError(f"{dims} is no shape: sizes are integers, 0 or more")
        dims = tuple(map(int, dims))
        scales = prod(quant_params.scale_shape(g, dims))
    quant_params.QuantParams(d, 1.0, None, scheme)  # complains about schemes that do not exist or do not go with the dtype
    stored_zero_points = d.nbytes(scales) if scheme == "asymmetric" else 0
    count = prod(dims)
    return MemorySavings(dtype_of(original).nbytes(count), d.nbytes(count), 4 * scales + stored_zero_points)
