"""ONNX, opset 17 to 23. `export_onnx` is the way out; how an op is spelled is said by one function each, in the files beside this one."""

from __future__ import annotations

import importlib
import pkgutil

from lowbit.export.onnx.export import RECURRENCES, ExportReport, export_onnx, onnx_bytes
from lowbit.export.onnx.writer import SPELLINGS, Writer, spells

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["RECURRENCES", "SPELLINGS", "ExportReport", "Writer", "export_onnx", "onnx_bytes", "spells"]
