"""Compares a float network with its quantized form over data: the new form of each layer, and its cost in accuracy.

For each layer two signal-to-noise ratios, in decibels:

    local        the float layer compared with the quantized layer, both on the inputs of the quantized layer
    accumulated  the value in the float network compared with the value in the quantized network

The quantized network runs as its integer graph. Only one sample's values are in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from lowbit.arguments import path as needed
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, warn
from lowbit.files import write_whole
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, need_graph, need_outputs
from lowbit.ir.interp import evaluate, last_uses, run_node
from lowbit.ir.samples import as_samples, count
from lowbit.lower.integer import quantized_nodes
from lowbit.progress import progress
from lowbit.report.coverage import Coverage, Kind, Seen, coverage, proofs, summary
from lowbit.report.ends import LastFunction, last_function
from lowbit.report.foreign import DataWatch
from lowbit.report.inspection import node_macs
from lowbit.report.scored_output import scored_output
from lowbit.report.scores import LabelQueue, ScorePair, TopCount, as_labels, need_metric, scored
from lowbit.report.tally import Tally
from lowbit.report.text import counted, decibels, plain
from lowbit.runtime.network_times import time_networks
from lowbit.runtime.session import Session
from lowbit.runtime.timing import NOTICEABLE
from lowbit.types import Array


@dataclass(frozen=True)
class LayerRow:
    """One layer of the float graph. Decibels are None if the layer has no value of its own to measure."""

    layer: str
    op: str
    kind: Kind
    became: str
    types: str
    weights: str
    because: str
    proof: str
    bound: int | None
    macs: int
    bytes_before: int
    bytes_after: int
    local_db: float | None
    accumulated_db: float | None

    @property
    def now(self) -> str:
        """The op that computes it; "inside" if that belongs to another layer."""
        return self.kind if self.kind == "inside" else self.became or self.kind


@dataclass(frozen=True)
class OutputRow:
    """One output. For integer outputs (indices) only the share of equal elements is given.

    before, before_db: the final function of the output (softmax, sigmoid, argmax) and the dB of its input; None if there is none. Of a
    softmax and an argmax, a constant that all classes have in common does not count. `lowbit.quantize` tells dB before that function, too.
    """

    name: str
    sqnr_db: float | None
    max_error: float | None
    cosine: float | None
    same_argmax: float | None  # how often the largest element of the last axis is the same
    equal: float  # share of elements that are the same number
    before: str | None = None
    before_db: float | None = None

    @property
    def said_db(self) -> str:
        """64.9 dB after the softmax, 38.1 dB before it; "" if there is no dB."""
        own = "" if self.sqnr_db is None else decibels(self.sqnr_db)
        if self.before is None or self.before_db is None:
            return own
        after = f"{own} after the {self.before}, " if own else ""
        return f"{after}{decibels(self.before_db)} before {'it' if own else 'the ' + self.before}"


@dataclass(frozen=True)
class Report:
    """The effects of quantizing a network. A report prints itself, shows itself in a notebook, and saves itself as .json or .html.

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> report = lowbit.compare(g, lowbit.quantize(g, [{"x": x}], guard=False), [{"x": x}])
    >>> str(report).splitlines()[0]
    'linear: 1 of 1 layers integer'
    """

    name: str
    layers: tuple[LayerRow, ...]
    outputs: tuple[OutputRow, ...]
    batches: int
    bytes_before: int
    bytes_after: int
    float_ms: float  # of the first batch, measured in turns with the quantized network
    quantized_ms: float
    backend: str  # of the quantized network's session
    remarks: tuple[str, ...]
    score: ScorePair | None = None  # of labels or a metric, where they were given

    @property
    def coverage(self) -> str:
        """41 of 43 layers integer; float: softmax (rule), …"""
        return summary((r.layer, r.kind, r.because) for r in self.layers)

    @property
    def proof(self) -> str:
        """The width of the accumulators, and that none can overflow; "" if there are none."""
        return proofs((r.layer, r.bound) for r in self.layers)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one batch."""
        return sum(r.macs for r in self.layers)

    @property
    def integer_macs(self) -> float:
        """The share of multiply-accumulates on integers; 1.0 if there are none."""
        return sum(r.macs for r in self.layers if r.kind in ("integer", "inside")) / self.macs if self.macs else 1.0

    @property
    def slower(self) -> bool:
        """Whether the quantized network is slower, by more than the noise of a short measurement."""
        return self.quantized_ms > NOTICEABLE * self.float_ms

    @property
    def times(self) -> str:
        """The times of the first batch in both networks; if the quantized one is slower because of 16 bits, the option that avoids them."""
        text = f"the first takes {self.float_ms:.3g} ms in float, {self.quantized_ms:.3g} ms quantized ({self.backend})"
        if not self.slower:
            return text
        wide = any("int16" in f"{r.types} {r.weights}" for r in self.layers)
        return text + (
            ", slower: layers have 16 bits, which wide=False (--no-wide) does without"
            if wide
            else ", slower: lowbit bench --layers tells where"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: infinite decibels (equal bits) are "inf", unmeasured ones null."""
        values: dict[str, Any] = plain(asdict(self) | {"score": None if self.score is None else self.score.to_dict()})
        return values | {"coverage": self.coverage, "proof": self.proof, "macs": self.macs, "integer_macs": self.integer_macs}

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the report, whole or not at all: a single page as .html, all numbers as .json."""
        from lowbit.report.html import page

        kind = needed(path).suffix
        if kind not in (".json", ".html"):
            raise FormatError(f"reports are not written as '{kind}'", where=str(path), hint="report.html or report.json")
        text = page(self) if kind == ".html" else json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"
        write_whole(path, text.encode())

    def _repr_html_(self) -> str:
        from lowbit.report.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.coverage}"]
        lines.append(f"{self.bytes_before:,} → {self.bytes_after:,} bytes; {self.integer_macs:.1%} of {self.macs:,} MACs on integers")
        lines += [self.proof] if self.proof else []
        for o in self.outputs:
            said = f"{o.said_db}, " if o.said_db else ""
            lines.append(f"output {o.name}: {said}{o.equal:.1%} of elements equal, over {counted(self.batches, 'batch')}")
        lines += [str(self.score)] if self.score is not None else []
        lines.append(self.times)
        for r in self.layers:
            lines.append(
                f"  {r.layer}  {r.op} → {r.now}{said_types(r)}  {decibels(r.local_db)} / {decibels(r.accumulated_db)}  {r.because}"
            )
        return "\n".join([*lines, *(f"note: {r}" for r in self.remarks)])


