"""The notebook runs from the top, and a network tells its story. Data are fetched by name."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="the extra notebook is not installed")


def test_the_notebook_runs_top_to_bottom_in_five_minutes() -> None:
    from make_notebook import execute, notebook

    made = notebook()
    assert execute(made) < 300
    assert not any(o["output_type"] == "error" for c in made.cells if c.cell_type == "code" for o in c.outputs)


def test_the_mlp_tells_its_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples.common.story import story

    found = story("mlp_mnist", ["--out", str(tmp_path), "--batches", "2"])
    assert abs(found["int8"][0] - found["float"][0]) < 0.5 and found["w4a8"][2] < 0.2 * found["float"][2]
    assert (tmp_path / "mlp_mnist.svg").is_file() and "4. Plots" in capsys.readouterr().out
