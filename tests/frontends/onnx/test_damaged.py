"""Laws of the ONNX frontend on damaged models: each node test with something wrong in it loads, runs, or is refused; nothing else."""

from __future__ import annotations

import random

import onnx
import onnx_nodes
import pytest
from onnx import AttributeProto, ModelProto

from lowbit.errors import LowbitError
from lowbit.ir.interp import run

ODD_NUMBERS = (-100, -1, 0, 1, 5, 2**40, -(2**62))
SUPPORTED = [n for n in onnx_nodes.names() if n not in onnx_nodes.unsupported()]


def damage(model: ModelProto, rng: random.Random) -> str:
    """Changes one thing in the model: an attribute, an input of a node, or the declared shape of an input. Says which."""
    node = rng.choice(model.graph.node)
    kind = rng.choice(["attribute", "input", "shape"])
    if kind == "attribute" and node.attribute:
        a = rng.choice(node.attribute)
        if a.type == AttributeProto.INT and rng.random() < 0.8:
            a.i = rng.choice(ODD_NUMBERS)
        elif a.type == AttributeProto.INTS and rng.random() < 0.8:
            values = [v if rng.random() < 0.5 else rng.choice(ODD_NUMBERS) for v in a.ints]
            del a.ints[:]
            a.ints.extend(values[: rng.choice([len(values), len(values) - 1])])
        elif a.type == AttributeProto.STRING:
            a.s = b"bogus"
        else:
            node.attribute.remove(a)
        return f"attribute {a.name} of {node.op_type}"
    if kind == "input" and node.input:
        i = rng.randrange(len(node.input))
        if rng.random() < 0.5 or not model.graph.input:
            node.input[i] = ""
        else:
            node.input[i] = rng.choice(model.graph.input).name
        return f"input {i} of {node.op_type}"
    if not model.graph.input:
        return "nothing"
    value = rng.choice(model.graph.input)
    dims = value.type.tensor_type.shape.dim
    if dims and rng.random() < 0.7:
        rng.choice(dims).dim_value = rng.choice([0, 1, 2, 7, 2**33])
    elif dims:
        dims.pop()
    else:
        value.type.tensor_type.elem_type = rng.choice([1, 6, 7, 9, 10, 11])
    return f"declared shape of {value.name}"


@pytest.mark.parametrize("start", range(8))
def test_a_damaged_model_is_refused_with_a_lowbit_error_or_runs(start: int) -> None:
    for name in SUPPORTED[start::8]:
        rng = random.Random(name)
        model = onnx.load(onnx_nodes.FOLDER / name / "model.onnx")
        inputs = onnx_nodes.Tensors(onnx_nodes.FOLDER / name / "test_data_set_0", "input")
        names = [v.name for v in model.graph.input]
        what = damage(model, rng)
        try:
            graph = onnx_nodes.load(model, inputs)
            run(graph, {v.name: inputs[names.index(v.name)] for v in graph.inputs})
        except LowbitError:
            continue
        except Exception as e:
            pytest.fail(f"{name}, {what} damaged: {type(e).__name__}: {e}")
