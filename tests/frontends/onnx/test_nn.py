"""Network ops of every opset mean what ONNX Runtime computes: the options that ONNX's node tests (newest opset only) leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from lowbit.dims import parse_dim
from lowbit.errors import FormatError, LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.types import Array

ort = pytest.importorskip("onnxruntime")


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def model(
    op: str, opset: int, inputs: list[Array | None], constants: set[int], outputs: int, attrs: dict[str, Any], domain: str = ""
) -> bytes:
    """A model of one node; inputs whose number is in `constants` are initializers."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    tensors = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}
    fixed = {f"x{i}" for i in constants}
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="node", domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in tensors.items() if n not in fixed],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
        [
            helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape, x.reshape(-1).tolist())
            for n, x in tensors.items()
            if n in fixed
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    ir = {7: 3, 8: 3, 9: 4, 10: 5}.get(opset, 8)
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir).SerializeToString()


def check(
    op: str, opset: int, *inputs: Array | None, constants: set[int] = frozenset(), outputs: int = 1, domain: str = "", **attrs: Any
) -> Graph:  # type: ignore[assignment]
    """lowbit and ONNX Runtime give the same outputs."""
    data = model(op, opset, list(inputs), constants, outputs, attrs, domain)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feed = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and i not in constants}
    wanted = session.run(None, feed)
    graph = load_onnx(data)
    got = run(graph, feed)
    for i, want in enumerate(wanted):
        assert got[f"y{i}"].dtype == want.dtype
        assert got[f"y{i}"].shape == want.shape
        np.testing.assert_allclose(got[f"y{i}"], want, rtol=1e-4, atol=1e-5, err_msg=f"output {i}")
    return graph


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_before_opset_13_runs_over_all_dimensions_from_its_axis_on(op: str, opset: int) -> None:
    for axis in (0, 1, 2):
        check(op, opset, values(2, 3, 4), axis=axis)
    check(op, opset, values(2, 3, 4))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("opset", [7, 11, 22])
def test_auto_pad(opset: int, auto_pad: str) -> None:
    x = values(2, 4, 7, 8)
    for stride in ([1, 1], [2, 3]):
        check("Conv", opset, x, values(6, 2, 3, 4, seed=1), values(6, seed=2), auto_pad=auto_pad, strides=stride, group=2)
        check("MaxPool", opset, x, auto_pad=auto_pad, kernel_shape=[3, 2], strides=stride)
        check("AveragePool", opset, x, auto_pad=auto_pad, kernel_shape=[3, 2], strides=stride, count_include_pad=0)


def test_auto_pad_counts_the_reach_of_a_dilated_kernel() -> None:
    x, w = values(1, 2, 9), values(3, 2, 3, seed=1)  # ONNX Runtime refuses dilation with auto_pad
    same, pads = ({"auto_pad": "SAME_UPPER"}, {"pads": [2, 2]})
    a, b = (run(load_onnx(model("Conv", 11, [x, w], set(), 1, {"dilations": [2], **p})), {"x0": x, "x1": w})["y0"] for p in (same, pads))
    assert a.shape == x.shape[:1] + (3, 9)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_conv_transpose_with_output_shape_and_auto_pad(auto_pad: str) -> None:
    x, w, b = values(1, 4, 5, 6), values(4, 3, 3, 4, seed=1), values(6, seed=2)
    check("ConvTranspose", 11, x, w, b, auto_pad=auto_pad, strides=[2, 3], group=2)
    if auto_pad != "VALID":
        check("ConvTranspose", 11, x, w, b, auto_pad=auto_pad, strides=[2, 3], group=2, output_shape=[10, 17])
    if auto_pad == "NOTSET":
        check("ConvTranspose", 11, x, w, b, strides=[2, 3], group=2, output_padding=[1, 2], pads=[1, 0, 2, 1], dilations=[2, 1])


def test_pools_with_the_options_of_their_opset() -> None:
    x = values(2, 3, 9, 8)
    for include in (0, 1):
        check("AveragePool", 7, x, kernel_shape=[3, 3], pads=[1, 0, 2, 1], count_include_pad=include)
        check("AveragePool", 19, x, kernel_shape=[3, 2], strides=[2, 3], dilations=[2, 1], pads=[1, 1, 1, 1], count_include_pad=include)
    check("MaxPool", 8, x, outputs=2, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    check("MaxPool", 8, x, outputs=2, kernel_shape=[3, 3], strides=[2, 2], storage_order=1)
    check("MaxPool", 12, x, kernel_shape=[2, 3], strides=[2, 2], dilations=[3, 2], ceil_mode=1, pads=[1, 1, 0, 1])
    for p in (1, 2, 3):
        check("LpPool", 11, x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], p=p)
        check("GlobalLpPool", 7, x, p=p)
    check("GlobalAveragePool", 7, values(2, 3, 4))
    check("GlobalMaxPool", 7, values(2, 3, 4, 5, 2))


