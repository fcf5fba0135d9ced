"""QArray: an array of quantized numbers that NumPy code can use, and `array`, float arrays that know how to become one.

    >>> q = quantize_array([[0.5, -1.0], [0.25, 0.0]], "int8")
    >>> q.ints.tolist(), float(q[0, 1])
    ([[64, -128], [32, 0]], -1.0)
    >>> q @ q.T
    array([[1.25  , 0.125 ],
           [0.125 , 0.0625]], dtype=float32)

A QArray never changes. Two of them multiply in integers (`lowbit.matmul` has the rule); views keep their parameters; every other NumPy
function sees the dequantized float32 array (`lowbit.qarray.protocol` has the table).
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lowbit import matmul as mm
from lowbit.dtypes import DTYPES, DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, InputError, QuantError, ShapeError
from lowbit.metrics import sqnr_db
from lowbit.numerics import F32, Ints, as_float32
from lowbit.packing import is_packed, pack, unpack
from lowbit.qarray import views
from lowbit.quant_params import (
    QUANT_DTYPES,
    Granularity,
    PerTensor,
    QuantParams,
    Scheme,
    check_params_alone,
    dequantize,
    quantize,
    requantize,
)
from lowbit.ranges import params_from_data

_PER_TENSOR = PerTensor()
_FLOAT32 = dtype_of("float32")


class QArray(NDArrayOperatorsMixin):
    """Integers and what they stand for: real = scale * (q - zero_point). They are copied (sub-byte dtypes packed), unless read-only.

    >>> import lowbit
    >>> q = lowbit.quantize_array([[1.0, -2.0]], "int8", scale=0.5)
    >>> q.ints.tolist(), q.dequantize().tolist()
    ([[2, -4]], [[1.0, -2.0]])
    """

    __slots__ = ("_original", "_params", "_shape", "_stored", "_unpacked", "sqnr_db")

    def __init__(
        self, ints: ArrayLike, params: QuantParams, *, sqnr_db: float | None = None, original_dtype: str | DType = "float32"
    ) -> None:
        values = np.asarray(ints)
        if values.dtype.kind not in "iu":
            raise DTypeError(f"a QArray holds integers, got {values.dtype}", hint="lowbit.quantize_array(x, dtype) for real numbers")
        params.check(values.shape)
        lo, hi = params.code_range
        if values.size and (values.min() < lo or values.max() > hi):
            raise QuantError(f"integers {values.min()}..{values.max()} are outside {params.dtype} {params.scheme}, which holds {lo}..{hi}")
        self._set(values.astype(params.dtype.numpy, copy=values.flags.writeable), params, sqnr_db, dtype_of(original_dtype))

    def _set(self, ints: Ints, params: QuantParams, sqnr_db: float | None, original: DType) -> None:
        self._original = original
        self._shape: tuple[int, ...] = ints.shape
        self._params = params
        self._stored: Ints = pack(ints, params.dtype) if is_packed(params.dtype) else ints.view()
        self._stored.flags.writeable = False
        self._unpacked: Ints | None = None
        self.sqnr_db = sqnr_db  # signal to noise in dB against the array this was quantized from; None when not known

    @classmethod
    def _of(cls, ints: Ints, params: QuantParams, sqnr_db: float | None = None, original: DType = _FLOAT32) -> QArray:
        """Without the checks: for integers that came from a QArray or from quantize."""
        made = cls.__new__(cls)
        made._set(np.asarray(ints), params, sqnr_db, original)
        return made

    def _view(self, ints: Ints, params: QuantParams, sqnr_db: float | None = None) -> QArray:
        """Integers of this array with their parameters: the dtype that it came from stays."""
        return QArray._of(ints, params, sqnr_db, self._original)

    # --- what it is ---

    @property
    def quant_params(self) -> QuantParams:
        """Scale, zero point, dtype, scheme and granularity."""
        return self._params

    @property
    def dtype(self) -> DType:
        """The element type: int8, int4, binary …"""
        return self._params.dtype

    @property
    def original_dtype(self) -> DType:
        """The dtype of the array that was quantized: `q.astype(q.original_dtype)` has it again.

        >>> quantize_array(np.ones(2, np.float16)).original_dtype.name
        'float16'
        """
        return self._original

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of the integers, packed; `quant_params.nbytes` are those of scales and zero points."""
        return self.dtype.nbytes(self.size)

    @property
    def packed(self) -> NDArray[Any]:
        """The integers as they are stored: bytes for sub-byte dtypes, the array itself for others. Read-only."""
        return self._stored

    @property
    def ints(self) -> Ints:
        """The unpacked integers, in the dtype's NumPy type; read-only, binary as -1 and +1."""
        if not is_packed(self.dtype):
            return self._stored
        if self._unpacked is not None:
            return self._unpacked
        ints = unpack(self._stored, self.dtype, self._shape)
        ints.flags.writeable = False
        return ints

    def _rows(self, start: int, stop: int) -> Ints:
        """The integers of these rows: of a packed array, only their bytes are unpacked."""
        if not is_packed(self.dtype) or self._unpacked is not None:
            return self.ints[start:stop]
        row, per_byte = self.size // max(self._shape[0], 1), 8 // self.dtype.bits
        first, last = start * row, stop * row
        begin = first // per_byte
        count = min(-(-last // per_byte) * per_byte, self.size) - begin * per_byte
        some = unpack(self._stored[begin : -(-last // per_byte)], self.dtype, (count,))
        return some[first - begin * per_byte :][: last - first].reshape((stop - start, *self._shape[1:]))

    # --- what it stands for ---

    def dequantize(self) -> F32:
        """The float32 array it stands for: fl32(q - zero_point) * scale."""
        return dequantize(self.ints, self._params)

    def astype(self, dtype: str | DType | np.dtype[Any] | type, *, scheme: Scheme | None = None, params: QuantParams | None = None) -> Any:
        """A float array for a float dtype; a QArray, requantized, for a quantized one (by `params`, or to the range of its values)."""
        d = dtype_of(dtype)
        if d.name not in QUANT_DTYPES:
            return self.dequantize().astype(d.numpy)
        if params is not None and params.dtype != d:
            raise QuantError(f"astype({d}) with parameters of {params.dtype}", hint=f"astype('{params.dtype}', params=params)")
        if params is None and scheme is None and d == self.dtype:
            return self
        real = self.dequantize()
        if params is None:
            params = params_from_data(real, d, scheme, self._params.granularity)
        return self._view(requantize(self.ints, self._params, params), params)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a QArray becomes a NumPy array only by dequantizing, which copies")
        return self.dequantize() if dtype is None else self.dequantize().astype(dtype)

    def item(self) -> float:
        """The value of an array of one element."""
        if self.size != 1:
            raise ShapeError(f"item() of an array of shape {self._shape}: one element is needed", hint=".tolist()")
        return float(self.dequantize().reshape(())[()])

    def __float__(self) -> float:
        return self.item()

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def tolist(self) -> Any:
        """The values as nested lists of floats."""
        return self.dequantize().tolist()

    # --- views: the parameters follow the axes ---

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d QArray")
        return self._shape[0]

    def __iter__(self) -> Iterator[QArray]:
        if not self._shape:
            raise TypeError("iteration over a 0-d QArray")
        ints = self.ints
        for i in range(self._shape[0]):
            yield self._view(ints[i], views.indexed(self._params, self._shape, i))

    def __getitem__(self, key: Any) -> QArray:
        try:
            views.parse_key(key, self.ndim)  # refuses a bool, which NumPy takes for an index
            first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
            if isinstance(first, int | np.integer) and self._shape and -len(self) <= first < len(self):
                at = int(first) % len(self)
                inner: Any = (0, *rest)
                ints = self._rows(at, at + 1)[inner]
            elif isinstance(first, slice) and self._shape and first.step in (None, 1):
                start, stop, _ = first.indices(len(self))
                inner = (slice(None), *rest)
                ints = self._rows(start, max(start, stop))[inner]
            else:
                ints = self.ints[key]
        except (IndexError, TypeError, ValueError) as e:
            raise ShapeError(f"index into shape {self._shape}: {e}") from e
        return self._view(ints, views.indexed(self._params, self._shape, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        raise QuantError(
            "a QArray does not change: its parameters fit the values it was made from", hint=".dequantize(), change, quantize again"
        )

    def reshape(self, *shape: Any) -> QArray:
        """The same elements in C order in another shape."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        try:
            ints = self.ints.reshape(wanted)
        except ValueError as e:
            raise ShapeError(str(e)) from e
        return self._view(ints, views.reshaped(self._params, self._shape, ints.shape), self.sqnr_db)

    def ravel(self) -> QArray:
        """The elements along one axis."""
        return self.reshape(-1)

    flatten = ravel

    def transpose(self, *axes: Any) -> QArray:
        """Axes in another order, reversed if none is given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)) else axes
        order = tuple(range(self.ndim))[::-1] if order is None or not len(order) else tuple(int(a) for a in order)
        if len(order) != self.ndim or sorted(a % max(self.ndim, 1) for a in order) != list(range(self.ndim)):
            raise ShapeError(f"{order} is not an order of the {self.ndim} axes of shape {self._shape}")
        order = tuple(a % self.ndim for a in order)
        return self._view(self.ints.transpose(order), views.transposed(self._params, order), self.sqnr_db)

    permute = transpose

    @property
    def T(self) -> QArray:
        """The array with its axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> QArray:
        """The last two axes swapped."""
        return self.swapaxes(-1, -2)

    def swapaxes(self, a: int, b: int) -> QArray:
        """The array with two axes exchanged."""
        order = list(range(self.ndim))
        try:
            order[a], order[b] = order[b], order[a]
        except IndexError:
            raise ShapeError(f"axes {a} and {b} of an array of shape {self._shape}") from None
        return self.transpose(order)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> QArray:
        """Without the axes of length 1 (all of them, or those named)."""
        named = (axis,) if isinstance(axis, (int, np.integer)) else axis
        if named is not None and any(not -self.ndim <= a < self.ndim or self._shape[a] != 1 for a in named):
            raise ShapeError(f"cannot squeeze axes {named} of shape {self._shape}: only axes of length 1")
        gone = {i for i, d in enumerate(self._shape) if d == 1} if named is None else {a % self.ndim for a in named}
        view = self[tuple(0 if i in gone else slice(None) for i in range(self.ndim))]
        view.sqnr_db = self.sqnr_db
        return view

    def broadcast_to(self, shape: int | tuple[int, ...]) -> QArray:
        """The array repeated to a larger shape, by NumPy's rules."""
        try:
            ints = np.broadcast_to(self.ints, shape)
        except ValueError as e:
            raise ShapeError(f"cannot broadcast shape {self._shape} to {shape}") from e
        return self._view(ints, views.broadcasted(self._params, self._shape, ints.shape))

    # --- arithmetic ---

    def matmul(self, other: QArray, *, backend: str | None = None) -> F32:
        """The float32 matrix product, in integers where the scales allow it (`lowbit.matmul.plan_matmul` tells).

        A packed matrix stays unpacked from then on, at a byte an element: what multiplies once multiplies again.
        """
        for q in (self, other):
            if is_packed(q.dtype) and q._unpacked is None:
                q._unpacked = q.ints
        return mm.matmul(self.ints, self._params, other.ints, other._params, backend=backend)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from lowbit.qarray.protocol import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from lowbit.qarray.protocol import apply_function

        return apply_function(func, args, kwargs)

    # --- words and files ---

    def __repr__(self) -> str:
        p = self._params
        cost = "error unknown" if self.sqnr_db is None else f"SQNR {self.sqnr_db:.1f} dB"
        if p.scheme != "logarithmic" and p.dtype.name != "binary" and p.scale.size:
            cost += f", at most ±{float(p.scale.max()) / 2:.3g} inside the range"
        params = repr(p)[len("QuantParams(") : -1]
        values = np.array2string(self.dequantize(), precision=4, separator=", ") if self.size <= 1000 else f"{self.size} values"
        return f"QArray({values},\n  shape={self._shape}, {params}, {self.nbytes} + {p.nbytes} bytes, {cost})"

    def save(self, path: str | PathLike[str]) -> None:
        """Writes one safetensors file; `lowbit.load_array` reads it."""
        from lowbit.qarray.file import save_array

        save_array(path, self)


def quantize_array(
    x: ArrayLike,
    dtype: str | DType | None = None,
    *,
    scale: ArrayLike | None = None,
    zero_point: ArrayLike | None = None,
    scheme: Scheme | None = None,
    granularity: Granularity = _PER_TENSOR,
    params: QuantParams | None = None,
) -> QArray:
    """`x`, as float32, in few bits (int8 unless said). Without `scale` and `params` the range of `x` decides (for binary, mean |x|).

    >>> quantize_array([0.0, 1.0, 2.0], "uint8", scale=0.5, zero_point=3).ints.tolist()
    [3, 5, 7]
    """
    array = as_float32(x.dequantize() if isinstance(x, QArray) else x)
    if params is not None:
        check_params_alone(params, dtype, scale, zero_point, scheme, granularity)
    elif scale is not None:
        params = QuantParams("int8" if dtype is None else dtype, scale, zero_point, scheme, granularity)
    elif zero_point is not None:
        raise QuantError("zero_point= needs scale=", hint="give both, or neither and let the values decide")
    else:
        params = params_from_data(array, "int8" if dtype is None else dtype, scheme, granularity)
    ints = quantize(array, params)
    finite = bool(array.size) and bool(np.isfinite(array).all())
    return QArray._of(ints, params, sqnr_db(array, dequantize(ints, params)) if finite else None, original_of(x))


def original_of(x: Any) -> DType:
    """The float dtype of what is quantized; float32 for lists and integers, which have none."""
    if isinstance(x, QArray):
        return x.original_dtype
    found = getattr(x, "dtype", None)
    name = found.name if isinstance(found, np.dtype) else "float32"
    return dtype_of(name) if name in DTYPES and DTYPES[name].is_float else _FLOAT32


class Array(np.ndarray[Any, np.dtype[np.float32]]):
    """A float32 NumPy array with the methods that quantize it."""

    def quantize(self, dtype: str | DType = "int8", **options: Any) -> QArray:
        """As `quantize_array(self, dtype, **options)`."""
        return quantize_array(self, dtype, **options)

    def quantize_int8(self, scale: ArrayLike | None = None, zero_point: ArrayLike | None = None, **options: Any) -> QArray:
        """As `quantize_array(self, "int8", scale=scale, zero_point=zero_point, **options)`.

        >>> array([1.0, -1.0]).quantize_int8(0.5, 10).ints.tolist()
        [12, 8]
        """
        return self.quantize("int8", scale=scale, zero_point=zero_point, **options)

    def quantize_uint8(self, scale: ArrayLike | None = None, zero_point: ArrayLike | None = None, **options: Any) -> QArray:
        """As `quantize_array(self, "uint8", scale=scale, zero_point=zero_point, **options)`.

        >>> array([1.0, -1.0]).quantize_uint8(0.5, 128).ints.tolist()
        [130, 126]
        """
        return self.quantize("uint8", scale=scale, zero_point=zero_point, **options)

    def astype(self, dtype: Any, *numpys: Any, **options: Any) -> Any:
        """A QArray for a dtype of 16 bits or fewer, quantized by the range of the values; NumPy's own for others, which may not wrap.

        `scale=`, `zero_point=`, `scheme=`, `granularity=` and `params=` are those of `quantize_array`.

        >>> array([0.0, 300.0]).astype("uint8").dequantize().tolist()
        [0.0, 300.0]
        """
        d = dtype_of(dtype)
        if d.name in NARROW:
            if numpys or not NUMPYS.isdisjoint(options):
                raise InputError(f"astype('{d}') quantizes, it has no order, casting, subok or copy", hint=f"x.astype('{d}')")
            return self.quantize(d, **options)
        if not NUMPYS.issuperset(options):
            odd = min(o for o in options if o not in NUMPYS)
            raise InputError(f"astype('{d}') does not quantize, {odd}= is for quantized dtypes", hint=f"x.quantize('int8', {odd}=…)")
        if d.is_integer and self.size:
            lo, hi = np.min(self), np.max(self)
            if not np.isfinite(lo + hi) or lo <= float(d.min or 0) - 1 or hi >= float(d.max or 0) + 1:
                raise DTypeError(
                    f"values from {lo:g} to {hi:g} do not fit {d}, they would wrap", hint=f"np.clip(x, {d.min}, {d.max}).astype('{d}')"
                )
        return super().astype(d.numpy, *numpys, **options)


NARROW = tuple(name for name in QUANT_DTYPES if DTYPES[name].bits <= 16)
NUMPYS = {"order", "casting", "subok", "copy"}


def array(x: ArrayLike) -> Array:
    """`x` as a float32 NumPy array that has `.quantize(dtype)`, `.quantize_int8(scale, zero_point)` and `.astype("int4")`.

    >>> array([1.0, -1.0]).quantize_int8(scale=0.5).ints.tolist()
    [2, -2]
    """
    if isinstance(x, QArray):
        x = x.dequantize()
    return as_float32(x).view(Array)
