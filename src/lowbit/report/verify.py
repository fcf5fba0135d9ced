"""Compares every way to run a quantized graph, on the same inputs, bit by bit.

Backends that promise the arithmetic of docs/arithmetic.md are *exact*: their outputs, and on request every integer inside, must be the
same bits as the integer graph's in the interpreter, which is the definition. The Q/DQ graph in floats (fake quantization) promises less:
each layer gets the exact integers, and its results may differ by at most one step; larger differences are counted layer by layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from lowbit.arguments import flag
from lowbit.errors import CalibrationError, InputError, LowbitError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, Node, Value, need_graph, need_outputs
from lowbit.ir.interp import evaluate, run_node
from lowbit.ir.samples import as_samples, count
from lowbit.kernels import native
from lowbit.lower import lower
from lowbit.lower.integer import quantized_nodes
from lowbit.lower.signed import signed
from lowbit.progress import progress
from lowbit.report.text import counted
from lowbit.runtime.session import Session
from lowbit.types import Array

Outputs = Mapping[str, Array]
Run = Callable[[Outputs], Outputs]

REFERENCE, FLOAT_REFERENCE = "integer interpreter", "interpreter"
FAKE = "fake quantization"
SHOWN = 4  # names that a line lists at most
RECURRENT = ("q_lstm", "q_gru")  # ops whose state is rounded at every step: docs/arithmetic.md, section 7


@dataclass(frozen=True)
class Backend:
    """A way to run a quantized graph.

    prepare  from the Q/DQ graph, its integer graph and names of values inside, gives a function from inputs to the outputs and to those of
             the named values that it can show (an empty mapping of them is legal)
    present  whether it can run here
    floats   whether it also promises the bits of float islands, whose order of additions is not fixed
    """

    name: str
    prepare: Callable[[Graph, Graph, tuple[str, ...]], Run]
    present: Callable[[], bool] = lambda: True
    floats: bool = True


BACKENDS: dict[str, Backend] = {}


def add_backend(backend: Backend) -> None:
    """Registers an exact backend: it must give the reference's bits."""
    if backend.name in BACKENDS or backend.name in (REFERENCE, FAKE):
        raise InputError(f"there is a backend {backend.name!r} already")
    BACKENDS[backend.name] = backend


@dataclass
class Difference:
    """How the integers (or floats) of one value compare over all inputs."""

    value: str
    elements: int = 0
    different: int = 0  # not the same bits
    off_by_one: int = 0  # of integers: the codes differ by exactly 1
    integers: bool = False
    largest: float = 0.0
    peak: float = 0.0  # the largest absolute value of the reference
    op: str = ""  # the op that computes it in the integer graph
    promised: bool = True  # whether the backend promises the same bits here
    bound: int = 1  # of integers: how far fake quantization may be off for equal inputs, one step; tests check it for every op

    def add(self, reference: Array, other: Array) -> None:
        self.elements += reference.size
        if reference.dtype != other.dtype or reference.shape != other.shape:
            self.different += reference.size
            self.largest = float("inf")
            return
        bits = np.frombuffer(reference.tobytes(), np.uint8) != np.frombuffer(other.tobytes(), np.uint8)
        self.different += int(bits.reshape(reference.size, -1).any(axis=1).sum()) if reference.size else 0
        if reference.dtype.kind in "iuf":
            wide = np.float64 if reference.dtype.kind == "f" else np.int64
            self.integers = wide is np.int64
            with np.errstate(invalid="ignore"):
                apart = np.abs(reference.astype(wide) - other.astype(wide))
            self.largest = max(self.largest, float(np.nan_to_num(apart, nan=0.0).max(initial=0)))
            finite = reference[np.isfinite(reference)]
            self.peak = max(self.peak, float(np.abs(finite.astype(wide)).max(initial=0)))
            self.bound = 256 if reference.dtype.itemsize > 1 else 1
            self.off_by_one += int((apart == 1).sum()) if wide is np.int64 else 0


@dataclass
class BackendResult:
    """The results of one backend compared with the reference."""

    backend: str
    exact: bool  # whether it promises the same bits everywhere
    outputs: list[Difference] = field(default_factory=list)
    layers: list[Difference] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not any(d.different for d in (*self.outputs, *self.layers))

    @property
    def broken(self) -> list[Difference]:
        """Promised bits that differ; layers first, because differences begin there."""
        return [d for d in (*self.layers, *self.outputs) if d.different and d.promised]


