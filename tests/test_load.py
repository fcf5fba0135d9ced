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
    fixed = (
        ({"x": [4, 3, 9]}, ShapeError, r"input 'x': shapes= gives \(4, 3, 9\), the model has \(batch, 3, 8\)"),
        ({"x": [4, "n", 8]}, ShapeError, r"shapes= gives \(4, n, 8\), the model has \(batch, 3, 8\)"),
    )
    if kind == "onnx":  # a file says how sizes are computed: those that nothing depends on can be others
        assert bound({"x": [4, 3, 9]})[0] == "float32[4, 3, 9]" and bound({"x": [4, "n", 8]})[0] == "float32[4, n, 8]"
    for wrong, error, text in (
        *(fixed if kind != "onnx" else ()),
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


# -- sizes that an exporter fixed ----------------------------------------------------------------------------------------------


def fixed_model(nodes: list[onnx.NodeProto], shape: list[int], out: list[int], opset: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    arrays = [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", out)))
    graph = helper.make_graph(nodes, "g", [x], [y], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def classifier(*head: onnx.NodeProto, **weights: np.ndarray) -> onnx.ModelProto:
    """Convolution, global pool and the given nodes from "p" (1, 4, 1, 1) to "y", exported for one image of 16×16."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        *head,
    ]
    rng = np.random.default_rng(0)
    return fixed_model(nodes, [1, 3, 16, 16], [1, 4], w=rng.normal(size=(4, 3, 3, 3)).astype(np.float32), **weights)


HEADS = {
    "flatten": [helper.make_node("Flatten", ["p"], ["y"])],
    "a shape that is computed": [
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["b"]),
        helper.make_node("Concat", ["b", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["p", "t"], ["y"]),
    ],
    "the batch that was seen, and -1": [helper.make_node("Reshape", ["p", "seen"], ["y"])],
    "the batch that was seen, and a number": [helper.make_node("Reshape", ["p", "both"], ["y"])],
}
NUMBERS = {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([-1]), "seen": np.array([1, -1]), "both": np.array([1, 4])}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
@pytest.mark.parametrize("shape", [[8, 3, 16, 16], [1, 3, 32, 24], [5, 3, 20, 40]])
def test_a_batch_or_image_size_that_is_fixed_can_be_another(head: list[onnx.NodeProto], shape: list[int]) -> None:
    made = classifier(*head, **NUMBERS)
    one = lowbit.load(made)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    graph = lowbit.load(made, shapes={"x": shape})
    assert graph.inputs[0].shape == tuple(shape) and graph.outputs["y"].shape == (shape[0], 4) and not graph.symbols
    got = lowbit.compile(graph)(x)
    if shape[2:] == [16, 16]:  # each row is what the file gives for it
        np.testing.assert_allclose(got, np.concatenate([lowbit.compile(one)(row[None]) for row in x]), rtol=1e-5, atol=1e-6)
    opened = lowbit.load(made, shapes={"x": ["batch", 3, "h", "w"]})
    np.testing.assert_allclose(lowbit.compile(opened)(x), got, rtol=1e-5, atol=1e-6)


def test_a_size_on_which_the_graph_depends_is_refused_with_the_node() -> None:
    w = np.ones((256, 2), np.float32)
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"], name="head")]
    made = fixed_model(nodes, [1, 1, 16, 16], [1, 2], w=w)
    with pytest.raises(ShapeError, match=r"shapes= gives \(1, 1, 8, 8\), the model has \(1, 1, 16, 16\) and depends on it \(.*'head'"):
        lowbit.load(made, shapes={"x": [1, 1, 8, 8]})
    assert lowbit.load(made, shapes={"x": [8, 1, 16, 16]}).outputs["y"].shape == (8, 2)


def test_a_batch_that_would_be_mixed_with_another_axis_is_refused() -> None:
    nodes = [helper.make_node("Reshape", ["x", "t"], ["y"])]
    made = fixed_model(nodes, [1, 4, 6], [4, 6], t=np.array([-1, 6]))
    with pytest.raises(ShapeError, match=r"output 'y' would be \(4\*batch, 6\), which has no axis for the batch"):
        lowbit.load(made, shapes={"x": [3, 4, 6]})


def test_a_folder_is_no_name_for_a_graph() -> None:
    with pytest.raises(FormatError, match=r"\.: a graph is written as \.lowbit(.|\n)*Try: m\.lowbit"):
        lowbit.load(onnx_model([2])).save(".")
