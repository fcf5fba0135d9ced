"""calibrate, quantize, compare, verify as commands: files are written whole, mistakes are said in one error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.cli.common import size
from lowbit.data.arrays import pieces
from lowbit.dims import symbol
from lowbit.errors import ShapeError
from lowbit.ir.build import Builder
from lowbit.report import verify as verify_module
from lowbit.types import TensorType


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network as model.lowbit, data in every form, and a rules file."""
    where = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    b = Builder("small")
    x = b.input("x", TensorType((symbol("batch"), 6), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((32, 6)).astype(np.float32)), name="fc1"), name="act")
    b.finish({"y": b.add("linear", h, b.constant(rng.standard_normal((4, 32)).astype(np.float32)), name="fc2")}).save(
        where / "model.lowbit"
    )
    data = rng.standard_normal((20, 6)).astype(np.float32)
    np.save(where / "x.npy", data)
    np.savez(where / "x.npz", x=data, labels=np.arange(20))
    (where / "many").mkdir()
    for i in range(4):
        np.save(where / "many" / f"{i}.npy", data[5 * i : 5 * i + 5])
    (where / "rules.toml").write_text(
        '[[rule]]\nkind = "float"\npattern = "fc2"\nbecause = "why not"\n[[rule]]\nkind = "calibrated"\npattern = ".*"\n'
    )
    return where


