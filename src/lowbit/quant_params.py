"""The meaning of a quantized number: `QuantParams` (dtype, scheme, granularity, scale, zero point) and the arithmetic by it.

Granularity says which elements share a scale, and so the shape of `scale` and `zero_point` for an array of shape (d0, …, dn):

    PerTensor()           ()                                 one scale
    PerAxis(axis)         (d_axis,)                          one per index of that axis
    PerBlock(axis, size)  (d0, …, ceil(d_axis/size), …, dn)  one per `size` neighbours along the axis, as in ONNX; the last may be shorter
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowbit import numerics
from lowbit.arguments import shown
from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, FormatError, QuantError
from lowbit.numerics import F32, Ints

QUANT_DTYPES = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "binary", "int32")

# symmetric: the zero point is the middle of the dtype (0, or 128 for uint8) and every code is used, as QuantizeLinear does.
# symmetric_restricted: the same without the lowest code, so that x and -x have opposite codes (-127..127).
Scheme = Literal["symmetric", "symmetric_restricted", "asymmetric", "logarithmic"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class PerTensor:
    """One scale for the whole array.

    >>> QuantParams("int8", 0.5, granularity=PerTensor()).scale.shape
    ()
    """

    def __str__(self) -> str:
        return "per tensor"


@dataclass(frozen=True)
class PerAxis:
    """One scale for each index of `axis` (negative axes count from the end).

    >>> QuantParams("int8", [0.5, 0.25], granularity=PerAxis(0)).scale.tolist()
    [0.5, 0.25]
    """

    axis: int

    def __post_init__(self) -> None:
        _integer(self, "axis")

    def __str__(self) -> str:
        return f"per axis {self.axis}"


@dataclass(frozen=True)
class PerBlock:
    """One scale for each `size` neighbours along `axis`.

    >>> scale_shape(PerBlock(1, 32), (8, 100))  # the last block is shorter
    (8, 4)
    """

    axis: int
    size: int

    def __post_init__(self) -> None:
        _integer(self, "axis")
        _integer(self, "size")
        if self.size < 1:
            raise QuantError(f"block size {self.size} is not positive", hint="32, 64 or 128 are common")

    def __str__(self) -> str:
        return f"per block of {self.size} along axis {self.axis}"


Granularity = PerTensor | PerAxis | PerBlock


def _integer(owner: object, name: str) -> None:
    """Makes a field a plain int; QuantError when it is none."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise QuantError(f"{name} {value!r} of {type(owner).__name__} is not an integer")
    object.__setattr__(owner, name, int(value))


def check_granularity(granularity: object) -> None:
    """Raises QuantError unless it is one of the three values."""
    if not isinstance(granularity, PerTensor | PerAxis | PerBlock):
        raise QuantError(f"granularity {granularity!r} is none", hint="PerTensor(), PerAxis(axis) or PerBlock(axis, size)")