@dataclass(frozen=True)
class Verification:
    """The results of every backend. `ok` when each gave the reference's bits wherever it promises them."""

    name: str
    batches: int
    results: tuple[BackendResult, ...]
    absent: tuple[str, ...]
    quantized: bool = True  # whether there are integers in it to compare
    floats: tuple[str, ...] = ()  # layers that compute in float, whose last bits (and those of all after them) are each backend's own

    @property
    def reference(self) -> str:
        return REFERENCE if self.quantized else FLOAT_REFERENCE

    @property
    def ok(self) -> bool:
        return not any(r.broken for r in self.results)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"reference": self.reference, "ok": self.ok}

    def __str__(self) -> str:
        lines = [f"{self.name}: {counted(self.batches, 'batch')}, reference: {self.reference}"]
        if not self.quantized:
            lines.append("  nothing in it is quantized: floats are compared, whose last bits are each backend's own")
        for r in self.results:
            for what, found in (("outputs", r.outputs), ("layers, each fed alike" if r.backend == FAKE else "layers", r.layers)):
                if found:
                    lines.append(f"  {r.backend}, {what}: {told(found)}")
        cap = os.environ.get("LOWBIT_ISA")
        lines += [f"  {name}: not present{f', or beyond LOWBIT_ISA={cap}' if cap else ''}" for name in self.absent]
        free = [r for r in self.results if not r.exact and r.backend != FAKE]
        if free and self.quantized:
            lines.append(f"  why {' and '.join(r.backend for r in free)} may differ: {islands_told(self.floats, free)}")
        lines += [f"  why {r.backend} may differ: {explained(r)}" for r in self.results if not r.exact and r.backend == FAKE]
        return "\n".join(lines)


def told(found: Iterable[Difference]) -> str:
    """The differences of some values in one line."""
    rows = list(found)
    elements, different, one = (sum(getattr(d, k) for d in rows) for k in ("elements", "different", "off_by_one"))
    if not different:
        return f"the same {elements:,} numbers, bit by bit"
    worst = max(rows, key=lambda d: (d.largest, d.different))
    share = f", {worst.largest / worst.peak:.1e} of the largest value" if one == 0 and 0 < worst.peak < np.inf else ""
    largest = f"the largest difference is {worst.largest:g}{share} ({worst.value})"
    steps = f", {one:,} by one" if any(d.integers for d in rows) else ""  # floats know no step
    return f"{different:,} of {elements:,} numbers differ{steps}; {largest}"


def explained(fake: BackendResult) -> str:
    """Why differences of fake quantization do not concern the integers, and whether they are within their bound."""
    if fake.same:
        return "floats happen to round every number here as the integers do"
    why = "floats round sums that integers hold exactly, so a result near the middle of two integers may fall to the other one. "
    steps = "one step of 8 bits for each layer fed alike" + (" (256 of 16 bits)" if any(d.largest > 1 for d in fake.layers) else "")
    beyond = [d for d in fake.layers if d.largest > d.bound]
    odd = [d for d in beyond if d.op not in RECURRENT]
    told_of = ", ".join(f"{d.value} ({d.op}) by {d.largest:g}" for d in (odd or beyond)[:4])
    if odd:
        return f"{why}But {told_of}: more than {steps}, so brackets and integers do not mean the same there"
    kept = f"kept but for {told_of}, whose state is rounded at every step there and not here" if beyond else "kept"
    return f"{why}The bound is {steps}: {kept}. Outputs differ by what such steps come to; what runs are the integers above"


def islands_told(floats: tuple[str, ...], free: list[BackendResult]) -> str:
    """The promise for a network with float layers, by name, and whether it was kept."""
    named = ", ".join(floats[:SHOWN]) + (f" and {len(floats) - SHOWN} more" if len(floats) > SHOWN else "")
    held = {d.value for r in free for d in (*r.layers, *r.outputs) if d.promised}
    odd = list(dict.fromkeys(d.value for r in free for d in r.broken))
    kept = "not kept in " + ", ".join(odd[:SHOWN]) if odd else "kept"
    promise = f"{counted(len(held), 'value')} compared here: {kept}" if held else "nothing that is compared here stands there"
    return (
        f"{named} compute in float, where the order of sums and the last bits are each backend's own. Layers after them may differ "
        f"by that, an integer by a step; before and beside them every bit is promised ({promise})"
    )


