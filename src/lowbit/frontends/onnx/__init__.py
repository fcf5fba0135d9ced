"""ONNX, opset 7 to 25. `load_onnx` is the way in; the functions of the ops are in the files beside this one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowbit.errors import UnsupportedOp
from lowbit.frontends.onnx.importer import Importer, NeedsConstant, onnx_op
from lowbit.frontends.onnx.serialize import OnnxModel, parse_model, read_model
from lowbit.ir.graph import Graph
from lowbit.ir.shapes import Shapes

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

OPSETS = range(7, 26)  # what is supported, and tested by the node tests of onnx 1.20


def load_onnx(source: str | Path | bytes, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None) -> Graph:
    """The graph in an .onnx file or in the bytes of one.

    shapes     binds symbolic dimensions: by input name, or by symbol
    constants  gives inputs their value once and for all: {"sr": 16000}. They are no inputs of the graph then
    """
    return import_model(onnx_model(source), shapes, constants)


def onnx_model(source: str | Path | bytes) -> OnnxModel:
    """What an .onnx file, or its bytes, holds. `own.intact` says whether lowbit wrote it and nobody changed its nodes."""
    return parse_model(source, "model") if isinstance(source, bytes) else read_model(source)


def import_model(model: OnnxModel, shapes: Shapes | None = None, constants: Mapping[str, Any] | None = None) -> Graph:
    version = model.opsets.get("", OPSETS.start)
    if version not in OPSETS:
        how, bound = ("older", OPSETS.start) if version < OPSETS.start else ("newer", OPSETS.stop - 1)
        raise UnsupportedOp(
            f"opset {version} is {how} than {bound}",
            where=model.source,
            hint=f"export it again with an opset from {OPSETS.start} to {OPSETS.stop - 1}",
        )
    return Importer(model).run(shapes, constants)


__all__ = ["Importer", "NeedsConstant", "import_model", "load_onnx", "onnx_model", "onnx_op"]
