"""Triton kernels for NVIDIA GPUs: quantize, dequantize, integer products, 4-bit weights. Needs the extra `gpu`.

QTensors on a CUDA device use them by themselves (`lowbit.torch.kernels`); without Triton they are dequantized there.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("triton") is not None:
    from lowbit.torch.gpu import table  # noqa: F401
