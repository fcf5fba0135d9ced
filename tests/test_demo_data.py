"""What ships in lowbit/demo: small, honest, and free of the trainer's machine."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import onnxruntime

DEMO = files("lowbit") / "demo"


def test_the_network_scores_on_the_shipped_images_what_the_notice_says() -> None:
    with np.load(str(DEMO / "fashion_test_1000.npz"), allow_pickle=False) as z:
        images, labels = z["images"], z["labels"]
    session = onnxruntime.InferenceSession(str(DEMO / "fashion_cnn.onnx"), providers=["CPUExecutionProvider"])
    logits = session.run(None, {"image": images[:, None].astype(np.float32) / np.float32(255)})[0]
    claimed = re.search(r"([\d.]+) % on the first 1,000", (DEMO / "NOTICE").read_text())
    assert claimed is not None
    # Another CPU sums floats in another order: an image on the border may fall to the other side.
    assert abs(int((logits.argmax(1) == labels).sum()) - round(float(claimed[1]) * 10)) <= 1


def test_calibration_images_are_not_test_images() -> None:
    with np.load(str(DEMO / "fashion_test_1000.npz")) as test, np.load(str(DEMO / "fashion_calibration_256.npz")) as calibration:
        assert calibration["images"].shape == (256, 28, 28) and calibration["images"].dtype == np.uint8
        assert not {i.tobytes() for i in test["images"]} & {i.tobytes() for i in calibration["images"]}


def test_the_files_take_at_most_two_megabytes_and_name_no_folder() -> None:
    contents = {path.name: path.read_bytes() for path in DEMO.iterdir() if path.is_file()}
    assert sum(map(len, contents.values())) <= 2_000_000
    assert not re.search(rb"/(home|root|usr|tmp|work)/", contents["fashion_cnn.onnx"])
