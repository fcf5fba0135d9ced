"""Models whose weights lie in a file beside them, as torch.onnx writes them: sizes count both, and the peers get both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from lowbit.cli import main
from lowbit.cli.bench_ort import whole_model
from lowbit.cli.quantize import file_bytes

DEMO = Path(__file__).parents[2] / "src" / "lowbit" / "demo" / "fashion_cnn.onnx"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save_model(onnx.load(DEMO), path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    assert (tmp_path / "m.onnx.data").is_file()
    return path


def test_sizes_count_the_weights_beside_the_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert file_bytes(model) == model.stat().st_size + (tmp_path / "m.onnx.data").stat().st_size
    np.savez(tmp_path / "x.npz", image=np.random.default_rng(0).random((64, 1, 28, 28), np.float32))
    assert main(["quantize", str(model), "--data", f"{tmp_path}/x.npz", "-o", f"{tmp_path}/q.lowbit"]) == 0
    assert "smaller than m.onnx" in " ".join(capsys.readouterr().out.split())


def test_peers_get_a_whole_model(model: Path) -> None:
    assert len(whole_model(model)) > DEMO.stat().st_size // 2
    onnx.checker.check_model(onnx.load_from_string(whole_model(model)))
