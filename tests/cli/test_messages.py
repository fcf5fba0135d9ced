"""What a new user does wrong: each mistake is one error that says where, what and what to try; nothing is written."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.calibration import METHODS
from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.cli import main
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, QuantError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import TensorType

RULE = '[[rule]]\nkind = "{}"\npattern = "{}"\n'


def network() -> Graph:
    b = Builder("net")
    x = b.input("x", TensorType((2, 6), "float32"))
    for name, shape in (("first", (8, 6)), ("second", (4, 8))):
        x = b.add("linear", x, b.constant(np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)), name=name)
        x = b.add("relu", x, name="act", out="h") if name == "first" else x
    return b.finish({"y": x})


def samples() -> list[np.ndarray]:
    return [np.random.default_rng(i).standard_normal((2, 6)).astype(np.float32) for i in range(4)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, its int8 form, data and a record, and damaged ones of each."""
    home = tmp_path_factory.mktemp("home")
    network().save(home / "net.lowbit")
    lowbit.quantize(network(), samples(), guard=False).save(home / "small.lowbit")
    record = lowbit.calibrate(network(), samples())
    record.save(home / "record.json")
    data = np.concatenate(samples())
    np.save(home / "data.npy", data)
    np.savez(home / "data.npz", x=data)
    np.savez(home / "none.npz", x=data[:0])
    np.savez(home / "nan.npz", x=np.where(np.arange(8)[:, None] == 5, np.float32("nan"), data))
    (home / "empty").mkdir()
    for name in ("small.lowbit", "data.npz", "record.json"):
        whole = (home / name).read_bytes()
        (home / f"cut.{name}").write_bytes(whole[: len(whole) // 2])
    (home / "short.lowbit").write_bytes((home / "small.lowbit").read_bytes()[:-3])
    (home / "other.lowbit").write_bytes(b"a text, not a network")
    flipped = bytearray((home / "small.lowbit").read_bytes())
    flipped[-5] ^= 0xFF
    (home / "flipped.lowbit").write_bytes(flipped)
    (home / "list.json").write_text("[1, 2]")
    (home / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (home / "regex.toml").write_text(RULE.format("float", "(("))
    (home / "dtype.toml").write_text(RULE.format("calibrated", ".*") + 'dtype = "int7"\n')
    (home / "text.toml").write_text(RULE.format("static", ".*") + 'scale = "big"\n')
    (home / "nothing.toml").write_text(RULE.format("float", "no such layer") + RULE.format("calibrated", ".*"))
    return home


Q = "quantize net.lowbit --no-guard -o out.lowbit "


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("quantize net.lowbit -o out.lowbit", "values need data to know their range", "--data samples.npz or --record record.json"),
        (Q + "--data no.npz", "no.npz: there is no such file or folder", ".npy, .npz, .csv, a folder of pictures"),
        (Q + "--data cut.data.npz", "cut.data.npz: not a readable .npy or .npz file", "what np.save or np.savez wrote, whole"),
        (Q + "--data empty", "empty: there is no data in this folder", ".npy, .npz, .csv, a folder of pictures"),
        (Q + "--data none.npz", "none.npz: there are no samples in it", "arrays with one row or more"),
        (Q + "--data nan.npz", "batch 2: input 'x': 6 NaN of 12 values", "clean the data"),
        (Q + "--record no.json", "no.json: not a calibration record (there is no such file)", "what lowbit calibrate"),
        (Q + "--record cut.record.json", "cut.record.json: not a calibration record", "what lowbit calibrate"),
        (Q + "--record list.json", "list.json: not a calibration record (no object with version and taps)", "what lowbit calibrate"),
        (Q + "--data data.npy --rules no.toml", "no.toml: not a readable rules file (there is no such file)", "examples/rules.toml"),
        (Q + "--data data.npy --rules binary.toml", "binary.toml: not a readable rules file (it is no text)", "examples/rules.toml"),
        (Q + "--data data.npy --rules regex.toml", "pattern '((' is not a regular expression", "a backslash before"),
        (Q + "--data data.npy --rules dtype.toml", "dtype 'int7' is not one of lowbit's", "one of int8, uint8, int16, uint16, int4"),
        (Q + "--data data.npy --rules text.toml", "scale = 'big', a number is needed", "examples/rules.toml"),
        (Q + "--data data.npy --shapes x=3,6", "input 'x': --shapes gives (3, 6), the model has (2, 6)", "export the model again"),
        ("verify cut.small.lowbit", "cut.small.lowbit: a .lowbit file that is cut off (it has", "write it anew"),
        ("verify short.lowbit", "short.lowbit: a .lowbit file that is cut off (it has ", "copy it again, or write it anew"),
        ("verify other.lowbit", "other.lowbit: not a .lowbit file", ".onnx, .lowbit"),
        ("verify flipped.lowbit", "flipped.lowbit: ", "write it anew"),
        (
            "compare net.lowbit small.lowbit --data nan.npz",
            "batch 2: input 'x': output 'y' of the float network has NaN",
            "data without NaN",
        ),
        ("export small.lowbit -o out.onnx --opset 5", "opset 5 asked for", "leave it out"),
    ],
)
def test_a_mistake_is_one_error_with_what_to_try(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, what: str, hint: str
) -> None:
    monkeypatch.chdir(home)
    before = sorted(p.name for p in home.iterdir())
    assert main(line.split()) == 1
    error, _, tried = capsys.readouterr().err.partition("\n  Try: ")
    assert what in error and hint in tried and "Traceback" not in error and "Errno" not in error
    assert sorted(p.name for p in home.iterdir()) == before


def test_a_rule_that_matches_nothing_is_said_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert main(f"quantize net.lowbit --data data.npy --rules nothing.toml -o {tmp_path}/q.lowbit".split()) == 0
    found = capsys.readouterr()
    assert (found.out + found.err).count("'no such layer' matches no layer") == 1


def test_what_to_do_next_can_be_typed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert main(f"quantize net.lowbit --data data.npy -o {tmp_path}/q.lowbit".split()) == 0
    rows = capsys.readouterr().out.partition("\nnext ")[2].splitlines()  # one command a line
    lines = [row.strip() for row in rows]
    assert [p.split()[1] for p in lines] == ["compare", "verify", "run", "emit-c", "export"]
    monkeypatch.chdir(tmp_path)
    for line in lines[1:]:
        assert main([str(home / a) if a == "data.npy" else a for a in line.split()[1:]]) == 0, line


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (CalibrationEntry(None, (0.0,), (0,)), "tap 'h': scale 0.0 is not a finite positive float32"),
        (CalibrationEntry(None, (-1.0,), (0,)), "tap 'h': scale -1.0 is not a finite positive float32"),
        (CalibrationEntry(1, (0.1, 0.2), (0, 0)), "tap 'h': per axis 1: scales of shape (2,) do not fit an array of shape (2, 8)"),
        (CalibrationEntry(9, (0.1,), (0,)), "tap 'h': per axis 9 does not exist in an array of shape (2, 8)"),
        (CalibrationEntry(None, (0.1,), (999,)), "tap 'h': zero point 999 is outside int8"),
        (CalibrationEntry(None, (0.1, 0.2), (0, 0)), "tap 'h': 2 scales and 2 zero points"),
    ],
)
def test_parameters_that_do_not_fit_name_their_tap(entry: CalibrationEntry, text: str) -> None:
    record = lowbit.calibrate(network(), samples())
    with pytest.raises(QuantError) as e:
        lowbit.quantize(network(), CalibrationRecord({**record.taps, "h": entry}))
    assert text in str(e.value)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_record_that_was_changed_by_hand_gives_no_traceback(method: str) -> None:
    """Any number, text or list in the place of any other: a LowbitError, or a graph where the change did not matter."""
    whole = json.dumps(lowbit.calibrate(network(), samples(), method=method).to_dict())
    rng, refused = random.Random(0), 0
    junk = [None, -1, 0, 1e300, float("nan"), float("inf"), "x", [], {}, True, [1, 2, 3], 2**70, [[1]]]
    for _ in range(40):
        changed = json.loads(whole)
        at, place = changed, "taps"
        while isinstance(at[place], dict | list) and at[place] and rng.random() < 0.9:
            at = at[place]
            place = rng.choice(sorted(at)) if isinstance(at, dict) else rng.randrange(len(at))
        at[place] = rng.choice(junk)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lowbit.quantize(network(), CalibrationRecord.from_dict(changed))
        except LowbitError:
            refused += 1
    assert refused > 10


