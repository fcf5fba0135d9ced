"""Files that are wrong get a LowbitError that names the place; nothing is written and nothing is allocated by what a file declares."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import lowbit
from lowbit.errors import DTypeError, FormatError, GraphError, InputError, LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.onnx import OPSETS

F = TensorProto.FLOAT


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], **kw: object
) -> onnx.ModelProto:
    opsets = kw.pop("opsets", [helper.make_opsetid("", 17)])
    graph = helper.make_graph(nodes, "g", inputs, outputs, **kw)
    return helper.make_model(graph, opset_imports=opsets)


def tensor(name: str, shape: list[int | str] | None, kind: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def relu_model(**kw: object) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], name="act")], [tensor("x", [1, 4])], [tensor("y", [1, 4])], **kw)


def refused(m: onnx.ModelProto | bytes, error: type[LowbitError], text: str, **kw: object) -> None:
    with pytest.raises(error, match=text):
        lowbit.load(m if isinstance(m, bytes) else m.SerializeToString(), **kw)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(LowbitError):
        lowbit.load(data)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_model_loads_or_is_refused_and_never_crashes(data: st.DataObject) -> None:
    good = bytearray(data.draw(st.sampled_from([weighted_model(), rich_model()])).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(LowbitError):
        lowbit.load(bytes(good[: data.draw(st.integers(0, len(good)))]))


def weighted_model() -> onnx.ModelProto:
    w = numpy_helper.from_array(np.ones((3, 2, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="act"),
    ]
    return model(nodes, [tensor("x", [1, 2, 8, 8])], [tensor("y", [1, 3, 8, 8])], initializer=[w])


def rich_model() -> onnx.ModelProto:
    """A function of its own, branches, named dimensions, shapes as data, attributes of every kind."""
    double = helper.make_function(
        "own", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    then, other = (
        helper.make_graph([helper.make_node(op, ["d"], [f"{op}_out"])], op, [], [tensor(f"{op}_out", None)]) for op in ("Neg", "Abs")
    )
    nodes = [
        helper.make_node("Double", ["x"], ["d"], domain="own"),
        helper.make_node("If", ["yes"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Reshape", ["i", "target"], ["r"]),
        helper.make_node("Clip", ["r", "low", "high"], ["c"]),
        helper.make_node("Slice", ["c", "start", "end"], ["s"]),
        helper.make_node("Elu", ["s"], ["e"], alpha=0.5),
        helper.make_node("Constant", [], ["k"], value_floats=[1.0, 2.0]),
        helper.make_node("Cast", ["yes"], ["f"], to=F),
        helper.make_node("Mul", ["e", "f"], ["y"]),
    ]
    constants = {
        "yes": np.array(True),
        "target": np.array([0, 2, -1], np.int64),
        "low": np.float32(-1),
        "high": np.float32(1),
        "start": np.array([0, 0, 0], np.int64),
        "end": np.array([3, 2, 2**31], np.int64),
    }
    m = model(
        nodes,
        [tensor("x", ["batch", 4])],
        [tensor("y", ["batch", 2, 2])],
        initializer=[numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
        value_info=[tensor("d", ["batch", 4])],
        opsets=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )
    m.functions.append(double)
    return m


def test_the_model_that_is_damaged_is_a_good_one() -> None:
    x = np.array([[1, -2, 0.25, 4]], np.float32)
    y = lowbit.compile(lowbit.load(rich_model().SerializeToString()))(x)
    np.testing.assert_allclose(y, [[[0.5 * np.expm1(-1), 1], [0.5 * np.expm1(-0.5), 0.5 * np.expm1(-1)]]], rtol=1e-6)


def test_every_truncation_of_a_model_is_refused() -> None:
    data = weighted_model().SerializeToString()
    for end in range(0, len(data), 7):
        with pytest.raises(LowbitError):
            lowbit.load(data[:end])


def test_a_cycle_is_named() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second")]
    refused(model(nodes, [tensor("x", [1])], [tensor("b", [1])]), GraphError, r"'first' \(node 0\) depends on its own output")


def test_unsorted_nodes_load_all_the_same() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["x"], ["a"])]
    g = lowbit.load(model(nodes, [tensor("x", [1])], [tensor("b", [1])]).SerializeToString())
    assert [n.op for n in g.nodes] == ["neg", "relu"]


def test_all_unknown_operators_are_listed_at_once() -> None:
    nodes = [
        helper.make_node("Wobble", ["x"], ["a"], name="n1"),
        helper.make_node("Wobble", ["a"], ["b"], name="n2"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Blur", ["c"], ["y"], name="n3", domain="my.shop"),
    ]
    m = model(nodes, [tensor("x", [1])], [tensor("y", [1])], opsets=[helper.make_opsetid("", 17), helper.make_opsetid("my.shop", 1)])
    refused(m, UnsupportedOp, r"2 kinds of operator.*Wobble \(2x, first at node 0 'n1'\).*my\.shop::Blur \(1x, first at node 3 'n3'\)")


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_loops_without_a_body_are_refused_by_name(op: str) -> None:
    nodes = [helper.make_node(op, ["x"], ["y"], name="l")]
    refused(model(nodes, [tensor("x", [1])], [tensor("y", [1])]), FormatError, f"{op} 'l'.*attribute '.*' is missing")


def test_an_old_opset_is_refused() -> None:
    refused(relu_model(opsets=[helper.make_opsetid("", 5)]), UnsupportedOp, "opset 5 is older than 7")


def test_an_opset_beyond_the_tested_ones_is_refused() -> None:
    newest = OPSETS.stop - 1
    assert newest >= onnx.defs.onnx_opset_version()  # what the installed node tests cover
    assert lowbit.load(relu_model(opsets=[helper.make_opsetid("", newest)]).SerializeToString()).nodes
    refused(relu_model(opsets=[helper.make_opsetid("", newest + 1)]), UnsupportedOp, f"opset {newest + 1} is newer than {newest}")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (tensor("c", [1, 3, 8, 9]), r"value 'c': declared as \(1, 3, 8, 9\), computed as \(1, 3, 8, 8\)"),
        (tensor("c", [1, 3]), r"value 'c': declared as \(1, 3\)"),
        (tensor("c", None, TensorProto.INT64), "value 'c': declared as int64, computed as float32"),
    ],
)
def test_a_value_that_is_declared_otherwise_than_computed_is_named(declared: onnx.ValueInfoProto, said: str) -> None:
    m = weighted_model()
    m.graph.value_info.append(declared)
    refused(m, ShapeError, said)


def external(location: str, length: int = 16) -> bytes:
    m = model([helper.make_node("Add", ["x", "w"], ["y"], name="add")], [tensor("x", [1, 4])], [tensor("y", [1, 4])])
    w = m.graph.initializer.add(name="w", data_type=F, dims=[4])
    w.data_location = TensorProto.EXTERNAL
    for k, v in (("location", location), ("length", str(length))):
        w.external_data.add(key=k, value=v)
    return m.SerializeToString()


def test_external_data_is_read_from_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(external("w.bin"))
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype="<f4").tobytes())
    g = lowbit.load(tmp_path / "m.onnx")
    assert np.array_equal(lowbit.compile(g)(np.zeros((1, 4), np.float32)), [[0, 1, 2, 3]])


@pytest.mark.parametrize(
    ("location", "length", "text"),
    [
        ("missing.bin", 16, "'w': external data 'missing.bin' cannot be read"),
        ("../secret.bin", 16, "'../secret.bin' lies outside the model's folder"),
        ("/etc/hostname", 16, "lies outside the model's folder"),
        ("short.bin", 16, "ends before byte 16"),
        ("short.bin", 8, "external data of 8 bytes at 0, its shape needs 16"),
    ],
)
def test_external_data_that_is_missing_outside_or_short_is_refused(tmp_path: Path, location: str, length: int, text: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "short.bin").write_bytes(bytes(8))
    (folder / "m.onnx").write_bytes(external(location, length))
    with pytest.raises(FormatError, match=text):
        lowbit.load(folder / "m.onnx")


def test_a_symlink_does_not_lead_outside_either(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "m.onnx").write_bytes(external("w.bin"))
    with pytest.raises(FormatError, match="outside the model's folder"):
        lowbit.load(folder / "m.onnx")


def test_shapes_that_do_not_fit_name_the_node_and_both_shapes() -> None:
    w = numpy_helper.from_array(np.ones((16, 4, 3, 3), np.float32), "w")
    m = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv1")], [tensor("x", [1, 3, 8, 8])], [tensor("y", None)], initializer=[w]
    )
    refused(m, ShapeError, r"Conv 'conv1' \(model, node 0\).*input has 3 channels, weight \(16, 4, 3, 3\) needs 4")


def test_a_declared_shape_that_the_nodes_contradict_is_refused() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [1, 4])], [tensor("y", [1, 5])])
    refused(m, ShapeError, r"output 'y': declared as \(1, 5\), computed as \(1, 4\)")


def test_a_dtype_that_is_not_supported_is_named() -> None:
    m = model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [1], TensorProto.STRING)], [tensor("y", [1], TensorProto.STRING)])
    refused(m, DTypeError, "STRING is not supported")


def test_zero_size_dims_run() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [0, 4])], [tensor("y", [0, 4])])
    out = lowbit.compile(lowbit.load(m.SerializeToString()))(np.zeros((0, 4), np.float32))
    assert isinstance(out, np.ndarray)
    assert out.shape == (0, 4)


def test_a_symbolic_dim_that_must_be_known_says_how_to_bind_it() -> None:
    shape = helper.make_node("ConstantOfShape", ["s"], ["y"], name="mask")
    m = model([helper.make_node("NonZero", ["x"], ["s"]), shape], [tensor("x", ["n"])], [tensor("y", None)])
    with pytest.raises(LowbitError):
        lowbit.load(m.SerializeToString())
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], name="up")]
    scales = numpy_helper.from_array(np.array([1, 1, 1.7, 1.7], np.float32), "s")
    m = model(nodes, [tensor("x", [1, 1, "h", 8])], [tensor("y", None)], initializer=[scales])
    refused(m, ShapeError, "'h'.*symbolic(.|\n)*shapes=")
    assert lowbit.load(m.SerializeToString(), shapes={"h": 10}).outputs["y"].shape == (1, 1, 17, 13)


def test_unknown_rank_and_stray_shapes_are_refused() -> None:
    m = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", None)], [tensor("y", None)])
    refused(m, ShapeError, "declares no shape for it")
    assert lowbit.load(m.SerializeToString(), shapes={"x": [2, 3]}).outputs["y"].shape == (2, 3)
    refused(relu_model(), InputError, "shapes= names z, which is no input", shapes={"z": [1]})
    refused(relu_model(), ShapeError, r"gives rank 1, the model has \(1, 4\)", shapes={"x": [1]})


def test_a_huge_declared_tensor_allocates_nothing() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    m = relu_model()
    w = m.graph.initializer.add(name="w", data_type=F, dims=[1 << 20, 1 << 20])
    refused(m, FormatError, r"'w': 0 elements of data, float32\[1048576, 1048576\] needs 1,099,511,627,776")
    w.raw_data = b"1234"
    refused(m, FormatError, "4 bytes of data")
    m = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [1 << 30, 1 << 30])], [tensor("y", None)])
    assert lowbit.load(m.SerializeToString()).inputs[0].shape == (1 << 30, 1 << 30)
    filled = numpy_helper.from_array(np.array([1 << 30, 1 << 30], np.int64), "s")
    fill = helper.make_node("ConstantOfShape", ["s"], ["y"])
    assert len(lowbit.load(model([fill], [], [tensor("y", None)], initializer=[filled]).SerializeToString()).constants) == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_a_file_that_is_not_there_or_of_another_kind_says_so(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        lowbit.load(tmp_path / "none.onnx")
    (tmp_path / "w.pth").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"'\.pth' files hold Python objects"):
        lowbit.load(tmp_path / "w.pth")
    with pytest.raises(LowbitError, match="list cannot be loaded"):
        lowbit.load([1, 2])


def test_weights_used_twice_are_one_constant() -> None:
    w = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    g = lowbit.load(model(nodes, [tensor("x", [1, 4])], [tensor("y", [1, 4])], initializer=[w]).SerializeToString(), simplify=False)
    assert list(g.constants) == ["w"]


def test_external_data_that_is_a_pipe_or_no_path_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for location, text in (
        ("pipe", "is not a regular file"),
        (".", "is not a regular file"),
        ("a\0b", "is no path"),
        ("gone", "cannot be read"),
    ):
        m = relu_model()
        w = m.graph.initializer.add(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
        w.external_data.add(key="location", value=location)
        (tmp_path / "m.onnx").write_bytes(m.SerializeToString())
        with pytest.raises(FormatError, match=text):
            lowbit.load(tmp_path / "m.onnx")


def test_metadata_that_are_no_text_are_left_out() -> None:
    m = relu_model()
    m.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer@']")
    data = m.SerializeToString().replace(b"layer@", b"layer\xff")
    assert [n.name for n in lowbit.load(data).nodes] == ["act"]


def test_initializers_that_contradict_each_other_or_their_input_are_refused() -> None:
    w = numpy_helper.from_array(np.ones(4, np.float32), "w")
    refused(relu_model(initializer=[w, w]), FormatError, "initializer 'w' is there twice")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    for declared in (tensor("w", [1, 4]), tensor("w", [5]), tensor("w", [4], TensorProto.INT64)):
        m = model(nodes, [tensor("x", [1, 4]), declared], [tensor("y", None)], initializer=[w])
        refused(m, FormatError, r"initializer 'w': it is float32\[4\], the input is")
    m = model(nodes, [tensor("x", [1, 4]), tensor("w", ["n"])], [tensor("y", None)], initializer=[w])
    assert [v.name for v in lowbit.load(m.SerializeToString()).inputs] == ["x"]