def said_types(r: LayerRow) -> str:
    """ " (int16 × int8 → int8, weights int8 per axis 0)": the widths of what a layer reads, multiplies by and gives."""
    told = [t for t in (r.types, f"weights {r.weights}" if r.weights else "") if t and r.kind != "inside"]
    return f" ({', '.join(told)})" if told else ""


def compare(
    graph: Graph,
    quantized: Graph,
    data: Iterable[Any],
    *,
    labels: Any = None,
    output: str | None = None,
    metric: Callable[[Session], Any] | None = None,
) -> Report:
    """The report on `quantized`, made from `graph`, over `data`: an iterable of {input name: array}, tuples or arrays.

    labels  the class of each row of data, in its order: the report has top-1 of both networks (see `lowbit.evaluate`)
    output  the output whose classes they are, where the network has several and it is not plain which
    metric  metric(session) gives a number, higher is better, on data of its own: the report has that of both networks

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> report = lowbit.compare(g, lowbit.quantize(g, [{"x": x}], guard=False), [{"x": x}])
    >>> report.layers[0].op
    'linear'
    """
    need_graph(graph, "compare")
    need_outputs(need_graph(quantized, "compare"))
    if quantized_nodes(graph):
        swapped = " (the second is not: are they swapped?)" if not quantized_nodes(quantized) else ""
        raise InputError(
            f"the first graph is quantized itself{swapped}", where=graph.name, hint="compare(float graph, quantized graph, data)"
        )
    sides = ("inputs", _types(graph.inputs), _types(quantized.inputs)), ("outputs", [*graph.outputs], [*quantized.outputs])
    for what, ours, theirs in sides:
        if ours != theirs:
            raise InputError(f"the graphs have different {what}: {ours} and {theirs}", hint="a graph and what quantize made of it")
    found = coverage(graph, quantized)
    if graph.nodes and not any(o.name in found.seen for n in graph.nodes for o in n.outputs):
        text = f"no layer of {graph.name!r} is found in {quantized.name!r}: it was hardly made from it, only outputs can be compared"
        warn(text)
    need_metric(metric)
    if labels is not None and metric is not None:
        raise InputError("labels= and metric= are both given", hint="one of them: a metric brings its own data and labels")
    if output is not None and labels is None:
        raise InputError("output= is for labels=, and there are none", hint="labels=y")
    of = scored_output(graph, output) if labels is not None else ""
    walk = _Walk(graph, found, None if labels is None else LabelQueue(as_labels(labels)), of)
    for i, sample in enumerate(progress(as_samples(graph, data), "comparing", count(data))):
        try:
            walk.add(sample)
        except LowbitError as e:
            raise e.at(f"batch {i}") from None
    if not walk.batches:
        raise CalibrationError("there is no data to compare with", hint="an iterable of {input name: array}, tuples or arrays")
    return replace(walk.report(), score=walk.score(metric))


