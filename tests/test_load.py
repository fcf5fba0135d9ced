"""lowbit.load: one meaning of shapes= for every kind of model, and what it can be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowbit
from lowbit.errors import FormatError, InputError, LowbitError, ShapeError

KINDS = ["onnx", "lowbit", "torch"]


def onnx_model(*shapes: list[int | str | None]) -> onnx.ModelProto:
    names = [chr(ord("x") + i) for i in range(len(shapes))]
    nodes = [helper.make_node("Relu", [n], [f"relu_{n}"]) for n in names]
    inputs, outputs = (
        [helper.make_tensor_value_info(f"{p}{n}", TensorProto.FLOAT, s if p == "" else None) for n, s in zip(names, shapes, strict=True)]
        for p in ("", "relu_")
    )
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)])


def load(kind: str, shapes: Any, folder: Path) -> lowbit.Graph:
    """x: float32[batch, 3, 8] and y: float32[batch, seq], of each kind."""
    if kind == "torch":
        import torch

        class Both(torch.nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return x.relu(), y.relu()

        dynamic = {"x": {0: "batch"}, "y": {0: "batch", 1: "seq"}}
        return lowbit.load(Both(), inputs=(torch.zeros(2, 3, 8), torch.zeros(2, 5)), dynamic=dynamic, shapes=shapes)
    model = onnx_model(["batch", 3, 8], ["batch", "seq"]).SerializeToString()
    if kind == "onnx":
        return lowbit.load(model, shapes=shapes)
    lowbit.load(model).save(folder / "m.lowbit")
    return lowbit.load(folder / "m.lowbit", shapes=shapes)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_mean_the_same_for_every_kind_of_model(kind: str, tmp_path: Path) -> None:
    def bound(shapes: Any) -> list[str]:
        return [str(v.type) for v in load(kind, shapes, tmp_path).inputs]

    assert bound(None) == bound({}) == bound({"x": ["batch", 3, 8]}) == ["float32[batch, 3, 8]", "float32[batch, seq]"]
    both = ["float32[4, 3, 8]", "float32[4, seq]"]
    for shapes in ({"batch": 4}, {"batch": np.int64(4)}, {"x": [4, 3, 8]}, {"x": np.array([4, 3, 8])}, {"x": (4, 3, 8), "batch": 4}):
        assert bound(shapes) == both
    multiples = bound({"x": ["2*pairs", 3, 8]})
    assert multiples[0] == "float32[2*pairs, 3, 8]" and multiples[1].startswith("float32[2*pairs, ")
    assert bound({"y": [2, 7]}) == ["float32[2, 3, 8]", "float32[2, 7]"]
    assert bound({"y": ["n", "seq"]}) == ["float32[n, 3, 8]", "float32[n, seq]"]
    assert bound({"y": ["n", "seq"], "n": 3}) == ["float32[3, 3, 8]", "float32[3, seq]"]
    for wrong, error, text in (
        ({"x": [4, 3, 9]}, ShapeError, r"input 'x': shapes= gives \(4, 3, 9\), the model has \(batch, 3, 8\)"),
        ({"x": [4, "n", 8]}, ShapeError, r"shapes= gives \(4, n, 8\), the model has \(batch, 3, 8\)"),
        ({"x": [4, 3]}, ShapeError, r"shapes= gives rank 2, the model has \(batch, 3, 8\)"),
        ({"x": [4, 3, 8], "batch": 5}, ShapeError, "shapes= gives batch=4 by input 'x' and batch=5 by 'batch'"),
        ({"x": [4, 3, 8], "y": [5, 1]}, ShapeError, "shapes= gives batch=4 by input 'x' and batch=5 by input 'y'"),
        ({"x": 4}, ShapeError, r"input 'x': shapes= gives one number, its shape is \(batch, 3, 8\)"),
        ({"z": [4]}, InputError, r"shapes= names z, which is no input and no open dimension.\n.*batch, seq"),
        ({"z": 4}, InputError, "shapes= names z, which is no input and no open dimension"),
    ):
        with pytest.raises(error, match=text):
            bound(wrong)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ([1, 3], "shapes= is a list, a mapping is needed"),
        ("batch=1", "shapes= is a str, a mapping is needed"),
        (np.zeros(3), "shapes= is a ndarray, a mapping is needed"),
        ({1: 1}, "shapes= has the key 1, names of inputs or dimensions are needed"),
        ({"batch": 1.0}, r"shapes= gives 1.0 \(float\) for batch, a size is needed"),
        ({"batch": None}, r"shapes= gives None \(NoneType\) for batch"),
        ({"batch": "4"}, r"shapes= gives '4' \(str\) for batch"),
        ({"batch": True}, r"shapes= gives True \(bool\) for batch"),
        ({"batch": -1}, r"shapes= gives -1 for batch, a size from 0 to 2\*\*63 - 1 is needed"),
        ({"batch": 10**30}, "a size from 0"),
        ({"x": [1, 3.5, 8]}, r"shapes= gives 3.5 \(float\) for x\[1\]"),
        ({"x": [1, "3 4", 8]}, r"shapes= gives '3 4' \(str\) for x\[1\]"),
        ({"x": [-1, 3, 8]}, r"shapes= gives -1 for x\[0\]"),
        ({"x": np.zeros((2, 2))}, "for x, a size is needed"),
    ],
)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_is_no_shape_is_an_input_error(kind: str, shapes: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=text):
        load(kind, shapes, tmp_path)


def test_a_line_in_a_symbol_is_solved() -> None:
    m = onnx_model(["2*h + 1"])
    assert lowbit.load(m, shapes={"x": [7]}).inputs[0].shape == (7,)
    for size in (4, 0):
        with pytest.raises(ShapeError, match=r"the model has \(2\*h \+ 1\)"):
            lowbit.load(m, shapes={"x": [size]})


def test_dimensions_with_different_names_stay_different() -> None:
    g = lowbit.load(onnx_model(["a/b", "a.b"], ["a_b", None]))
    assert len({d for v in g.inputs for d in v.shape}) == 4
    g = lowbit.load(onnx_model([None, "y_0"], ["x_0", None, "?"]))
    assert len({d for v in g.inputs for d in v.shape}) == 5
    g = lowbit.load(onnx_model(["a/b", 2], ["a/b", "n"]))
    assert g.inputs[0].shape[0] == g.inputs[1].shape[0]


def test_models_are_read_from_bytes_of_any_kind_and_from_protobuf(tmp_path: Path) -> None:
    m = onnx_model(["n", 3])
    g = lowbit.load(m)
    data = m.SerializeToString()
    assert lowbit.load(data) == lowbit.load(bytearray(data)) == lowbit.load(memoryview(data)) == g
    g.save(tmp_path / "m.lowbit")
    saved = (tmp_path / "m.lowbit").read_bytes()
    assert lowbit.load(saved) == lowbit.load(bytearray(saved)) == g
    assert lowbit.load(saved, shapes={"n": 2}).inputs[0].shape == (2, 3)
    for end in (3, 9, 50, len(saved) - 1):
        with pytest.raises(LowbitError):
            lowbit.load(saved[:end])


def test_what_a_file_cannot_be_given_is_refused() -> None:
    m = onnx_model([2])
    with pytest.raises(InputError, match="inputs= is for torch modules, ModelProto was given"):
        lowbit.load(m, inputs=(np.zeros(2),))
    with pytest.raises(InputError, match="dynamic= is for torch modules, bytes was given"):
        lowbit.load(m.SerializeToString(), dynamic={"x": {0: "n"}})
    with pytest.raises(FormatError, match="there is no such file"):
        lowbit.load("a\0b.onnx")


@pytest.mark.parametrize("name", ["a", "a.onnx", "a.lowbit.txt"])
def test_a_graph_is_saved_under_a_name_that_load_reads(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a graph is written as .lowbit(.|\n)*Try: a(\.lowbit)*\.lowbit$"):
        lowbit.load(onnx_model([2])).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_shapes_of_arrays_that_do_not_fit_are_told_by_input() -> None:
    session = lowbit.compile(lowbit.load(onnx_model(["batch", 3], ["batch"])))
    x, y = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    with pytest.raises(ShapeError, match=r"input 'x': shape \(1, 2, 3\) given, \(batch, 3\) needed: rank 2"):
        session(x[None], y)
    with pytest.raises(ShapeError, match=r"input 'y': shape \(3\) given, \(batch\) needed with batch=2"):
        session(x, np.zeros(3, np.float32))


def test_dimensions_of_a_program_stay_different_too() -> None:
    import torch

    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.relu(), y.relu()

    sizes = {"x": {0: torch.export.Dim("n")}, "y": {0: torch.export.Dim("m")}}
    program = torch.export.export(Both(), (torch.zeros(3), torch.zeros(4)), dynamic_shapes=sizes)
    g = lowbit.load(program, dynamic={"x": {0: "y_0"}})
    assert [str(v.shape[0]) for v in g.inputs] == ["y_0", "y_0_"]
