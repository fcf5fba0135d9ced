"""The ONNX frontend against ONNX Runtime, an independent program: older opsets' spellings, and models that are quantized already."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from lowbit.errors import UnsupportedOp
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.interp import run
from lowbit.types import Array

RNG = np.random.default_rng(0)
TYPES = {
    np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t))
    for t in (np.float32, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float16)
}


ort.set_default_logger_severity(3)  # its own shape inference multiplies in another type than its kernels


def both(
    kind: str,
    inputs: list[Array | None],
    constants: dict[int, Array] | None = None,
    *,
    opset: int = 17,
    domain: str = "",
    outputs: int = 1,
    node: dict[str, Any] | None = None,
    **attrs: Any,
) -> tuple[list[Array], list[Array]]:
    """Outputs of a one-node model in lowbit and in ONNX Runtime. `constants` are further inputs by position, `node` its attributes."""
    constants = constants or {}
    given = dict(enumerate(inputs)) | constants
    names = ["" if given[i] is None else f"i{i}" for i in range(len(given))]
    infos = [helper.make_tensor_value_info(f"i{i}", TYPES[x.dtype], x.shape) for i, x in enumerate(inputs) if x is not None]
    outs = [f"o{i}" for i in range(outputs)]
    made = helper.make_node(kind, names, outs, domain=domain)
    made.attribute.extend(helper.make_attribute(k, v) for k, v in ((node or {}) | attrs).items())
    graph = helper.make_graph(
        [made],
        "g",
        infos,
        [helper.make_empty_tensor_value_info(o) for o in outs],
        [numpy_helper.from_array(a, f"i{i}") for i, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feeds = {f"i{i}": x for i, x in enumerate(inputs) if x is not None}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    theirs = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    ours = run(load_onnx(model), feeds)
    return [ours[o] for o in outs], theirs


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int) -> Array:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def s8(*shape: int) -> Array:
    return RNG.integers(-63, 64, shape).astype(np.int8)  # no kernel of any CPU saturates midway on 7 bits


X = f32(2, 3, 4, 1)
OLD_SPELLINGS: list[tuple[int, str, list[Array | None], dict[int, Array], int, dict[str, Any]]] = [
    (9, "Slice", [X], {}, 1, {"starts": [1, -3], "ends": [2**31 - 1, -1], "axes": [1, 2]}),
    (7, "Pad", [X], {}, 1, {"pads": [0, 0, 1, 0, 0, 0, 2, 1], "value": 2.5}),
    (7, "Pad", [X], {}, 1, {"pads": [0, 1, 1, 0, 0, 1, 2, 0], "mode": "reflect"}),
    (7, "Squeeze", [X], {}, 1, {"axes": [3]}),
    (11, "Squeeze", [X], {}, 1, {}),
    (7, "Unsqueeze", [X], {}, 1, {"axes": [0, 5]}),
    (11, "Unsqueeze", [X], {}, 1, {"axes": [-1, 0]}),
    (7, "Split", [X], {}, 2, {"axis": 2, "split": [1, 3]}),
    (11, "Split", [X], {}, 3, {"axis": -3}),
    (13, "Split", [X], {1: np.array([1, 2])}, 2, {"axis": 1}),
    (7, "Clip", [X], {}, 1, {"min": -0.5, "max": 0.25}),
    (7, "Clip", [X], {}, 1, {"max": 0.25}),
    (7, "TopK", [X], {}, 2, {"k": 2, "axis": 2}),
    (11, "TopK", [X], {1: np.array([3])}, 2, {"axis": 2, "largest": 0}),
    (7, "Dropout", [X], {}, 1, {"ratio": 0.3}),
    (12, "Dropout", [X], {}, 2, {}),
    (7, "ReduceSum", [X], {}, 1, {"axes": [1, -2]}),
    (11, "ReduceMean", [X], {}, 1, {"keepdims": 0}),
    (13, "ReduceSum", [X], {}, 1, {"noop_with_empty_axes": 1}),
    (18, "ReduceL2", [X], {1: np.array([-2])}, 1, {"keepdims": 0}),
    (7, "Flatten", [X], {}, 1, {"axis": 2}),
    (11, "Flatten", [X], {}, 1, {"axis": -1}),
    (9, "Scatter", [f32(3, 3)], {1: np.array([[0, 2, 1]]), 2: f32(1, 3)}, 1, {}),
    (8, "Max", [X, f32(4, 1), f32(3, 1, 1)], {}, 1, {}),
    (8, "Mean", [X, f32(4, 1), f32(3, 1, 1)], {}, 1, {}),
    (7, "Tile", [X], {1: np.array([1, 2, 1, 3])}, 1, {}),
    (8, "Expand", [X], {1: np.array([2, 1, 1, 1, 5])}, 1, {}),
    (7, "Gather", [X], {1: np.array([[0, 2], [-1, 1]])}, 1, {"axis": 1}),
    (9, "OneHot", [np.array([[0, -1], [2, 7]])], {1: np.array(3), 2: np.array([-1, 4], np.float32)}, 1, {"axis": 1}),
    (9, "EyeLike", [f32(3, 4)], {}, 1, {"k": 1, "dtype": TensorProto.DOUBLE}),
    (9, "Where", [X > 0, X, f32(1)], {}, 1, {}),
    (7, "Div", [np.array([-7, 7, -8]), np.array([2, -2, 3])], {}, 1, {}),
    (10, "Mod", [np.array([-7, 7, -8]), np.array([2, -2, 3])], {}, 1, {}),
    (10, "Mod", [f32(5), f32(5)], {}, 1, {"fmod": 1}),
    (14, "CumSum", [X], {1: np.array(2)}, 1, {"exclusive": 1, "reverse": 1}),
    (9, "Shrink", [X], {}, 1, {"lambd": 0.3, "bias": 0.1}),
    (12, "Celu", [X], {}, 1, {"alpha": 0.7}),
    (16, "PRelu", [X], {1: f32(3, 1, 1)}, 1, {}),
    (10, "ReverseSequence", [f32(4, 3, 2)], {1: np.array([1, 4, 2])}, 1, {}),
    (16, "ScatterND", [f32(4, 3)], {1: np.array([[1], [1]]), 2: f32(2, 3)}, 1, {"reduction": "add"}),
    (12, "GatherND", [f32(2, 3, 4)], {1: np.array([[1], [-1]])}, 1, {"batch_dims": 1}),
    (17, "DFT", [f32(2, 10, 1)], {}, 1, {"axis": 1, "onesided": 1}),
    (17, "STFT", [f32(2, 64, 1)], {1: np.array(8), 2: np.hanning(16).astype(np.float32)}, 1, {}),
    (19, "Pad", [X], {1: np.array([2, 3]), 2: np.array(0, np.float32), 3: np.array([2])}, 1, {"mode": "wrap"}),
]


@pytest.mark.parametrize("case", OLD_SPELLINGS, ids=[f"{c[1]}-{c[0]}-{i}" for i, c in enumerate(OLD_SPELLINGS)])
def test_every_opsets_spelling_means_the_same_to_both(case: tuple[Any, ...]) -> None:
    opset, kind, inputs, constants, outputs, attrs = case
    ours, theirs = both(kind, inputs, constants, opset=opset, outputs=outputs, **attrs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 if kind in ("DFT", "STFT") else 1e-6)


def scale(*shape: int) -> Array:
    return RNG.uniform(0.005, 0.02, shape).astype(np.float32)


def test_quantize_and_dequantize_are_onnx_runtimes_bits() -> None:
    x = np.concatenate([f32(4000) * 3, np.float32([0.025, -0.025, 0.0, np.inf, -np.inf])])
    for zp in (np.uint8(130), np.int8(-5)):
        ours, theirs = both("QuantizeLinear", [x], {1: np.float32(0.05), 2: np.array(zp)})
        np.testing.assert_array_equal(ours[0], theirs[0])
        ours, theirs = both("DequantizeLinear", [ours[0]], {1: np.float32(0.05), 2: np.array(zp)})
        np.testing.assert_array_equal(ours[0], theirs[0])
    ours, theirs = both("QuantizeLinear", [f32(2, 5, 3)], {1: scale(5), 2: s8(5)}, axis=1)
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_a_dynamic_range_is_onnx_runtimes_bits() -> None:
    for x in (f32(100), f32(7) + 5, -np.abs(f32(7)) - 1):
        ours, theirs = both("DynamicQuantizeLinear", [x], outputs=3)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("group, pads", [(1, [1, 0, 2, 1]), (2, [0, 0, 0, 0])])
@pytest.mark.parametrize("channels", [0, 4])
def test_a_quantized_convolution_is_onnx_runtimes_bits(group: int, pads: list[int], channels: int) -> None:
    per = (channels,) if channels else ()
    w = s8(4, 4 // group, 3, 3)
    constants = {
        1: scale(),
        2: np.array(7, np.uint8),
        3: w,
        4: scale(*per),
        5: np.zeros(per, np.int8),
        6: np.float32(0.03),
        7: np.array(120, np.uint8),
    }
    constants[8] = RNG.integers(-2000, 2000, 4).astype(np.int32)
    ours, theirs = both("QLinearConv", [u8(2, 4, 7, 6)], constants, group=group, pads=pads, strides=[2, 1])
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_integer_products_are_onnx_runtimes_bits() -> None:
    ours, theirs = both("MatMulInteger", [u8(2, 5, 8)], {1: s8(8, 3), 2: np.array(9, np.uint8), 3: s8(3)})
    np.testing.assert_array_equal(ours[0], theirs[0])
    ours, theirs = both("ConvInteger", [u8(1, 2, 6, 6)], {1: u8(3, 2, 3, 3), 2: np.array(9, np.uint8)}, pads=[1, 1, 1, 1])
    np.testing.assert_array_equal(ours[0], theirs[0])
    grid = {
        1: scale(),
        2: np.array(9, np.uint8),
        3: s8(8, 3),
        4: scale(),
        5: np.array(0, np.int8),
        6: np.float32(0.02),
        7: np.array(128, np.uint8),
    }
    ours, theirs = both("QLinearMatMul", [u8(5, 8)], grid)
    np.testing.assert_array_equal(ours[0], theirs[0])


MS = "com.microsoft"
X8 = u8(1, 4, 6, 6)
XP = {1: np.float32(0.02), 2: np.array(120, np.uint8)}
YP = {3: np.float32(0.015), 4: np.array(100, np.uint8)}
FAMILY: list[tuple[str, list[Array | None], dict[int, Array], dict[str, Any]]] = [
    (
        "QLinearAdd",
        [X8],
        XP | {3: u8(4, 1, 6), 4: np.float32(0.01), 5: np.array(9, np.uint8), 6: np.float32(0.03), 7: np.array(128, np.uint8)},
        {},
    ),
    (
        "QLinearMul",
        [X8],
        XP | {3: u8(4, 1, 6), 4: np.float32(0.01), 5: np.array(9, np.uint8), 6: np.float32(0.03), 7: np.array(128, np.uint8)},
        {},
    ),
    ("QLinearSigmoid", [X8], XP | {3: np.float32(1 / 256), 4: np.array(0, np.uint8)}, {}),
    ("QLinearLeakyRelu", [X8], XP | YP, {"alpha": 0.1}),
    ("QLinearAveragePool", [X8], XP | YP, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("QLinearGlobalAveragePool", [X8], XP | YP, {}),
    ("QLinearSoftmax", [u8(3, 10)], XP | {3: np.float32(1 / 256), 4: np.array(0, np.uint8)}, {"axis": -1, "opset": 13}),
    (
        "QLinearConcat",
        [],
        {0: np.float32(0.02), 1: np.array(99, np.uint8), 2: u8(2, 3), 3: np.float32(0.01), 4: np.array(9, np.uint8)},
        {"axis": 1},
    ),
    ("QGemm", [u8(3, 5)], XP | {3: s8(4, 5), 4: scale(4), 5: np.zeros(4, np.int8), 6: np.arange(4, dtype=np.int32)}, {"transB": 1}),
    (
        "MatMulIntegerToFloat",
        [u8(3, 5)],
        {1: s8(5, 4), 2: scale(), 3: scale(4), 4: np.array(7, np.uint8), 5: np.zeros(4, np.int8), 6: f32(4)},
        {},
    ),
    ("DynamicQuantizeMatMul", [f32(3, 5)], {1: s8(5, 4), 2: scale(1), 3: np.zeros(1, np.int8), 4: f32(4)}, {}),
    ("Gelu", [f32(3, 5)], {}, {}),
    ("QuickGelu", [f32(3, 5)], {}, {"alpha": 1.702}),
]


@pytest.mark.parametrize("kind, inputs, constants, attrs", FAMILY, ids=[f[0] for f in FAMILY])
def test_onnx_runtimes_own_ops_are_within_one_step(
    kind: str, inputs: list[Array | None], constants: dict[int, Array], attrs: dict[str, Any]
) -> None:
    """Their meaning is dequantize, compute, quantize; ONNX Runtime takes shortcuts that may round the other way."""
    (ours,), (theirs,) = both(kind, inputs, constants, domain=MS, node=attrs)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    if ours.dtype.kind in "iu":
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1 and (ours != theirs).mean() < 0.05
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_channels_last_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="channels_last=1 is not supported"):
        both("QLinearGlobalAveragePool", [u8(1, 6, 6, 4)], XP | YP, domain=MS, channels_last=1)


@pytest.mark.parametrize("form, activations", [("QDQ", "QInt8"), ("QOperator", "QUInt8")])
def test_a_network_that_onnx_runtime_quantized_loads_and_gives_its_answer(form: str, activations: str, tmp_path: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    demo = resources.files("lowbit") / "demo"
    images = np.load(str(demo / "fashion_test_1000.npz"))["images"][:32].reshape(-1, 1, 28, 28).astype(np.float32) / 255

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        rows = iter([{"image": images[i : i + 1]} for i in range(8)])

        def get_next(self) -> dict[str, Array] | None:
            return next(self.rows, None)

    path = tmp_path / "q.onnx"
    options = {
        "quant_format": QuantFormat[form],
        "activation_type": QuantType[activations],
        "per_channel": True,
        "reduce_range": True,
    }  # see s8
    source = tmp_path / "fashion_cnn.onnx"  # a copy: the quantizer writes beside it
    source.write_bytes((demo / "fashion_cnn.onnx").read_bytes())
    quantize_static(str(source), str(path), Reader(), **options)
    session = ort.SessionOptions()
    session.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (theirs,) = ort.InferenceSession(str(path), session, providers=["CPUExecutionProvider"]).run(None, {"image": images})
    (ours,) = run(load_onnx(path), {"image": images}).values()
    np.testing.assert_array_equal(ours.argmax(1), theirs.argmax(1))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.01 * np.ptp(theirs))  # its float layers may round the other way


@pytest.mark.parametrize("scale", [0.3, 0.6, 0.7, 0.9, 1.3, 1.5, 2.3, 3.3, 1 / 3, 2 / 3])
def test_sizes_and_nearest_elements_of_a_resize_round_as_there(scale: float) -> None:
    for size in (5, 7, 10, 13, 20, 32, 100):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        out = int(np.float32(size) * np.float32(scale))
        if out in (1, size):  # it copies what keeps its size, whatever the coordinates
            continue
        for coordinate, nearest in [
            *(("asymmetric", m) for m in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
            *((c, m) for c in ("half_pixel", "pytorch_half_pixel") for m in ("floor", "ceil")),  # its halves have a tolerance
        ]:
            attrs = {"mode": "nearest", "nearest_mode": nearest, "coordinate_transformation_mode": coordinate}
            empty, scales = np.zeros(0, np.float32), np.array([1, 1, scale], np.float32)
            (ours,), (theirs,) = both("Resize", [x], {1: empty, 2: scales}, opset=19, node=attrs)
            assert ours.shape == (1, 1, out)
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{size} {coordinate} {nearest}")