def two_inputs() -> Graph:
    b = Builder("two")
    x, meta = (b.input(name, TensorType((symbol("batch"), n), "float32")) for name, n in (("x", 6), ("meta", 4)))
    return b.finish({"y": b.add("add", b.add("linear", x, b.constant(np.ones((4, 6), np.float32)), name="fc"), meta, name="sum")})


@pytest.mark.parametrize(
    ("arrays", "made"),
    [
        ({"image": (8, 6), "meta": (8, 4)}, 'x=np.load("b.npz")["image"], meta=np.load("b.npz")["meta"]'),
        ({"x": (8, 2, 3), "meta": (8, 4)}, 'x=np.load("b.npz")["x"].reshape(-1, 6), meta=np.load("b.npz")["meta"]'),
        ({"x": (8, 6), "meta": (8, 2, 2)}, 'x=np.load("b.npz")["x"], meta=np.load("b.npz")["meta"].reshape(-1, 4)'),
    ],
)
def test_the_line_that_makes_data_fit_carries_all_inputs_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arrays: dict[str, tuple[int, ...]], made: str
) -> None:
    monkeypatch.chdir(tmp_path)
    two_inputs().save("two.lowbit")
    rng = np.random.default_rng(0)
    np.savez("b.npz", **{name: rng.standard_normal(shape).astype(np.float32) for name, shape in arrays.items()})  # type: ignore[arg-type]
    assert main(["calibrate", "two.lowbit", "--data", "b.npz", "-o", "r.json"]) == 1
    line = capsys.readouterr().err.partition("Try: ")[2].strip()
    assert line == f'np.savez("samples.npz", {made})'
    exec(line, {"np": np})
    assert main(["calibrate", "two.lowbit", "--data", "samples.npz", "-o", "r.json"]) == 0