def test_gemm_in_all_its_spellings() -> None:
    for trans_a in (0, 1):
        for trans_b in (0, 1):
            for bias in (None, values(5, seed=2), values(1, 5, seed=2), values(3, 1, seed=2), values(3, 5, seed=2)):
                a, b = values(*((4, 3) if trans_a else (3, 4))), values(*((5, 4) if trans_b else (4, 5)), seed=1)
                check("Gemm", 11, a, b, bias, transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0)
                check("Gemm", 11, a, b, bias, transA=trans_a, transB=trans_b)
    graph = check("Gemm", 11, values(3, 4), values(5, 4, seed=1), values(5, seed=2), transB=1)
    assert [n.op for n in graph.nodes] == ["linear"]


def test_norms_of_older_and_newer_opsets() -> None:
    x, vectors = values(2, 6, 5), [values(6, seed=1), values(6, seed=2), values(6, seed=3), np.abs(values(6, seed=4))]
    check("BatchNormalization", 7, x, *vectors, epsilon=1e-2)
    check("BatchNormalization", 15, x, *vectors, epsilon=1e-2, momentum=0.5)
    check("InstanceNormalization", 7, x, *vectors[:2], epsilon=1e-2)
    check("LRN", 7, values(2, 6, 4, 4), size=3, alpha=0.1, beta=0.5, bias=2.0)
    check("LayerNormalization", 17, x, values(6, 5, seed=1), values(6, 5, seed=2), axis=1, outputs=3)
    check("GroupNormalization", 18, x, values(3, seed=1), values(3, seed=2), num_groups=3)
    check("GroupNormalization", 21, x, *vectors[:2], num_groups=3)
    check(
        "SkipLayerNormalization",
        17,
        values(2, 3, 8),
        values(2, 3, 8, seed=1),
        *(values(8, seed=s) for s in (2, 3, 4)),
        domain="com.microsoft",
    )
    check("SimplifiedLayerNormalization", 17, values(2, 3, 8), values(8, seed=1), axis=-1, epsilon=1e-3)


def test_batch_norm_in_training_mode_is_refused_with_its_place() -> None:
    data = model("BatchNormalization", 15, [values(2, 3, 4), *[values(3)] * 4], set(), 1, {"training_mode": 1})
    with pytest.raises(
        UnsupportedOp, match=r"BatchNormalization 'node' \(model, node 0\): batch normalization in training mode is not supported"
    ):
        load_onnx(data)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("opset", [7, 14])
def test_recurrent_layers_with_every_option(opset: int, direction: str) -> None:
    d, hidden, lengths = 2 if direction == "bidirectional" else 1, 4, np.array([6, 2, 4], np.int32)
    x = values(6, 3, 5)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        w, r, b = values(d, gates * hidden, 5, seed=1), values(d, gates * hidden, hidden, seed=2), values(d, 2 * gates * hidden, seed=3)
        h0, c0, p = values(d, 3, hidden, seed=4), values(d, 3, hidden, seed=5), values(d, 3 * hidden, seed=6)
        outputs = 3 if op == "LSTM" else 2
        check(op, opset, x, w, r, outputs=outputs, hidden_size=hidden, direction=direction)
        states = [h0, c0, p] if op == "LSTM" else [h0]
        check(op, opset, x, w, r, b, lengths, *states, outputs=outputs, hidden_size=hidden, direction=direction, clip=0.7)
        if op == "GRU":
            check(op, opset, x, w, r, b, None, h0, outputs=2, hidden_size=hidden, direction=direction, linear_before_reset=1)
        if op == "LSTM":
            check(op, opset, x, w, r, b, outputs=3, hidden_size=hidden, direction=direction, input_forget=1)
        names = {"LSTM": ["HardSigmoid", "Relu", "Softsign"], "GRU": ["HardSigmoid", "LeakyRelu"], "RNN": ["Affine"]}[op]
        alpha, beta = {"LSTM": ([0.3], [0.4]), "GRU": ([0.3, 0.02], [0.4]), "RNN": ([0.3], [0.4])}[op]
        more: dict[str, Any] = {"activations": names * d, "activation_alpha": alpha * d, "activation_beta": beta * d}
        check(op, opset, x, w, r, b, outputs=outputs, hidden_size=hidden, direction=direction, **more)


