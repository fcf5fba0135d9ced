"""Laws of the export to ONNX: legal files, the same answers in ONNX Runtime, and the same graph when they are read again."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import lowbit
from benchmarks.ort_agreement import compare, quantized
from lowbit.dims import symbol
from lowbit.errors import FormatError, ShapeError, UnsupportedOp
from lowbit.export.onnx import SPELLINGS, export_onnx, onnx_bytes
from lowbit.export.onnx.check import agreement, random_inputs, run_onnx
from lowbit.export.onnx.proof import spelled
from lowbit.frontends.onnx import load_onnx
from lowbit.ir.build import Builder
from lowbit.ir.graph import Constant, Graph, Value
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.ops.op import OPS
from lowbit.passes import simplify
from lowbit.pipeline import quantize
from lowbit.quantization.recipes import RECIPES
from lowbit.types import TensorType
from zoo import ZOO

SMALL = ["mlp", "resnet9", "dscnn", "unet", "lstm_lm", "gru_lm", "transformer", "gpt", "vit"]
FLOAT_TOLERANCE = 1e-4  # of the output's range


@cache
def read_back(data: bytes) -> Graph:
    """The graph of a file that lowbit wrote, as it stands in it."""
    return load_onnx(data, proof=spelled)


def network(name: str, dynamic: bool = True) -> Graph:
    entry = ZOO[name]
    return lowbit.load(entry.make(), inputs=entry.example(), dynamic=entry.dynamic if dynamic else None)


@cache
def in_integers(name: str, recipe: str = "int8") -> Graph:
    entry = ZOO[name]
    return quantize(network(name), [{k: v.numpy() for k, v in entry.example(s).items()} for s in range(2)], recipe=recipe, guard=False)


def example(name: str, **sizes: int) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in ZOO[name].example(7, **sizes).items()}


def check(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto.FromString(data)
    onnx.checker.check_model(model, full_check=True)
    return model


def opset(data: bytes) -> int:
    return next(o.version for o in onnx.ModelProto.FromString(data).opset_import if not o.domain)


def stored(graph: Graph) -> Counter[bytes]:
    """The numbers of every quantized weight, in whatever order they lie."""
    weights = [c.data for c in graph.constants.values() if c.data.dtype.kind == "i" and c.data.size > 64 and c.data.any()]
    return Counter(np.sort(w, axis=None).tobytes() for w in weights)


# -- the laws on networks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("name", SMALL)
def test_a_float_network_is_legal_equals_onnx_runtime_and_comes_back(name: str, dynamic: bool) -> None:
    graph = network(name, dynamic)
    data = onnx_bytes(graph)
    check(data)
    sizes = {"batch": 3, "seq": 7} if dynamic else {}
    ours, theirs = run(graph, example(name, **sizes)), run_onnx(data, example(name, **sizes))
    assert list(ours) == list(theirs)
    assert agreement(ours, theirs, "").max_error <= FLOAT_TOLERANCE
    assert read_back(data) == graph
    assert simplify(read_back(data)) == graph


@pytest.mark.parametrize("recipe", ["int8", "uint8"])
@pytest.mark.parametrize("name", SMALL)
def test_a_quantized_network_agrees_to_the_step_and_comes_back(name: str, recipe: str) -> None:
    graph = in_integers(name, recipe)
    data = onnx_bytes(graph)
    check(data)
    ours, theirs = run(graph, example(name)), run_onnx(data, example(name))  # as the file says, no kernels fused
    found = agreement(ours, theirs, "")  # float sums on both sides: what lies between two steps may go to the other, and on in later layers
    assert found.max_error <= (2.5 if name == "unet" else 1.5) / 256 and found.rms_error <= 0.5 / 256
    assert read_back(data) == lowbit.load(data) == graph  # constants that are equal stay two
    assert simplify(read_back(data)) == lowbit.load(data, simplify=True) == simplify(graph)


@pytest.mark.parametrize("recipe", [r for r in RECIPES if r not in ("int8", "uint8", "binary")])  # ONNX has no binary activations
@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_every_recipe_exports_and_comes_back(name: str, recipe: str) -> None:
    graph = in_integers(name, recipe)
    data = onnx_bytes(graph)
    check(data)
    assert agreement(run(graph, example(name)), run_onnx(data, example(name)), "").max_error <= 1e-3
    assert lowbit.load(data) == graph
    assert lowbit.load(onnx_bytes(graph, matmul_nbits=True)) == graph


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert onnx_bytes(in_integers("vit")) == onnx_bytes(in_integers("vit"))


@pytest.mark.parametrize(
    ("recipe", "version"), [("int8", 17), ("uint8", 17), ("int16", 21), ("w4a8", 21), ("w4a8-block", 21), ("int4-weights", 21)]
)
def test_the_opset_is_the_least_that_can_say_the_types(recipe: str, version: int) -> None:
    assert opset(onnx_bytes(in_integers("mlp", recipe))) == version


def test_the_opset_follows_the_ops() -> None:
    assert opset(onnx_bytes(network("resnet9"))) == 17
    assert opset(onnx_bytes(network("vit"))) == 20  # Gelu
    data = onnx_bytes(network("vit"), opset=23)
    kinds = {n.op_type for n in check(data).graph.node}
    assert "Attention" in kinds and "Softmax" not in kinds
    assert read_back(data) == network("vit")
    with pytest.raises(UnsupportedOp, match="opset 17 asked for, this graph needs 20 to 23"):
        onnx_bytes(network("vit"), opset=17)


# -- the forms that runtimes want ------------------------------------------------------------------------------------


def test_weights_of_matmul_are_stored_transposed_with_their_axis() -> None:
    model = check(onnx_bytes(in_integers("transformer")))
    made = {o: n for n in model.graph.node for o in n.output}
    tensors = {t.name: tuple(t.dims) for t in model.graph.initializer}
    weight = next(n for n in model.graph.node if n.output[0] == "encoder.layers.0.linear1.weight:int8:real")
    readers = [n.op_type for n in model.graph.node if weight.output[0] in n.input]
    assert set(readers) == {"MatMul"} and tensors[weight.input[0]] == (32, 128)  # (in, out)
    assert {a.name: a.i for a in weight.attribute}["axis"] == 1
    assert made[weight.output[0]].op_type == "DequantizeLinear"


def test_four_bits_are_packed_and_blocks_are_those_of_dequantize_linear() -> None:
    model = check(onnx_bytes(in_integers("mlp", "int4-weights")))
    blocked = [n for n in model.graph.node if n.op_type == "DequantizeLinear"]
    assert blocked and all({a.name: a.i for a in n.attribute} == {"axis": 1, "block_size": 32} for n in blocked)
    weight = next(t for t in model.graph.initializer if t.name == "layers.0.weight:int4")
    assert weight.data_type == onnx.TensorProto.INT4 and len(weight.raw_data) == 128 * 64 // 2


def test_matmul_nbits_holds_the_same_numbers() -> None:
    graph = in_integers("transformer", "int4-weights")
    data = onnx_bytes(graph, matmul_nbits=True)
    assert "MatMulNBits" in {n.op_type for n in check(data).graph.node}
    want = run(graph, example("transformer"))
    assert agreement(want, run_onnx(data, example("transformer")), "").max_error <= FLOAT_TOLERANCE
    assert read_back(data) == lowbit.load(data) == graph
    model = check(data)
    del model.metadata_props[:]
    back = read_back(model.SerializeToString())
    assert stored(back) == stored(graph)
    again = agreement(want, run(back, example("transformer")), "")
    assert again.max_error <= 1e-6  # BLAS sums a transposed matrix in another order on some CPUs


def test_layers_that_share_their_zero_points_come_back_from_matmul_nbits() -> None:
    graph = in_integers("gpt", "int4-weights")  # equal layers: the file holds one tensor of zero points for them
    assert lowbit.load(onnx_bytes(graph, matmul_nbits=True)) == graph


def test_layers_of_the_file_can_be_told_apart_and_names_survive_a_clash() -> None:
    graph = in_integers("mlp")
    assert {"linear_2"} <= set(graph.values) and list(graph.outputs) == ["output"]
    b = Builder("clash")
    x = b.input("x", TensorType((2, 3), "float32"))
    inner = b.add("relu", x, name="same", out="y")  # a value with the name of an output, which is another value
    g = b.finish({"y": b.add("exp", inner, name="same", out="z"), "copy": inner, "twice": inner})
    data = onnx_bytes(g)
    names = [n.name for n in check(data).graph.node if n.name]
    assert len(set(names)) == len(names)
    assert simplify(read_back(data)) == g
    feed = {"x": np.ones((2, 3), np.float32)}
    assert agreement(run(g, feed), run_onnx(data, feed), "").max_error < 1e-6


def test_metadata_of_nodes_that_another_program_changed_are_not_believed() -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 3), "float32"))
    graph = b.finish({"y": b.add("silu", x, name="act", out="y")})
    model = check(onnx_bytes(graph))
    assert read_back(model.SerializeToString()) == graph
    sigmoid = next(n for n in model.graph.node if n.op_type == "Sigmoid")
    sigmoid.op_type = "Tanh"
    changed = read_back(model.SerializeToString())
    assert [n.op for n in changed] == ["tanh", "mul"]


def test_a_file_whose_nodes_another_program_changed_is_simplified_as_any_other() -> None:
    graph = in_integers("mlp")
    model = check(onnx_bytes(graph))
    assert lowbit.load(model.SerializeToString()) == graph
    first = next(n for n in model.graph.node if n.op_type == "Relu")
    first.op_type = "Sigmoid"
    changed = lowbit.load(model.SerializeToString())
    assert len(changed.constants) < len(graph.constants) and "sigmoid" in {n.op for n in changed}


@pytest.mark.parametrize("name", ["transformer", "vit"])
def test_without_lowbits_metadata_the_file_means_the_same(name: str) -> None:
    graph = in_integers(name)
    model = check(onnx_bytes(graph))
    del model.metadata_props[:]
    back = lowbit.load(model.SerializeToString())
    assert stored(back) == stored(graph)
    assert agreement(run(graph, example(name)), run(back, example(name)), "").max_error <= 1e-6  # sums in another order, as above


# -- single ops --------------------------------------------------------------------------------------------------------


def one(op: str, *inputs: TensorType, **attrs: object) -> Graph:
    b = Builder(op)
    xs = [b.input(f"x{i}", t) for i, t in enumerate(inputs)]
    return b.finish({f"y{i}": o for i, o in enumerate(b.add_node(op, *xs, name="layer", **attrs))})


F = TensorType((2, 4, 6), "float32")
IDS = TensorType((2, 4, 6), "int64")
M = TensorType((2, 6), "float32")
Q4 = TensorType((2, 3, 5, 8), "float32")
CASES = {
    "silu": one("silu", F),
    "log1p": one("log1p", F),
    "expm1": one("expm1", F),
    "not_equal": one("not_equal", IDS, IDS),
    "mod": one("mod", F, F),
    "floor_div": one("floor_div", IDS, TensorType((), "int64")),
    "atan2": one("atan2", F, F),
    "relu6": one("relu6", F),
    "clip": one("clip", F, min=-0.1, max=None),
    "flip": one("flip", F, axes=(0, 2)),
    "roll": one("roll", F, shifts=(-5, 1), axes=(2, 0)),
    "pad": one("pad", F, pads=(0, 1, 2, 0, 0, -1), mode="constant", value=0.1),
    "slice": one("slice", F, axes=(2,), starts=(5,), ends=(-1,), steps=(-2,)),
    "layer_norm": one("layer_norm", F, axis=1, eps=1e-5),
    "rms_norm": one("rms_norm", F, TensorType((6,), "float32"), axis=2, eps=1e-6),
    "group_norm": one("group_norm", F, TensorType((4,), "float32"), groups=2, eps=1e-5),
    "attention": one("attention", Q4, Q4, Q4, TensorType((5, 5), "bool"), scale=0.3, causal=True),
    "rotary": one("rotary_embedding", Q4, *[TensorType((5, 4), "float32")] * 2, interleaved=False),
    "rotary pairs": one("rotary_embedding", Q4, *[TensorType((5, 4), "float32")] * 2, interleaved=True),
    "adaptive": one("adaptive_avg_pool", TensorType((1, 2, 6, 4), "float32"), output_size=(3, 2)),
    "topk": one("topk", F, k=2, axis=2, largest=True, sorted=True),
    "resize": one("resize", TensorType((1, 2, 4, 4), "float32"), sizes=(1, 2, 8, 6), scales=(1.0, 1.0, None, None), mode="linear",
                  coordinate_mode="half_pixel"),
    "eye": one("eye", rows=3, cols=4, k=1, dtype="float32"),
    "linear": one("linear", F, TensorType((5, 6), "float32"), TensorType((5,), "float32")),
    "rows": one("quantize_rows", M),
    "one_hot": one("one_hot", TensorType((2, 3), "int64"), depth=4, axis=1, on=2.5, off=-1.0, dtype="float32"),
}  # fmt: skip


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES)
def test_an_op_comes_back_and_onnx_runtime_computes_the_same(graph: Graph) -> None:
    data = onnx_bytes(graph)
    check(data)
    assert read_back(data) == graph
    found = random_inputs(graph)
    assert found is not None
    inputs = found[1]
    if graph.nodes[0].op == "floor_div":
        inputs = {"x0": inputs["x0"] * 7 - 3, "x1": np.array(-2)}
    assert agreement(run(graph, inputs), run_onnx(data, inputs), "").max_error <= 1e-5


def test_sizes_that_are_not_known_yet_are_computed_in_the_file() -> None:
    n, h = symbol("n"), symbol("h")
    b = Builder()
    x = b.input("x", TensorType((n, 32 * h, 6), "float32"))
    flat = b.add("reshape", x, shape=(n * h, 8, 24))  # more than one size is open: arithmetic
    half = b.add("slice", flat, axes=(0,), starts=(0,), ends=(-((-n * h) // 2),), steps=(1,))  # rounded up
    like = b.add("fill", shape=(n, h), value=2.0, dtype="float32")
    count = b.add("range", start=0, limit=n * h + 1, step=1, dtype="int64")
    g = b.finish({"half": half, "like": like, "count": count})
    data = onnx_bytes(g)
    check(data)
    assert read_back(data) == g
    for sizes in ((1, 1), (3, 1), (2, 3)):
        feed = {"x": np.random.default_rng(0).standard_normal((sizes[0], 32 * sizes[1], 6)).astype(np.float32)}
        assert agreement(run(g, feed), run_onnx(data, feed), "").max_error == 0


def test_a_size_that_no_input_tells_is_an_error() -> None:
    n, m = symbol("n"), symbol("m")
    b = Builder()
    x = b.input("x", TensorType((n * m,), "float32"))
    g = b.finish({"y": b.add("reshape", x, shape=(n, m))})
    with pytest.raises(ShapeError, match="size 'n' cannot be computed from the shape of an input"):
        onnx_bytes(g)


NO_SPELLING = {"cumprod", "max_unpool"}  # no op of ONNX up to opset 23, and no short arithmetic
TOKENS = {"block_gather", "block_linear", "cache_attention", "cache_store", "gate", "rms_norm_rows", "rotary"}  # of language models


def test_every_op_but_a_few_has_a_spelling() -> None:
    inside = {op for op in OPS if op.startswith(("q_", "requantize")) or op.endswith(("_nhwc", "_clip"))}  # made when plans are
    assert set(OPS) - set(SPELLINGS) - inside == NO_SPELLING | TOKENS


# -- refusals ------------------------------------------------------------------------------------------------------------


def test_an_integer_graph_is_refused_by_layer(tmp_path: Path) -> None:
    lowered = lower(in_integers("mlp")).graph
    with pytest.raises(UnsupportedOp) as e:
        export_onnx(lowered, tmp_path / "m.onnx")
    assert "q_linear 'layers.0': integer ops of lowbit have no spelling in ONNX" in str(e.value)
    assert "export the Q/DQ graph" in str(e.value)
    assert list(tmp_path.iterdir()) == []


def test_an_op_without_a_spelling_is_refused_by_layer() -> None:
    with pytest.raises(UnsupportedOp, match="cumprod 'layer': it has no spelling in ONNX"):
        onnx_bytes(one("cumprod", F, axis=1))
    with pytest.raises(UnsupportedOp, match=r"adaptive_avg_pool 'layer': its windows have different sizes"):
        onnx_bytes(one("adaptive_avg_pool", TensorType((1, 2, 7, 4), "float32"), output_size=(3, 2)))
    b = Builder()
    shapes = ((4, 1, 2), (1, 9, 2), (1, 9, 3), (1, 18), (1, 1, 3))
    x, w, r, bias, h = (b.input(n, TensorType(s, "float32")) for n, s in zip("xwrbh", shapes, strict=True))
    options = {"hidden": 3, "direction": "forward", "activations": ("sigmoid", "tanh")}
    with pytest.raises(UnsupportedOp, match="gru 'layer': ONNX's GRU has no state beside h that goes on"):
        onnx_bytes(b.finish({"y": b.add("gru", x, w, r, bias, h, None, h, name="layer", **options)}))


def test_nothing_is_written_when_the_check_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    g = one("silu", F)
    wrong = dataclasses.replace(SPELLINGS["silu"], write=lambda w, node: w.node(node, "Tanh", node.inputs[0]))
    monkeypatch.setitem(SPELLINGS, "silu", wrong)
    with pytest.raises(FormatError, match="computes something else: errors up to"):
        export_onnx(g, path)
    illegal = dataclasses.replace(wrong, write=lambda w, node: w.node(node, "Softmax", node.inputs[0], axis=9))
    monkeypatch.setitem(SPELLINGS, "silu", illegal)
    with pytest.raises(FormatError, match=r"onnx.checker refuses the model"):
        export_onnx(g, path)
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be written"):
        export_onnx(one("silu", F), tmp_path / "nowhere" / "m.onnx")
    with pytest.raises(FormatError, match=r"files of kind '.txt' are not written"):
        export_onnx(one("silu", F), tmp_path / "m.txt")


def test_more_than_an_onnx_file_can_hold_is_refused(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", TensorType((1, 2**15), "float32"))
    data = np.broadcast_to(np.float32(0), (2**15, 2**15))  # 4 GiB on paper
    g = Graph((x,), {}, (), {"w": Constant(Value("w", TensorType(data.shape, "float32")), data)})
    with pytest.raises(FormatError, match="4,294,967,296 bytes of constants, an ONNX file holds"):
        export_onnx(g, tmp_path / "m.onnx")


def test_an_input_and_an_output_of_one_name_are_refused() -> None:
    b = Builder()
    x = b.input("x", TensorType((2,), "float32"))
    with pytest.raises(UnsupportedOp, match="an input and an output are both called 'x'"):
        onnx_bytes(b.finish({"x": b.add("relu", x)}))


# -- the report and the command line ------------------------------------------------------------------------------------


def test_the_report_says_what_was_tried(tmp_path: Path) -> None:
    report = export_onnx(in_integers("mlp"), tmp_path / "m.onnx")
    assert (report.opset, report.ir_version, report.checked) == (17, 8, True)
    assert report.ran.startswith("run in ONNX Runtime 1.") and report.agreement is not None
    assert " on random inputs: fine, errors up to " in report.ran
    against = "against the Q/DQ graph in floats (lowbit verify has the integers that lowbit runs)"
    assert f" root mean square, where 0.1 is the limit) {against}" in report.ran
    assert report.bytes == (tmp_path / "m.onnx").stat().st_size
    assert export_onnx(in_integers("mlp"), tmp_path / "n.onnx", check=False).ran == "not asked for"


def test_the_command_line_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lowbit.cli import main

    in_integers("mlp").save(tmp_path / "m.lowbit")
    assert main(["export", str(tmp_path / "m.lowbit"), "-o", str(tmp_path / "m.onnx"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["opset"] == 17 and found["agreement"]["max_error"] < 1e-3
    assert main(["export", str(tmp_path / "m.onnx"), "--no-simplify", "-o", str(tmp_path / "again.onnx")]) == 0
    told = capsys.readouterr().out
    assert "onnx.checker passed; run in ONNX Runtime" in told and told.count("of the range") == 1
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert main(["export", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.bin")]) == 2


# -- integer layers against ONNX Runtime's integer kernels -----------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["resnet9", "dscnn", "unet", "transformer", "vit"])
def test_integer_layers_equal_onnx_runtime_on_the_same_integers(name: str, recipe: str) -> None:
    found = compare(name, recipe, *quantized(name, recipe, batch=2))
    assert len(found.layers) >= 10
    for row in found.layers:
        assert row.most <= 1, row
        assert row.differ <= max(1e-4 * row.bytes, 1), row  # one byte of a small layer may be a tie
    assert found.holds


def test_metadata_never_change_what_a_file_means() -> None:
    """A group that names another op, other attributes or another order of inputs than its nodes spell is not believed."""
    from lowbit.frontends.onnx.serialize import group_digest

    b = Builder("g")
    x, y = (b.input(n, TensorType((2, 4), "float32")) for n in "xy")
    honest = onnx.ModelProto.FromString(onnx_bytes(b.finish({"z": b.add("swish", b.add("sub", x, y), alpha=1.5)})))
    feeds = {n: np.float32([[1, -2, 3, 4]] * 2) * s for n, s in (("x", 2), ("y", 1))}
    (expected,) = run(lowbit.load(honest), feeds).values()
    (entry,) = [p for p in honest.metadata_props if p.key == "lowbit"]
    tables = json.loads(entry.value)
    assert [g["op"] for g in tables["groups"]] == ["swish"] and [n.op for n in lowbit.load(honest).nodes] == ["sub", "swish"]
    lies: list[dict[str, object]] = [
        {"op": "neg", "attrs": {}},
        {"attrs": {"alpha": 2.0}},
        {"op": "slice"},
        {"inputs": ["x"]},
        {"results": ["z", "z"]},
    ]
    for lie in lies:
        (group,) = tables["groups"]
        entry.value = json.dumps({**tables, "groups": [{**group, **lie}]})
        (found,) = run(lowbit.load(honest), feeds).values()
        assert np.array_equal(found, expected), lie
    # a group over nodes that lowbit did not write so, with a digest that fits
    sub = next(n for n in honest.graph.node if n.op_type == "Sub")
    forged = {"outputs": [sub.output[0]], "constants": [], "digest": group_digest([sub], []), "op": "add", "attrs": {}}
    forged |= {"inputs": list(sub.input), "results": list(sub.output)}
    entry.value = json.dumps({**tables, "groups": [forged]})
    (found,) = run(lowbit.load(honest), feeds).values()
    assert np.allclose(found, expected, rtol=1e-6)