@pytest.mark.parametrize("name", ["int", "while", "Int"])
def test_a_keyword_of_c_as_a_name_is_said_to_be_one(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["emit-c", str(home / "small.lowbit"), "-o", str(tmp_path / "c"), "--name", name]) == 2
    said = capsys.readouterr().err
    assert f"--name {name!r} cannot be used: {name.lower()} is a keyword of C" in said and f"Try: --name {name}_net" in said
    with pytest.raises(InputError, match=f"name '{name}' cannot be used: {name.lower()} is a keyword of C"):
        lowbit.emit_c(network(), None, name=name, measure=False)


def test_main_is_no_name_of_a_network() -> None:
    with pytest.raises(InputError, match="name 'main' cannot be used: main is where a program begins"):
        lowbit.emit_c(network(), None, name="main", measure=False)


def test_an_input_that_was_forgotten_is_said_not_to_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    two_inputs().save("two.lowbit")
    np.save("x.npy", np.zeros((3, 6), np.float32))
    assert main(["run", "two.lowbit", "--input", "x=x.npy"]) == 1
    said = capsys.readouterr().err
    assert "input 'meta' is not given, and for made-up data float32[batch, 4] has open dimensions" in said
    assert "Try: --input meta=FILE.npy, or --shapes batch=3 to run on made-up data" in said
    assert main(["run", "two.lowbit", "--input", "x=x.npy", "--shapes", "batch=3"]) == 0
    assert "random numbers for meta" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "what", "hint"),
    [
        ("run open.lowbit --shapes batch=1,2", 2, "--shapes gives 1, 2 for batch, which is one dimension: one number is needed", "batch"),
        ("run open.lowbit --shapes batch=-3", 2, "--shapes 'batch=-3': -3 is no size, they are from 0 on", "--shapes batch=3"),
        ("inspect folder", 1, "folder: it is a folder, a file is needed", "net.lowbit"),
        ("inspect empty", 1, "empty: it is a folder, a file is needed", "the path of an .onnx, .gguf or .lowbit file"),
        ("demo --files net.lowbit", 1, "net.lowbit: it is a file (or in one), a folder is needed", "lowbit demo --files fashion"),
        ("demo --files net.lowbit/x", 1, "net.lowbit/x: it is a file (or in one), a folder is needed", "lowbit demo --files fashion"),
        (
            "quantize net.lowbit --data huge.npz -o o.lowbit",
            1,
            "batch 0: linear 'first': ",
            "input 'x' reaches 3e+38 in this batch, too much",
        ),
        ("calibrate net.lowbit --data huge.npz -o o.json", 1, "batch 0: relu 'act': ", "input 'x' reaches 3e+38 in this batch, too much"),
    ],
)
def test_small_mistakes_are_called_what_they_are(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, code: int, what: str, hint: str
) -> None:
    monkeypatch.chdir(home)
    b = Builder("open")
    b.finish({"y": b.add("relu", b.input("x", TensorType((symbol("batch"), 2), "float32")))}).save("open.lowbit")
    Path("folder").mkdir(exist_ok=True)
    network().save(home / "folder" / "net.lowbit")
    np.savez("huge.npz", x=np.full((2, 6), 3e38, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(line.split()) == code
    said, _, tried = capsys.readouterr().err.partition("\n  Try: ")
    assert what in said and hint in tried


def test_a_scale_that_a_clamp_behind_its_layer_overrules_is_told() -> None:
    rules = [lowbit.StaticQuantRule("first", scale=0.1), lowbit.StaticQuantRule("act", scale=0.2), lowbit.CalibratedQuantRule(".*")]
    with pytest.warns(lowbit.LowbitWarning, match="scale of first: not used, .*: relu 'act' after it is part of it and has "):
        q = lowbit.quantize(network(), samples(), rules=rules)
    assert q.notes["scale of first"].startswith("not used, ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lowbit.quantize(network(), samples(), rules=[rules[1], rules[2]])


def test_comparing_with_a_network_that_was_made_from_another_is_said() -> None:
    b = Builder("other")
    x = b.input("x", TensorType((2, 6), "float32"))
    other = b.finish({"y": b.add("linear", x, b.constant(np.ones((4, 6), np.float32)), name="fc")})
    with pytest.warns(lowbit.LowbitWarning, match="no layer of 'net' is found in 'other': it was hardly made from it"):
        lowbit.compare(network(), lowbit.quantize(other, samples(), guard=False), samples())


def test_infinities_that_are_compared_are_said_without_warnings_of_numpy() -> None:
    data = [np.full((2, 6), np.inf, np.float32)]
    q = lowbit.quantize(network(), samples(), guard=False)
    with warnings.catch_warnings(), pytest.raises(CalibrationError, match="NaN, which begins here") as e:
        warnings.simplefilter("error")
        lowbit.compare(network(), q, data)
    assert e.value.hint == "input 'x' holds infinite values: data without them"


@pytest.mark.parametrize("row", [3, {}, {"axis": None}])
def test_a_tap_of_a_record_that_is_none_is_named(row: object) -> None:
    record = {**lowbit.calibrate(network(), samples()).to_dict()}
    record["taps"] = {**record["taps"], "h": row}
    with pytest.raises(FormatError, match="tap 'h': it is neither an observer nor scales"):
        CalibrationRecord.from_dict(record)


def test_the_row_of_the_first_nan_is_named() -> None:
    data = samples()
    data[1][1, 3] = np.nan
    with pytest.raises(CalibrationError, match=r"batch 1: input 'x': 1 NaN of 12 values: .*; the first is in row 1"):
        lowbit.calibrate(network(), data)


@pytest.mark.parametrize(
    ("array", "hint"),
    [
        (np.ones(6, np.float32), 'np.savez("samples.npz", x=np.load("odd.npz")["x"][None])'),
        (np.ones((2, 6), np.complex64), "arrays named x: float32[2, 6]"),
        (np.array([["a"] * 6] * 2), "arrays named x: float32[2, 6]"),
    ],
)
def test_what_is_proposed_for_odd_data_can_be_done(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], array: np.ndarray, hint: str
) -> None:
    monkeypatch.chdir(home)
    np.savez("odd.npz", x=array)
    assert main([*Q.split(), "--data", "odd.npz"]) == 1
    assert capsys.readouterr().err.rstrip().endswith(f"Try: {hint}")


def test_reasons_go_by_the_names_of_layers() -> None:
    q = lowbit.quantize(network(), samples(), rules=[lowbit.FloatRule("second", because="small"), lowbit.CalibratedQuantRule(".*")])
    assert q.reasons == {"first": "CalibratedQuantRule('.*')", "act": "CalibratedQuantRule('.*')", "second": "stays float: small"}


def test_batches_are_called_batches_and_rows_are_counted(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    assert main(["calibrate", "net.lowbit", "--data", "data.npz", "-o", "counted.json"]) == 0
    assert "over 4 batches (8 rows) (minmax)" in capsys.readouterr().out
    assert main(["calibrate", "net.lowbit", "--data", "data.npz", "-o", "counted.json", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["batches"], told["rows"]) == (4, 8)
    assert main(["compare", "net.lowbit", "small.lowbit", "--data", "data.npz"]) == 0
    assert "4 batches; " in capsys.readouterr().out