def _comparable(last: LastFunction, x: Array) -> Array:
    """The input of a final function, without the constant that the function ignores."""
    return x if last.axis is None or not np.isfinite(x).all() else x - x.mean(axis=last.axis, keepdims=True)


def _culprit(arrays: Mapping[str, Array]) -> str | None:
    """The hint if an input holds infinities, which a layer turns into NaN."""
    name = next((k for k, x in arrays.items() if x.dtype.kind == "f" and np.isinf(x).any()), None)
    return None if name is None else f"input {name!r} holds infinite values: data without them"


class _Walk:
    """Runs samples through both graphs and adds up."""

    def __init__(self, graph: Graph, found: Coverage, labels: LabelQueue | None = None, scored: str = "") -> None:
        self.graph, self.found, self.labels = graph, found, labels
        self.tops = TopCount(scored), TopCount(scored)  # of the float network, and of the quantized one
        self.watch = DataWatch(found.lowered.graph)
        measured = [s.value for s in found.layers if s.value]
        self.local = {v: Tally() for v in measured}
        self.accumulated = {v: Tally() for v in measured}
        self.outputs = {name: Tally() for name in graph.outputs}
        ends = {name: last_function(graph, name) for name in graph.outputs}
        self.ends = {name: last for name, last in ends.items() if last is not None and last.value in found.seen}
        self.before = {name: Tally() for name in self.ends}
        self.equal = {name: [0, 0] for name in graph.outputs}
        self.batches = 0
        self.macs: dict[str, int] = {}
        self.first: Mapping[str, Array] | None = None  # batch, which both are timed on

    def add(self, arrays: Mapping[str, Array]) -> None:
        graph, integer = self.graph, self.found.lowered.graph
        binding: dict[str, int] = {}
        for v in graph.inputs:
            binding_for(v.type, arrays[v.name].shape, binding)
        bound, lowered = bind(graph, binding), bind(integer, binding)
        self.first = arrays if self.first is None else self.first
        kept = evaluate(lowered, arrays, keep=dict.fromkeys(s.name for s in self.found.seen.values()))
        self.batches += 1
        self.watch.add(arrays)
        self._walk(bound, arrays, kept)
        if not self.macs:
            self.macs = {n.output.name: int(node_macs(n)) for n in bound.nodes}

    def _walk(self, graph: Graph, arrays: Mapping[str, Array], kept: Mapping[str, Array]) -> None:
        """Runs the float network, and its layers on the inputs of the quantized one."""
        last, forever = last_uses(graph), {v.name for v in graph.outputs.values()} | {e.value for e in self.ends.values()}
        floats: dict[str, Array] = {k: c.data for k, c in graph.constants.items()} | dict(arrays)
        fed = dict(floats)  # as the quantized network has it; where it has nothing of the kind, as the layer before makes it
        for v in graph.inputs:
            fed[v.name] = self._quantized(v.name, kept, arrays[v.name])
        unclean = next((f"input {k!r}" for k, x in arrays.items() if x.dtype.kind == "f" and np.isnan(x).any()), None)
        for i, node in enumerate(graph.nodes):
            made = run_node(node, [floats[v.name] if v is not None else None for v in node.inputs])
            alone = run_node(node, [fed[v.name] if v is not None else None for v in node.inputs])
            for o, y, local in zip(node.outputs, made, alone, strict=True):
                floats[o.name] = y
                if unclean is None and y.dtype.kind == "f" and np.isnan(y).any():
                    unclean = node.where
                fed[o.name] = self._quantized(o.name, kept, local)
                if o.name in self.local and o.name in self.found.seen:
                    self.local[o.name].add(local, fed[o.name])
                    self.accumulated[o.name].add(y, fed[o.name])
            for name in last.get(i, ()):
                if name not in forever and name not in graph.constants:
                    del floats[name], fed[name]
        for name, value in graph.outputs.items():
            y = floats[value.name]
            if unclean is not None and y.dtype.kind == "f" and np.isnan(y).any():
                raise CalibrationError(
                    f"output {name!r} of the float network has NaN, which begins here: nothing can be measured against it",
                    where=unclean,
                    hint=_culprit(arrays) or "data without NaN, or a network that is sound on it: lowbit run tells",
                )
            self._output(name, y, kept[name])
            if name in self.ends:
                last_op = self.ends[name]
                self.before[name].add(*(_comparable(last_op, x[last_op.value]) for x in (floats, fed)))
        if self.labels is not None:
            reference = {name: floats[value.name] for name, value in graph.outputs.items()}
            labels = self.labels.take(self.tops[0].rows_of(reference))
            for top, outputs in zip(self.tops, (reference, {name: kept[name] for name in graph.outputs}), strict=True):
                top.add(outputs, labels)

    def score(self, metric: Callable[[Session], Any] | None) -> ScorePair | None:
        """The score by labels or metric; warns about unsuitable data."""
        self.watch.warn()
        if metric is not None:
            in_float, made = (scored(metric, Session(g)) for g in (self.graph, self.found.lowered.graph))
            return ScorePair("score", in_float, made)
        if self.labels is None:
            return None
        self.labels.done()
        first, second = self.tops
        first.warn_of_guessing()
        several = first.output if len(self.graph.outputs) > 1 else ""
        return ScorePair("top-1", first.top1, second.top1, first.rows, first.top5, second.top5, several)

    def _quantized(self, name: str, kept: Mapping[str, Array], otherwise: Array) -> Array:
        place: Seen | None = self.found.seen.get(name)
        return otherwise if place is None else place.real(kept[place.name])

    def _output(self, name: str, reference: Array, got: Array) -> None:
        self.equal[name][0] += int(((reference == got) | ((reference != reference) & (got != got))).sum())
        self.equal[name][1] += reference.size
        if reference.dtype.kind == "f":
            self.outputs[name].add(reference, got)

    def report(self) -> Report:
        rows = []
        for node, s in zip(self.graph.nodes, self.found.layers, strict=True):
            decided = {k: v for k, v in asdict(s).items() if k not in ("value", "macs")}
            measured = s.value and self.local[s.value].elements
            local, accumulated = (t[s.value].sqnr_db if measured else None for t in (self.local, self.accumulated))
            rows.append(LayerRow(**decided, macs=self.macs[node.output.name], local_db=local, accumulated_db=accumulated))
        outputs = []
        for name, value in self.graph.outputs.items():
            t, (same, total) = self.outputs[name], self.equal[name]
            real = value.type.dtype.is_float
            outputs.append(
                OutputRow(
                    name,
                    t.sqnr_db if real else None,
                    t.max_error if real else None,
                    t.cosine if real else None,
                    t.same_argmax if real else None,
                    same / total if total else 1.0,
                    self.ends[name].op if name in self.ends else None,
                    self.before[name].sqnr_db if name in self.ends else None,
                )
            )
        in_float, made = time_networks((self.graph, self.found.lowered.graph), self.first or {})
        return Report(
            self.graph.name,
            tuple(rows),
            tuple(outputs),
            self.batches,
            self.found.bytes_before,
            self.found.bytes_after,
            in_float.ms,
            made.ms,
            made.backend,
            self.found.remarks,
        )


def _types(values: Iterable[Any]) -> list[str]:
    return [f"{v.name}: {v.type}" for v in values]
