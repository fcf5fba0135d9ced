"""Networks of the zoo, and recipes for them, as C: which there are, and what must hold of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from codegen_tools import selftest

import lowbit
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule, FloatRule, WeightOnlyRule
from lowbit.runtime.session import Session
from lowbit.types import Array
from zoo import entry

DEMO = Path(lowbit.__file__).parent / "demo"
INTEGER = ("int8", "w4a8", "w4a8-block", "w1a8")  # whose graphs hold integers alone, from end to end
RECIPES = (*INTEGER, "float", "w4a8-dynamic", "int8-dynamic", "int4-weights", "binary-weights", "mixture")


@cache
def float_graph(name: str) -> tuple[Graph, dict[str, Array]]:
    """A network and an input for it; "demo" is the CNN of `lowbit demo`."""
    if name == "demo":
        g = lowbit.load(DEMO / "fashion_cnn.onnx", shapes={"batch": 1}) if _is_open() else lowbit.load(DEMO / "fashion_cnn.onnx")
        data = np.load(DEMO / "fashion_calibration_256.npz")
        images = next(data[k] for k in data.files if data[k].ndim >= 3)[:1].astype(np.float32)
        shape = [int(d) for d in g.inputs[0].shape]
        return g, {g.inputs[0].name: np.ascontiguousarray(images.reshape(shape))}
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    return g, dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))


def _is_open() -> bool:
    return bool(lowbit.load(DEMO / "fashion_cnn.onnx").symbols)


def mixture(graph: Graph) -> list[lowbit.QuantRule]:
    """Every third layer float, every third with its weights in four bits, the others int8."""
    layers = list(dict.fromkeys(n.name for n in graph.nodes if n.op in ("conv", "linear", "lstm", "gru") and n.name))
    floats, weights = ("|".join(f"^{n}$" for n in layers[i::3]) or "^$" for i in (1, 2))
    return [FloatRule(floats), WeightOnlyRule(weights, "int4"), CalibratedQuantRule(".*", "int8")]


def made(name: str, recipe: str) -> tuple[Graph, dict[str, Array]]:
    """The graph that C is printed from, without integers at its ends, and an input."""
    g, feed = float_graph(name)
    if recipe == "float":
        return lower(g).graph, feed
    rules = mixture(g) if recipe == "mixture" else None
    return lower(lowbit.quantize(g, [feed], recipe=None if rules else recipe, rules=rules, guard=False)).graph, feed


def check_c(name: str, recipe: str, folder: Path, compiler: str) -> None:
    """Compiles without a warning, runs clean under the sanitizers, and gives the interpreter's bits (floats: its values, nearly)."""
    graph, feed = made(name, recipe)
    emitted = lowbit.emit_c(graph, folder / "c", float_io=True, samples=[feed], vectors=1, measure=False)
    assert emitted.exact or recipe not in INTEGER
    said = selftest(folder / "c", folder / "selftest", compiler=compiler)  # knows the bits of the session below
    assert said.startswith(f"model: 0 of {2 * len(graph.outputs)} outputs differ")
    want, got = run(graph, feed), Session(graph, threads=1, isa="ref", stored=True).run(feed)
    for k, w in want.items():
        scale = float(np.abs(w).max()) or 1.0
        tolerance = 0 if recipe in INTEGER else 2e-2 if "dynamic" in recipe or recipe == "mixture" else 1e-4  # a row may round otherwise
        assert np.abs(w - got[k]).max() <= tolerance * scale