def verify_backends(quantized: Graph, data: Iterable[Any], *, layers: bool = False) -> Verification:
    """Runs every backend present on the same inputs. `layers` compares each integer value inside, too.

    Fake quantization is always compared layer by layer, because its outputs alone would hide where a difference begins.

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> lowbit.verify_backends(lowbit.quantize(g, [{"x": x}], guard=False), [{"x": x}]).ok
    True
    """
    need_outputs(need_graph(quantized, "verify_backends"))
    flag("layers", layers)
    quantized = signed(quantized)
    lowered = lower(quantized)
    integer = lowered.graph
    inside = tuple(o.name for n in integer.nodes for o in n.outputs if o.type.dtype.is_integer and o.name in quantized.values)
    shown = inside if layers else ()
    present = [b for b in BACKENDS.values() if b.present()]
    floats, loose = float_layers(integer)
    runs = [(BackendResult(b.name, b.floats or not floats), b.prepare(quantized, integer, shown)) for b in present]
    fake = BackendResult(FAKE, False)
    integers = bool(quantized_nodes(quantized))
    tallies: dict[tuple[str, str], Difference] = {}

    def add(result: BackendResult, rows: list[Difference], value: str, reference: Array, other: Array) -> None:
        key = (f"{result.backend}/{'layer' if rows is result.layers else 'output'}", value)
        if key not in tallies:
            maker = integer.producers.get(value)
            held = result is not fake and (result.exact or integer.outputs.get(value, integer.values.get(value)) not in loose)
            tallies[key] = Difference(value, op=maker.op if maker is not None else "", promised=held)
            rows.append(tallies[key])
        tallies[key].add(reference, other)

    batches = 0
    for i, arrays in enumerate(progress(as_samples(quantized, data), "verifying", count(data))):
        try:
            binding: dict[str, int] = {}
            for v in quantized.inputs:
                binding_for(v.type, arrays[v.name].shape, binding)
            reference = evaluate(bind(integer, binding), arrays, keep=inside)
            for result, run in runs:
                got = run(arrays)
                for name in integer.outputs:
                    add(result, result.outputs, name, reference[name], got[name])
                for name in shown:
                    if name in got:
                        add(result, result.layers, name, reference[name], got[name])
            if not integers:
                batches += 1
                continue
            faked = evaluate(bind(quantized, binding), arrays)
            for name in integer.outputs:
                add(fake, fake.outputs, name, reference[name], faked[name])
            for name, ints in fed_alike(bind(quantized, binding), arrays, {n: reference[n] for n in inside}):
                add(fake, fake.layers, name, reference[name], ints)
        except LowbitError as e:
            raise e.at(f"batch {i}") from None
        batches += 1
    if not batches:
        raise CalibrationError("there is no data to verify with", hint="an iterable of {input name: array}, tuples or arrays")
    absent = tuple(b.name for b in BACKENDS.values() if b not in present)
    return Verification(quantized.name, batches, (*(r for r, _ in runs), *([fake] if integers else [])), absent, integers, floats)


EXACT = {
    "quantize_linear",
    "dequantize_linear",
    "requantize",
    "relu",
    "relu6",
    "clip",
    "maximum",
    "minimum",
    "argmax",
    "argmin",
    "top_k",
    "cast",
}


def float_layers(graph: Graph) -> tuple[tuple[str, ...], set[Value]]:
    """The layers with a float sum or function, whose last bits depend on the kernel, and every value that depends on them."""
    named: list[str] = []
    loose: set[Value] = set()
    for n in graph.nodes:
        own = not (n.op.startswith("q_") or n.op in EXACT or not any(o.type.dtype.is_float for o in n.outputs) or moves(n))
        if own:
            named.append(n.name or n.output.name)
        if own or any(v in loose for v in n.inputs):
            loose.update(n.outputs)
    return tuple(dict.fromkeys(named)), loose


def moves(node: Node) -> bool:
    """Whether a node only moves its input."""
    return node.op in ("reshape", "transpose", "slice", "concat", "identity", "gather", "pad", "expand", "split", "where", "flip")


def native_backend(isa: str) -> Backend:
    """The compiled kernels up to an instruction set, in a session."""

    def prepare(_: Graph, integer: Graph, names: tuple[str, ...]) -> Run:
        values = {name: integer.values[name] for name in names if name not in integer.outputs}
        return Session(replace(integer, outputs={**integer.outputs, **values}), isa=isa).run

    def present() -> bool:
        return native.runs(isa)

    return Backend(f"native {isa}", prepare, present, floats=False)


for _isa in native.isas():
    add_backend(native_backend(_isa))


def fed_alike(graph: Graph, arrays: Mapping[str, Array], ints: Mapping[str, Array]) -> Iterable[tuple[str, Array]]:
    """The result of each bracket of the Q/DQ graph for the exact integers before it, so that layers are compared independently."""
    env: dict[str, Array] = {k: c.data for k, c in graph.constants.items()} | dict(arrays)
    for node in graph.nodes:
        for value, array in zip(node.outputs, run_node(node, [env[v.name] if v is not None else None for v in node.inputs]), strict=True):
            env[value.name] = ints.get(value.name, array)
            if value.name in ints:
                yield value.name, array
