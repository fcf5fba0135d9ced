"""torch operations on a QTensor: one table of operations that stay quantized. All others get the dequantized tensor.

FUNCTIONS are the operations that two quantized operands compute in integers, by the functions that people call (`F.linear`, `@`);
VIEWS are those that only move numbers, by the ATen operation below them. What writes into a QTensor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from lowbit.errors import QuantError, ShapeError
from lowbit.qarray import views
from lowbit.quant_params import QuantParams
from lowbit.torch import kernels
from lowbit.torch.params import PACKED, Layout, packed, wrote
from lowbit.torch.qtensor import QTensor

aten = torch.ops.aten
_HINT = ".dequantize(), change that, quantize again"


def dequantized(tree: Any) -> Any:
    """The same arguments with every QTensor in them dequantized."""
    return tree_map_only(QTensor, lambda q: q.dequantize(), tree)


def torch_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function by the table if the table takes these arguments; else what torch makes of it, operation by operation."""
    handler = FUNCTIONS.get(func)
    if handler is not None:
        result = handler(*args, **kwargs)
        if result is not NotImplemented:
            return result
    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def torch_dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The operation by the table, or on dequantized arguments."""
    view = VIEWS.get(func)
    if view is not None and isinstance(args[0], QTensor):
        return view(*args, **kwargs)
    if func._schema.is_mutable:
        _refuse_writing(func, args, kwargs)
    return func(*dequantized(args), **dequantized(kwargs))


def _refuse_writing(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for i, a in enumerate(func._schema.arguments):
        given = args[i] if i < len(args) else kwargs.get(a.name)
        if a.alias_info is not None and a.alias_info.is_write and any(isinstance(g, QTensor) for g in _flat(given)):
            raise QuantError(f"{func._schema.name.split('::')[-1]} would write into a QTensor, which does not change", hint=_HINT)


def _flat(x: Any) -> Sequence[Any]:
    return x if isinstance(x, list | tuple) else (x,)


# --- in integers: two quantized operands ---


def _matmul(a: Any, b: Any, *, out: Any = None) -> Any:
    if not isinstance(a, QTensor) or not isinstance(b, QTensor) or out is not None:
        return NotImplemented
    y = kernels.run("matmul", a, b)
    return NotImplemented if y is None else y


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """fl32(Σ) × (sx × sw) in integers, then + bias in float32."""
    if not isinstance(x, QTensor) or not isinstance(weight, QTensor):
        return NotImplemented
    y = kernels.run("linear", x, weight, dequantized(bias))
    return NotImplemented if y is None else y


def _conv2d(x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    if not isinstance(x, QTensor) or not isinstance(weight, QTensor) or isinstance(padding, str) or x.dim() != 4:
        return NotImplemented
    pair = [tuple(v) if isinstance(v, Sequence) else (v, v) for v in (stride, padding, dilation)]
    y = kernels.run("conv2d", x, weight, dequantized(bias), stride=pair[0], padding=pair[1], dilation=pair[2], groups=groups)
    return NotImplemented if y is None else y


def _embedding(index: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, *others: Any, **options: Any) -> Any:
    """Only the rows that are asked for are dequantized."""
    if not isinstance(weight, QTensor) or max_norm is not None or weight.dim() != 2:
        return NotImplemented
    shape = (*index.shape, weight.shape[1])
    return weight[index.reshape(-1)].dequantize().reshape(shape)


def _requires_grad(q: Any, requires_grad: bool = True) -> Any:
    if isinstance(q, QTensor) and requires_grad:
        raise QuantError("a QTensor has no gradient of its own: integers have no slope", hint="nn.Parameter(q, requires_grad=False)")
    return NotImplemented


def _set_data(q: Any, other: Any) -> Any:
    if isinstance(q, QTensor):
        raise QuantError(
            ".data = would put other numbers into a QTensor, which does not change", hint="setattr(module, name, nn.Parameter(q))"
        )
    return NotImplemented


def _share_memory(q: QTensor) -> QTensor:
    """Its tensors in memory that other processes see; torch's own would ask for a storage that it does not have."""
    for t in (q._data, q._scale, q._zero_point):
        t.share_memory_()  # type: ignore[no-untyped-call]
    return q


def _is_shared(q: QTensor) -> bool:
    return all(t.is_shared() for t in (q._data, q._scale, q._zero_point))  # type: ignore[no-untyped-call]


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys([torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.bmm, Tensor.bmm], _matmul),
    **dict.fromkeys([torch.mv, Tensor.mv, torch.dot, Tensor.dot], _matmul),
    F.linear: _linear,
    F.conv2d: _conv2d,
    F.embedding: _embedding,
    Tensor.requires_grad_: _requires_grad,
    Tensor.share_memory_: _share_memory,
    Tensor.is_shared: _is_shared,
    Tensor.data.__set__: _set_data,  # type: ignore[attr-defined]
}


# --- views: the parameters follow the axes, by the laws of lowbit.qarray.views ---


def _moved(q: QTensor, ints: Tensor, params: QuantParams) -> QTensor:
    if q._layout.axis is None:  # one scale for all stays one
        return QTensor(packed(ints, q._layout), q._scale, q._zero_point, q._layout, ints.shape, q._original)
    return QTensor.of(ints, params, q._original)


def _reshape(q: QTensor, shape: Sequence[int]) -> QTensor:
    ints = q.ints.reshape(tuple(shape))
    return _moved(q, ints, q.quant_params if q._layout.axis is None else views.reshaped(q.quant_params, tuple(q.shape), tuple(ints.shape)))


