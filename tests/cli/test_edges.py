"""The command line at its edges: what was quantized already, files that would be lost, JSON that stays JSON, exit codes."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT

import lowbit
from lowbit.cli import VERBS, main
from lowbit.cli.demo import arrays, idx_files
from lowbit.errors import CalibrationError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import TensorType

PAGE = ROOT / "docs" / "cli.md"
RNG = np.random.default_rng(0)


def network(**poison: float) -> Graph:
    """x (2, 6) → first → act → second → y. `poison` puts a number into a layer's weights."""
    b = Builder("small")
    x = b.input("x", TensorType((2, 6), "float32"))
    for name, shape in (("first", (8, 6)), ("second", (4, 8))):
        w = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
        w[1, 2] = poison.get(name, w[1, 2])
        x = b.add("linear", x, b.constant(w), name=name)
        x = b.add("relu", x, name=f"{name}.act") if name == "first" else x
    return b.finish({"y": x})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model.lowbit, its int8 form small.lowbit and data.npy, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    data = RNG.standard_normal((8, 6)).astype(np.float32)
    np.save("data.npy", data)
    network().save("model.lowbit")
    lowbit.quantize(network(), [data[:2], data[2:4]], guard=False).save("small.lowbit")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], line: str, code: int) -> str:
    """What a command says on stderr when it ends with this code."""
    assert main(line.split()) == code, capsys.readouterr().err
    found = capsys.readouterr()
    assert "Traceback" not in found.err
    return found.err


# -- what is no float network, what would be lost ------------------------------------------------------------------------------------


def test_a_network_that_is_quantized_already_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("quantize small.lowbit --data data.npy -o new.lowbit", "calibrate small.lowbit --data data.npy -o new.json"):
        text = said(capsys, line, 1)
        assert "QuantError: small: the network is quantized already" in text and "Try: the float network that it was made from" in text
    assert not (here / "new.lowbit").exists() and not (here / "new.json").exists()


def test_networks_in_the_wrong_order_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "are they swapped?" in said(capsys, "compare small.lowbit model.lowbit --data data.npy", 1)
    assert "the first graph is quantized itself" in said(capsys, "compare small.lowbit small.lowbit --data data.npy", 1)


