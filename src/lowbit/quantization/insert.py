"""insert_q_dq: the quantize–dequantize insertion pass, by a record of parameters alone and without rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lowbit.arguments import is_real, is_whole, shown
from lowbit.calibration.observers import Observer
from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.errors import CalibrationError, InputError, LowbitError, QuantError
from lowbit.ir.graph import Graph, Value, need_graph
from lowbit.ir.rewrite import Editor
from lowbit.quant_params import QuantParams, quant_dtype, quantize
from lowbit.quantization.transform import bracket, check_axis, quantized_constant

FORMS = "lowbit.CalibrationEntry.per_tensor(0.1), lowbit.QuantParams(…), a scale, (scale, zero_point), or {'scale': …, 'zero_point': …}"
KEYS = {"axis", "scale", "scales", "zero_point", "zero_points"}


def insert_q_dq(graph: Graph, record: CalibrationRecord | Mapping[str, Any], dtype: str = "int8", *, weights: str | None = None) -> Graph:
    """The graph with quantize → dequantize after every tap of the record. All users of a tap, and outputs of the graph, read the result.

    A tap on a constant (a weight) stores its integers and a dequantize: a layer between taps becomes an integer layer.

    record   a CalibrationRecord, or {name: CalibrationEntry, QuantParams, scale, (scale, zero_point) or {"scale": …, "zero_point": …}}
    dtype    of all taps; QuantParams bring their own
    weights  the dtype of taps on constants, where it is another one

    >>> from lowbit.ir.build import Builder
    >>> from lowbit.types import TensorType
    >>> b = Builder()
    >>> y = b.add("relu", b.input("x", TensorType((2,), "float32")), out="y")
    >>> [n.op for n in insert_q_dq(b.finish({"y": y}), {"x": 0.1, "y": (0.05, -128)}).nodes]
    ['quantize_linear', 'dequantize_linear', 'relu', 'quantize_linear', 'dequantize_linear']
    """
    editor = Editor(need_graph(graph, "insert_q_dq"))
    quant_dtype(dtype)
    if weights is not None:
        quant_dtype(weights)
    given: dict[str, QuantParams] = {}
    for name, params in taps_of(record, graph, dtype, weights).items():
        value = graph.values[name]
        check_axis(value, params)
        given[name] = params
    for name, params in given.items():
        value, data = graph.values[name], graph.constant(graph.values[name])
        if data is None:
            bracket(editor, value, params)
        else:
            editor.replace(value, quantized_constant(editor, value, quantize(data, params), params))
    return editor.done()


def taps_of(record: Any, graph: Graph, dtype: str, weights: str | None) -> dict[str, QuantParams]:
    """Parameters of every tap, checked against the graph."""
    if not isinstance(record, CalibrationRecord | Mapping):
        hint = "lowbit.calibrate(graph, data), or {'x': 0.1}"
        raise InputError(f"record is {shown(record)}, a CalibrationRecord or a dict is needed", hint=hint)
    found = {}
    for name in record:
        value = graph.values.get(name) if isinstance(name, str) else None
        if value is None:
            raise CalibrationError(f"the record has a tap {name!r}, the graph has no such value", where=graph.name, hint=near(name, graph))
        if not value.type.dtype.is_float:
            raise CalibrationError(
                f"tap {name!r} is {value.type.dtype} already, a float value is needed", where=graph.name, hint=float_taps(value, graph)
            )
        wanted = dtype if weights is None or value.name not in graph.constants else weights
        found[name] = record.params(name, wanted) if isinstance(record, CalibrationRecord) else params_of(name, record[name], wanted)
    return found


def params_of(name: str, given: Any, dtype: str) -> QuantParams:
    """One entry of a plain dict as parameters."""
    if isinstance(given, QuantParams):
        return given
    if not isinstance(given, CalibrationEntry | Observer):
        given = entry_of(name, given)
    return CalibrationRecord({name: given}).params(name, dtype)


def entry_of(name: str, given: Any) -> CalibrationEntry:
    """A scale, a pair or a mapping as an entry."""
    axis: Any = None
    scale, zero = given, None
    if isinstance(given, Mapping):
        odd = [k for k in given if k not in KEYS]
        if odd or not ("scale" in given or "scales" in given):
            said = f"has a key {odd[0]!r}" if odd else "has no scale"
            raise CalibrationError(f"tap {name!r}: its entry {said}", hint="{'scale': 0.1, 'zero_point': 0}, beside them 'axis'")
        scale, zero = given.get("scale", given.get("scales")), given.get("zero_point", given.get("zero_points"))
        axis = given.get("axis")
    elif isinstance(given, tuple | list) and len(given) == 2:
        scale, zero = given
    try:
        if axis is None and is_real(scale) and (zero is None or is_whole(zero)):
            return CalibrationEntry.per_tensor(float(scale), int(zero or 0))
        if axis is None and np.size(scale) == 1 and np.size(0 if zero is None else zero) == 1 and isinstance(given, Mapping):
            return CalibrationEntry.per_tensor(float(np.reshape(scale, ())), int(np.reshape(0 if zero is None else zero, ())))
        if is_whole(axis):
            return CalibrationEntry.per_channel(int(axis), scale, zero)
    except LowbitError as e:
        raise e.at(f"tap {name!r}") from None
    except (TypeError, ValueError):  # a scale that is no number
        pass
    if isinstance(given, Mapping) and axis is None and np.size(scale) > 1:
        raise QuantError(f"{np.size(scale)} scales without an axis", where=f"tap {name!r}", hint="{'axis': 0, 'scale': […]}")
    raise CalibrationError(f"its entry is {shown(given)}, parameters are needed", where=f"tap {name!r}", hint=FORMS)


def near(name: Any, graph: Graph) -> str:
    """Names of values that a tap may stand on."""
    import difflib

    floats = [v.name for v in graph.values.values() if v.type.dtype.is_float]
    close = difflib.get_close_matches(str(name), floats, 3, 0.5) or floats[:3]
    return f"{', '.join(map(repr, close))}; lowbit inspect shows the layers" if close else "a graph with float values"


def float_taps(value: Value, graph: Graph) -> str:
    """What to tap instead of an integer value."""
    users = [v.name for n in graph.users.get(value.name, ()) for v in n.outputs if v.type.dtype.is_float]
    return f"the value that is made from it: {users[0]!r}" if users else "leave it out of the record: integers need no quantization"
