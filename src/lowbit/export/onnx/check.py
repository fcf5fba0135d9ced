"""Tries a file before it is called done: onnx.checker, then a run in ONNX Runtime against lowbit's interpreter."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowbit.errors import FormatError, LowbitError, UnsupportedOp
from lowbit.ir.bind import bind
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.lower.layer_graphs import layer_graphs
from lowbit.types import Array

SIZES = (2, 1, 8, 32, 48, 64, 224)  # tried in turn for symbolic dimensions, because some networks fit some sizes only
NOTICEABLE = 0.01  # root mean square, relative: of a session that is not what the file says
LEAST_RANGE = 1e-3  # of an output: differences at the far end of a sigmoid are no errors
FLOAT_TOLERANCE = 1e-3  # of the output's range: two libraries add in different orders
STEP_TOLERANCE = (
    0.1  # root mean square, relative: a sum on the edge between two integers may fall to either side, and layers after it follow
)


@dataclass(frozen=True)
class Agreement:
    """How far ONNX Runtime's outputs are from lowbit's on random inputs, the worst of all outputs."""

    runtime: str
    max_error: float  # the largest difference, of the output's range
    rms_error: float  # root mean square of the difference, of the output's

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def check_bytes(graph: Graph, data: bytes, *, integers: bool = False) -> tuple[str, Agreement | None]:
    """Whether and how the file was run, and how well it agrees. A FormatError when it is no legal model or computes something else.

    `integers`: the file computes some layers by lowbit's integer arithmetic, and is compared with that.
    """
    import onnx

    try:
        onnx.checker.check_model(onnx.ModelProto.FromString(data), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
        raise FormatError(f"onnx.checker refuses the model: {_first_line(e)}", where=graph.name) from e
    if importlib.util.find_spec("onnxruntime") is None:
        return "not run: ONNX Runtime is not installed", None
    import onnxruntime as ort

    found_inputs = random_inputs(graph)
    if found_inputs is None:
        return f"not run: none of the sizes {', '.join(map(str, SIZES))} fits all of {', '.join(graph.symbols)}", None
    bound, inputs = found_inputs
    ours = run(lower(bound).graph if integers else bound, inputs)
    try:
        theirs = run_onnx(data, inputs)
    except Exception as e:  # ONNX Runtime's errors have no common base
        if type(e).__module__.partition(".")[0] not in ("onnxruntime", "builtins"):
            raise
        raise UnsupportedOp(
            f"ONNX Runtime {ort.__version__} does not run the model: {_first_line(e)}",
            where=graph.name,
            hint="check=False writes the file without running it",
        ) from e
    found = agreement(ours, theirs, f"ONNX Runtime {ort.__version__}")
    quantized = any(n.op in ("quantize_linear", "dynamic_quantize_linear") for n in graph.nodes)
    wrong = found.rms_error > STEP_TOLERANCE if quantized else found.max_error > FLOAT_TOLERANCE
    if wrong:
        raise FormatError(
            f"{found.runtime} computes something else: errors up to {found.max_error:.2g} of the range",
            where=graph.name,
            hint="check=False writes the file all the same; please report it, one of the two programs is wrong",
        )
    floats = "the Q/DQ graph in floats (lowbit verify has the integers that lowbit runs)"
    against = floats if quantized and not integers else "lowbit's interpreter"
    rms = f"{found.rms_error:.1e} root mean square, where {STEP_TOLERANCE:g} is the limit"
    limit = rms if quantized else f"the limit is {FLOAT_TOLERANCE:g}"
    errors = f"fine, errors up to {found.max_error:.1e} of the range ({limit}) against {against}"
    return f"run in {found.runtime} on random inputs: {errors}{fused_remark(data, inputs, ours, found)}", found


def check_recurrences(graph: Graph, write: Callable[[Graph], bytes]) -> None:
    """A FormatError unless ONNX Runtime gives the very bytes of every LSTM and GRU in integers, each alone, on those of a random input.

    The whole file is allowed the steps by which float brackets differ; these layers are not.
    """
    found_inputs = random_inputs(graph) if importlib.util.find_spec("onnxruntime") is not None else None
    if found_inputs is None:
        return  # `check_bytes` says why
    bound, inputs = found_inputs
    seen: dict[str, Array] = {}
    run(bound, inputs, on_value=lambda v, x: seen.__setitem__(v.name, x) if not v.type.dtype.is_float else None)
    for node, alone in layer_graphs(bound):
        lowered = lower(alone)
        if node.op not in ("lstm", "gru") or lowered.islands:
            continue
        codes = {v.name: seen[v.name] for v in alone.inputs}
        differ = int((run(lowered.graph, codes)["y"] != run_onnx(write(alone), codes)["y"]).sum())
        if differ:
            raise FormatError(
                f"ONNX Runtime gives other integers than lowbit: {differ:,} of {seen[alone.outputs['y'].name].size:,} differ",
                where=node.where,
                hint='recurrences="float" writes the standard op; please report it',
            )


def fused_remark(data: bytes, inputs: Mapping[str, Array], ours: Mapping[str, Array], found: Agreement) -> str:
    """The remark on ONNX Runtime's default session, which fuses layers and runs them by other kernels.

    On x86 without VNNI those add products of 8 bits in 16 and saturate: the file is right, its fast execution there is not.
    """
    try:
        fused = agreement(ours, run_onnx(data, inputs, fused=True), found.runtime)
    except Exception as e:
        return f"; its default session, which fuses layers, does not run it: {_first_line(e)}{_what_runs_it(data, inputs)}"
    if fused.rms_error < max(4 * found.rms_error, NOTICEABLE):
        return ""
    return (
        f"; its default session, which fuses layers, is off by up to {fused.max_error:.2g} of the range on this CPU (integer kernels that"
        " saturate without VNNI), and may be off by more on your data: ORT_DISABLE_ALL gives what the file says"
    )


def _what_runs_it(data: bytes, inputs: Mapping[str, Array]) -> str:
    """The setting of ONNX Runtime that runs a file which its default session refuses: what turns int8 into uint8 there misses nodes."""
    try:
        run_onnx(data, inputs, optimize=True)
    except Exception:
        return "; ORT_DISABLE_ALL runs it"
    return "; a session with the entry session.qdqisint8allowed = 1 does (SessionOptions.add_session_config_entry)"


def run_onnx(data: bytes, inputs: Mapping[str, Array], *, optimize: bool = False, fused: bool = False) -> dict[str, Array]:
    """The model's outputs by name in ONNX Runtime: node by node as the file says, as its default session does (`fused`), or by integer
    kernels wherever it has them (`optimize`)."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if optimize:  # on x86 it leaves int8 activations to float kernels unless told otherwise
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    elif not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def random_inputs(graph: Graph, seed: int = 0) -> tuple[Graph, dict[str, Array]] | None:
    """The graph with small numbers for its symbols, and inputs for it: normal floats, zeros and ones for integers (legal as indices).

    None when no number fits.
    """
    bound = small_sizes(graph)
    if bound is None:
        return None
    rng = np.random.default_rng(seed)
    inputs = {}
    for v in bound.inputs:
        shape = tuple(int(d) for d in v.shape)
        x = rng.standard_normal(shape) if v.type.dtype.is_float else rng.integers(0, 2, shape)
        inputs[v.name] = np.asarray(x).astype(v.type.dtype.numpy)
    return bound, inputs


