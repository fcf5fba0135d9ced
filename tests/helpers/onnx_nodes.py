"""The node tests that come with onnx: one folder each, a model of one operator with inputs and outputs. Also a command:

python tests/helpers/onnx_nodes.py [words]       runs the tests with all these words in their name and prints what fails, and why
python tests/helpers/onnx_nodes.py --prune       drops the lines of unsupported.txt whose tests pass now
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from lowbit.errors import LowbitError
from lowbit.frontends.onnx import NeedsConstant, load_onnx
from lowbit.frontends.onnx.serialize import dtype_name
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.types import Array

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
UNSUPPORTED = Path(__file__).parents[1] / "frontends" / "onnx" / "unsupported.txt"
RTOL, ATOL = 1e-3, 1e-7  # what onnx's own runner of these tests allows
NOISE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}  # the expected zeros hold float32 noise of up to 4e-7
WRONG_DATA = "wrong data:"  # a reason that begins so says why the expected outputs of the test cannot be right


def names() -> list[str]:
    return sorted(p.name for p in FOLDER.iterdir())


def unsupported() -> dict[str, str]:
    """Name to reason, of the tests that lowbit does not pass."""
    rows = [line.split(None, 1) for line in UNSUPPORTED.read_text().splitlines() if line.strip()]
    return {name: reason for name, reason in rows}


def check(name: str) -> None:
    """Loads and runs one test; a LowbitError when it is refused, an AssertionError when the answer is wrong."""
    model = onnx.load(FOLDER / name / "model.onnx")
    for folder in sorted((FOLDER / name).glob("test_data_set_*")):
        inputs, outputs = Tensors(folder, "input"), Tensors(folder, "output")
        graph = load(model, inputs)
        wanted = {v.name for v in graph.inputs}
        got = run(graph, {v.name: inputs[i] for i, v in enumerate(model.graph.input) if v.name in wanted})
        for i, o in enumerate(model.graph.output):
            compare(o.name, graph.outputs[o.name].type.dtype.name, got[o.name], outputs.proto(i), NOISE.get(name, ATOL))


class Tensors:
    """The tensors of a folder by number, unpacked as lowbit holds them: int4 in int8."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind

    def proto(self, i: int) -> TensorProto:
        return TensorProto.FromString((self.folder / f"{self.kind}_{i}.pb").read_bytes())

    def __getitem__(self, i: int) -> Array:
        return unpacked(self.proto(i))


def unpacked(proto: TensorProto) -> Array:
    array = numpy_helper.to_array(proto)
    small = {"int4": np.int8, "uint4": np.uint8}.get(dtype_name(proto.data_type))
    return array.astype(small) if small is not None else array


def load(model: ModelProto, inputs: Tensors) -> Graph:
    """The graph; inputs that the importer needs to know (shapes, axes …) are made constants."""
    constants: set[str] = set()
    while True:
        try:
            return load_onnx(model.SerializeToString())
        except NeedsConstant as e:
            wanted = origins(model, e.input) - constants
            if not wanted or any(e.input in n.input for n in nodes(model.graph) if n.op_type == "NonZero"):
                raise  # what NonZero reads is data, not something a compiler may ask to know
            constants |= wanted
            model = with_initializers(model, {n: inputs.proto([v.name for v in model.graph.input].index(n)) for n in wanted})


def origins(model: ModelProto, name: str) -> set[str]:
    """The inputs that a value is computed from."""
    producers = {o: n for n in nodes(model.graph) for o in n.output}
    found: set[str] = set()
    open_, seen = [name], set()
    while open_:
        v = open_.pop()
        if v in seen or not v:
            continue
        seen.add(v)
        if v in producers:
            node = producers[v]
            open_ += node.input if node.op_type not in ("Shape", "Size") else []  # these do not read the data
            open_ += [i for a in node.attribute if a.type == AttributeProto.GRAPH for n in a.g.node for i in n.input]
        elif v in {i.name for i in model.graph.input}:
            found.add(v)
    return found


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the branches in it."""
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from nodes(a.g)


def with_initializers(model: ModelProto, tensors: dict[str, TensorProto]) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    for name, t in tensors.items():
        t.name = name
        copy.graph.initializer.append(t)
    return copy


def compare(name: str, dtype: str, got: Array, want: TensorProto, atol: float) -> None:
    """Equal element type and shape; integers and bools equal, floats within the tolerance."""
    expected = unpacked(want)
    assert dtype == dtype_name(want.data_type), f"{name}: {dtype} computed, {dtype_name(want.data_type)} expected"
    assert got.shape == expected.shape, f"{name}: shape {got.shape} computed, {expected.shape} expected"
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected, err_msg=name)
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), expected.astype(wide), rtol=RTOL, atol=atol, err_msg=name)


def failure(name: str) -> str | None:
    """Why a test fails, in one line; None when it passes."""
    try:
        check(name)
    except LowbitError as e:
        return f"refused: {e}".splitlines()[0]
    except Exception as e:
        return f"WRONG: {type(e).__name__}: {' '.join(str(e).split())[:200]}"
    return None


def main(args: list[str]) -> None:
    if args == ["--prune"]:
        kept = {n: r for n, r in unsupported().items() if n in names() and failure(n) is not None}
        UNSUPPORTED.write_text("".join(f"{n}  {r}\n" for n, r in kept.items()))
        return
    chosen = [n for n in names() if all(a in n for a in args)]
    failures = {n: f for n in chosen if (f := failure(n)) is not None}
    for n, f in failures.items():
        print(f"{n}  {f}")
    print(f"{len(chosen) - len(failures)} of {len(chosen)} pass", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
