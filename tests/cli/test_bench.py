"""lowbit bench: every network is measured in turns on the same inputs, layers stand beside each other, and what cannot be is said."""

from __future__ import annotations

import json
import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.cli import main
from lowbit.errors import InputError
from lowbit.kernels import native
from lowbit.runtime import timing
from lowbit.runtime.timing import Timing, in_turns, least_in_turns, pinned

DEMO = str(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    graph = lowbit.load(DEMO, shapes={"batch": 1})
    samples = [{"image": x} for x in np.random.default_rng(0).random((4, 1, 1, 28, 28), np.float32)]
    path = tmp_path_factory.mktemp("bench") / "small.lowbit"
    lowbit.quantize(graph, samples, guard=False).save(path)
    return str(path)


def test_all_networks_are_measured_beside_the_first_and_layers_by_their_names(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", DEMO, small, "--shapes", "batch=1", "--rounds", "1", "--threads", "1", "--layers", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(r["model"], r["engine"], r["backend"]) for r in found["rows"]] == [(DEMO, "lowbit", "native"), (small, "lowbit", "native")]
    first, second = found["rows"]
    assert first["of_first"] == 1.0 and second["of_first"] == second["ms_min"] / first["ms_min"]
    assert 0 < first["ms_min"] <= first["ms_median"]
    names = {model: {r["layer"] for r in rows} for model, rows in found["layers"].items()}
    assert names[DEMO] < names[small] == names[DEMO] | {"image:int8"}  # each layer keeps its name; quantizing the input is new
    assert all(r["proof"] for r in found["layers"][small] if r["macs"])


def test_the_text_says_which_layers_are_slower_and_which_inputs_are_random(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", DEMO, small, "--shapes", "batch=1", "--rounds", "1", "--layers"]) == 0
    text = capsys.readouterr().out
    assert "image:int8" in text and "only here" in text and "in fashion_cnn.onnx" in text
    assert "random numbers for image" in text
    assert main(["bench", small, "--rounds", "1", "--layers"]) == 0
    assert "% of peak" in capsys.readouterr().out


def test_a_layer_is_called_slower_from_five_percent_on() -> None:
    from lowbit.cli.bench import compared
    from lowbit.runtime.profile import Profile, Row

    profile = Profile((Row("a", "add", "add_s8__avx2", 1.0), Row("a", "copy", "copy_b8__avx2", 0.5)))
    assert compared("a", 1.5, 1.0, profile) == ["a", "add_s8__avx2, copy_b8__avx2", "1.5000", "1.0000", "1.50", "slower"]
    assert compared("a", 1.0, 1.0, profile)[-1] == ""
    assert compared("a", 1.0, None, profile)[-1] == "only here"


def test_onnx_runtime_runs_the_same_networks(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", reason="the peer is not installed")
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((1, 1, 28, 28), np.float32))
    arguments = ["--input", str(tmp_path / "x.npy"), "--rounds", "1", "--against", "ort", "--json"]
    assert main(["bench", DEMO, small, *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [r["engine"] for r in rows] == ["lowbit", "ort-fp32", "lowbit", "ort-export", "ort-export-exact"]
    assert all(r["random_inputs"] == [] for r in rows)
    assert rows[1]["away"] < 1e-5  # two float libraries
    assert rows[4]["away"] < 0.02  # a step of the last layer's integers, here and there; the default, before it, may saturate


def test_onnx_runtime_is_compared_by_its_own_int8_of_the_float_network(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Time and score of its static and dynamic quantization with the same samples, beside lowbit's."""
    pytest.importorskip("onnxruntime", reason="the peer is not installed")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "seen.npz", image=rng.random((16, 1, 28, 28), np.float32))
    x = rng.random((24, 1, 28, 28), np.float32)
    made: Any = lowbit.compile(lowbit.load(DEMO))(x)
    np.savez(tmp_path / "test.npz", image=x, y=made.argmax(1))
    line = f"bench {DEMO} {small} --shapes batch=1 --rounds 1 --threads 1 --against ort --data {tmp_path}/seen.npz"
    scored = f"{line} --test {tmp_path}/test.npz --labels y"
    assert main([*scored.split(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {(Path(r["model"]).name, r["engine"]): r for r in told["rows"]}
    own = [f"ort-int8-{name}" for name in ("u8s8", "u8u8", "s8s8", "dynamic")]
    assert [e for n, e in rows if n == "fashion_cnn.onnx"] == ["lowbit", "ort-fp32", *own] and told["failed"] == {}
    assert rows["fashion_cnn.onnx", "ort-fp32"]["score"] == rows["fashion_cnn.onnx", "lowbit"]["score"] == 1.0
    assert all(rows["fashion_cnn.onnx", engine]["score"] > 0.5 for engine in own[:3])  # dynamic is far off on noise
    assert all(rows["fashion_cnn.onnx", engine]["away"] > 1e-3 for engine in own)
    assert rows["small.lowbit", "lowbit"]["score"] > 0.8 and rows["small.lowbit", "lowbit"]["away"] > 1e-3
    assert all(r["random_inputs"] == [] for r in told["rows"])
    assert main(scored.split()) == 0
    text = capsys.readouterr().out
    assert "ort-int8: ONNX Runtime's own int8 of the float network, calibrated with --data" in text and "top-1" in text
    assert "of the time of ONNX Runtime's fastest int8" in text or "none of ONNX Runtime's own int8 networks keeps" in text
    (tmp_path / "m.py").write_text(
        "def m(session):\n    import numpy as np\n    return session(np.zeros((1, 1, 28, 28), np.float32)).size\n"
    )
    assert main([*line.split(), "--metric", f"{tmp_path}/m.py:m", "--json"]) == 0
    assert {r["score"] for r in json.loads(capsys.readouterr().out)["rows"]} == {10.0}  # a metric calls either session


def test_the_fastest_int8_of_onnx_runtime_is_one_that_keeps_the_score() -> None:
    from lowbit.cli.bench_ort import best_own_int8, conclusions

    def row(engine: str, ms: float, score: float | None = None) -> dict[str, Any]:
        return {"engine": engine, "ms_min": ms, "model": "m", "quantized": engine != "ort-fp32"} | (
            {} if score is None else {"score": score}
        )

    rows = [row("ort-fp32", 3, 0.9), row("ort-int8-u8s8", 1, 0.7), row("ort-int8-s8s8", 2, 0.9)]
    best = best_own_int8(rows)
    assert best is not None and best["engine"] == "ort-int8-s8s8" and best_own_int8(rows[:2]) is None
    assert "none of ONNX Runtime's own int8 networks keeps the float network's score within 0.005" in conclusions(rows[:2], {}, True)
    lowbits = [row("lowbit", 1.0, 0.9), *rows]
    assert "m takes 0.50 of the time of ONNX Runtime's fastest int8 that keeps the score (ort-int8-s8s8)" in conclusions(lowbits, {}, True)
    plain = [row("ort-fp32", 3), row("ort-int8-u8s8", 1), row("ort-int8-s8s8", 2)]
    best = best_own_int8(plain)
    assert best is not None and best["engine"] == "ort-int8-u8s8"
    assert any("adds ONNX Runtime's own int8" in text for text in conclusions([row("lowbit", 1), row("ort-fp32", 3)], {}, False))
    assert any("name that one, too" in text for text in conclusions([row("lowbit", 1), row("ort-export", 3)], {}, False))
    assert "ort-int8-u8u8: not made (ValueError: no)" in conclusions(plain, {"ort-int8-u8u8": "ValueError: no"}, True)


def test_an_array_of_other_sizes_than_shapes_binds_is_told_with_a_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 1, 28, 28), np.float32))
    assert main(["bench", DEMO, "--shapes", "batch=1", "--input", f"image={tmp_path}/x.npy"]) == 1
    assert "Try: arrays of the sizes that --shapes batch=1 binds, or without --shapes" in capsys.readouterr().err


def test_a_setting_of_onnx_runtime_that_does_not_run_the_network_is_left_out(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ort = pytest.importorskip("onnxruntime", reason="the peer is not installed")
    real, entry = ort.InferenceSession, "session.qdqisint8allowed"
    refused: set[bool] = set()

    def session(path: str, options: Any, **more: Any) -> Any:
        try:
            allowed = options.get_session_config_entry(entry) == "1"
        except RuntimeError:
            allowed = False
        if allowed in refused:
            raise RuntimeError("no kernel")
        return real(path, options, **more)

    monkeypatch.setattr(ort, "InferenceSession", session)
    line = ["bench", small, "--rounds", "1", "--against", "ort", "--json"]
    refused.add(False)
    assert main(line) == 0
    assert [r["engine"] for r in json.loads(capsys.readouterr().out)["rows"]] == ["lowbit", "ort-export-exact"]
    refused.add(True)
    assert main(line) == 1
    assert "does not run it: no kernel.\n  Try: without --against" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([DEMO], 1, "--shapes batch=1"),
        ([DEMO, DEMO], 2, "named twice"),
        ([DEMO, "--shapes", "batch=0"], 2, "nothing is computed: the output is empty (logits: float32[0, 10])"),
        ([DEMO, "--shapes", "batch=-1"], 2, "-1 is no size, they are from 0 on.\n  Try: --shapes batch=1"),
        ([DEMO, "--shapes", "batch=1", "--threads", "4000"], 2, "this process may use"),
        ([DEMO, "--shapes", "batch=1", "--threads", "0"], 2, "not a whole number from 1 on"),
        ([DEMO, "--shapes", "batch=1", "--rounds", "0"], 2, "not a whole number from 1 on"),
        ([DEMO, "--shapes", "seq=1"], 2, "no input and no open dimension"),
        (["missing.onnx"], 1, "there is no such file"),
    ],
)
def test_what_cannot_be_measured_is_said(arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        found = main(["bench", *arguments])
    except SystemExit as e:  # argparse
        found = int(str(e.code))
    assert found == code
    assert said in capsys.readouterr().err


def test_a_file_is_one_network_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(DEMO, tmp_path / "a.onnx")
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "a.onnx", "./a.onnx", "--shapes", "batch=1"]) == 2
    assert "./a.onnx: this file is named twice, as a.onnx before" in capsys.readouterr().err
    (tmp_path / "b.onnx").symlink_to("a.onnx")
    assert main(["bench", "a.onnx", "b.onnx", "--shapes", "batch=1"]) == 2
    said = capsys.readouterr().err
    assert (
        "b.onnx: this file is named twice, as a.onnx before" in said
        and "Try: it once; or a copy of it, to see how far two times of one network lie apart" in said
    )


def test_files_of_the_same_name_are_told_apart_by_their_folders() -> None:
    from lowbit.cli.bench import labels

    assert labels(["x/a.onnx", "x/b.onnx"]) == {"x/a.onnx": "a.onnx", "x/b.onnx": "b.onnx"}
    assert labels(["a.onnx", "d/a.onnx"]) == {"a.onnx": "a.onnx", "d/a.onnx": "d/a.onnx"}
    found = labels(["/m/new/int8/a.onnx", "/m/old/int8/a.onnx", "/m/b.onnx"])
    assert found == {"/m/new/int8/a.onnx": "new/int8/a.onnx", "/m/old/int8/a.onnx": "old/int8/a.onnx", "/m/b.onnx": "b.onnx"}


def test_layers_of_networks_of_the_same_name_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "d").mkdir()
    for at in (tmp_path / "a.onnx", tmp_path / "d" / "a.onnx"):
        shutil.copy(DEMO, at)
    paths = [str(tmp_path / "d" / "a.onnx"), str(tmp_path / "a.onnx")]
    assert main(["bench", *paths, "--shapes", "batch=1", "--rounds", "1", "--layers"]) == 0
    assert "in d/a.onnx" in capsys.readouterr().out


def test_the_machine_is_told_with_what_is_built_and_what_runs_on_it() -> None:
    from lowbit.cli.bench import machine

    found = machine()
    assert found["isas_built"] == list(native.isas())
    assert found["isas_on_this_cpu"] == [i for i in native.isas() if any(k.available for k in native.kernels() if k.isa == i)]


def test_a_size_that_no_network_has_is_refused(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", DEMO, small, "--shapes", "batch=1", "--shapes", "seq=3"]) == 2
    assert "seq, which is no input and no open dimension of any network" in capsys.readouterr().err


def test_ways_run_in_turns_and_the_first_run_of_a_stretch_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "MOST", 3)
    calls: list[str] = []
    found = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == [*"aaaabbbbaaaabbbb"]
    assert [len(found[n].ms) for n in "ab"] == [6, 6]


def test_slow_ways_run_in_two_rounds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SLOW", 0.0)
    monkeypatch.setattr(timing, "BLOCK", 0.0)
    assert len(in_turns({"a": lambda: None}, 5)["a"].ms) == timing.SLOW_ROUNDS


def test_a_run_that_takes_longer_than_a_stretch_is_still_repeated() -> None:
    """One run in every round would be too few to find a quiet moment of the machine."""
    assert len(in_turns({"a": lambda: time.sleep(1.1 * timing.BLOCK)}, 2)["a"].ms) == 2 * timing.LEAST


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that can say on which CPUs a process runs")
def test_on_one_cpu_others_that_come_between_are_not_counted() -> None:
    with timing.pinned(1):
        assert in_turns({"a": lambda: time.sleep(0.01)}, 1)["a"].least < 5
    if len(os.sched_getaffinity(0)) > 1:
        assert in_turns({"a": lambda: time.sleep(0.01)}, 1)["a"].least >= 10


def test_candidates_run_one_by_one_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    monkeypatch.setattr(timing, "RUNS", 2)
    ran: list[int] = []

    def way(name: int) -> None:
        ran.append(name)
        time.sleep(0.002 * name)

    one, three = least_in_turns([partial(way, 1), partial(way, 3)])
    assert ran == [1, 3, 1, 3] and 2 <= one < three and three >= 6  # once to warm up, then until the time is over


def test_least_and_median() -> None:
    assert (Timing((3.0, 1.0, 2.0, 9.0)).least, Timing((3.0, 1.0, 2.0, 9.0)).median) == (1.0, 2.5)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin")
def test_the_process_is_pinned_only_while_it_measures() -> None:
    before = os.sched_getaffinity(0)
    with pinned(1):
        assert os.sched_getaffinity(0) == {max(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(InputError, match=f"{len(before)} threads at most"), pinned(len(before) + 1):
        pass


def test_a_busy_machine_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from lowbit.cli.bench import show

    row = {
        "model": "m",
        "engine": "lowbit",
        "quantized": False,
        "threads": 1,
        "ms_min": 1.0,
        "runs": 9,
        "of_first": 1.0,
        "random_inputs": [],
        "backend": "native",
    }
    show([row | {"ms_median": 1.2}])
    assert "busy" not in capsys.readouterr().out
    show([row | {"ms_median": 1.2}, row | {"ms_median": 3.0}])
    assert "the machine was busy: a median is 3.0 times its least time" in capsys.readouterr().out
