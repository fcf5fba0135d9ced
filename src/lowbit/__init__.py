"""lowbit: few-bit networks, with the same bits everywhere. The public names, each imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# name -> module. `import lowbit` costs nothing but this table; onnx, torch and the ops are imported by what needs them.
_PUBLIC = {
    **dict.fromkeys(["load", "calibrate", "quantize", "compile", "emit_c"], "lowbit.pipeline"),
    **dict.fromkeys(["Graph", "Node", "Value"], "lowbit.ir.graph"),
    **dict.fromkeys(["Op", "register"], "lowbit.ops.op"),
    **dict.fromkeys(["TensorType"], "lowbit.types"),
    **dict.fromkeys(["Session"], "lowbit.runtime.session"),
    **dict.fromkeys(["load_kernels"], "lowbit.kernels.own_kernels"),
    **dict.fromkeys(["streaming", "Streaming"], "lowbit.frames"),
    **dict.fromkeys(["export_onnx"], "lowbit.export.onnx"),
    **dict.fromkeys(["inspect"], "lowbit.report.inspection"),
    **dict.fromkeys(["compare", "Report"], "lowbit.report.compare"),
    **dict.fromkeys(["evaluate", "Evaluation"], "lowbit.report.evaluate"),
    **dict.fromkeys(["verify_backends"], "lowbit.report.verify"),
    **dict.fromkeys(["QArray", "array", "quantize_array", "load_array", "save_array"], "lowbit.qarray"),
    **dict.fromkeys(["empty", "full", "quantize_int8", "quantize_uint8", "zeros"], "lowbit.qarray"),
    **dict.fromkeys(["QuantParams", "PerTensor", "PerAxis", "PerBlock"], "lowbit.quant_params"),
    **dict.fromkeys(["Hardware"], "lowbit.hardware"),
    **dict.fromkeys(["CalibrationEntry", "CalibrationRecord"], "lowbit.calibration.record"),
    **dict.fromkeys(
        ["QuantRule", "CalibratedQuantRule", "StaticQuantRule", "DynamicQuantRule", "WeightOnlyRule", "FloatRule", "RuleMatcher"],
        "lowbit.quantization.rules",
    ),
    **dict.fromkeys(["CustomQuantNode"], "lowbit.quantization.own_node"),
    **dict.fromkeys(["QuantNode"], "lowbit.quantization.rules"),
    **dict.fromkeys(["load_rules", "save_rules"], "lowbit.quantization.rules_file"),
    **dict.fromkeys(["search"], "lowbit.decide.search.walk"),
    **dict.fromkeys(["SearchResult"], "lowbit.decide.search.result"),
    **dict.fromkeys(["QuantizationTransform"], "lowbit.quantization.transform"),
    **dict.fromkeys(["insert_q_dq"], "lowbit.quantization.insert"),
    **dict.fromkeys(
        [
            "Observer",
            "MinMaxObserver",
            "MovingAverageMinMaxObserver",
            "PercentileObserver",
            "EntropyObserver",
            "MSEObserver",
            "AdaptiveObserver",
        ],
        "lowbit.calibration.observers",
    ),
    **dict.fromkeys(["calibrate_from_samples", "register_method"], "lowbit.calibration"),
    **dict.fromkeys(["auto_quantize", "optimal_params", "estimate_memory_savings"], "lowbit.auto"),
    **dict.fromkeys(["QuantizationSystem", "Workload", "auto_tune"], "lowbit.recommend"),
    **dict.fromkeys(["bench_ops"], "lowbit.recommend.ops"),
    **dict.fromkeys(["params_from_range", "params_from_data"], "lowbit.ranges"),
    **dict.fromkeys(["sqnr_db", "max_error", "cosine", "mse"], "lowbit.metrics"),
    **dict.fromkeys(["Limits"], "lowbit.limits"),
    **dict.fromkeys(
        [
            "LowbitError",
            "UnsupportedOp",
            "ShapeError",
            "DTypeError",
            "QuantError",
            "CalibrationError",
            "FormatError",
            "GraphError",
            "InputError",
            "LowbitWarning",
        ],
        "lowbit.errors",
    ),
}


__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in ("torch", "llm", "data"):  # packages, imported when they are used: some need extras
        return importlib.import_module(f"lowbit.{name}")
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'lowbit' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])


if TYPE_CHECKING:
    from lowbit.auto import auto_quantize as auto_quantize
    from lowbit.auto import estimate_memory_savings as estimate_memory_savings
    from lowbit.auto import optimal_params as optimal_params
    from lowbit.calibration import calibrate_from_samples as calibrate_from_samples
    from lowbit.calibration import register_method as register_method
    from lowbit.calibration.observers import AdaptiveObserver as AdaptiveObserver
    from lowbit.calibration.observers import EntropyObserver as EntropyObserver
    from lowbit.calibration.observers import MinMaxObserver as MinMaxObserver
    from lowbit.calibration.observers import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
    from lowbit.calibration.observers import MSEObserver as MSEObserver
    from lowbit.calibration.observers import Observer as Observer
    from lowbit.calibration.observers import PercentileObserver as PercentileObserver
    from lowbit.calibration.record import CalibrationEntry as CalibrationEntry
    from lowbit.calibration.record import CalibrationRecord as CalibrationRecord
    from lowbit.decide.search.result import SearchResult as SearchResult
    from lowbit.decide.search.walk import search as search
    from lowbit.errors import CalibrationError as CalibrationError
    from lowbit.errors import DTypeError as DTypeError
    from lowbit.errors import FormatError as FormatError
    from lowbit.errors import GraphError as GraphError
    from lowbit.errors import InputError as InputError
    from lowbit.errors import LowbitError as LowbitError
    from lowbit.errors import LowbitWarning as LowbitWarning
    from lowbit.errors import QuantError as QuantError
    from lowbit.errors import ShapeError as ShapeError
    from lowbit.errors import UnsupportedOp as UnsupportedOp
    from lowbit.export.onnx import export_onnx as export_onnx
    from lowbit.frames import Streaming as Streaming
    from lowbit.frames import streaming as streaming
    from lowbit.hardware import Hardware as Hardware
    from lowbit.ir.graph import Graph as Graph
    from lowbit.ir.graph import Node as Node
    from lowbit.ir.graph import Value as Value
    from lowbit.kernels.own_kernels import load_kernels as load_kernels
    from lowbit.limits import Limits as Limits
    from lowbit.metrics import cosine as cosine
    from lowbit.metrics import max_error as max_error
    from lowbit.metrics import mse as mse
    from lowbit.metrics import sqnr_db as sqnr_db
    from lowbit.ops.op import Op as Op
    from lowbit.ops.op import register as register
    from lowbit.pipeline import calibrate as calibrate
    from lowbit.pipeline import compile as compile
    from lowbit.pipeline import emit_c as emit_c
    from lowbit.pipeline import load as load
    from lowbit.pipeline import quantize as quantize
    from lowbit.qarray import QArray as QArray
    from lowbit.qarray import array as array
    from lowbit.qarray import empty as empty
    from lowbit.qarray import full as full
    from lowbit.qarray import load_array as load_array
    from lowbit.qarray import quantize_array as quantize_array
    from lowbit.qarray import quantize_int8 as quantize_int8
    from lowbit.qarray import quantize_uint8 as quantize_uint8
    from lowbit.qarray import save_array as save_array
    from lowbit.qarray import zeros as zeros
    from lowbit.quant_params import PerAxis as PerAxis
    from lowbit.quant_params import PerBlock as PerBlock
    from lowbit.quant_params import PerTensor as PerTensor
    from lowbit.quant_params import QuantParams as QuantParams
    from lowbit.quantization.insert import insert_q_dq as insert_q_dq
    from lowbit.quantization.own_node import CustomQuantNode as CustomQuantNode
    from lowbit.quantization.rules import CalibratedQuantRule as CalibratedQuantRule
    from lowbit.quantization.rules import DynamicQuantRule as DynamicQuantRule
    from lowbit.quantization.rules import FloatRule as FloatRule
    from lowbit.quantization.rules import QuantNode as QuantNode
    from lowbit.quantization.rules import QuantRule as QuantRule
    from lowbit.quantization.rules import RuleMatcher as RuleMatcher
    from lowbit.quantization.rules import StaticQuantRule as StaticQuantRule
    from lowbit.quantization.rules import WeightOnlyRule as WeightOnlyRule
    from lowbit.quantization.rules_file import load_rules as load_rules
    from lowbit.quantization.rules_file import save_rules as save_rules
    from lowbit.quantization.transform import QuantizationTransform as QuantizationTransform
    from lowbit.ranges import params_from_data as params_from_data
    from lowbit.ranges import params_from_range as params_from_range
    from lowbit.recommend import QuantizationSystem as QuantizationSystem
    from lowbit.recommend import Workload as Workload
    from lowbit.recommend import auto_tune as auto_tune
    from lowbit.recommend.ops import bench_ops as bench_ops
    from lowbit.report.compare import Report as Report
    from lowbit.report.compare import compare as compare
    from lowbit.report.evaluate import Evaluation as Evaluation
    from lowbit.report.evaluate import evaluate as evaluate
    from lowbit.report.inspection import inspect as inspect
    from lowbit.report.verify import verify_backends as verify_backends
    from lowbit.runtime.session import Session as Session
    from lowbit.types import TensorType as TensorType
