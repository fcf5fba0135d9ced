"""ONNX files of public packages: all of each runs natively, in fp32 with ONNX Runtime's answer, and in int8. `make e2e`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

import lowbit
from lowbit.frontends.onnx import load_onnx
from lowbit.passes import simplify
from zoo.fetch import pypi

OCR6 = ("rapidocr", "3.10.0", "rapidocr/models/")
OCR4 = ("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/")
TABLE = ("table-cls", "1.1.3", "table_cls/models/")
WAKE = ("openwakeword", "0.5.1", "openwakeword/resources/models/")
VAD = ("silero-vad", "6.2.3", "silero_vad/data/")
RATE = {"sr": 16000}
STATE: dict[str, list[int]] = {"input": [1, 576], "state": [2, 1, 128]}

# package, version, folder; file; shapes of its inputs (one list: of its only one); inputs that are constant
FILES: dict[str, tuple[tuple[str, str, str], str, Any, dict[str, int]]] = {
    "PP-OCRv6 detection": (OCR6, "PP-OCRv6_det_small.onnx", [1, 3, 160, 160], {}),
    "PP-OCRv6 recognition": (OCR6, "PP-OCRv6_rec_small.onnx", [1, 3, 48, 160], {}),
    "PP-OCRv4 detection": (OCR4, "ch_PP-OCRv4_det_infer.onnx", [1, 3, 160, 160], {}),
    "PP-OCRv4 recognition": (OCR4, "ch_PP-OCRv4_rec_infer.onnx", [1, 3, 48, 160], {}),
    "PP-OCR orientation": (OCR4, "ch_ppocr_mobile_v2.0_cls_infer.onnx", [1, 3, 48, 192], {}),
    "NudeNet, a YOLOv8n": (("nudenet", "3.4.2", "nudenet/"), "320n.onnx", [1, 3, 320, 320], {}),
    "table_cls": (TABLE, "table_cls.onnx", [1, 3, 224, 224], {}),
    "yolo_cls": (TABLE, "yolo_cls.onnx", [1, 3, 640, 640], {}),
    "basic-pitch": (("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/"), "nmp.onnx", [1, 43844, 1], {}),
    "wake word embedding": (WAKE, "embedding_model.onnx", [1, 76, 32, 1], {}),
    "wake word mel spectrogram": (WAKE, "melspectrogram.onnx", [1, 1280], {}),
    "wake word timer": (WAKE, "timer_v0.1.onnx", [1, 34, 96], {}),
    "wake word alexa": (WAKE, "alexa_v0.1.onnx", [1, 16, 96], {}),
    "wake word jarvis, an If on data": (WAKE, "hey_jarvis_v0.1.onnx", [1, 16, 96], {}),
    "older silero, both rates": (WAKE, "silero_vad.onnx", {"input": [1, 512], "sr": [], "h": [2, 1, 64], "c": [2, 1, 64]}, {}),
    "silero of one rate": (VAD, "silero_vad.onnx", STATE, RATE),
    "silero without branches inside, both rates": (VAD, "silero_vad_op18_ifless.onnx", {**STATE, "sr": []}, {}),
    "silero without branches inside": (VAD, "silero_vad_op18_ifless.onnx", STATE, RATE),
    "silero 16k": (VAD, "silero_vad_16k_op15.onnx", STATE, RATE),
    "silero 16k of sequences": (VAD, "silero_vad_16k_sequence.onnx", {"input": [4, 576], "h": [1, 1, 128], "c": [1, 1, 128]}, {}),
    "silero half": (VAD, "silero_vad_half.onnx", STATE, {}),
    "silero OpenVINO": (VAD, "silero_vad_openvino_16k.onnx", STATE, {}),
}


@pytest.mark.parametrize("name", FILES)
def test_every_part_is_native_in_fp32_and_int8(name: str) -> None:
    (package, version, folder), file, shapes, constants = FILES[name]
    path = pypi(package, version) / folder / file
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    shapes = shapes if isinstance(shapes, dict) else {reference.get_inputs()[0].name: shapes}
    rng = np.random.default_rng(0)

    def sample() -> dict[str, np.ndarray]:
        floats = {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items() if n != "sr"}
        return {**floats, **({"sr": np.array(RATE["sr"])} if "sr" in {**shapes, **constants} else {})}

    graph = simplify(load_onnx(path, shapes, constants))
    feed = sample()
    mine = {v.name: feed[v.name] for v in graph.inputs}
    session = lowbit.compile(graph)
    got = session.run(mine)
    assert session.backend == "native"
    for o, want in zip(reference.get_outputs(), reference.run(None, feed), strict=True):
        np.testing.assert_allclose(got[o.name], want, rtol=0, atol=2e-3 * max(float(np.abs(want).max()), 1e-3))
    made = lowbit.compile(lowbit.quantize(graph, [{v.name: s[v.name] for v in graph.inputs} for s in (sample(), sample())], guard=False))
    outputs = made.run(mine)
    assert made.backend == "native"
    assert all(np.isfinite(y).all() for y in outputs.values())