def _permute(q: QTensor, dims: Sequence[int]) -> QTensor:
    order = [d % q.dim() for d in dims]
    g, scale, zero = q._layout, q._scale, q._zero_point
    if g.axis is not None:
        if g.block is not None:
            scale, zero = scale.permute(order), zero.permute(order)
        g = Layout(g.dtype, g.scheme, order.index(g.axis % q.dim()), g.block)
    ints = q.ints.permute(order)
    data = packed(ints, g) if g.dtype in PACKED else ints
    return QTensor(data, scale, zero, g, ints.shape, q._original)


def _transpose(q: QTensor, a: int, b: int) -> QTensor:
    order = list(range(q.dim()))
    order[a], order[b] = order[b], order[a]
    return _permute(q, order)


def _t(q: QTensor) -> QTensor:
    return _permute(q, range(q.dim())[::-1])


def _indexed(q: QTensor, key: tuple[Any, ...]) -> QTensor:
    ints = q.ints[tuple(torch.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)]
    return _moved(q, ints, q.quant_params if q._layout.axis is None else views.indexed(q.quant_params, tuple(q.shape), key))


def _at(q: QTensor, dim: int, item: Any) -> QTensor:
    return _indexed(q, (*(slice(None),) * (dim % q.dim()), item))


def _slice(q: QTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> QTensor:
    return _at(q, dim, slice(*slice(start, end, step).indices(q.shape[dim])))


def _select(q: QTensor, dim: int, index: int) -> QTensor:
    return _at(q, dim, int(index))


def _unsqueeze(q: QTensor, dim: int) -> QTensor:
    return _indexed(q, (*(slice(None),) * (dim % (q.dim() + 1)), None))


def _squeeze(q: QTensor, dims: int | Sequence[int] | None = None) -> QTensor:
    named = range(q.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {d % q.dim() for d in named if q.shape[d] == 1}
    return _indexed(q, tuple(0 if i in gone else slice(None) for i in range(q.dim())))


def _expand(q: QTensor, shape: Sequence[int], *, implicit: bool = False) -> QTensor:
    ints = q.ints.expand(tuple(shape))
    new = tuple(ints.shape)
    return _moved(q, ints, q.quant_params if q._layout.axis is None else views.broadcasted(q.quant_params, tuple(q.shape), new))


def _index(q: QTensor, indices: Sequence[Tensor | None]) -> QTensor:
    key = tuple(slice(None) if i is None else i.cpu().numpy() for i in indices)
    if any(isinstance(k, np.ndarray) and k.ndim > 1 and k.dtype != np.bool_ for k in key) and q._layout.axis is not None:
        raise ShapeError("an index of several axes spreads the scales", hint="index with one axis, or .dequantize() first")
    return _indexed(q, key)


def _unbind(q: QTensor, dim: int = 0) -> list[QTensor]:
    return [_select(q, dim, i) for i in range(q.shape[dim])]


def _split(q: QTensor, sizes: int | Sequence[int], dim: int = 0) -> list[QTensor]:
    total = q.shape[dim]
    lengths = [min(sizes, total - i) for i in range(0, total, sizes)] if isinstance(sizes, int) else list(sizes)
    ends = np.cumsum(lengths).tolist()
    return [_slice(q, dim, end - n, end) for n, end in zip(lengths, ends, strict=True)]


def _same(q: QTensor) -> QTensor:
    return q._with(lambda t: t)


def _clone(q: QTensor, *, memory_format: Any = torch.preserve_format) -> QTensor:
    wanted = torch.contiguous_format if memory_format is torch.contiguous_format else torch.preserve_format
    return q._with(lambda t: t.clone(memory_format=wanted))


def _to_copy(q: QTensor, *, dtype: Any = None, device: Any = None, non_blocking: bool = False, **options: Any) -> Tensor:
    """Another device; another float dtype is what the values are in it."""
    if dtype not in (None, torch.float32):
        return q.dequantize().to(dtype=dtype, device=device)
    return q._with(lambda t: t.to(device=device, non_blocking=non_blocking, copy=True))


def _copy(q: QTensor, source: Any, non_blocking: bool = False) -> QTensor:
    """For load_state_dict: copies the numbers of a QTensor of the same layout. Nothing else can be written into one."""
    if not isinstance(source, QTensor) or source._layout != q._layout or source.shape != q.shape or source._scale.shape != q._scale.shape:
        found = f"{source._layout} {tuple(source.shape)}" if isinstance(source, QTensor) else f"a float tensor {tuple(source.shape)}"
        raise QuantError(f"copy_ of {found} into a QTensor of {q._layout} {tuple(q.shape)}, which does not change", hint=_HINT)
    for mine, theirs in zip((q._data, q._scale, q._zero_point), (source._data, source._scale, source._zero_point), strict=True):
        mine.copy_(theirs, non_blocking)
        wrote(mine)
    q._known = None
    for made in ("_compiled", "_right", "_static"):  # by kernels, from the numbers that were there
        q.__dict__.pop(made, None)
    return q


VIEWS: dict[Any, Callable[..., Any]] = {
    aten.view.default: _reshape,
    aten.reshape.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.t.default: _t,
    aten.numpy_T.default: _t,
    aten.transpose.int: _transpose,
    aten.permute.default: _permute,
    aten.slice.Tensor: _slice,
    aten.select.int: _select,
    aten.unsqueeze.default: _unsqueeze,
    aten.squeeze.default: _squeeze,
    aten.squeeze.dim: _squeeze,
    aten.squeeze.dims: _squeeze,
    aten.expand.default: _expand,
    aten.index.Tensor: _index,
    aten.unbind.int: _unbind,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.alias.default: _same,
    aten.detach.default: _same,
    aten.lift_fresh.default: _same,
    aten.clone.default: _clone,
    aten._to_copy.default: _to_copy,
    aten.copy_.default: _copy,
}
