"""From a folder of pictures to a quantized, scored and exported network, by the API and by commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit import data
from lowbit.cli import main
from lowbit.data.bake import preprocessing_of
from lowbit.dims import symbol
from lowbit.errors import InputError, LowbitWarning
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import TensorType

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow (the extra images)")
SETTINGS = "mean=0.5,std=0.25"


def network() -> Graph:
    """Tells dark from bright, and red from blue: the sums of the colours, by a convolution of ones."""
    rng = np.random.default_rng(0)
    b = Builder("colours")
    x = b.input("x", TensorType((symbol("n"), 3, 8, 8), "float32"))
    w = rng.standard_normal((6, 3, 3, 3)).astype(np.float32) * 0.05
    w[:3] += np.eye(3, dtype=np.float32)[:, :, None, None] / 9
    conv = b.add("conv", x, b.constant(w, name="w"), name="conv", stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    y = b.add("reduce_mean", conv, axes=(2, 3), keepdims=False)
    head = np.zeros((3, 6), np.float32)
    head[:, :3] = np.eye(3)
    return b.finish({"y": b.add("softmax", b.add("linear", y, b.constant(head, name="head"), name="fc"), axis=1)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """blue, green and red pictures with noise, a folder each: in this order, the network's classes are 2, 1 and 0."""
    place = tmp_path_factory.mktemp("colours")
    rng = np.random.default_rng(1)
    for c, name in enumerate(("0-red", "1-green", "2-blue")):
        (place / "photos" / name).mkdir(parents=True)
        for i in range(16):
            pixels = rng.integers(0, 140, (10, 12, 3))
            pixels[..., c] += 100
            Image.fromarray(pixels.astype(np.uint8)).save(place / "photos" / name / f"{i}.jpg", quality=95)
    network().save(place / "net.lowbit")
    return place


def test_labels_of_folders_decide_and_score(folder: Path) -> None:
    photos = data.images(folder / "photos", mean=0.5, std=0.25)
    found = []
    q = lowbit.quantize(network(), photos, on_decision=found.append)
    assert found[0].score_name == "top-1" and found[0].score == 1.0
    assert lowbit.evaluate(q, photos).score == 1.0
    assert "0.25" in str(preprocessing_of(q, "x"))


def test_labels_that_fit_no_output_are_not_used() -> None:
    b = Builder("number")
    x = b.input("x", TensorType((symbol("n"), 4), "float32"))
    graph = b.finish({"y": b.add("linear", x, b.constant(np.ones((1, 4), np.float32)), name="fc")})
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((8, 4)).astype(np.float32), np.arange(8)) for _ in range(6)]
    with pytest.warns(LowbitWarning, match="the labels in the data are not used"):
        lowbit.quantize(graph, pairs)


def test_a_limit_of_the_score_needs_labels() -> None:
    rows = [np.random.default_rng(i).random((8, 3, 8, 8), np.float32) for i in range(4)]
    with pytest.raises(InputError, match=r"max_drop=0\.01, 0 or more beside labels= or metric= is needed"):
        lowbit.quantize(network(), rows, max_drop=0.01)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_the_whole_road_by_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, photos = str(folder / "net.lowbit"), str(folder / "photos")
    out = said(capsys, "quantize", net, "--data", photos, "--image", SETTINGS, "-o", f"{tmp_path}/small.lowbit")
    assert "top-1 100" in out
    out = said(capsys, "eval", f"{tmp_path}/small.lowbit", "--data", photos)  # the settings are stored with the network
    assert "top-1 100.00%" in out and "48 rows" in out
    said(capsys, "compare", net, f"{tmp_path}/small.lowbit", "--data", photos, "--image", SETTINGS)
    out = said(capsys, "quantize", net, "--data", photos, "--image", SETTINGS, "-o", f"{tmp_path}/small.onnx")
    assert "checked:" in out and "preprocessing" not in out
    assert "top-1 100.00%" in said(capsys, "eval", f"{tmp_path}/small.onnx", "--data", photos)
    out = said(capsys, "quantize", net, "--data", photos, "--image", SETTINGS, "-o", f"{tmp_path}/c", "--bake")
    assert "bytes of RAM" in out and "uint8_t" in (tmp_path / "c" / "model.h").read_text()
    assert said(capsys, "quantize", net, "--data", photos, "--image", SETTINGS, "-o", f"{tmp_path}/quiet.lowbit", "--quiet") == ""


def test_one_photo_runs_as_the_network_was_calibrated(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = str(folder / "photos" / "2-blue" / "3.jpg")
    for more in ((), ("--bake",)):
        arguments = ["quantize", str(folder / "net.lowbit"), "--data", str(folder / "photos"), "--image", SETTINGS, "-q", *more]
        said(capsys, *arguments, "-o", f"{tmp_path}/small.lowbit")
        out = json.loads(said(capsys, "run", f"{tmp_path}/small.lowbit", "--input", photo, "--json"))
        first = out["outputs"]["y"]["first"]
        assert int(np.argmax(first)) == 2
    with pytest.raises(AssertionError):
        said(capsys, "run", str(folder / "net.lowbit"), "--input", photo)
    assert "no preprocessing is stored with the network" in capsys.readouterr().err


def test_random_numbers_for_a_first_look(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", str(folder / "net.lowbit"), "--random", "8", "-o", f"{tmp_path}/small.lowbit"]) == 0
    assert "nothing that is said of accuracy means anything" in capsys.readouterr().err


def test_a_function_of_ones_own(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(
        "import lowbit\n"
        f"def photos():\n    return lowbit.data.images({str(folder / 'photos')!r}, mean=0.5, std=0.25)\n"
        "def nothing():\n    return 3\n"
        "def broken():\n    raise ValueError('no disk')\n"
    )
    out = said(capsys, "eval", str(folder / "net.lowbit"), "--data", f"{tmp_path}/own.py:photos")
    assert "top-1 100.00%" in out
    for name, text in (("nothing", "it returned int, something to iterate over is needed"), ("broken", "it raised ValueError: no disk")):
        assert main(["eval", str(folder / "net.lowbit"), "--data", f"{tmp_path}/own.py:{name}"]) == 1
        assert text in capsys.readouterr().err


MISTAKES = {
    "--data {photos} --audio rate=8000": "--audio is for sounds, --data names pictures",
    "--data {photos} --image size=9": "size=9,9, and the network takes 8×8",
    "--data {photos} --labels y.npy": "the folders of --data are classes already",
    "--data {photos} --random 4": "--data and --random are both given",
    "--data nowhere/": "there is no such file or folder",
    "--data net.pt": "data are not read from files of kind '.pt'",
    "--data ''": "--data: the path is empty",
    "": "neither --labels nor --metric is given",
    "--data {photos}/0-red": "neither --labels nor --metric is given, and the data bring no labels",
    "--data {photos} --image colours": "'colours' is neither NAME=VALUE nor one of imagenet",
    "--data lines.txt": "texts need a tokenizer",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_say_what_to_do(
    folder: Path, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("one line\n")
    (tmp_path / "net.pt").write_text("pickle")
    given = [w.replace("''", "") for w in words.format(photos=folder / "photos").split()]
    assert main(["eval", str(folder / "net.lowbit"), *given]) in (1, 2)
    said = capsys.readouterr().err
    assert MISTAKES[words] in said and "Try: " in said