def ran(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> str:
    """What a command line (with {} for the folder) says on stdout; nothing is said on stderr."""
    code = main(text.format(folder).split())
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_every_form_of_data_gives_the_same_bytes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forms = ["{0}/x.npy", "{0}/x.npz", "{0}/many", "{0}/many/0.npy {0}/many/1.npy {0}/many/2.npz {0}/many/3.npy".replace("2.npz", "2.npy")]
    bytes_of = set()
    for i, form in enumerate(forms):
        ran(capsys, folder, f"calibrate {{0}}/model.lowbit --data {form} -o {tmp_path}/{i}.json")
        bytes_of.add((tmp_path / f"{i}.json").read_bytes())
    ran(capsys, folder, f"calibrate {{0}}/model.lowbit --data {{0}}/x.npy --workers 2 --batch 3 -o {tmp_path}/w.json")
    bytes_of.add((tmp_path / "w.json").read_bytes())
    assert len(bytes_of) == 1
    ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npy --no-guard -o {tmp_path}/a.lowbit")
    ran(capsys, folder, f"quantize {{0}}/model.lowbit --record {tmp_path}/0.json --no-guard -o {tmp_path}/b.lowbit")
    assert (tmp_path / "a.lowbit").read_bytes() == (tmp_path / "b.lowbit").read_bytes()
    api = lowbit.quantize(lowbit.load(folder / "model.lowbit"), list(np.load(folder / "x.npy").reshape(4, 5, 6)), guard=False)
    assert lowbit.load(tmp_path / "a.lowbit") == api


def test_quantize_says_coverage_sizes_and_what_next(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npz --rules {{0}}/rules.toml -o {tmp_path}/q.lowbit")
    assert said.startswith("1 of 3 layers integer; float: act (what is beside it is float), fc2 (why not)\n")
    file = size((tmp_path / "q.lowbit").stat().st_size)
    assert re.search(rf"^written: .*, {file}, .* model.lowbit; parameters .* → .*, \d\.\d× smaller$", said, re.M)
    assert "next   lowbit compare" in said
    told = json.loads(ran(capsys, folder, f"quantize {{0}}/model.lowbit --recipe int4-weights -o {tmp_path}/w.lowbit --json"))
    assert told["coverage"].startswith("0 of 3 layers integer, 2 with integer weights")
    assert told["bytes_after"] == lowbit.load(tmp_path / "w.lowbit").parameter_bytes < told["bytes_before"]
    assert [r["layer"] for r in told["layers"]] == ["fc1", "act", "fc2"]


def test_quantize_keeps_to_limits_and_shows_the_front(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"quantize {{0}}/model.lowbit --data {{0}}/x.npy --batch 2 -o {tmp_path}/q.lowbit"
    limited = f"{line} --json --prefer accuracy --max-bytes 0.1k --max-ram 1M --max-ms 1e3 --minutes 5"
    assert main(limited.format(folder).split()) == 1  # and the best that was found is written
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert captured.err.startswith("warning: the goal is not met: ")
    assert captured.err.endswith(f"{tmp_path}/q.lowbit: --max-bytes cannot be kept: the best network that was found is written.\n")
    assert lowbit.load(tmp_path / "q.lowbit").parameter_bytes == told["bytes_after"]
    assert told["layers"][0]["macs"] == "192*batch" and told["layers"][1]["bound"] is None
    assert told["met"] is False and "max_bytes is 102" in told["unmet"] and told["verdict"].endswith(f"NOT MET: {told['unmet']}")
    assert told["stopped"] == "" and [t["what"] for t in told["tried"]][:2] == ["float", "int8"]
    assert {t["what"] for t in told["front"]} <= {t["what"] for t in told["tried"]} and sum(t["chosen"] for t in told["tried"]) == 1
    said = ran(capsys, folder, f"{line} -v")
    assert re.search(r"^ *front +dB of the worst tenth +ms +bytes", said, re.M) and re.search(r"^ *float .* inf ", said, re.M)
    for bad in ("--max-ms 0", "--max-bytes many", "--minutes -1", "--max-ram 1.5"):
        with pytest.raises(SystemExit):
            main([*line.format(folder).split(), *bad.split()])
        assert bad.split()[0] in capsys.readouterr().err


def test_compare_shows_and_saves_what_the_api_says(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npy --no-guard -o {tmp_path}/q.lowbit")
    line = f"compare {{0}}/model.lowbit {tmp_path}/q.lowbit --data {{0}}/x.npy -o {tmp_path}/r.html -o {tmp_path}/r.json"
    said = ran(capsys, folder, line)
    assert "3 of 3 layers integer" in said and f"written: {tmp_path}/r.html" in said
    told, saved = json.loads(ran(capsys, folder, line + " --json")), json.loads((tmp_path / "r.json").read_text())
    report = lowbit.compare(lowbit.load(folder / "model.lowbit"), lowbit.load(tmp_path / "q.lowbit"), [np.load(folder / "x.npy")]).to_dict()
    for key in ("layers", "outputs"):
        for a, b, c in zip(told[key], saved[key], report[key], strict=True):
            assert a == b
            assert {k: pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for k, v in c.items() if k != "macs"} == {
                k: v for k, v in a.items() if k != "macs"
            }
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_verify_is_fine_with_data_or_random_numbers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npy --no-guard -o {tmp_path}/q.lowbit")
    said = ran(capsys, folder, f"verify {tmp_path}/q.lowbit --data {{0}}/x.npy --layers")
    assert "x:int8" in said and "reference: integer interpreter" in said
    told = json.loads(ran(capsys, folder, f"verify {tmp_path}/q.lowbit --shapes batch=2 --random 3 --json"))
    assert (told["ok"], told["batches"]) == (True, 3)
    assert main(["verify", f"{tmp_path}/q.lowbit"]) == 1
    assert "--shapes batch=1" in capsys.readouterr().err


def test_verify_fails_when_a_backend_breaks_its_promise(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowbit.ir.interp import run

    ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npy --no-guard -o {tmp_path}/q.lowbit")
    liar = verify_module.Backend("liar", lambda q, g, shown: lambda x: {k: v + 1 for k, v in run(g, x, keep=shown).items()})
    monkeypatch.setattr(verify_module, "BACKENDS", {"liar": liar})
    assert main(["verify", f"{tmp_path}/q.lowbit", "--shapes", "batch=1"]) == 1
    captured = capsys.readouterr()
    assert "liar, outputs: 8 of 8 numbers differ" in captured.out
    assert captured.err.startswith("LowbitError: liar, 'y': ")


def test_rules_that_match_nothing_are_warned_of_on_stderr_and_refused_with_strict(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "r.toml"
    rules.write_text('[[rule]]\nkind = "float"\npattern = "^fd"\n[[rule]]\nkind = "calibrated"\npattern = ".*"\n')
    line = ["quantize", f"{folder}/model.lowbit", "--data", f"{folder}/x.npy", "--rules", str(rules), "-o", f"{tmp_path}/q.lowbit"]
    assert main([*line, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "warning: rule 0: FloatRule '^fd' matches no layer\n"
    assert json.loads(captured.out)["remarks"] == [
        "rule 0: FloatRule '^fd' matches no layer",
        "guard: off (no recipe comes after your rules): what the layers lose was not measured; lowbit compare tells",
    ]
    (tmp_path / "q.lowbit").unlink()
    assert main([*line, "--strict"]) == 1
    refused = capsys.readouterr().err
    assert "QuantError: rule 0: FloatRule '^fd' matches no layer" in refused and "without --strict it is a warning" in refused
    assert not (tmp_path / "q.lowbit").exists()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("quantize {0}/model.lowbit -o {1}/old.lowbit", "values need data to know their range"),
        ("quantize {0}/model.lowbit --data {0}/none.npy -o {1}/old.lowbit", "there is no such file or folder"),
        ("quantize {0}/model.lowbit --data {0}/rules.toml -o {1}/old.lowbit", "data are not read from files of kind '.toml'"),
        ("quantize {0}/model.lowbit --data {1} -o {1}/old.lowbit", "there is no data in this folder"),
        ("quantize {0}/model.lowbit --data {0}/x.npy -o {1}/none/q.lowbit", "cannot be written (its folder does not exist)"),
        (
            "quantize {0}/model.lowbit --data {0}/x.npy -o {1}/q.tflite",
            "a quantized network is written as .lowbit or .onnx, or as a folder of C",
        ),
        ("quantize {0}/model.lowbit --data {0}/x.npy --record {1}/r.json -o {1}/old.lowbit", "--data and --record are both given"),
        ("quantize {0}/model.lowbit --record {0}/rules.toml -o {1}/old.lowbit", "not a calibration record"),
        ("quantize {0}/model.lowbit --data {0}/x.npy --rules {0}/x.npy -o {1}/old.lowbit", "not a readable rules file"),
        ("calibrate {0}/model.lowbit --data {0}/x.npy -o {1}", "a calibration record is written as .json"),
        ("compare {0}/model.lowbit {0}/model.lowbit --data {0}/x.npy -o {1}/r.pdf", "a report is written as .html or .json"),
        ("verify {0}/none.lowbit", "there is no such file"),
    ],
)
def test_mistakes_are_said_and_the_old_file_stays(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, text: str
) -> None:
    (tmp_path / "old.lowbit").write_bytes(b"old")
    usage = " is written as " in text or " both given" in text
    assert main(line.format(folder, tmp_path).split()) == (2 if usage else 1)
    captured = capsys.readouterr()
    assert text in captured.err and captured.out == ""
    assert "Traceback" not in captured.err
    assert [p.name for p in tmp_path.iterdir()] == ["old.lowbit"]
    assert (tmp_path / "old.lowbit").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"z": np.zeros((2, 6), np.float32)}, "d.npz: input 'x' (float32[batch, 6]) is missing, it has z float32[2, 6]"),
        ({"z": np.zeros((2, 6)), "labels": np.zeros(2)}, '["z"].astype(np.float32))'),
        ({}, "it has no arrays.\n  Try: arrays named x: float32[batch, 6]"),
        ({"x": np.zeros((2, 6))}, "d.npz: x: float64[2, 6] given, float32[batch, 6] is needed"),
        ({"x": np.zeros((2, 6), np.uint8)}, '["x"].astype(np.float32)), scaled as in training (/ 255 for 0 … 1)'),
        ({"x": np.zeros((2, 3, 2), np.float32)}, '["x"].reshape(-1, 6))'),
        ({"x": np.zeros((2, 5), np.float32)}, "d.npz: x: float32[2, 5] given, float32[batch, 6] is needed"),
        ({"x": np.zeros((6,), np.float32)}, "x: float32[6] given, float32[batch, 6] is needed (any number of rows, or one axis more)"),
        ({"x": np.zeros((0, 6), np.float32)}, "there are no samples in it"),
        ({"x": np.full((1, 6), np.nan, np.float32)}, "batch 0: input 'x': "),
    ],
)
def test_data_that_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arrays: dict[str, np.ndarray], text: str
) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    assert main(["quantize", f"{folder}/model.lowbit", "--data", f"{tmp_path}/d.npz", "-o", f"{tmp_path}/q.lowbit"]) == 1
    assert text in capsys.readouterr().err
    assert not (tmp_path / "q.lowbit").exists()


def test_rules_before_a_recipe_decide_first_and_the_guard_looks_after_the_rest(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "r.toml"
    rules.write_text('[[rule]]\nkind = "float"\npattern = "^fc2"\nbecause = "mine"\n')
    both = f"--rules {rules} --recipe int8"
    told = json.loads(ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/x.npy {both} -o {tmp_path}/q.lowbit --json"))
    assert told["coverage"].endswith("fc2 (mine)")
    assert any(r.startswith("decided: ") for r in told["remarks"])
    said = ran(capsys, folder, f"calibrate {{0}}/model.lowbit --data {{0}}/x.npy {both} -o {tmp_path}/r.json")
    assert f"lowbit quantize {folder}/model.lowbit --record {tmp_path}/r.json {both} -o model.lowbit" in said
    told = json.loads(ran(capsys, folder, f"quantize {{0}}/model.lowbit --record {tmp_path}/r.json {both} -o {tmp_path}/q.lowbit --json"))
    assert told["coverage"].endswith("fc2 (mine)")


def test_unknown_recipes_and_methods_are_usage(folder: Path) -> None:
    for more in (["--recipe", "int7"], ["--method", "magic"]):
        with pytest.raises(SystemExit) as e:
            main(["quantize", f"{folder}/model.lowbit", "-o", "q.lowbit", *more])
        assert e.value.code == 2


def test_samples_are_cut_along_the_first_axis() -> None:
    fixed, open_ = TensorType((2, 3), "float32"), TensorType((symbol("batch"), 3), "float32")
    assert list(pieces((4, 3), fixed, 8, "")) == [(0, 2), (2, 4)]
    assert list(pieces((5, 3), open_, 2, "")) == [(0, 2), (2, 4), (4, 5)]
    assert list(pieces((2, 4, 3), open_, 2, "")) == [(0, None), (1, None)]
    with pytest.raises(ShapeError, match="5 rows cannot be cut into batches of 2"):
        list(pieces((5, 3), fixed, 8, "x"))
