"""lowbit eval, and --labels, --metric, --max-drop and --constant of other verbs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowbit
from lowbit.cli import main
from lowbit.dims import symbol
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.runtime import timing
from lowbit.types import TensorType

METRIC = '''
import numpy as np
import neighbour

CALLS = 0

def right(session):
    """The share of the rows that are right."""
    file = np.load(neighbour.FOLDER + "/test.npz")
    return np.mean(session(file["x"]).argmax(1) == file["y"])

def nothing(session):
    return None

def nan(session):
    return float("nan")

def broken(session):
    raise RuntimeError("no such image")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier, its int8 network, data, and labels in every form: the network's own answers, the first tenth wrong."""
    where = tmp_path_factory.mktemp("eval")
    rng = np.random.default_rng(0)
    b = Builder("small")
    x = b.input("x", TensorType((symbol("batch"), 6), "float32"))
    h = b.add("relu", b.add("linear", x, b.constant(rng.standard_normal((32, 6)).astype(np.float32)), name="fc1"), name="act")
    graph = b.finish({"y": b.add("linear", h, b.constant(rng.standard_normal((10, 32)).astype(np.float32)), name="fc2")})
    graph.save(where / "model.lowbit")
    lowbit.export_onnx(graph, where / "model.onnx", check=False)
    (where / "parts").mkdir()
    for name, rows in (("seen", 240), ("test", 100)):
        samples = rng.standard_normal((rows, 6)).astype(np.float32)
        made: Any = lowbit.compile(graph)(samples)
        y = made.argmax(1)
        y[: rows // 10] = (y[: rows // 10] + 1) % 10
        np.savez(where / f"{name}.npz", x=samples, y=y)
        np.save(where / f"{name}.npy", samples)
        np.save(where / f"{name}_y.npy", y)
        for i in range(2):
            half = slice(i * rows // 2, (i + 1) * rows // 2)
            np.savez(where / "parts" / f"{name}{i}.npz", x=samples[half], y=y[half])
    y = np.load(where / "test_y.npy")
    (where / "y.txt").write_text("\n".join(map(str, y)) + "\n")
    (where / "y.csv").write_text("file,label\n" + "".join(f"{i}.png,{c}\n" for i, c in enumerate(y)))
    np.savez(where / "y.npz", x=y)
    (where / "score.py").write_text(METRIC)
    (where / "neighbour.py").write_text(f"FOLDER = {str(where)!r}\n")
    (where / "bad.py").write_text("import no_such_module_anywhere\n")
    lowbit.quantize(graph, np.split(np.load(where / "seen.npy"), 30), guard=False).save(where / "q.lowbit")
    return where


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SECONDS", 0.0)


def ran(capsys: pytest.CaptureFixture[str], folder: Path, line: str) -> str:
    code = main(line.format(folder).split())
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


FORMS = [
    "--data {0}/test.npz --labels {0}/test_y.npy",
    "--data {0}/test.npz --labels {0}/test.npz:y",
    "--data {0}/test.npz --labels y",
    "--data {0}/test.npy --labels {0}/y.npz",
    "--data {0}/test.npy --labels {0}/y.txt",
    "--data {0}/test.npy --labels {0}/y.csv:label --batch 7 --threads 1",
    "--data {0}/parts/test0.npz {0}/parts/test1.npz --labels y --batch 100",
]


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_every_form_give_one_score(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    told = json.loads(ran(capsys, folder, f"eval {{0}}/model.onnx {form} --json"))
    assert (told["name"], told["score"], told["rows"], told["backend"]) == ("top-1", 0.9, 100, "native")
    assert told["top5"] >= 0.9 and told["ms"] > 0 and told["model"] == f"{folder}/model.onnx"


def test_eval_says_one_line_of_float_and_quantized_networks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ran(capsys, folder, "eval {0}/model.lowbit --data {0}/test.npz --labels y")
    assert said.startswith(f"{folder}/model.lowbit: top-1 90.00%, top-5 ") and "; 100 rows, " in said and said.count("\n") == 1
    told = json.loads(ran(capsys, folder, "eval {0}/q.lowbit --data {0}/test.npz --labels y --json"))
    made: Any = lowbit.compile(lowbit.load(folder / "q.lowbit"))(np.load(folder / "test.npy"))
    assert told["score"] == np.mean(made.argmax(1) == np.load(folder / "test_y.npy"))
    assert json.loads(ran(capsys, folder, "eval {0}/model.onnx --data {0}/test.npz --labels y --limit 5 --json"))["rows"] == 40


@pytest.mark.parametrize("batch", [1, 4])
def test_a_network_of_a_fixed_batch_is_scored_batch_by_batch(folder: Path, capsys: pytest.CaptureFixture[str], batch: int) -> None:
    told = json.loads(ran(capsys, folder, f"eval {{0}}/model.onnx --shapes batch={batch} --data {{0}}/test.npz --labels y --json"))
    assert (told["score"], told["rows"]) == (0.9, 100)
    assert main(f"eval {folder}/model.onnx --shapes batch=3 --data {folder}/test.npz --labels y".split()) == 1
    assert "100 rows cannot be cut into batches of 3.\n  Try: 99 rows, or another batch by --shapes" in capsys.readouterr().err


def test_a_metric_of_one_s_own_is_a_function_of_a_session(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, folder, "eval {0}/model.onnx --metric {0}/score.py:right --shapes batch=100").endswith(": score 0.9 (native)\n")
    told = json.loads(ran(capsys, folder, "eval {0}/model.onnx --data {0}/test.npz --metric {0}/score.py:right --json"))
    assert (told["name"], told["score"], told["rows"]) == ("score", 0.9, 100)


def test_compare_shows_the_scores_of_both(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "compare {0}/model.onnx {0}/q.lowbit --data {0}/test.npz "
    made: Any = lowbit.compile(lowbit.load(folder / "q.lowbit"))(np.load(folder / "test.npy"))
    score = float(np.mean(made.argmax(1) == np.load(folder / "test_y.npy")))
    said = ran(capsys, folder, line + "--labels y")
    assert f"\ntop-1 {score:.2%} of 100 rows, float 90.00% ({100 * (score - 0.9):+.2f} points); top-5 " in said
    assert f"\nscore {score:.6g}, float 0.9 ({score - 0.9:+.3g})\n" in ran(capsys, folder, line + "--metric {0}/score.py:right")
    told = json.loads(ran(capsys, folder, line + "--labels y --json"))["score"]
    assert (told["score"], told["float_score"], told["rows"]) == (score, 0.9, 100)


def test_quantize_decides_by_labels_and_its_verdict_has_the_score(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"quantize {{0}}/model.onnx --data {{0}}/seen.npz -o {tmp_path}/q.lowbit "
    said = ran(capsys, folder, line + "--labels y --max-drop 0.1")
    assert said.startswith("top-1 ") and " on 40 labelled rows, " in said.splitlines()[0]
    assert "measured on batches that nothing was fitted to or chosen by" in said.splitlines()[0]
    told = json.loads(ran(capsys, folder, line + "--labels y --max-drop 0.1 --json"))
    assert (told["score_name"], told["scored_on"], told["met"]) == ("top-1", "40 labelled rows", True)
    assert told["float_score"] - 0.1 <= told["score"] <= 1
    told = json.loads(ran(capsys, folder, line + "--metric {0}/score.py:right --max-drop 0.1 --json"))
    assert (told["score_name"], told["scored_on"], told["float_score"]) == ("score", "the metric's own data, which decided", 0.9)
    assert "score" not in json.loads(ran(capsys, folder, line + "--json"))


def test_one_of_several_outputs_is_chosen_by_its_name(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("two heads")
    x = b.input("x", TensorType((symbol("batch"), 6), "float32"))
    rng = np.random.default_rng(0)
    heads = {n: b.add("linear", x, b.constant(rng.standard_normal((k, 6)).astype(np.float32)), name=n) for n, k in (("a", 4), ("b", 10))}
    graph = b.finish(heads)
    graph.save(tmp_path / "m.lowbit")
    y = lowbit.compile(graph).run({"x": np.load(folder / "seen.npy")})["b"].argmax(1)
    np.save(tmp_path / "y.npy", y)
    data = f"--data {folder}/seen.npy --labels {tmp_path}/y.npy"
    for verb in ("eval", f"quantize -o {tmp_path}/q.lowbit"):
        assert main(f"{verb} {tmp_path}/m.lowbit {data}".split()) == 1
        said = capsys.readouterr().err
        assert "any of these outputs may have their classes: a float32[batch, 4], b float32[batch, 10]" in said
        assert "Try: --output a or --output b" in said
    assert ran(capsys, tmp_path, f"eval {{0}}/m.lowbit {data} --output b").startswith(f"{tmp_path}/m.lowbit: top-1 of output 'b' 100.00%, ")
    assert main(f"quantize {tmp_path}/m.lowbit {data} --output b -o {tmp_path}/q.lowbit".split()) == 0
    assert "on output 'b' of 40 labelled rows, " in capsys.readouterr().out
    assert main(f"compare {tmp_path}/m.lowbit {tmp_path}/q.lowbit {data} --output b".split()) == 0
    assert "top-1 of output 'b' " in capsys.readouterr().out
    assert main(f"eval {tmp_path}/m.lowbit --metric {folder}/score.py:right --output b".split()) == 2
    assert "usage: --output is for --labels" in capsys.readouterr().err


def test_a_score_below_the_limit_that_is_given_is_an_exit_code(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "low.py").write_text("def low(session):\n    return -float(any(n.op.startswith('q_') for n in session.graph.nodes))\n")
    line = f"quantize {folder}/model.onnx --data {folder}/seen.npy --metric {tmp_path}/low.py:low --prefer size -o {tmp_path}/q.lowbit"
    rule = tmp_path / "rules.toml"
    rule.write_text('[[rule]]\nkind = "calibrated"\npattern = "fc1"\ndtype = "int8"\n')
    line += f" --rules {rule} --recipe int8"  # which the score cannot turn to float
    assert main([*line.split(), "--max-drop", "0.1"]) == 1
    assert f"QuantError: {tmp_path}/q.lowbit: --max-drop cannot be kept" in capsys.readouterr().err
    assert main(line.split()) == 0  # the default is a goal, and no limit of the user's
    assert "warning: the goal is not met: the score is -1, -0.005 is the least" in capsys.readouterr().err
    by_labels = line.replace(f"--metric {tmp_path}/low.py:low", f"--labels {folder}/seen_y.npy")
    assert main(f"{by_labels} --max-drop 5".split()) == 2
    said = capsys.readouterr().err
    assert "usage: --max-drop 5, and top-1 goes from 0 to 1: anything would do.\n  Try: --max-drop 0.05 for 5 points" in said
    x, y = np.load(folder / "seen.npy"), np.load(folder / "seen_y.npy")
    with pytest.raises(InputError, match=r"max_drop=5, and top-1 goes from 0 to 1: anything would do.\n  Try: max_drop=0.05 for 5 points"):
        lowbit.quantize(lowbit.load(folder / "model.onnx"), x, labels=y, max_drop=5)


def test_search_takes_a_metric_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"search {{0}}/model.onnx --data {{0}}/seen.npz -o {tmp_path}/b.lowbit --cost bytes --trials 3 --json --max-drop 0.2"
    told = json.loads(ran(capsys, folder, line + " --metric {0}/score.py:right"))
    assert (told["float_score"], told["measured_on"]) == (0.9, "by the metric")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("eval {0}/model.onnx", 2, "usage: neither --labels nor --metric is given, and the data bring no labels.\n  Try: --labels y.npy"),
        ("eval {0}/model.onnx --labels y", 2, "usage: --labels are given without --data.\n  Try: --data samples.npz --labels y.npy"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels y --metric a.py:f", 2, "usage: --labels and --metric are both given"),
        ("compare {0}/model.onnx {0}/q.lowbit --data {0}/test.npz --labels y --metric a.py:f", 2, "usage: --labels and --metric are both"),
        ("quantize {0}/model.onnx --data {0}/seen.npz -o {1}/q.lowbit --max-drop 0.1", 2, "usage: --max-drop is for a score, and"),
        ("quantize {0}/model.onnx --data {0}/seen.npz -o {1}/q.lowbit --labels y --max-drop -1", 2, "usage: --max-drop -1, 0 or more"),
        ("quantize {0}/model.onnx --recipe int8-dynamic -o {1}/q.lowbit --labels y", 2, "usage: --labels are those of the rows of --data"),
        ("quantize {0}/model.onnx --data {0}/seen.npz --no-guard -o {1}/q.lowbit --labels y", 1, "InputError: labels= decides between"),
        ("quantize {0}/model.onnx --data {0}/seen.npz -o {1}/q.lowbit --labels {0}/test_y.npy", 1,
         "InputError: {0}/test_y.npy: 100 labels for 240 rows of --data.\n  Try: one label for each row"),
        ("quantize {0}/model.onnx --data {0}/seen.npz -o {1}/q.lowbit --metric {0}/score.py:nan", 1, "BadScore: metric gave nan"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/seen_y.npy", 1, "InputError: {0}/seen_y.npy: 240 labels for 100 rows"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels z", 1, "InputError: {0}/test.npz: there is no array 'z', it has x, y"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/test.npz", 1,
         "InputError: {0}/test.npz: which array holds the labels? it has x, y.\n  Try: --labels {0}/test.npz:x"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels x", 1, "InputError: {0}/test.npz: x: float32[100, 6] given, one whole number"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/none.npy", 1, "FormatError: {0}/none.npy: there is no such file."),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/score.py", 1, "FormatError: {0}/score.py: labels are not read from files"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/test_y.npy:y", 1, "InputError: {0}/test_y.npy: a .npy has no names"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/y.csv", 1,
         "InputError: {0}/y.csv: which column holds the labels? There are 2.\n  Try: --labels {0}/y.csv:label"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/y.csv:class", 1, "InputError: {0}/y.csv: there is no column 'class'"),
        ("eval {0}/model.onnx --data {0}/test.npz --labels {0}/y.csv:file", 1, "InputError: {0}/y.csv: line 2 has '0.png', a whole number"),
        ("eval {0}/model.onnx --metric score.py", 2, "usage: --metric 'score.py' is not FILE.py:FUNCTION"),
        ("eval {0}/model.onnx --metric {0}/none.py:f", 1, "FormatError: {0}/none.py: there is no such file"),
        ("eval {0}/model.onnx --metric {0}/bad.py:f", 1, "InputError: {0}/bad.py: it raised ModuleNotFoundError: No module named"),
        ("eval {0}/model.onnx --metric {0}/score.py:wrong", 1,
         "InputError: {0}/score.py: there is no function 'wrong', it has right, nothing, nan, broken"),
        ("eval {0}/model.onnx --metric {0}/score.py:nothing", 1, "BadScore: metric gave NoneType, a number is needed"),
        ("eval {0}/model.onnx --metric {0}/score.py:broken", 1, "BadScore: metric raised RuntimeError: no such image"),
        ("eval {0}/q.lowbit --constant sr=1 --metric {0}/score.py:right", 2, "usage: --constant is for ONNX files"),
        ("eval {0}/model.onnx --constant sr=1 --metric {0}/score.py:right", 2, "usage: model.onnx: --constant names 'sr', which"),
        ("run {0}/model.onnx --constant sr", 2, "usage: --constant 'sr' is not NAME=VALUE.\n  Try: --constant sr=16000"),
        ("run {0}/model.onnx --constant sr=fast", 2, "usage: --constant 'sr=fast': 'fast' is neither a number nor true or false"),
        ("run {0}/model.onnx --constant a=1 --constant a=2", 2, "usage: --constant names 'a' twice"),
    ],
)  # fmt: skip
def test_mistakes_are_said_and_no_figure_is_shown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, code: int, said: str
) -> None:
    assert main(line.format(folder, tmp_path).split()) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(said.format(folder)) and captured.out == ""
    assert not list(tmp_path.iterdir())


def test_constant_gives_an_input_its_value_in_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network that doubles its input where sr is 16000, and cuts it in two where it is not."""

    def branch(name: str, op: str, *more: str) -> onnx.GraphProto:
        made = helper.make_node(op, ["x", *more], [name])
        return helper.make_graph([made], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["same"]),
        helper.make_node("If", ["same"], ["y"], then_branch=branch("a", "Mul", "two"), else_branch=branch("b", "Flatten")),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 2]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
    ]
    constants = [helper.make_tensor("rate", TensorProto.INT64, [], [16000]), helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])]
    graph = helper.make_graph(nodes, "rates", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((12, 2, 2)).astype(np.float32))
    assert main(f"inspect {tmp_path}/m.onnx".split()) == 1
    assert "--constant sr=… fixes its value" in capsys.readouterr().err
    line = f"{{}} {tmp_path}/m.onnx --constant sr=16000"
    ran(capsys, tmp_path, line.format("run") + " --input {0}/x.npz --out {0}/y.npz")
    assert np.array_equal(np.load(tmp_path / "y.npz")["y"], 2 * np.load(tmp_path / "x.npz")["x"])
    ran(capsys, tmp_path, line.format("inspect"))
    ran(capsys, tmp_path, line.format("quantize") + " --data {0}/x.npz --no-guard -o {0}/q.lowbit")
    ran(capsys, tmp_path, "compare {0}/m.onnx {0}/q.lowbit --constant sr=16000 --data {0}/x.npz")
    ran(capsys, tmp_path, "bench {0}/m.onnx {0}/q.lowbit --constant sr=16000 --shapes n=1 --rounds 1")