def small_sizes(graph: Graph) -> Graph | None:
    """The graph bound to one size for all symbols, then to a smaller one for each that allows it: a batch is smaller than an image."""

    def fitted(sizes: dict[str, int]) -> Graph | None:
        try:
            return bind(graph, sizes)
        except LowbitError:
            return None

    for size in SIZES:
        sizes = dict.fromkeys(graph.symbols, size)
        if fitted(sizes) is None:
            continue
        for symbol in graph.symbols:
            smaller = [n for n in SIZES if n < size and fitted({**sizes, symbol: n}) is not None]
            sizes[symbol] = smaller[0] if smaller else size
        return fitted(sizes)
    return None


def agreement(ours: Mapping[str, Array], theirs: Mapping[str, Array], runtime: str) -> Agreement:
    """The worst over all outputs."""
    largest = rms = 0.0
    for name, want in ours.items():
        got = theirs[name]
        if got.shape != want.shape:
            return Agreement(runtime, float("inf"), float("inf"))
        if not want.size:
            continue
        a, b = (np.nan_to_num(t.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30) for t in (want, got))
        error = np.abs(a - b)
        if want.dtype.kind == "b" or (want.dtype.kind in "iu" and want.dtype.itemsize > 2):  # indices: near is not nearly right
            wrong = float((error != 0).mean())
            largest, rms = max(largest, wrong), max(rms, wrong)
            continue
        scale = max(float(np.ptp(a)) or float(np.abs(a).max()), LEAST_RANGE)
        power = max(float(np.sqrt(np.square(a).mean())), LEAST_RANGE)
        largest, rms = max(largest, float(error.max()) / scale), max(rms, float(np.sqrt(np.square(error).mean())) / power)
    return Agreement(runtime, largest, rms)


def _first_line(e: Exception) -> str:
    return next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)
