"""QTensor: a torch tensor of quantized numbers, packed integers and what they stand for. Its bits are those of lowbit's QArray.

    >>> q = quantize_int8(torch.tensor([[0.5, -1.0], [0.25, 0.0]]))
    >>> q.ints.tolist(), (q @ q.T).tolist()
    ([[64, -128], [32, 0]], [[1.25, 0.125], [0.125, 0.0625]])

To torch it is a float32 tensor that never changes: views keep their parameters, two of them multiply in integers, and every other
operation sees the dequantized values (`lowbit.torch.dispatch` has the table). Gradients do not flow into it, but through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowbit.arguments import shown
from lowbit.dtypes import DType
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, QuantError
from lowbit.qarray import QArray
from lowbit.quant_params import QUANT_DTYPES, Granularity, PerTensor, QuantParams, Scheme, check_params_alone, requantize
from lowbit.ranges import params_from_data
from lowbit.torch.params import PACKED, Layout, as_params, as_tensors, codes, layout_of, packed, real, unpacked, version

_PER_TENSOR = PerTensor()


class QTensor(Tensor):
    """Packed integers, scale and zero point as tensors, and the layout that says what they are for.

    >>> q = quantize(torch.tensor([[1.0, -2.0]]), "int8", scale=0.5)
    >>> q.ints.tolist(), q.dequantize().tolist()
    ([[2, -4]], [[1.0, -2.0]])
    """

    _data: Tensor
    _scale: Tensor
    _zero_point: Tensor
    _layout: Layout
    _known: QuantParams | None  # scale and zero point as a value, and their version: `_known_at`
    _known_at: tuple[int, int]
    _original: torch.dtype

    @staticmethod
    def __new__(
        cls, data: Tensor, scale: Tensor, zero_point: Tensor, layout: Layout, shape: Sequence[int], original: torch.dtype = torch.float32
    ) -> QTensor:
        strides = None if layout.dtype in PACKED else data.stride()
        made: QTensor = Tensor._make_wrapper_subclass(
            cls, tuple(shape), strides=strides, dtype=torch.float32, device=data.device, requires_grad=False
        )
        made._data, made._scale, made._zero_point, made._layout = data, scale, zero_point, layout
        made._known, made._known_at = None, (-1, -1)
        made._original = original
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    @classmethod
    def of(cls, ints: Tensor, params: QuantParams, original: torch.dtype = torch.float32) -> QTensor:
        """Integers (unpacked) that are known to fit the parameters."""
        params.check(ints.shape)
        layout = layout_of(params)
        made = cls(packed(ints, layout), *as_tensors(params, ints.device), layout, ints.shape, original)
        made._know(params)
        return made

    @classmethod
    def from_qarray(cls, q: QArray, device: torch.device | str = "cpu") -> QTensor:
        """The same numbers as a NumPy QArray."""
        return cls.of(torch.from_numpy(np.array(q.ints)).to(device), q.quant_params, getattr(torch, q.original_dtype.name))

    # --- what it is ---

    @property
    def quant_params(self) -> QuantParams:
        """Scale, zero point, dtype, scheme and granularity."""
        if self._known is None or self._known_at != self._written:
            return self._know(as_params(self._layout, self._scale, self._zero_point))
        return self._known

    def _know(self, params: QuantParams) -> QuantParams:
        self._known, self._known_at = params, self._written
        return params

    @property
    def _written(self) -> tuple[int, int]:
        """How often scale and zero point have been written: by load_state_dict, perhaps through another QTensor of the same memory."""
        return version(self._scale), version(self._zero_point)

    @property
    def original_dtype(self) -> torch.dtype:
        """The dtype of the tensor that was quantized: `q.astype(q.original_dtype)` has it again.

        >>> quantize(torch.ones(2, dtype=torch.bfloat16)).original_dtype
        torch.bfloat16
        """
        return self._original

    @property
    def ints(self) -> Tensor:
        """The unpacked integers; binary as -1 and +1."""
        return unpacked(self._data, self._layout, self.shape)

    @property
    def packed(self) -> Tensor:
        """The integers as they are stored."""
        return self._data

    @property
    def quantized_bytes(self) -> int:
        """Bytes of the packed integers and of their scales and zero points."""
        return self._data.numel() * self._data.element_size() + self.quant_params.nbytes

    def dequantize(self) -> Tensor:
        """The float32 tensor it stands for: fl32(q - zero_point) * scale."""
        return real(self.ints, self._layout, self._scale, self._zero_point)

    def astype(self, dtype: str | DType | torch.dtype, *, scheme: Scheme | None = None, params: QuantParams | None = None) -> Tensor:
        """A float tensor for a float dtype; a QTensor, requantized, for a quantized one (by `params`, or to the range of its values)."""
        if isinstance(dtype, torch.dtype):
            if dtype.is_floating_point:
                return self.dequantize().to(dtype)
            dtype = str(dtype).removeprefix("torch.")
        d = dtype_of(dtype)
        if d.name not in QUANT_DTYPES:
            return self.dequantize().to(getattr(torch, d.name))
        if params is not None and params.dtype != d:
            raise QuantError(f"astype({d}) with parameters of {params.dtype}", hint=f"astype('{params.dtype}', params=params)")
        if params is None and scheme is None and d.name == self._layout.dtype:
            return self
        if params is None:
            params = params_from_data(self.dequantize().cpu().numpy(), d, scheme, self._layout.granularity)
        ints = requantize(self.ints.cpu().numpy(), self.quant_params, params)
        return QTensor.of(torch.from_numpy(np.array(ints)).to(self.device), params, self._original)

    def qarray(self) -> QArray:
        """The same numbers as a NumPy QArray."""
        return QArray(self.ints.cpu().numpy(), self.quant_params, original_dtype=str(self._original).removeprefix("torch."))

    def numpy(self, *, force: bool = False) -> Any:
        return self.dequantize().numpy(force=force)

    def tolist(self) -> Any:
        return self.dequantize().tolist()

    def __format__(self, spec: str) -> str:
        return format(self.dequantize(), spec) if spec else repr(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        values = f"{self.dequantize()!r}"[7:-1] if self.numel() <= 1000 and not self.is_meta else f"{self.numel()} values"
        return f"QTensor({values}, shape={tuple(self.shape)}, {self._layout.dtype} {self._layout.scheme} {self._layout.granularity})"

    # --- torch's protocols ---

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_data", "_scale", "_zero_point"], (self._layout, tuple(self.shape), self._original)

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], meta: Any, outer_size: Any, outer_stride: Any) -> QTensor:
        layout, shape, original = meta
        return QTensor(inner["_data"], inner["_scale"], inner["_zero_point"], layout, shape, original)

    def _stable_hash_for_caching(self) -> str:
        """The properties that compiled code may depend on; not the numbers."""
        return repr((self._layout, tuple(self.shape), self._data.dtype))

    def _with(self, change: Callable[[Tensor], Tensor]) -> QTensor:
        """The same number in other memory: `change` is done to each of its tensors."""
        made = QTensor(change(self._data), change(self._scale), change(self._zero_point), self._layout, self.shape, self._original)
        if self._known is not None and self._known_at == self._written:
            made._know(self._known)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> QTensor:
        if id(self) not in memo:
            made = self._with(torch.clone)
            if getattr(self, "_is_param", False):
                made._is_param = True
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        g = self._layout
        parts = (self._data, self._scale, self._zero_point, g.dtype, g.scheme, g.axis, g.block, tuple(self.shape))
        return rebuild, parts if self._original == torch.float32 else (*parts, str(self._original).removeprefix("torch."))

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from lowbit.torch.dispatch import torch_function

        return torch_function(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        from lowbit.torch.dispatch import torch_dispatch

        return torch_dispatch(func, args, kwargs or {})


def rebuild(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    dtype: str,
    scheme: Scheme,
    axis: int | None,
    block: int | None,
    shape: Sequence[int],
    original: str = "float32",
) -> QTensor:
    """Restores a saved QTensor."""
    return QTensor(data, scale, zero_point, Layout(dtype, scheme, axis, block), shape, getattr(torch, original))


torch.serialization.add_safe_globals([rebuild, QTensor])


def quantize(
    x: Tensor | Any,
    dtype: str | DType | None = None,
    *,
    scale: Any = None,
    zero_point: Any = None,
    scheme: Scheme | None = None,
    granularity: Granularity = _PER_TENSOR,
    params: QuantParams | None = None,
) -> QTensor:
    """`x` in few bits (int8 unless said). Without `scale` and `params` the range of `x` decides; as lowbit.quantize_array, bit for bit.

    >>> quantize(torch.tensor([0.0, 1.0, 2.0]), "uint8", scale=0.5, zero_point=3).ints.tolist()
    [3, 5, 7]
    """
    try:
        t = x.dequantize() if isinstance(x, QTensor) else torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError) as e:
        raise DTypeError(f"x is {shown(x)}, which is no tensor of numbers", hint="a tensor, an array, or lists of numbers") from e
    given = x._original if isinstance(x, QTensor) else t.dtype if t.dtype.is_floating_point else torch.float32
    if t.dtype.is_complex:
        raise DTypeError(f"x is {t.dtype}: complex numbers have no quantized form", hint="torch.view_as_real(x)")
    if not t.dtype.is_floating_point:
        t = t.to(torch.float32)
    if params is None and scale is None:
        if zero_point is not None:
            raise QuantError("zero_point= needs scale=", hint="give both, or neither and let the values decide")
        params = params_from_data(t.detach().to(torch.float32).cpu().numpy(), "int8" if dtype is None else dtype, scheme, granularity)
    elif params is None:
        s, z = (v.detach().cpu().numpy() if isinstance(v, Tensor) else v for v in (scale, zero_point))
        params = QuantParams("int8" if dtype is None else dtype, s, z, scheme, granularity)
    else:
        check_params_alone(params, dtype, scale, zero_point, scheme, granularity)
    params.check(t.shape)
    return QTensor.of(codes(t, params), params, given)


def quantize_int8(x: Tensor | Any, scale: Any = None, zero_point: Any = None, **options: Any) -> QTensor:
    """`x` as int8: `quantize(x, "int8", scale=scale, zero_point=zero_point, …)`.

    >>> quantize_int8(torch.tensor([1.0, -1.0]), 0.5, 10).ints.tolist()
    [12, 8]
    """
    return quantize(x, "int8", scale=scale, zero_point=zero_point, **options)


def quantize_uint8(x: Tensor | Any, scale: Any = None, zero_point: Any = None, **options: Any) -> QTensor:
    """`x` as uint8: `quantize(x, "uint8", scale=scale, zero_point=zero_point, …)`.

    >>> quantize_uint8(torch.tensor([1.0, -1.0]), 0.5, 128).ints.tolist()
    [130, 126]
    """
    return quantize(x, "uint8", scale=scale, zero_point=zero_point, **options)


def as_qtensor(x: Any, what: str) -> QTensor:
    """`x`, which must be a QTensor."""
    if not isinstance(x, QTensor):
        raise DTypeError(f"{what} is {type(x).__name__}, a QTensor is needed", hint="lowbit.torch.quantize(x, dtype)")
    return x