def test_the_network_that_is_read_is_not_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link("model.lowbit", "again.lowbit")
    for out in ("model.lowbit", "again.lowbit"):
        assert "the network that is read would be overwritten" in said(capsys, f"quantize model.lowbit --data data.npy -o {out}", 2)
    assert "a calibration record is written as .json" in said(capsys, "calibrate model.lowbit --data data.npy -o model.lowbit", 2)
    assert lowbit.load("model.lowbit") == network()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("calibrate model.lowbit --data data.npy -o", ".json"),
        ("quantize model.lowbit --data data.npy -o", ".lowbit"),
        ("compare model.lowbit small.lowbit --data data.npy -o", ".html"),
        ("export small.lowbit -o", ".onnx"),
        ("emit-c small.lowbit -o", ""),
        ("run small.lowbit --out", ".npz"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, kind: str
) -> None:
    """Before anything is read, even: the network may be of gigabytes."""
    (here / "file").write_bytes(b"old")
    (here / f"folder{kind or '.c'}").mkdir()
    before = sorted(p.name for p in here.iterdir())

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the network was read")

    for module in VERBS.values():
        monkeypatch.setattr(module, "load_model", read, raising=False)
    for out in (f"none/out{kind}", f"file/out{kind}", f"folder{kind}" if kind else "file", f"/proc/out{kind}", f"{'n' * 300}{kind}"):
        text = said(capsys, f"{line} {out}", 1)
        assert text.startswith(f"FormatError: {out}: ") and "Try: " in text and ("cannot be written" in text or "is a file" in text)
    assert sorted(p.name for p in here.iterdir()) == before and (here / "file").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("calibrate model.lowbit --data data.npy -o", "old.json"),
        ("quantize model.lowbit --data data.npy --no-guard -o", "old.lowbit"),
        ("compare model.lowbit small.lowbit --data data.npy -o", "old.html"),
        ("compare model.lowbit small.lowbit --data data.npy -o", "old.json"),
        ("export small.lowbit -o", "old.onnx"),
        ("run small.lowbit --out", "old.npz"),
    ],
)
def test_when_the_disk_is_full_the_old_file_stays_whole(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, out: str
) -> None:
    (here / out).write_bytes(b"old")
    before = sorted(p.name for p in here.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert f"{out}: cannot be written (No space left on device)" in said(capsys, f"{line} {out}", 1)
    assert (here / out).read_bytes() == b"old"
    assert sorted(p.name for p in here.iterdir()) == before


def test_data_files_that_are_damaged_inside_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez_compressed("data.npz", x=np.random.default_rng(1).standard_normal((200, 6)).astype(np.float32))
    good = bytearray((here / "data.npz").read_bytes())
    for at in range(60, len(good), 331):
        bad = good.copy()
        bad[at] ^= 0xFF
        (here / "bad.npz").write_bytes(bytes(bad))
        code = main(["quantize", "model.lowbit", "--no-guard", "--data", "bad.npz", "-o", "new.lowbit"])
        assert code in (0, 1)  # 0: a byte that no reader looks at
        assert "Traceback" not in capsys.readouterr().err


# -- JSON and exit codes ----------------------------------------------------------------------------------------------------------------


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_no_nan(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network(second=float("nan")).save("nan.lowbit")
    assert main(["run", "nan.lowbit", "--json"]) == 0
    assert strict_json(capsys.readouterr().out)["outputs"]["y"]["max"] == "nan"
    network(second=float("inf")).save("inf.lowbit")
    for line in (
        "run inf.lowbit",
        "verify small.lowbit --layers",
        "compare model.lowbit model.lowbit --data data.npy",
        "inspect inf.lowbit",
    ):
        assert main([*line.split(), "--json"]) == 0
        strict_json(capsys.readouterr().out)


def test_exit_codes_are_those_that_the_page_lists(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(PAGE.read_text().split())
    assert "Exit code 0 is fine, 1 the model or its data, 2 usage, 130 an interrupt." in text
    assert main(["inspect", "model.lowbit"]) == 0
    said(capsys, "inspect none.lowbit", 1)
    for line in ("demo --images 0", "demo --images many", "export model.lowbit -o m.onnx --opset x", "quantize model.lowbit", "nothing"):
        with pytest.raises(SystemExit) as e:
            main(line.split())
        assert e.value.code == 2, line
    said(capsys, "demo --images 1001", 2)
    said(capsys, "quantize model.lowbit --data data.npy --record r.json -o q.lowbit", 2)
    for verb in ("calibrate", "quantize"):
        said(capsys, f"{verb} model.lowbit --data data.npy -o q.txt", 2)
    said(capsys, "compare model.lowbit small.lowbit --data data.npy -o q.txt", 2)
    said(capsys, "export model.lowbit -o q.txt", 2)
    said(capsys, "run model.lowbit --out q.txt", 2)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    for verb, module in VERBS.items():
        monkeypatch.setattr(module, "main", interrupt)
        line = {"compare": "a b --data c", "calibrate": "a --data c -o r", "search": "a --data c -o q", "doctor": "", "demo": ""}.get(
            verb, "a"
        )
        line += " -o q" if verb in ("quantize", "export", "emit-c") else ""
        assert said(capsys, f"{verb} {line}", 130) == "interrupted\n"


# -- the demo -----------------------------------------------------------------------------------------------------------------------------


def test_the_demo_reads_the_published_files_of_its_test_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, labels = arrays("fashion_test_1000.npz", "images", "labels")
    for name, a in (("images-idx3", images), ("labels-idx1", labels)):
        head = bytes((0, 0, 8, a.ndim)) + np.array(a.shape, ">u4").tobytes()
        (tmp_path / f"t10k-{name}-ubyte.gz").write_bytes(gzip.compress(head + a.astype(np.uint8).tobytes()))
    assert all(np.array_equal(a, b) for a, b in zip(idx_files(tmp_path), (images, labels), strict=True))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(b"no")
    assert "not a readable file of Fashion-MNIST" in said(capsys, f"demo --test-set {tmp_path}", 1)


# -- activations that are not finite ------------------------------------------------------------------------------------------------------

DATA = [np.random.default_rng(i).standard_normal((2, 6)).astype(np.float32) for i in range(3)]


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite values")])
def test_a_layer_that_makes_no_finite_numbers_is_named_though_no_tap_looks(value: float, what: str) -> None:
    rules = [lowbit.FloatRule("second"), lowbit.CalibratedQuantRule(".*")]
    with pytest.raises(CalibrationError) as e:
        lowbit.calibrate(network(second=value), DATA, rules=rules)
    assert str(e.value).startswith("batch 0: linear 'second': output 'y' holds ") and "which begin here" in str(e.value)
    assert "ignore_nonfinite=True" in str(e.value)
    assert len(lowbit.calibrate(network(second=value), DATA, rules=rules, ignore_nonfinite=True))


def test_the_first_of_many_layers_is_named_and_not_the_last() -> None:
    b = Builder("chain")
    x = b.input("x", TensorType((2, 6), "float32"))
    y = b.add("log", x, name="log of what may be negative")
    for i in range(5):
        y = b.add("linear", y, b.constant(np.eye(6, dtype=np.float32)), name=f"layer {i}")
    g = b.finish({"y": y})
    with pytest.raises(CalibrationError, match="batch 0: log 'log of what may be negative': output 'y' holds NaN, which begin here"):
        lowbit.calibrate(g, DATA, rules=[lowbit.DynamicQuantRule(".*")])


def test_an_input_that_is_not_finite_is_named_as_such() -> None:
    bad = [np.full((2, 6), np.nan, np.float32)]
    with pytest.raises(CalibrationError, match="batch 0: input 'x': output 'y' holds NaN"):
        lowbit.calibrate(network(), bad, rules=[lowbit.DynamicQuantRule(".*")])


def test_infinities_that_a_network_takes_away_again_are_its_own() -> None:
    b = Builder("mask")
    x = b.input("x", TensorType((2, 6), "float32"))
    mask = np.zeros((2, 6), np.float32)
    mask[:, 3:] = -np.inf
    g = b.finish({"p": b.add("softmax", b.add("add", x, b.constant(mask), name="mask"), axis=-1, name="p")})
    lowbit.calibrate(g, DATA, rules=[lowbit.FloatRule(".*")])
