"""Objects of the wrong kind get an error that says which kind is needed, wherever they are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.errors import DTypeError, InputError, QuantError, ShapeError
from lowbit.ir.build import Builder
from lowbit.types import TensorType


def relu(*shapes: tuple[Any, ...]) -> lowbit.Graph:
    b = Builder("net")
    inputs = [b.input(f"x{i}", TensorType(s, "float32")) for i, s in enumerate(shapes)]
    return b.finish({f"y{i}": b.add("relu", x) for i, x in enumerate(inputs)})


@pytest.mark.parametrize("inputs", [np.zeros(3, np.float32), [1.0], None, "x0"])
def test_run_needs_a_mapping(inputs: Any) -> None:
    with pytest.raises(InputError, match=r"net: \w+ given, a mapping of arrays by name is needed.\n  Try: \{'x0': array\}"):
        lowbit.compile(relu((3,))).run(inputs)


def test_a_mapping_in_the_place_of_an_array_is_told_who_takes_it() -> None:
    session = lowbit.compile(relu((3,)))
    for call in (session, session.profile):
        with pytest.raises(
            InputError, match=r"input 'x0': dict given, an array is needed.\n  Try: .* session.run\(\{name: array\}\) by name"
        ):
            call({"x0": np.zeros(3, np.float32)})


def test_inputs_that_numpy_cannot_hold_are_named() -> None:
    import torch

    session = lowbit.compile(relu((2,)))
    tensors = [torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.bfloat16)]
    for x in ([[1.0], [1.0, 2.0]], *tensors):
        with pytest.raises(InputError, match=r"input 'x0' cannot become a NumPy array \(.*\).\n  Try: .*x.detach\(\).float\(\)"):
            session.run({"x0": x})  # type: ignore[dict-item]
        with pytest.raises(InputError, match="x cannot become a NumPy array"):
            lowbit.quantize_array(x)  # type: ignore[arg-type]
    masked = np.ma.masked_array([1.0, 2.0], [False, True], dtype=np.float32)
    for call in (
        lambda: session.run({"x0": masked}),
        lambda: lowbit.quantize_array(masked),
        lambda: lowbit.MinMaxObserver().observe(masked),
    ):
        with pytest.raises(InputError, match="is a masked array, and its mask would be lost"):
            call()


def test_stages_say_what_they_need(tmp_path: Path) -> None:
    for call in (lowbit.compile, lowbit.inspect):
        for wrong in ("m.onnx", None, 3):
            with pytest.raises(InputError, match=r"\w+ given, a Graph is needed.\n  Try: lowbit.\w+\(lowbit.load"):
                call(wrong)  # type: ignore[operator]
    with pytest.raises(InputError, match="ndarray given, a QArray is needed"):
        lowbit.save_array(tmp_path / "a", np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(QuantError, match="params= is float, QuantParams are needed"):
        lowbit.quantize_array([1.0], params=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("granularity", ["channel", 0, None, lowbit.PerTensor])
def test_a_granularity_is_one_of_three_values(granularity: Any) -> None:
    for call in (
        lambda: lowbit.quantize_array(np.ones((2, 2)), granularity=granularity),
        lambda: lowbit.QuantParams("int8", 1.0, granularity=granularity),
        lambda: lowbit.params_from_range(0.0, 1.0, "int8", granularity=granularity),
    ):
        with pytest.raises(QuantError, match=r"granularity .* is none.\n  Try: PerTensor\(\), PerAxis\(axis\) or PerBlock\(axis, size\)"):
            call()


def test_axes_and_blocks_are_integers() -> None:
    for make, text in (
        (lambda: lowbit.PerAxis(1.5), "axis 1.5 of PerAxis is not an integer"),  # type: ignore[arg-type]
        (lambda: lowbit.PerBlock(1, 2.5), "size 2.5 of PerBlock is not an integer"),  # type: ignore[arg-type]
        (lambda: lowbit.PerBlock(True, 2), "axis True of PerBlock is not an integer"),
    ):
        with pytest.raises(QuantError, match=text):
            make()
    assert lowbit.PerAxis(np.int64(1)) == lowbit.PerAxis(1)  # type: ignore[arg-type]
    with pytest.raises(QuantError, match=r"shape \(\).\n  Try: PerTensor\(\): one number has no axes"):
        lowbit.quantize_array(1.0, granularity=lowbit.PerAxis(0))


@pytest.mark.parametrize("dtype", [8, "", "int", 3.5, object()])
def test_what_is_no_dtype_is_said_so(dtype: Any) -> None:
    with pytest.raises(DTypeError, match=r"is not (one of lowbit's|a quantized dtype)"):
        lowbit.quantize_array([1.0], dtype)


@pytest.mark.parametrize("shape", [(-1, 100), (2.5,), (True, 2), -3])
def test_memory_is_estimated_for_shapes_only(shape: Any) -> None:
    with pytest.raises(ShapeError, match="is no shape: sizes are integers, 0 or more"):
        lowbit.estimate_memory_savings("int4", shape)


# -- every public function, every argument ---------------------------------------------------------------------------------------


@cache
def linear() -> lowbit.Graph:
    b = Builder("net")
    x = b.input("x", TensorType((2, 8), "float32"))
    return b.finish({"y": b.add("linear", x, b.constant(np.eye(8, dtype=np.float32)), name="layer")})


X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)


@cache
def made() -> tuple[lowbit.Graph, lowbit.CalibrationRecord]:
    record = lowbit.calibrate(linear(), [X])
    return lowbit.quantize(linear(), record), record


def wrong_objects() -> Iterator[tuple[str, Any]]:
    import torch

    named = {
        "None": None, "int": 5, "negative": -1, "huge": 10**30, "float": 1.5, "nan": float("nan"), "true": True, "text": "x", "nul": "a\0b",
        "bytes": b"x", "list": [1], "texts": ["int8"], "empty": [], "ragged": [[1.0], [1.0, 2.0]], "tuple": (1, 2), "dict": {},
        "dict of None": {"x": None}, "set": {1}, "object": object(), "class": int, "function": len, "array": np.zeros(3, np.float32),
        "array of objects": np.array([object()]), "tensor": torch.zeros(2, requires_grad=True), "module": torch.nn.Linear(2, 2),
        "rule": lowbit.FloatRule("x"), "rules": [lowbit.FloatRule("x")], "graph": linear(), "record": made()[1],
        "quantized array": lowbit.quantize_array(X), "path": Path("/nowhere/else"),
    }  # fmt: skip
    yield from named.items()
    yield "generator", (i for i in [1])


def calls(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every public function that takes arguments, with arguments that are right."""
    g, (q, record) = linear(), made()
    flags = {"no_float": False, "float_io": False, "channels_last": False, "io_in_arena": False, "measure": False, "force": False}
    rule = lowbit.CalibratedQuantRule(".*")
    report = lowbit.compare(g, q, [X])
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "load": (lowbit.load, {"source": str(folder / "m.lowbit"), "shapes": None, "inputs": None, "dynamic": None, "constants": None,
                               "simplify": None}),
        "calibrate": (lowbit.calibrate, {"graph": g, "data": [X], "method": "minmax", "recipe": None, "rules": None, "executor": None,
                                         "ignore_nonfinite": False}),
        "quantize": (lowbit.quantize, {"graph": g, "calibration": record, "recipe": None, "rules": None, "method": "minmax",
                                       "executor": None, "strict": False, "guard": False, "wide": True, "on_step": None,
                                       "labels": None, "metric": None, "max_drop": None}),
        "search": (lowbit.search, {"graph": g, "data": [X, X], "metric": None, "max_drop": None, "least_db": None, "cost": "bytes",
                                   "minutes": 1.0, "trials": 3, "widths": ("int8", "float"), "test": None, "method": "minmax", "threads": 1,
                                   "executor": None}),
        "save_rules": (lowbit.save_rules, {"rules": [rule], "path": folder / "r.toml"}),
        "compile": (lowbit.compile, {"graph": g, "threads": 1, "isa": None}),
        "Session": (lowbit.Session, {"graph": g, "threads": 1, "isa": None}),
        "session": (lambda x, out: lowbit.compile(g)(x, out=out), {"x": X, "out": None}),
        "session.run": (lowbit.compile(g).run, {"inputs": {"x": X}, "out": None}),
        "session.profile": (lambda x, repeats: lowbit.compile(g).profile(x, repeats=repeats), {"x": X, "repeats": 1}),
        "emit_c": (lowbit.emit_c, {"graph": q, "folder": folder / "c", "target": "portable", "name": "m", "samples": None, "vectors": 1,
                                   "fits": None, **flags}),
        "export_onnx": (lowbit.export_onnx, {"graph": g, "path": folder / "m.onnx", "check": False, "opset": None, "matmul_nbits": False,
                                              "recurrences": "float"}),
        "inspect": (lowbit.inspect, {"graph": g}),
        "compare": (lowbit.compare, {"graph": g, "quantized": q, "data": [X], "labels": None, "metric": None}),
        "evaluate": (lowbit.evaluate, {"model": g, "data": [X], "labels": [0, 1], "metric": None, "threads": 1}),
        "report.save": (report.save, {"path": folder / "r.html"}),
        "verify_backends": (lowbit.verify_backends, {"quantized": q, "data": [X], "layers": False}),
        "load_kernels": (lowbit.load_kernels, {"folder": folder / "none"}),
        "quantize_array": (lowbit.quantize_array, {"x": X, "dtype": "int8", "scale": None, "zero_point": None, "scheme": None,
                                                   "granularity": lowbit.PerTensor(), "params": None}),
        "load_array": (lowbit.load_array, {"path": folder / "none"}),
        "save_array": (lowbit.save_array, {"path": folder / "a", "q": lowbit.quantize_array(X)}),
        "QuantParams": (lowbit.QuantParams, {"dtype": "int8", "scale": 1.0, "zero_point": 0, "scheme": None,
                                             "granularity": lowbit.PerTensor()}),
        "CalibrationEntry": (lowbit.CalibrationEntry, {"axis": None, "scales": (1.0,), "zero_points": (0,)}),
        "per_tensor": (lowbit.CalibrationEntry.per_tensor, {"scale": 1.0, "zero_point": 0}),
        "per_channel": (lowbit.CalibrationEntry.per_channel, {"axis": 0, "scales": [1.0], "zero_points": None}),
        "CalibrationRecord": (lowbit.CalibrationRecord, {"taps": record.taps}),
        "record.load": (lowbit.CalibrationRecord.load, {"path": folder / "none"}),
        "record.save": (record.save, {"path": folder / "r.json"}),
        "record.from_dict": (lowbit.CalibrationRecord.from_dict, {"d": record.to_dict()}),
        "record.params": (record.params, {"tap": "x", "dtype": "int8", "scheme": None}),
        "QuantRule": (lowbit.QuantRule, {"pattern": "x", "dtype": "int8", "weights": None, "granularity": "channel",
                                         "scheme": "asymmetric", "ops": (), "because": ""}),
        "StaticQuantRule": (lowbit.StaticQuantRule, {"pattern": "x", "scale": 1.0, "offset": 0, "weight_scale": None}),
        "RuleMatcher": (lowbit.RuleMatcher, {"rules": [rule]}),
        "explain": (lowbit.RuleMatcher([rule]).explain, {"node": g.nodes[0]}),
        "load_rules": (lowbit.load_rules, {"path": folder / "none"}),
        "QuantizationTransform": (lowbit.QuantizationTransform, {"rules": [rule]}),
        "apply": (lowbit.QuantizationTransform([rule]).apply, {"graph": g, "record": record, "strict": False}),
        "insert_q_dq": (lowbit.insert_q_dq, {"graph": g, "record": record, "dtype": "int8"}),
        "calibrate_from_samples": (lowbit.calibrate_from_samples, {"samples": [X], "dtype": "int8", "method": "minmax", "scheme": None,
                                                                   "axis": None}),
        "estimate_memory_savings": (lowbit.estimate_memory_savings, {"dtype": "int4", "shape": (2,)}),
        "params_from_range": (lowbit.params_from_range, {"lo": 0.0, "hi": 1.0, "dtype": "int8", "scheme": None}),
        "params_from_data": (lowbit.params_from_data, {"x": X, "dtype": "int8", "scheme": None}),
        "optimal_params": (lowbit.optimal_params, {"x": X, "dtype": "int8"}),
        "auto_quantize": (lowbit.auto_quantize, {"x": X, "dtype": "int8"}),
        "graph.save": (g.save, {"path": folder / "g.lowbit"}),
        "PercentileObserver": (lowbit.PercentileObserver, {"percentile": 99.9, "bins": 256, "axis": None, "ignore_nonfinite": False}),
        "AdaptiveObserver": (lowbit.AdaptiveObserver, {"samples": 64}),
        "MovingAverageMinMaxObserver": (lowbit.MovingAverageMinMaxObserver, {"averaging_constant": 0.1}),
        "observe": (lowbit.MinMaxObserver().observe, {"x": X}),
        "observer.params": (lowbit.MinMaxObserver().observe(X).params, {"dtype": "int8", "scheme": None}),
        **{f.__name__: (f, {"reference": X, "approximation": X}) for f in (lowbit.sqnr_db, lowbit.mse, lowbit.max_error, lowbit.cosine)},
    }  # fmt: skip
    return found


