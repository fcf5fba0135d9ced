"""ONNX, opset 7 to 25. `load_onnx` is the way in; the functions of the ops are in the files beside this one."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowbit.dims import symbol, symbols
from lowbit.errors import LowbitError, ShapeError, UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, NeedsConstant, onnx_op
from lowbit.frontends.onnx.inputs import Reopened, reopened
from lowbit.frontends.onnx.serialize import OnnxModel, OwnGroup, parse_model, read_model
from lowbit.ir.bind import bind
from lowbit.ir.graph import PREPROCESSING, Graph
from lowbit.ir.shapes import Given, Shapes, checked_shapes, shape_text_of
from lowbit.types import shape_text

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

OPSETS = range(7, 26)  # supported, and tested by the node tests of onnx 1.20


Proof = Callable[[OnnxModel, Graph, OwnGroup], bool]


def load_onnx(
    source: str | Path | bytes, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None, proof: Proof | None = None
) -> Graph:
    """The graph in an .onnx file or in the bytes of one.

    shapes     binds symbolic dimensions: by input name, or by symbol
    constants  gives inputs their value once and for all: {"sr": 16000}. They are no inputs of the graph then
    proof      whether nodes are what lowbit's metadata say that they spell; without one, the nodes stay as they are
    """
    return import_model(onnx_model(source), shapes, constants, proof)


def onnx_model(source: str | Path | bytes) -> OnnxModel:
    """The model of an .onnx file or its bytes. `own.intact` says whether lowbit wrote it and its nodes are unchanged."""
    return parse_model(source, "model") if isinstance(source, bytes) else read_model(source)


def import_model(
    model: OnnxModel, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None, proof: Proof | None = None
) -> Graph:
    """The graph. Metadata of lowbit's own replace nodes only where they are proved: what a file means must not depend on its reader."""
    graph = _proved(model, shapes, constants, proof)
    stored = {f"{PREPROCESSING}{v.name}": model.preprocessing[v.name] for v in graph.inputs if v.name in model.preprocessing}
    return replace(graph, notes={**graph.notes, **stored}) if stored else graph


def _proved(model: OnnxModel, shapes: Shapes | None, constants: Mapping[str, Any] | None, proof: Proof | None) -> Graph:
    if model.own is None or not model.own.groups:
        return _imported(model, shapes, constants)
    if proof is None:
        return _imported(_with_groups(model, ()), shapes, constants)
    try:
        graph = _imported(model, shapes, constants)
        proved = tuple(g for g in model.own.groups if proof(model, graph, g))
    except LowbitError:
        graph, proved = None, ()
    if graph is not None and len(proved) == len(model.own.groups):
        return graph
    return _imported(_with_groups(model, proved), shapes, constants)


def _with_groups(model: OnnxModel, groups: tuple[OwnGroup, ...]) -> OnnxModel:
    """The model with these groups alone; one whose metadata are not true is none that lowbit wrote."""
    assert model.own is not None
    return replace(model, own=replace(model.own, groups=groups, intact=False))


def _imported(model: OnnxModel, shapes: Shapes | None, constants: Mapping[str, Any] | None) -> Graph:
    version = model.opsets.get("", OPSETS.start)
    if version not in OPSETS:
        how, bound = ("older", OPSETS.start) if version < OPSETS.start else ("newer", OPSETS.stop - 1)
        raise UnsupportedOp(
            f"opset {version} is {how} than {bound}",
            where=model.source,
            hint=f"export it again with an opset from {OPSETS.start} to {OPSETS.stop - 1}",
        )
    given = checked_shapes(shapes)
    inputs, asked, anew = reopened(model.graph.inputs, given)
    if not anew:
        return Importer(model).run(given, constants)
    try:
        made = Importer(replace(model, graph=replace(model.graph, inputs=inputs)), anew).run(asked, constants)
        keeps_rows(made, anew)
        return bind(made, {name: a.new for name, a in anew.items() if isinstance(a.new, int) and name in made.symbols})
    except LowbitError as e:
        raise depends_on(model, given, e) from e


def keeps_rows(graph: Graph, anew: Mapping[str, Reopened]) -> None:
    """A ShapeError unless every output has the new batch as one of its axes, and nowhere else."""
    for name in (n for n, a in anew.items() if a.first):
        for out, v in graph.outputs.items():
            if [d for d in v.shape if name in symbols(d)] != [symbol(name)]:
                shape = shape_text(v.shape).replace(name, "batch")
                raise ShapeError(f"output {out!r} would be {shape}, which has no axis for the batch", where=graph.name)


def depends_on(model: OnnxModel, given: Given, e: LowbitError) -> ShapeError:
    """The error if a size that the file fixes cannot be changed."""
    v, shape = next(
        (v, wanted)
        for v in model.graph.inputs
        if isinstance(wanted := given.get(v.name), tuple) and any(isinstance(a, int) and a != b for a, b in zip(v.shape or (), wanted))
    )
    has = shape_text(d if isinstance(d, int) else symbol(re.sub(r"\W", "_", d or "") or "n") for d in v.shape or ())
    place = f"{e.where}: " if e.where else ""
    return ShapeError(
        f"shapes= gives {shape_text_of(shape)}, the model has {has} and depends on it ({place}{e.message})",
        where=f"{model.source}: input {v.name!r}",
        hint="export the model again with the size you need, or with that dimension open",
    )


__all__ = ["Importer", "NeedsConstant", "import_model", "load_onnx", "onnx_model", "onnx_op"]
