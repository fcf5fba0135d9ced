"""Which kernel multiplies quantized tensors on which device. The CPU's are the compiled ones; other devices add theirs here.

    @kernel("cuda", "matmul")
    def matmul(a: QTensor, b: QTensor) -> Tensor | None: ...

    op             arguments                                      result
    quantize       float, scale, zero point, QuantParams          the integers, as they are stored
    dequantize     integers, scale, zero point, axis              float32
    matmul         QTensor (…, M, K), QTensor (…, K, N)           float32, by the rule of lowbit.matmul
    linear         QTensor (…, K), QTensor (N, K), bias or None   float32: the product by that rule, then + bias
    conv2d         QTensor, QTensor, bias or None, geometry       float32
    linear_rows    float (…, K), QTensor (N, K), bias or None     float32: activations quantized row by row (docs/arithmetic.md §2)
    weight_only    float (…, K), QTensor (N, K), bias or None     float32: weights dequantized on the way
    linear_static  float (…, K), the weight, the lowered graph    float32: what that graph of one layer gives, with its bits
    conv_static    float (N, C, …), the weight, the graph         the same for a convolution

A kernel that returns None has no way for these operands: they are dequantized.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from torch import Tensor

Kernel = Callable[..., "Tensor | None"]
KERNELS: dict[tuple[str, str], Kernel] = {}
HOMES = {"cpu": "lowbit.torch.cpu", "cuda": "lowbit.torch.gpu"}  # where a device's kernels are written, imported when first needed
_asked: set[str] = set()


def kernel(device: str, op: str) -> Callable[[Kernel], Kernel]:
    """Puts a function into the table."""

    def put(f: Kernel) -> Kernel:
        KERNELS[device, op] = f
        return f

    return put


def kind(t: Tensor) -> str:
    """The kind of device that a tensor is on: whose kernels it gets."""
    return t.device.type


def find(device: str, op: str) -> Kernel | None:
    """The kernel of a device for an op; None if it has none."""
    if device not in _asked:
        _asked.add(device)
        home = HOMES.get(device)
        if home is not None and importlib.util.find_spec(home) is not None:
            importlib.import_module(home)
    return KERNELS.get((device, op))


def run(op: str, *args: Any, **options: Any) -> Tensor | None:
    """The result of the kernel for the device that the tensors are on; None where there is no kernel."""
    devices = {kind(a) for a in args if isinstance(a, Tensor)}
    found = find(devices.pop(), op) if len(devices) == 1 else None
    return None if found is None else found(*args, **options)
