"""lowbit search as a command: it writes what it found, whole, and says mistakes before it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.cli import search as verb
from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.runtime import timing
from lowbit.types import TensorType


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "SECONDS", 0.0)
        patch.setattr(timing, "RUNS", 1)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier, samples, others to test with, and their classes by the network itself."""
    where = tmp_path_factory.mktemp("search")
    rng = np.random.default_rng(0)
    b = Builder("small")
    x = b.input("x", TensorType((symbol("batch"), 6), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((32, 6)).astype(np.float32)), name="fc1"), name="act")
    graph = b.finish({"y": b.add("linear", h, b.constant(rng.standard_normal((4, 32)).astype(np.float32)), name="fc2")})
    graph.save(where / "model.lowbit")
    session = lowbit.compile(graph)
    for name, rows in (("seen", 64), ("test", 80)):
        samples = rng.standard_normal((rows, 6)).astype(np.float32)
        np.savez(where / f"{name}.npz", x=samples)
        made: Any = session(samples)
        np.save(where / f"{name}_y.npy", made.argmax(1))
    np.save(where / "shifted_y.npy", np.load(where / "seen_y.npy") + 1)
    return where


def ran(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> str:
    code = main(text.format(folder).split())
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_search_writes_the_best_and_rules_that_quantize_reads(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        f"search {{0}}/model.lowbit --data {{0}}/seen.npz --cost bytes --least-db 20 -o {tmp_path}/b.lowbit --rules-out {tmp_path}/m.toml"
    )
    said = ran(capsys, folder, line)
    assert "chosen" in said and "networks scored on 2 batches held back from calibration" in said
    assert f"written: {tmp_path}/b.lowbit, {tmp_path}/m.toml\nnext   lowbit compare" in said
    seen = np.load(folder / "seen.npz")["x"].reshape(8, 8, 6)
    best = lowbit.search(lowbit.load(folder / "model.lowbit"), list(seen), cost="bytes", least_db=20)
    assert lowbit.load(tmp_path / "b.lowbit") == best.graph and tuple(lowbit.load_rules(tmp_path / "m.toml")) == best.rules
    said = ran(capsys, folder, f"quantize {{0}}/model.lowbit --data {{0}}/seen.npz --rules {tmp_path}/m.toml -o {tmp_path}/q.lowbit")
    assert lowbit.load(tmp_path / "q.lowbit").parameter_bytes == best.graph.parameter_bytes
    told = json.loads(ran(capsys, folder, line + " --json"))
    assert told["written"] == f"{tmp_path}/b.lowbit" and told["score"] == best.score >= 20 and told["float_score"] == "inf"
    assert [p["bytes"] for p in told["trials"]] == [p.bytes for p in best.trials]


def test_with_labels_the_score_is_accuracy_on_rows_that_calibration_did_not_see(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = f"search {{0}}/model.lowbit --data {{0}}/seen.npz -o {tmp_path}/b.lowbit --max-drop 0.1 --trials 5 --json"
    told = json.loads(ran(capsys, folder, base + " --test {0}/test.npz --labels {0}/test_y.npy"))
    assert (told["float_score"], told["least"], told["measured_on"]) == (1.0, 0.9, "top-1 on 80 rows of --test")
    session = lowbit.compile(lowbit.load(tmp_path / "b.lowbit"))
    rows: Any = session(np.load(folder / "test.npz")["x"])
    assert np.mean(rows.argmax(1) == np.load(folder / "test_y.npy")) == pytest.approx(told["score"])
    told = json.loads(ran(capsys, folder, base + " --labels {0}/seen_y.npy"))
    assert (told["float_score"], told["measured_on"]) == (1.0, "top-1 on 16 rows held back from calibration")
    told = json.loads(ran(capsys, folder, base + " --labels {0}/seen_y.npy --limit 4"))
    assert told["measured_on"] == "top-1 on 8 rows held back from calibration"


def test_what_cannot_be_had_is_the_float_network_with_a_warning(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"search {folder}/model.lowbit --data {folder}/seen.npz --least-db 900 --cost bytes -o {tmp_path}/b.lowbit"
    assert main(line.split()) == 0
    captured = capsys.readouterr()
    assert "warning: no quantized network with the score that is wanted was found: the float network is returned" in captured.err
    assert "the float network itself: no other network with a score of 900.0 dB was found; the nearest was " in captured.out
    assert "next   another --least-db" in captured.out
    assert lowbit.load(tmp_path / "b.lowbit") == lowbit.load(folder / "model.lowbit")


def test_an_interrupt_writes_what_was_found_and_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [0]

    def stopping(samples: Any, labels: Any, output: str) -> Any:
        def metric(_: lowbit.Session) -> float:
            calls[0] += 1
            if calls[0] == 3:
                raise KeyboardInterrupt
            return 1.0

        return metric

    monkeypatch.setattr(verb, "top1", stopping)
    line = f"search {folder}/model.lowbit --data {folder}/seen.npz --labels {folder}/seen_y.npy --cost bytes -o {tmp_path}/b.lowbit"
    assert main(line.split()) == 130
    captured = capsys.readouterr()
    assert captured.err == "interrupted\n" and "1 network scored by the metric; ended before it was through: interrupted" in captured.out
    assert lowbit.load(tmp_path / "b.lowbit").parameter_bytes < lowbit.load(folder / "model.lowbit").parameter_bytes / 2


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("--max-drop 0.1", 2, "usage: --max-drop is for a score, and there are neither --labels nor --metric.\n  Try: --labels y.npy, or"),
        ("--labels {0}/seen_y.npy --max-drop -1", 2, "usage: --max-drop -1, 0 or more is needed.\n  Try: --max-drop 0.005"),
        ("--labels {0}/seen_y.npy --least-db 1", 2, "usage: --least-db is for the outputs' dB, and --labels are given"),
        ("--minutes 0", 2, "usage: --minutes 0, more than 0 are needed.\n  Try: --minutes 10"),
        ("--labels {0}/test_y.npy", 1, "InputError: {0}/test_y.npy: 80 labels for 64 rows of --data.\n  Try: one label for each row"),
        ("--labels {0}/none.npy", 1, "FormatError: {0}/none.npy: there is no such file."),
        ("--labels {0}/seen.npz", 1, "InputError: {0}/seen.npz: float32[64, 6] given, one whole number for each row is needed"),
        ("--labels {0}/seen_y.npy --batch 64", 1, "InputError: {0}/seen.npz: there is one batch: none can be held back to measure with"),
        ("--labels {0}/shifted_y.npy", 1, "BadScore: label 4, and output 'y' has the classes 0 … 3.\n  Try: classes counted from 0"),
        ("--rules-out {0}/rules.txt", 2, "usage: {0}/rules.txt: rules is written as .toml"),
    ],
)
def test_mistakes_are_said_and_nothing_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, code: int, said: str
) -> None:
    line = f"search {{0}}/model.lowbit --data {{0}}/seen.npz -o {tmp_path}/b.lowbit {more}"
    assert main(line.format(folder).split()) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(said.format(folder)) and captured.out == ""
    assert not (tmp_path / "b.lowbit").exists()


def test_numbers_that_are_none_and_the_recipe_mixed_are_usage(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as e:
        main(f"search {folder}/model.lowbit --data {folder}/seen.npz -o {tmp_path}/b.lowbit --least-db nan".split())
    assert e.value.code == 2 and "'nan' is not a number" in capsys.readouterr().err
    with pytest.raises(SystemExit) as e:
        main(f"quantize {folder}/model.lowbit --data {folder}/seen.npz --recipe mixed -o {tmp_path}/b.lowbit".split())
    assert e.value.code == 2 and "mixed has no rules beforehand: lowbit search finds them" in capsys.readouterr().err