NAMES = [
    "load", "calibrate", "quantize", "search", "save_rules", "compile", "Session", "session", "session.run", "session.profile", "emit_c",
    "export_onnx", "inspect", "compare", "evaluate", "report.save", "verify_backends", "load_kernels", "quantize_array", "load_array",
    "save_array", "QuantParams", "CalibrationEntry", "per_tensor", "per_channel", "CalibrationRecord", "record.load", "record.save",
    "record.from_dict", "record.params", "QuantRule", "StaticQuantRule", "RuleMatcher", "explain", "load_rules", "QuantizationTransform",
    "apply", "insert_q_dq", "calibrate_from_samples", "estimate_memory_savings", "params_from_range", "params_from_data",
    "optimal_params", "auto_quantize", "graph.save", "PercentileObserver", "AdaptiveObserver", "MovingAverageMinMaxObserver", "observe",
    "observer.params", "sqnr_db", "mse", "max_error", "cosine",
]  # fmt: skip
ABSENT = ("load_kernels", "load_array", "record.load", "load_rules")  # their right argument is a file, which is not there


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_an_argument_of_any_kind_is_taken_or_refused_with_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is given, what comes back is a result or a LowbitError: never an error of Python's."""
    monkeypatch.chdir(tmp_path)  # "x" is a legal path
    made()[0].save(tmp_path / "m.lowbit")
    table = calls(tmp_path)
    assert list(table) == NAMES
    function, right = table[name]
    if name not in ABSENT:
        function(**right)
    for argument in right:
        for kind, wrong in wrong_objects():
            try:
                function(**{**right, argument: wrong})
            except lowbit.LowbitError as e:
                assert e.message, (argument, kind)
            except Exception as e:
                pytest.fail(f"{name}({argument}={kind}): {type(e).__name__}: {e}")


