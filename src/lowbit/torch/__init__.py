"""lowbit in PyTorch: quantized tensors and modules. Needs the extra `torch`.

>>> q = quantize_int8(torch.randn(4, 4))
>>> quantize_(model, "int8", data=batches)
"""

from __future__ import annotations

from lowbit.errors import LowbitError

try:
    import torch as _torch  # noqa: F401
except ImportError as e:  # the extra is not installed
    raise LowbitError("PyTorch is not installed", where="lowbit.torch", hint="pip install 'lowbit[torch]'") from e

from lowbit.torch.calibrate import calibrate
from lowbit.torch.convert import convert
from lowbit.torch.create import empty, full, zeros
from lowbit.torch.files import load_safetensors, save_safetensors
from lowbit.torch.modules import GRU, LSTM, Conv1d, Conv2d, ConvTranspose2d, Embedding, Linear, MultiheadAttention
from lowbit.torch.qat import prepare_qat
from lowbit.torch.qtensor import QTensor, quantize, quantize_int8, quantize_uint8
from lowbit.torch.swap import dequantize_, quantize_, restore_
from lowbit.torch.weights import dequantize_weights, quantize_weights

__all__ = [
    "GRU",
    "LSTM",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Embedding",
    "Linear",
    "MultiheadAttention",
    "QTensor",
    "calibrate",
    "convert",
    "dequantize_",
    "dequantize_weights",
    "empty",
    "full",
    "load_safetensors",
    "prepare_qat",
    "quantize",
    "quantize_",
    "quantize_int8",
    "quantize_uint8",
    "quantize_weights",
    "restore_",
    "save_safetensors",
    "zeros",
]
