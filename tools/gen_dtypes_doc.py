"""Writes docs/dtypes.md: every dtype × scheme × place, by asking the code. `make docs` makes it, a test keeps it fresh.

For each row a small network is quantized, lowered, planned with portable kernels, and printed as C: what the table says has happened.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lowbit
from lowbit.ir.graph import Graph
from lowbit.kernels import sources
from lowbit.lower import lower
from lowbit.plan.plan import Target
from lowbit.plan.segments import segments
from lowbit.quant_params import QUANT_DTYPES, SCHEMES
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, WeightOnlyRule
from lowbit.recommend.workload import Workload
from lowbit.runtime.session import Session, physical

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dtypes.md"
OPS = {"linear": (64, 8), "conv": (32, 6, 6, 8, 3)}
GRANULARITIES: tuple[Any, ...] = ("tensor", "channel", 32)
STATIC = [
    ("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8"), ("int16", "int8"), ("int16", "int16"), ("uint16", "int8"), ("int8", "int4"),
    ("int4", "int4"), ("uint4", "int4"), ("int8", "binary"), ("int4", "binary"), ("binary", "binary"), ("binary", "int8"),
]  # fmt: skip


def said(e: lowbit.LowbitError) -> str:
    return e.message.partition(" (")[0].replace("|", "/")


def arrays() -> Iterator[str]:
    """A row for each dtype: which schemes an array can have, and what multiplies it."""
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    for dtype in QUANT_DTYPES:
        cells = []
        for scheme in SCHEMES:
            try:
                q = lowbit.quantize_array(x, dtype, scheme=scheme)
                with np.errstate(all="ignore"):
                    _ = q @ q.T
                cells.append("yes")
            except lowbit.LowbitError as e:
                cells.append(f"refused: {said(e)}")
        yield f"| {dtype} | " + " | ".join(cells) + " |"


def rules() -> Iterator[tuple[str, str, Any, Any]]:
    for activation, weight in STATIC:
        for g in GRANULARITIES:
            yield "static", f"{activation} × {weight}", g, lambda a=activation, w=weight, g=g: CalibratedQuantRule(".*", a, w, g)
    for weight in ("int8", "int4", "binary"):
        for g in GRANULARITIES:
            yield "dynamic", f"int8 by rows × {weight}", g, lambda w=weight, g=g: DynamicQuantRule(".*", "int8", w, g)
    for weight in ("int8", "int4", "uint4", "int16", "binary"):
        for g in GRANULARITIES:
            yield "weights", f"float32 × {weight}", g, lambda w=weight, g=g: WeightOnlyRule(".*", w, granularity=g)
    for g in GRANULARITIES:
        words = "int8 × int4, logarithmic weights"
        yield "static", words, g, lambda g=g: CalibratedQuantRule(".*", "int8", granularity=g, weight_scheme="logarithmic")
    yield "dynamic", "int8 by rows × int4, logarithmic weights", "channel", lambda: DynamicQuantRule(".*", weight_scheme="logarithmic")
    yield (
        "weights",
        "float32 × int4, logarithmic weights",
        "channel",
        lambda: WeightOnlyRule(".*", granularity="channel", weight_scheme="logarithmic"),
    )
    for scheme in ("symmetric", "symmetric_restricted", "asymmetric", "logarithmic"):
        yield "static", f"int8 × int8, {scheme}", "channel", lambda s=scheme: CalibratedQuantRule(".*", scheme=s)


def quantized(op: str, rule: Any) -> Graph:
    """The op alone in a network of one batch, with a relu after it so that its result is integers, too."""
    graph = Workload(op, OPS[op]).graph()
    x = np.random.default_rng(0).standard_normal([2 if not isinstance(d, int) else d for d in graph.inputs[0].shape]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = lowbit.quantize(graph, [{"x": x}], rules=[rule])
    from lowbit.ir.bind import bind

    return bind(made, {"batch": 2})


def session_of(made: Graph) -> tuple[str, str]:
    """How a session runs it with portable kernels, and the instruction sets that have kernels of their own for it."""
    ready = lower(made)
    session = Session(ready.graph, threads=1, isa="ref")
    if any(island.op in OPS for island in ready.islands):
        return f"float: {next(i.because for i in ready.islands if i.op in OPS)}", ""
    if session.backend != "native":
        by_avx2 = all(part.native for part in segments(physical(ready.graph), Target(isas=("avx2", "ref"))))
        return ("kernel; interpreter without AVX2", "avx2") if by_avx2 else ("interpreter", "")
    x = np.zeros([int(d) for d in made.inputs[0].shape], np.float32)
    names = [r.kernel for r in session.profile(x, repeats=1).rows]
    heavy = [n.partition("__")[0] for n in names if any(word in n for word in ("linear", "conv", "matmul"))]
    isas = [isa for isa in sources.isas() if heavy and (heavy[-1], isa) in declared()]
    return f"kernel {', '.join(dict.fromkeys(heavy))}", ", ".join(isas)


_declared: set[tuple[str, str]] = set()


def declared() -> set[tuple[str, str]]:
    """(contract, instruction set) of every kernel in the sources."""
    from lowbit.kernels import kernel_table

    if not _declared:
        for path in kernel_table.kernel_files(sources.folder()):
            _declared.update(kernel_table.kernels_of(path))
    return _declared


def in_c(made: Graph) -> str:
    try:
        emitted = lowbit.emit_c(made, None, measure=False)
    except lowbit.LowbitError as e:
        return f"refused: {said(e)}"
    floats = any(n.op in OPS for n in lower(made).graph.nodes)
    return f"{emitted.weight_bytes:,} bytes" + (", floats inside" if floats else "")


def networks(op: str) -> Iterator[str]:
    for mode, words, granularity, rule in rules():
        text = f"block of {granularity}" if isinstance(granularity, int) else granularity
        try:
            made = quantized(op, rule())
            how, isas = session_of(made)
            yield f"| {mode} | {words} | {text} | {how} | {isas} | {in_c(made)} |"
        except lowbit.LowbitError as e:
            yield f"| {mode} | {words} | {text} | refused: {said(e)} | | refused |"


def page() -> str:
    """The whole page."""
    lines = [
        "# Dtypes and schemes, place by place",
        "",
        "Made by `make docs`: each row was quantized, planned with portable kernels and printed as C. *kernel*: compiled code;",
        "*interpreter*: the NumPy definition, the same bits, slow; *float*: the layer stays float, and why; *refused*: the call's error.",
        "`lowbit.torch` has the arrays' numbers (QTensor) and the layers' kernels.",
        "",
        "## Arrays and tensors",
        "",
        "Quantize, dequantize and multiply (`q @ q.T`), per tensor; granularities (tensor, axis, block) are all there for each.",
        "",
        "| dtype | " + " | ".join(SCHEMES) + " |",
        "|---|" + "---|" * len(SCHEMES),
        *arrays(),
    ]
    for op in OPS:
        lines += ["", f"## {op.capitalize()} layers in networks", ""]
        lines += ["| mode | activations × weights | weights per | session | instruction sets | generated C |", "|---|---|---|---|---|---|"]
        lines += list(networks(op))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
