"""Objects of the wrong kind get an error that says which kind is needed, wherever they are given."""

from __future__ import annotations

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
