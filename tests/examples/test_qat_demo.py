"""examples/qat_demo.py in small: its network is the one that ships, and training for four bits helps."""

from __future__ import annotations

import runpy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from repository import ROOT

import lowbit
from lowbit.torch.qat import prepare_qat


@pytest.fixture(scope="module")
def demo() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / "qat_demo.py"), run_name="qat_demo"))


def test_the_examples_network_is_the_one_that_ships_and_learns_four_bits(demo: Any) -> None:
    train, threads = demo.trainer(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        net = demo.network(train)
        with np.load(demo.DEMO / "fashion_calibration_256.npz") as data, np.load(demo.DEMO / "fashion_test_1000.npz") as held:
            x, y = train.to_input(data["images"]), torch.from_numpy(data["labels"].astype(np.int64))
            test, labels = train.to_input(held["images"][:400]), held["labels"][:400]
        with torch.no_grad():
            shipped = lowbit.compile(lowbit.load(demo.DEMO / "fashion_cnn.onnx"))(test[:4].numpy())
            np.testing.assert_allclose(net(test[:4]).numpy(), shipped, rtol=1e-4, atol=1e-4)
        shape = {"inputs": (x[:2],), "dynamic": {"image": {0: "batch"}}}
        torch.manual_seed(0)
        qat = prepare_qat(net, demo.RECIPE, calibration=[{"image": x[:64].numpy()}], method="mse", **shape)
        before = demo.top1(lowbit.load(qat), test, labels)
        demo.fit(qat, train, x, y, epochs=6, batch=64)
        after = demo.top1(lowbit.load(qat.eval()), test, labels)
    finally:
        torch.set_num_threads(threads)
    assert after > before + 0.05