@contextmanager
def refused(text: str) -> Iterator[None]:
    with pytest.raises(lowbit.LowbitError, match=text):
        yield


def test_the_usual_mistakes_are_told_what_to_write_instead(tmp_path: Path) -> None:
    import torch

    g, (q, _) = linear(), made()
    for call in (lowbit.calibrate, lowbit.quantize):
        for wrong in (None, "m.onnx", torch.nn.Linear(8, 8)):
            with refused(r"\w+ given, a Graph is needed.\n  Try: lowbit.\w+\(lowbit.load\(...\), …\)"):
                call(wrong, [X])  # type: ignore[operator]
        with refused("str given, a list of rules is needed.\n  Try: rules=\\[lowbit.FloatRule"):
            call(g, [X], rules="int8")
        with refused(r"rule 0: 'int8' is no rule.\n  Try: rules=\[lowbit.FloatRule"):
            call(g, [X], rules=["int8"])
        with refused("FloatRule given, a list of rules is needed"):
            call(g, [X], rules=lowbit.FloatRule("x"))
        with refused("there are no rules in rules="):
            call(g, [X], rules=[])
        with refused("there is no recipe 'int7'"):
            call(g, [X], recipe="int7", rules=[lowbit.FloatRule("x")])
        with refused(r"net: the network is quantized already \(\d+ of \d+ nodes.*\n  Try: the float network"):
            call(q, [X])
        with refused("executor=4 cannot take work.\n  Try: concurrent.futures.ProcessPoolExecutor"):
            call(g, [X], executor=4)
        with refused("data is 5, a list .* is needed.\n  Try: data: an iterable of {input name: array}"):
            call(g, 5)
        with refused("one batch alone is \\[batch\\]"):
            call(g, {"x": X})
        with refused(r"batch 0: input 'x': shape \(\) given, .*\n  Try: an array of all rows, or one axis more for batches \(x: float32"):
            call(g, X[0])
        with refused(r"batch 0: input 'x' cannot become a NumPy array"):
            call(g, [torch.zeros(2, 8, requires_grad=True)])
        with refused(r"batch 1: input 'x' cannot become a NumPy array"):
            call(g, [X, {"x": [[1.0], [1.0, 2.0]]}])
    with refused("data is None, a list .* is needed"):
        lowbit.calibrate(g, None)  # type: ignore[arg-type]
    for wrong in ("2", 1.5, 0, True):
        with refused("is not a number of threads.\n  Try: 1 to 4,096, or leave it out"):
            lowbit.compile(g, threads=wrong)  # type: ignore[arg-type]
    with refused("isa=foo is not an instruction set of this build.\n  Try: one of ref"):
        lowbit.compile(g, isa="foo")
    with refused("isa='' is not an instruction set of this build"):
        lowbit.compile(g, isa="")
    session = lowbit.compile(g)
    with refused("input 'x': 'abc' given, float32 needed.\n  Try: an array of numbers"):
        session("abc")  # type: ignore[arg-type]
    with refused("input 'x' is missing, 'X' given.\n  Try: the inputs are x"):
        session.run({"X": X})
    with refused(r"net: the first graph is quantized itself \(the second is not: are they swapped\?\)"):
        lowbit.compare(q, g, [X])
    with refused("2 arrays given, 1 needed"):
        lowbit.compile(g).profile(X, X)


def test_a_wrong_instruction_set_in_the_environment_is_said_when_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWBIT_ISA", "foo")
    with refused("LOWBIT_ISA=foo is not an instruction set of this build"):
        lowbit.compile(linear())


def test_a_record_of_json_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for content in ([], {"version": 1}, {"version": 1, "taps": {"x": {"axis": None, "scales": "ab", "zero_points": [0]}}}, 3):
        path.write_text(json.dumps(content))
        with refused("r.json: not a calibration record"):
            lowbit.CalibrationRecord.load(path)