def test_resize_and_upsample_of_older_opsets() -> None:
    x, scales = values(1, 2, 4, 5), np.array([1, 1, 2, 3], np.float32)
    for mode in ("nearest", "linear"):
        check("Upsample", 7, x, mode=mode, scales=scales.tolist())
        check("Upsample", 9, x, scales, constants={1}, mode=mode)
        check("Resize", 10, x, scales, constants={1}, mode=mode)
    for coordinate in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        for mode in ("linear", "cubic"):
            check("Resize", 11, x, values(0), scales, constants={1, 2}, mode=mode, coordinate_transformation_mode=coordinate)
            sizes = np.array([1, 2, 3, 11])
            check("Resize", 13, x, None, None, sizes, constants={3}, mode=mode, coordinate_transformation_mode=coordinate)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            check("Resize", 13, x, None, scales, constants={2}, coordinate_transformation_mode=coordinate, nearest_mode=nearest)


def test_resize_scales_a_symbol_by_a_plain_fraction_and_asks_for_it_otherwise() -> None:
    def scaled(factor: float) -> Graph:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
        tensor = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, factor, 2])
        return load_onnx(helper.make_model(helper.make_graph([node], "g", [x], [y], [tensor])).SerializeToString())

    graph = scaled(0.5)
    assert graph.outputs["y"].shape == tuple(parse_dim(d) for d in ("n", "3", "h//2", "2*w"))
    assert run(graph, {"x": values(1, 3, 5, 4)})["y"].shape == (1, 3, 2, 8)
    with pytest.raises(ShapeError, match="dimension 'h' is symbolic"):
        scaled(0.3)


def test_grid_sample_of_opset_16_and_roi_align_of_opset_10() -> None:
    for mode in ("bilinear", "nearest", "bicubic"):
        check("GridSample", 16, values(1, 2, 5, 4), values(1, 3, 3, 2, seed=1).clip(-1, 1), mode=mode)
    x, rois, batch = values(2, 3, 8, 9), np.array([[0, 0, 6, 7], [1.5, 2, 5, 3]], np.float32), np.array([1, 0])
    check("RoiAlign", 10, x, rois, batch, output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5)
    check("RoiAlign", 16, x, rois, batch, output_height=2, output_width=3, spatial_scale=0.9)


def test_depth_to_space_of_opset_7_and_11() -> None:
    check("DepthToSpace", 7, values(1, 8, 2, 3), blocksize=2)
    check("DepthToSpace", 11, values(1, 8, 2, 3), blocksize=2, mode="CRD")


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "text"),
    [
        (
            "Conv",
            [values(1, 3, 8, 8), values(16, 4, 3, 3)],
            {},
            "Conv 'node' (model, node 0): conv 'node': input has 3 channels, weight (16, 4, 3, 3) needs 4",
        ),
        (
            "Conv",
            [values(1, 3, 8, 8), values(16, 3, 3, 3)],
            {"kernel_shape": [5, 5]},
            "kernel_shape (5, 5) contradicts weight (16, 3, 3, 3)",
        ),
        ("Conv", [values(1, 3, 8, 8), values(16, 3, 3, 3)], {"auto_pad": "SOME"}, "auto_pad 'SOME' is not"),
        ("MaxPool", [values(1, 3, 8, 8)], {"kernel_shape": [2]}, "kernel_shape (2,) does not fit input (1, 3, 8, 8)"),
        ("Gemm", [values(2, 3), values(4, 5)], {}, "input (2, 3) does not fit weight (5, 4)"),
        ("Gemm", [values(2, 3, 1), values(4, 5)], {}, "A (2, 3, 1) and B (4, 5) must be matrices"),
        ("LSTM", [values(2, 1, 3), values(1, 16, 3), values(1, 16, 4)], {"hidden_size": 5}, "weight (1, 16, 3) given, (1, 20, 3) needed"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_the_place(op: str, inputs: list[Array | None], attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(LowbitError) as e:
        load_onnx(model(op, 13, inputs, set(), 1, attrs))
    assert text in str(e.value)


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({}, "attribute 'blocksize' is missing"),
        ({"blocksize": "2"}, "'blocksize' is not of the kind that is needed: INT"),
        ({"blocksize": 2, "mode": 1}, "'mode' is not of the kind that is needed: STRING"),
    ],
)
def test_an_attribute_that_is_missing_or_of_another_kind_is_refused(attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(FormatError) as e:
        load_onnx(model("DepthToSpace", 13, [values(1, 8, 2, 3)], set(), 1, attrs))
    assert text in e.value.message
    assert e.value.where == "DepthToSpace 'node' (model, node 0)"
