"""Quantization-aware training: fake quantization with the bits of lowbit's arithmetic, learned step sizes, folded batch norm."""

from __future__ import annotations

from lowbit.torch.qat.fake import ActivationFake, FakeQuant, WeightFake
from lowbit.torch.qat.function import fake_quantize
from lowbit.torch.qat.model import QatModel
from lowbit.torch.qat.prepare import prepare_qat

__all__ = ["ActivationFake", "FakeQuant", "QatModel", "WeightFake", "fake_quantize", "prepare_qat"]
