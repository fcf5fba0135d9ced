"""The Q/DQ insertion pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import codegen_tools
import numpy as np
import pytest

import lowbit
from lowbit import CalibrationEntry, CalibrationRecord, LowbitError, QuantParams
from lowbit.calibration.observers import MinMaxObserver
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.types import TensorType

DEMO = Path(lowbit.__file__).parent / "demo"


def demo() -> tuple[lowbit.Graph, list[dict[str, Any]]]:
    images = np.load(DEMO / "fashion_calibration_256.npz")["images"]
    x = (images[:, None] / 255).astype(np.float32)
    return lowbit.load(DEMO / "fashion_cnn.onnx"), [{"image": x[i : i + 32]} for i in range(0, 256, 32)]


def weight_taps(g: lowbit.Graph) -> dict[str, CalibrationEntry]:
    """A symmetric int8 entry per output channel for every weight."""
    found = {}
    for name, c in g.constants.items():
        if name.endswith(".weight"):
            most = np.abs(c.data).reshape(c.data.shape[0], -1).max(1)
            found[name] = CalibrationEntry.per_channel(0, most / 127)
    return found


def small() -> lowbit.Graph:
    b = Builder("small")
    ids = b.input("ids", TensorType((3,), "int64"))
    table = b.constant(np.arange(20, dtype=np.float32).reshape(5, 4), name="table")
    rows = b.add("gather", table, ids, out="rows", axis=0)
    weight = b.constant(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), name="w")
    return b.finish({"y": b.add("linear", rows, weight, None, out="y")})


def test_insert_q_dq_with_a_weight_as_a_tap(tmp_path: Path) -> None:
    """A weight as a tap → `lowbit.insert_q_dq`"""
    g, data = demo()
    record = CalibrationRecord({**lowbit.calibrate(g, data).taps, **weight_taps(g)})
    q = verify(lowbit.insert_q_dq(g, record))
    assert all(n.op != "quantize_linear" for name in weight_taps(g) for n in q.users.get(name, ()))
    assert q.parameter_bytes < 0.3 * g.parameter_bytes
    report = lowbit.compare(g, q, data[:1])
    assert str(report).splitlines()[0] == "main_graph: 19 of 19 layers integer"
    one = bind(q, {"batch": 1})
    x = data[0]["image"][:1]
    want = run(lower(one).graph, {"image": x})["logits"]
    assert lowbit.compile(one).backend == "native"
    assert np.array_equal(lowbit.compile(one)(x), want)
    emitted = lowbit.emit_c(one, tmp_path / "c", float_io=True, measure=False)
    (from_c,) = codegen_tools.Compiled(tmp_path / "c", emitted).run([x], [((1, 10), np.float32)])
    assert np.array_equal(from_c, want)


def test_fake_quantization_of_a_weight_is_what_its_integers_say() -> None:
    """Folding of a constant's Q/DQ → `lowbit.insert_q_dq`"""
    g = small()
    q = lowbit.insert_q_dq(g, {"w": {"axis": 0, "scale": [0.01, 0.02]}})
    w = g.constants["w"].data
    scale = np.array([[0.01], [0.02]], np.float32)
    stored = np.clip(np.rint(w / scale), -128, 127)
    assert np.array_equal(q.constants["w:int8"].data, stored)
    ids = np.array([0, 1, 4])
    want = run(g, {"ids": ids}, keep=["rows"])["rows"] @ (stored * scale).astype(np.float32).T
    assert np.allclose(run(q, {"ids": ids})["y"], want, rtol=1e-6)


def test_a_plain_dict_is_a_record() -> None:
    """CalibrationRecord as a plain dict → `lowbit.insert_q_dq`"""
    g = small()
    entry = CalibrationEntry.per_tensor(0.25, 3)
    want = lowbit.insert_q_dq(g, CalibrationRecord({"rows": entry}))
    forms: list[Any] = [entry, (0.25, 3), {"scale": 0.25, "zero_point": 3}, {"axis": None, "scales": [0.25], "zero_points": [3]}]
    for form in [*forms, QuantParams("int8", 0.25, 3)]:
        assert lowbit.insert_q_dq(g, {"rows": form}) == want, form
    assert lowbit.insert_q_dq(g, {"rows": 0.25}) == lowbit.insert_q_dq(g, {"rows": (0.25, 0)})
    seen = MinMaxObserver().observe(np.array([-1.0, 2.0], np.float32))
    assert lowbit.insert_q_dq(g, {"rows": seen}) == lowbit.insert_q_dq(g, CalibrationRecord({"rows": seen}))


def test_weights_may_have_a_dtype_of_their_own() -> None:
    """dtype of activations and of weights → `lowbit.insert_q_dq(..., weights=)`"""
    q = lowbit.insert_q_dq(small(), {"rows": (0.1, 0), "w": 0.2, "y": (0.5, 7)}, "uint8", weights="int4")
    assert q.values["rows:uint8"].type.dtype.name == "uint8" and q.values["w:int4"].type.dtype.name == "int4"
    integer = [n for n in lower(q).graph.nodes if n.op == "q_linear"]
    assert len(integer) == 1 and integer[0].inputs[1] is not None and integer[0].inputs[1].type.dtype.name == "int4"


@pytest.mark.parametrize(
    ("record", "text", "hint"),
    [
        ({"ids": 0.1}, "tap 'ids' is int64 already, a float value is needed", "the value that is made from it: 'rows'"),
        ({"row": 0.1}, "the record has a tap 'row', the graph has no such value", "'rows'"),
        ({7: 0.1}, "the record has a tap 7, the graph has no such value", "lowbit inspect"),
        ({"rows": "a"}, "tap 'rows': its entry is 'a', parameters are needed", "(scale, zero_point)"),
        ({"rows": None}, "tap 'rows': its entry is None, parameters are needed", "lowbit.CalibrationEntry.per_tensor"),
        ({"rows": (0.1, 0, 0)}, "its entry is (0.1, 0, 0), parameters are needed", "(scale, zero_point)"),
        ({"rows": {"zero_point": 1}}, "its entry has no scale", "{'scale': 0.1, 'zero_point': 0}"),
        ({"rows": {"scale": 1.0, "zp": 1}}, "its entry has a key 'zp'", "{'scale': 0.1, 'zero_point': 0}"),
        ({"w": {"scale": [0.1, 0.2]}}, "tap 'w': 2 scales without an axis", "{'axis': 0, 'scale': […]}"),
        ({"w": {"axis": 0, "scale": [0.1, 0.2, 0.3]}}, "scales of shape (3,) do not fit an array of shape (2, 4)", "another axis"),
        ({"rows": -0.1}, "tap 'rows'", None),
        ({"rows": (0.1, 300)}, "tap 'rows'", None),
        ([("rows", 0.1)], "record is [('rows', 0.1)], a CalibrationRecord or a dict is needed", "{'x': 0.1}"),
    ],
)
def test_wrong_records_say_what_to_write(record: Any, text: str, hint: str | None) -> None:
    with pytest.raises(LowbitError) as e:
        lowbit.insert_q_dq(small(), record)
    assert text in str(e.value)
    assert hint is None or hint in str(e.value).partition("Try: ")[2]