def scale_shape(granularity: Granularity, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape that `scale` and `zero_point` have for an array of `shape`.

    >>> scale_shape(PerBlock(1, 32), (8, 100))
    (8, 4)
    """
    check_granularity(granularity)
    if isinstance(granularity, PerTensor):
        return ()
    axis = granularity.axis + len(shape) if granularity.axis < 0 else granularity.axis
    if not 0 <= axis < len(shape):
        hint = f"an axis in 0..{len(shape) - 1}" if shape else "PerTensor(): one number has no axes"
        raise QuantError(f"{granularity} does not exist in an array of shape {tuple(shape)}", hint=hint)
    if isinstance(granularity, PerAxis):
        return (shape[axis],)
    return (*shape[:axis], -(-shape[axis] // granularity.size), *shape[axis + 1 :])


def quant_dtype(dtype: str | DType) -> DType:
    """The row of a dtype that quantized numbers can have."""
    try:
        d = dtype_of(dtype)
    except DTypeError as e:
        e.hint = "one of " + ", ".join(QUANT_DTYPES)
        raise
    if d.name not in QUANT_DTYPES:
        raise DTypeError(f"{d.name} is not a quantized dtype", hint="one of " + ", ".join(QUANT_DTYPES))
    return d


def middle(dtype: DType) -> int:
    """The zero point of the symmetric schemes: 0 for signed dtypes, 2^(bits-1) for unsigned ones."""
    return 0 if dtype.is_signed else 1 << (dtype.bits - 1)


def code_range(dtype: DType, scheme: Scheme) -> tuple[int, int]:
    """The lowest and highest code that quantizing gives.

    >>> code_range(dtype_of("int8"), "symmetric_restricted"), code_range(dtype_of("uint4"), "logarithmic")
    ((-127, 127), (0, 15))
    """
    assert dtype.min is not None and dtype.max is not None
    if scheme == "symmetric_restricted" and dtype.name != "binary":
        return dtype.min + 1, dtype.max
    if scheme == "logarithmic":
        return (-dtype.max if dtype.is_signed else 0), dtype.max
    return dtype.min, dtype.max


@dataclass(frozen=True, init=False, eq=False, repr=False)
class QuantParams:
    """real = scale * (q - zero_point), for which elements, in which dtype. A value: immutable, hashable, equal by content.

    >>> p = QuantParams("uint8", 0.5, 10)
    >>> quantize([0.0, 1.0, -99.0], p).tolist(), p.scheme
    ([10, 12, 0], 'asymmetric')
    """

    dtype: DType
    scheme: Scheme
    granularity: Granularity
    scale: F32
    zero_point: NDArray[np.int32]

    def __init__(
        self,
        dtype: str | DType,
        scale: ArrayLike,
        zero_point: ArrayLike | None = None,
        scheme: Scheme | None = None,
        granularity: Granularity = PerTensor(),  # noqa: B008 - a frozen value
    ) -> None:
        d = quant_dtype(dtype)
        if scheme is not None:
            known_scheme(scheme)
        s = _frozen(_scales(scale, granularity))
        z = middle(d) if zero_point is None and scheme != "logarithmic" else 0 if zero_point is None else zero_point
        zp = _zero_points(z, d, s.shape)
        if scheme is None:
            scheme = "symmetric" if bool(np.all(zp == middle(d))) else "asymmetric"
        _check_scheme(d, scheme, zp)
        for name, value in (("dtype", d), ("scheme", scheme), ("granularity", granularity), ("scale", s), ("zero_point", _frozen(zp))):
            object.__setattr__(self, name, value)

    @classmethod
    def int8_symmetric(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """int8 around 0: -128..127.

        >>> QuantParams.int8_symmetric(0.5)
        QuantParams(int8, symmetric, per tensor, scale=0.5, zero_point=0)
        """
        return cls("int8", scale, 0, "symmetric", granularity)

    @classmethod
    def int8_asymmetric(
        cls,
        scale: ArrayLike = 1.0,
        zero_point: ArrayLike = 0,
        granularity: Granularity = PerTensor(),  # noqa: B008
    ) -> QuantParams:
        """int8 with a zero point, as ONNX and TensorFlow Lite have activations.

        >>> QuantParams.int8_asymmetric(0.5, -128).zero_point.item()
        -128
        """
        return cls("int8", scale, zero_point, "asymmetric", granularity)

    @classmethod
    def uint8_symmetric(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """uint8 around 128.

        >>> QuantParams.uint8_symmetric().zero_point.item()
        128
        """
        return cls("uint8", scale, 128, "symmetric", granularity)

    @classmethod
    def uint8_asymmetric(
        cls,
        scale: ArrayLike = 1.0,
        zero_point: ArrayLike = 0,
        granularity: Granularity = PerTensor(),  # noqa: B008
    ) -> QuantParams:
        """uint8 with a zero point.

        >>> QuantParams.uint8_asymmetric(0.5, 10)
        QuantParams(uint8, asymmetric, per tensor, scale=0.5, zero_point=10)
        """
        return cls("uint8", scale, zero_point, "asymmetric", granularity)

    @classmethod
    def int4_symmetric(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """int4 around 0: -8..7, two in a byte.

        >>> QuantParams.int4_symmetric().code_range
        (-8, 7)
        """
        return cls("int4", scale, 0, "symmetric", granularity)

    @classmethod
    def uint4_asymmetric(
        cls,
        scale: ArrayLike = 1.0,
        zero_point: ArrayLike = 0,
        granularity: Granularity = PerTensor(),  # noqa: B008
    ) -> QuantParams:
        """uint4 with a zero point: 0..15, two in a byte.

        >>> QuantParams.uint4_asymmetric(0.5, 8).code_range
        (0, 15)
        """
        return cls("uint4", scale, zero_point, "asymmetric", granularity)

    @classmethod
    def int16_symmetric(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """int16 around 0.

        >>> QuantParams.int16_symmetric().code_range
        (-32768, 32767)
        """
        return cls("int16", scale, 0, "symmetric", granularity)

    @classmethod
    def binary_symmetric(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """-scale and +scale, eight in a byte.

        >>> quantize([-3.0, 0.2], QuantParams.binary_symmetric()).tolist()
        [-1, 1]
        """
        return cls("binary", scale, 0, "symmetric", granularity)

    @classmethod
    def int8_logarithmic(cls, scale: ArrayLike = 1.0, granularity: Granularity = PerTensor()) -> QuantParams:  # noqa: B008
        """A sign and a power of two, at most `scale`.

        >>> dequantize(quantize([1.0, 0.3, -0.26], QuantParams.int8_logarithmic()), QuantParams.int8_logarithmic()).tolist()
        [1.0, 0.25, -0.25]
        """
        return cls("int8", scale, 0, "logarithmic", granularity)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, QuantParams) else NotImplemented

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __hash__(self) -> int:
        return self._hash

    def _key(self) -> tuple[object, ...]:
        return (self.dtype.name, self.scheme, self.granularity, self.scale.shape, self.scale.tobytes(), self.zero_point.tobytes())

    def __repr__(self) -> str:
        return f"QuantParams({self.dtype}, {self.scheme}, {self.granularity}, scale={_few(self.scale)}, zero_point={_few(self.zero_point)})"

    @property
    def code_range(self) -> tuple[int, int]:
        """The lowest and highest code that quantizing gives."""
        return code_range(self.dtype, self.scheme)

    @property
    def nbytes(self) -> int:
        """Bytes that scales (float32) and, unless the scheme fixes them, zero points (in the dtype) take."""
        stored_zero_points = self.dtype.nbytes(self.zero_point.size) if self.scheme == "asymmetric" else 0
        return self.scale.nbytes + stored_zero_points

    def axis(self, ndim: int) -> int | None:
        """The non-negative axis that the granularity names in an array of `ndim` dimensions, None per tensor."""
        if isinstance(self.granularity, PerTensor):
            return None
        return self.granularity.axis % ndim

    def check(self, shape: Sequence[int]) -> None:
        """Raises QuantError unless an array of `shape` can have these parameters."""
        need = scale_shape(self.granularity, shape)
        if need != self.scale.shape:
            raise QuantError(
                f"{self.granularity}: scales of shape {self.scale.shape} do not fit an array of shape {tuple(shape)}, which needs {need}",
                hint="another axis, or scales of that shape",
            )

    def grid(self, ndim: int) -> tuple[F32, NDArray[np.int32]]:
        """Scale and zero point as arrays of rank `ndim` (length 1 where shared; one entry per block along a block's axis)."""
        axis = self.axis(ndim)
        if axis is None:
            return self.scale.reshape((1,) * ndim), self.zero_point.reshape((1,) * ndim)
        if isinstance(self.granularity, PerAxis):
            shape = (1,) * axis + (-1,) + (1,) * (ndim - axis - 1)
            return self.scale.reshape(shape), self.zero_point.reshape(shape)
        return self.scale, self.zero_point

    def expand(self, shape: Sequence[int]) -> tuple[F32, NDArray[np.int32]]:
        """Scale and zero point as arrays that broadcast against an array of `shape`; checks that they fit it."""
        self.check(shape)
        if isinstance(self.granularity, PerTensor):
            return self.scale, self.zero_point
        scale, zero_point = self.grid(len(shape))
        if isinstance(self.granularity, PerBlock):
            axis = self.granularity.axis % len(shape)
            rows = np.arange(shape[axis]) // self.granularity.size
            return scale.take(rows, axis), zero_point.take(rows, axis)
        return scale, zero_point

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form; `from_dict` gives the same value back, scales to the bit (a float32 is a float64 exactly)."""
        g = self.granularity
        return {
            "dtype": self.dtype.name,
            "scheme": self.scheme,
            "axis": None if isinstance(g, PerTensor) else g.axis,
            "block": g.size if isinstance(g, PerBlock) else None,
            "shape": list(self.scale.shape),
            "scale": self.scale.astype(np.float64).reshape(-1).tolist(),
            "zero_point": self.zero_point.reshape(-1).tolist(),
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> QuantParams:
        """The value whose `to_dict` this is."""
        try:
            axis, block, shape = d["axis"], d["block"], tuple(d["shape"])
            granularity: Granularity = PerTensor() if axis is None else PerAxis(axis) if block is None else PerBlock(axis, block)
            scale = np.asarray(d["scale"], np.float64).reshape(shape)
            zero_point = np.asarray(d["zero_point"], np.int64).reshape(shape)
            return QuantParams(d["dtype"], scale, zero_point, d["scheme"], granularity)
        except (KeyError, ValueError, TypeError) as e:
            raise FormatError(f"not quantization parameters: {type(e).__name__}: {e}", hint="the result of QuantParams.to_dict") from e


def check_params_alone(params: object, dtype: object, scale: object, zero_point: object, scheme: object, granularity: Granularity) -> None:
    """A QuantError unless `params` are QuantParams and nothing that they have is given beside them."""
    if not isinstance(params, QuantParams):
        raise QuantError(f"params= is {type(params).__name__}, QuantParams are needed", hint="lowbit.params_from_range(lo, hi, dtype)")
    if scale is not None or zero_point is not None or scheme is not None or granularity != PerTensor():
        raise QuantError("params= already has scale, zero point, scheme and granularity", hint="params=, or the others")
    if dtype is not None and dtype_of(dtype) != params.dtype:  # type: ignore[arg-type]
        raise QuantError(f"dtype {dtype_of(dtype)} with parameters of {params.dtype}", hint=f"dtype='{params.dtype}'")  # type: ignore[arg-type]


def quantize(x: ArrayLike, params: QuantParams) -> Ints:
    """The unpacked integers of `x`: clamp(rne(x / scale) + zero_point), or the nearest code of a logarithmic or binary format."""
    array = numerics.as_float32(x)
    scale, zero_point = params.expand(array.shape)
    if params.dtype.name == "binary":
        return numerics.quantize_binary(array)
    if params.scheme == "logarithmic":
        return numerics.quantize_log(array, scale, params.dtype)
    qmin, qmax = params.code_range
    return numerics.quantize_with(array, scale, zero_point, params.dtype, qmin=qmin, qmax=qmax)


def dequantize(q: ArrayLike, params: QuantParams) -> F32:
    """fl32(q - zero_point) * scale in float32.

    >>> dequantize(np.array([10, 12, 0], np.uint8), QuantParams("uint8", 0.5, 10))
    array([ 0.,  1., -5.], dtype=float32)
    """
    ints = _integers(q)
    scale, zero_point = params.expand(ints.shape)
    if params.scheme == "logarithmic":
        return numerics.dequantize_log(ints, scale, params.dtype)
    return numerics.dequantize_with(ints, scale, zero_point)


def requantize(q: ArrayLike, source: QuantParams, target: QuantParams) -> Ints:
    """The integers of `target` for those of `source`: clamp(rne(fl32(q - zs) * m) + zt), m = fl32(s_source / s_target).

    One rounding, where dequantize and quantize would have two. A logarithmic or binary target has no multiplier: there it is those two.

    >>> requantize(np.array([100, -100], np.int32), QuantParams("int32", 0.25), QuantParams("int8", 0.5, 3))
    array([ 53, -47], dtype=int8)
    """
    ints = _integers(q)
    if "logarithmic" in (source.scheme, target.scheme) or target.dtype.name == "binary":
        return quantize(dequantize(ints, source), target)
    s_scale, s_zero = source.expand(ints.shape)
    t_scale, t_zero = target.expand(ints.shape)
    with np.errstate(over="ignore", under="ignore"):  # an infinite m saturates all but the zero point, which 0·inf = NaN gives
        m = np.divide(s_scale, t_scale)
    acc = np.subtract(ints, s_zero, dtype=np.int64)
    qmin, qmax = target.code_range
    return numerics.requantize_with(acc, m, t_zero, target.dtype, qmin=qmin, qmax=qmax)


def _integers(q: ArrayLike) -> Ints:
    ints = np.asarray(q)
    if ints.dtype.kind not in "iu":
        raise DTypeError(f"quantized values are integers, got {ints.dtype}", hint="quantize first")
    return ints


def _scales(scale: ArrayLike, granularity: Granularity) -> F32:
    check_granularity(granularity)
    s = numerics.as_float32(scale, what="scale")
    ndim = {PerTensor: 0, PerAxis: 1}.get(type(granularity))
    if ndim == 0 and s.size == 1:
        s = s.reshape(())
    if ndim is not None and s.ndim != ndim:
        raise QuantError(
            f"scale has shape {s.shape}, {granularity} needs {'one number' if ndim == 0 else 'one number for each index of the axis'}",
            hint="granularity=PerAxis(axis)" if ndim == 0 else "a list of scales",
        )
    bad = s[~(np.isfinite(s) & (s > 0))]
    if bad.size:
        raise QuantError(f"scale {bad[0]} is not a finite positive float32 ({bad.size} of {s.size} are not)", hint="params_from_range")
    return s


def _zero_points(zero_point: ArrayLike, d: DType, shape: tuple[int, ...]) -> NDArray[np.int32]:
    zp = numerics.as_array(zero_point, what="zero point")
    if zp.size and zp.dtype.kind not in "iu":
        raise QuantError(f"zero point is {zp.dtype}, integers are needed", hint="int(round(zero_point))")
    if zp.ndim and zp.shape != shape:
        if zp.size != prod(shape):
            raise QuantError(f"{zp.size} zero points for {prod(shape)} scales", hint="one zero point for each scale, or one for all")
        zp = zp.reshape(shape)
    outside = zp[(zp < d.min) | (zp > d.max)]
    if outside.size:
        hint = f"a zero point in {d.min}..{d.max}; params_from_range(lo, hi, '{d.name}') finds it"
        raise QuantError(f"zero point {outside.flat[0]} is outside {d.name}, which holds {d.min}..{d.max}", hint=hint)
    return np.broadcast_to(zp.astype(np.int32), shape)


def known_scheme(scheme: object) -> None:
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise QuantError(f"scheme {shown(scheme)} does not exist", hint="one of " + ", ".join(SCHEMES))


def _check_scheme(d: DType, scheme: Scheme, zp: NDArray[np.int32]) -> None:
    known_scheme(scheme)
    if scheme == "logarithmic":
        numerics.log_top(d)  # raises for the dtypes that have none
    elif scheme == "asymmetric" and d.name in ("binary", "int32"):
        raise QuantError(f"{d.name} has no zero point", hint="scheme='symmetric'")
    fixed = None if scheme == "asymmetric" else 0 if scheme == "logarithmic" else middle(d)
    if fixed is not None and bool(np.any(zp != fixed)):
        wrong = zp[zp != fixed].flat[0]
        raise QuantError(f"{scheme} {d.name} has zero point {fixed}, got {wrong}", hint="scheme='asymmetric'")


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def _few(values: NDArray[Any]) -> str:
    """Up to three values and their number: enough for an error message."""
    flat = values.reshape(-1)
    if values.ndim == 0:
        return f"{flat[0]:.6g}"
    shown = ", ".join(f"{v:.6g}" for v in flat[:3])
    return f"[{shown}{', …' if flat.size > 3 else ''}] ({flat.size})"
