"""The road on one page: which stage follows which. The stages themselves know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import Any

from lowbit.calibration.record import CalibrationRecord
from lowbit.dims import Sym, substitute
from lowbit.errors import CalibrationError, FormatError, InputError, ShapeError
from lowbit.ir.bind import bind
from lowbit.ir.graph import Graph
from lowbit.lower import lower
from lowbit.quantization.recipes import recipe as rules_of
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.transform import QuantizationTransform
from lowbit.runtime.session import Session
from lowbit.types import shape_text

Shapes = Mapping[str, Sequence[int | str] | int]


def load(
    source: Any,
    *,
    shapes: Shapes | None = None,
    inputs: Sequence[Any] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    simplify: bool | None = None,
) -> Graph:
    """The network as a Graph: from an .onnx or .lowbit file, from ONNX bytes, or from a torch module or ExportedProgram.

    shapes    binds dimensions that the model leaves open: {"x": [1, 3, 224, 224]} by input, or {"batch": 1} by symbol
    inputs    example inputs of a torch module
    dynamic   dimensions of a torch module's inputs that stay symbols: {"x": {0: "batch"}}
    simplify  folds constants and batch norms, and fuses what exporters spell out; False keeps the graph as it was written, which is
              also the default for .lowbit files: they hold what lowbit made
    """
    from lowbit.passes import simplify as simplify_graph

    graph = _read(source, shapes, inputs, dynamic)
    if simplify is None:
        simplify = not (isinstance(source, str | PathLike) and Path(source).suffix == ".lowbit")
    return simplify_graph(graph) if simplify else graph


def _read(source: Any, shapes: Shapes | None, inputs: Sequence[Any] | None, dynamic: Mapping[str, Mapping[int, str]] | None) -> Graph:
    if isinstance(source, bytes):
        from lowbit.frontends.onnx import load_onnx

        return load_onnx(source, shapes)
    if isinstance(source, str | PathLike):
        path = Path(source)
        if not path.is_file():
            raise FormatError("there is no such file", where=str(path), hint="the path of an .onnx or a .lowbit file")
        if path.suffix == ".lowbit":
            from lowbit.ir.file import load as load_file

            return bind_shapes(load_file(path), shapes or {})
        if path.suffix == ".onnx":
            from lowbit.frontends.onnx import load_onnx

            return load_onnx(path, shapes)
        raise FormatError(
            f"files of kind '{path.suffix}' are not read", where=path.name, hint=".onnx, .lowbit, or a torch module in memory"
        )
    if type(source).__module__.split(".")[0] == "torch" or hasattr(source, "forward"):
        from lowbit.frontends.torch import load_torch

        return bind_shapes(load_torch(source, inputs, dynamic=dynamic), shapes or {})
    raise InputError(
        f"{type(source).__name__} cannot be loaded", hint="the path of an .onnx or .lowbit file, or a torch.nn.Module with inputs="
    )


def bind_shapes(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with `shapes` (by input name or by symbol) bound. Names in a shape stand for dimensions that stay as they are."""
    binding: dict[str, int] = {k: v for k, v in shapes.items() if isinstance(v, int)}
    by_name = {v.name: v.type for v in graph.inputs}
    for name, shape in shapes.items():
        if isinstance(shape, int):
            continue
        if name not in by_name:
            raise InputError(f"shapes= names {name!r}, which is no input", hint=f"the inputs are {', '.join(by_name)}")
        wanted = by_name[name].shape
        for want, given in zip(wanted, shape, strict=False):
            if isinstance(given, int) and isinstance(want, Sym) and str(want).isidentifier():
                binding[str(want)] = given
        fits = len(shape) == len(wanted) and all(
            isinstance(g, str) or substitute(w, binding) == g for w, g in zip(wanted, shape, strict=True)
        )
        if not fits:
            raise ShapeError(f"shapes= gives {list(shape)}, the model has {shape_text(wanted)}", where=f"input {name!r}")
    return bind(graph, binding)


def calibrate(
    graph: Graph,
    data: Iterable[Any],
    *,
    method: str = "minmax",
    recipe: str = "int8",
    rules: Iterable[QuantRule] | None = None,
    executor: Executor | None = None,
) -> CalibrationRecord:
    """Ranges of every value that the rules (or the recipe) will quantize, learned from `data`: an iterable of {input name: array}.

    method    minmax, moving-average, percentile, entropy, mse or adaptive
    executor  spreads samples over processes or machines; the record is the same, bit for bit
    """
    from lowbit.calibration.run import calibrate as run_calibration

    transform = QuantizationTransform(rules if rules is not None else rules_of(recipe))
    return run_calibration(graph, data, transform.taps(graph).observed, method=method, executor=executor)


def quantize(
    graph: Graph,
    calibration: CalibrationRecord | Iterable[Any] | None = None,
    *,
    recipe: str = "int8",
    rules: Iterable[QuantRule] | None = None,
    method: str = "minmax",
    executor: Executor | None = None,
    strict: bool = False,
) -> Graph:
    """The graph with Q/DQ brackets where the rules (or the recipe) want integers. `calibration` is a record, or data to make one.

    strict  rules that decide nothing are an error, not a warning
    """
    chosen = list(rules) if rules is not None else rules_of(recipe)
    record = calibration
    if calibration is None:
        needed = QuantizationTransform(chosen).taps(graph).observed
        if needed:
            raise CalibrationError(
                f"{len(needed)} values need data to know their range ({needed[0]!r} is the first)",
                hint="data or a calibration record; the recipes int8-dynamic and int4-weights need neither",
            )
    if calibration is not None and not isinstance(calibration, CalibrationRecord):
        record = calibrate(graph, calibration, method=method, rules=chosen, executor=executor)
    assert record is None or isinstance(record, CalibrationRecord)
    return QuantizationTransform(chosen).apply(graph, record, strict=strict)


def compile(graph: Graph) -> Session:
    """The graph, ready to run: `session(x)` for one array in and one out, `session.run({name: array})` in general.

    What stands between Q/DQ brackets runs on integers, by the arithmetic of docs/arithmetic.md.
    """
    return Session(lower(graph).graph)
