"""QuantizationTransform(rules).apply(graph, record): the graph with Q/DQ brackets where the rules want integers.

    value → quantize → dequantize → every user          activations, by the record (or fixed, or the user's own parameters)
    weight integers → dequantize → the layer            weights, quantized now
    bias int32 on the grid sx·sw → dequantize           so that lowering adds it to the accumulator as it is

If a layer wants another width than its input has, a second bracket follows the first. Lowering turns the pair into one requantize.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lowbit.arguments import flag, shown
from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.dtypes import DType, dtype
from lowbit.errors import InputError, LowbitError, QuantError, warn
from lowbit.ir.graph import KEEPS_FLOAT, STAYS_FLOAT, Graph, Node, Value, need_graph
from lowbit.ir.masks import hides, mask_makers, masked_scores
from lowbit.ir.rewrite import Editor
from lowbit.ops.quant import QUANTIZABLE, State, is_clamp
from lowbit.quant_params import PerAxis, PerBlock, PerTensor, QuantParams, quantize
from lowbit.quantization.chains import inner_values, read_by_link
from lowbit.quantization.own_node import with_own_nodes
from lowbit.quantization.params import fixed_params, holding, in_width, offset_params, rounded_for, weight_params, widened
from lowbit.quantization.powers import power_codes, with_power_scale
from lowbit.quantization.reach import reach_of
from lowbit.quantization.rules import QuantNode, QuantRule, RuleMatcher, makes_a_mask, not_float32, other_floats
from lowbit.quantization.taps import Tap, Taps, find_taps, fused_clip
from lowbit.ranges import params_from_data
from lowbit.types import Array


class QuantizationTransform:
    """Applies rules to a graph.

    >>> import lowbit
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> transform = lowbit.QuantizationTransform([lowbit.CalibratedQuantRule(".*")])
    >>> transform.taps(g).observed
    ['x']
    """

    def __init__(self, rules: Iterable[QuantRule]) -> None:
        self.matcher = RuleMatcher(rules)

    def decisions(self, graph: Graph) -> dict[str, QuantNode]:
        """The decision for each node, by the name of its first output."""
        found = {n.output.name: self.matcher.decide(n) for n in graph.nodes}
        found |= {k: other_floats(kind) for k, d in found.items() if d.mode != "float" and (kind := not_float32(graph.producers[k]))}
        return {**found, **{name: makes_a_mask() for name in mask_makers(graph) if found[name].mode == "static"}}

    def taps(self, graph: Graph) -> Taps:
        """The values that become integers, and which of them share parameters."""
        decisions = self.decisions(graph)
        return find_taps(with_own_nodes(graph, decisions), decisions)

    def every_tap(self, graph: Graph) -> list[str]:
        """The values that calibration must observe so that any layer may stay float: every tap, and values that become taps then.

        Those are values hidden by a clamp or a table of several functions, and results whose range is fixed only if integers make them
        (tanh).
        """
        decisions = self.decisions(graph)
        static = {k for k, d in decisions.items() if d.mode == "static"}
        between = [
            n.output.name
            for n in graph.nodes
            if n.output.name in static and any(u.output.name in static and is_clamp(u.op) for u in graph.users.get(n.output.name, ()))
        ]
        taps = self.taps(graph)
        fixed = [name for name, tap in taps.taps.items() if tap.fixed is not None]
        return list(dict.fromkeys([*taps.observed, *fixed, *between, *sorted(inner_values(graph, decisions))]))

    def overruled(self, graph: Graph) -> dict[str, str]:
        """Scales of a rule that are not used, because the clamp fused into the layer has other scales by its own rule."""
        decisions, said = self.decisions(graph), {}
        for node in graph.nodes:
            own, clamp = decisions[node.output.name].params, fused_clip(graph, node, decisions)
            other = None if clamp is None else decisions[clamp.output.name].params
            if clamp is not None and own is not None and other is not None and own != other:
                layer = node.name or node.output.name
                said[f"scale of {layer}"] = f"not used, {own}: {clamp.where} after it is part of it and has {other}"
        return said

    def check(self, graph: Graph) -> None:
        """Raises if a rule decides nothing."""
        for name, text in self.matcher.remarks(graph).items():
            raise QuantError(text, where=name, hint="lowbit inspect shows the layers' names; strict=False only warns")

    def apply(
        self,
        graph: Graph,
        record: CalibrationRecord | None = None,
        *,
        strict: bool = False,
        weights: Mapping[tuple[str, str], QuantParams] | None = None,
    ) -> Graph:
        """The graph with brackets, and in its notes the reason of every decision. `record` must know every tap that needs data.

        Rules that decide nothing give a warning and a note; with `strict` an error. `weights` are known parameters of constants, by name
        and dtype (training learned them); the others follow from the constants' values.
        """
        need_graph(graph, "quantize")
        if record is not None and not isinstance(record, CalibrationRecord):
            raise InputError(f"record is {shown(record)}, a CalibrationRecord is needed", hint="lowbit.calibrate(graph, data)")
        remarks = {**self.matcher.remarks(graph), **self.overruled(graph)}
        if flag("strict", strict):
            self.check(graph)
        for name, text in remarks.items():
            warn(f"{name}: {text}")
        decisions = self.decisions(graph) if weights is None else learned(self.decisions(graph))
        own = with_own_nodes(graph, decisions)
        made = _Apply(own, decisions, find_taps(own, decisions), record or CalibrationRecord({}), weights or {}).run()
        return replace(made, notes={**made.notes, **{name: noted(d) for name, d in decisions.items()}, **remarks})

    def parameters(self, graph: Graph, record: CalibrationRecord | None = None) -> Parameters:
        """The parameters that `apply` gives to values and constants, without the graph."""
        decisions = learned(self.decisions(graph))
        work = _Apply(graph, decisions, find_taps(graph, decisions), record or CalibrationRecord({}), {})
        work.run()
        constants: dict[str, tuple[QuantParams, ...]] = {}
        for name, params, _ in work.constants:
            constants[name] = tuple(dict.fromkeys((*constants.get(name, ()), params)))
        return Parameters(work.params, constants)


@dataclass(frozen=True)
class Parameters:
    """The parameters of a graph's brackets: one set for each tap, and for each quantized constant all sets that it is read with."""

    taps: Mapping[str, QuantParams]
    constants: Mapping[str, tuple[QuantParams, ...]]


def learned(decisions: Mapping[str, QuantNode]) -> dict[str, QuantNode]:
    """The decisions without offsets: training learns scales."""
    return {name: replace(d, offsets=False) for name, d in decisions.items()}


def noted(decided: QuantNode) -> str:
    return f"{STAYS_FLOAT}{decided.because}" if decided.mode == "float" else decided.because


class _Apply:
    def __init__(
        self,
        graph: Graph,
        decisions: Mapping[str, QuantNode],
        taps: Taps,
        record: CalibrationRecord,
        weights: Mapping[tuple[str, str], QuantParams],
    ) -> None:
        self.graph, self.decisions, self.taps, self.record, self.weights = graph, decisions, taps, record, weights
        self.editor = Editor(graph)
        self.scores = masked_scores(graph)
        self.inner = inner_values(graph, decisions)
        self.params: dict[str, QuantParams] = {}
        self.brackets: dict[tuple[str, DType], Value] = {}
        self.by_rows: dict[str, Value] = {}
        self.sums: dict[tuple[str, int], Value] = {}
        self.constants: dict[tuple[str, QuantParams, QuantParams | None], Value] = {}

    def run(self) -> Graph:
        for name, tap in self.taps.taps.items():
            self.params[name] = self.tap_params(name, tap)
        for name, tap in self.taps.taps.items():
            self.brackets[name, tap.dtype] = bracket(self.editor, tap.value, self.params[name])
        for node in self.graph.nodes:
            decided = self.decisions[node.output.name]
            try:
                if decided.mode == "static":
                    self.static(node, decided)
                elif decided.mode in ("dynamic", "weights"):
                    self.weights_only(node, decided)
            except LowbitError as e:
                raise e.at(node.where) from None
        for node in self.graph.nodes:
            decided = self.decisions[node.output.name]
            if node.op == "gather" and decided.mode == "float" and decided.free:
                self.looked_up(node)
            elif decided.mode == "float" and not decided.free:
                self.keep_float(node)
        return self.editor.done()

    def keep_float(self, node: Node) -> None:
        """Inserts a cast to float before a layer that a rule keeps float, if lowering would make it integer. Lowering removes the cast.

        That is the case if all its inputs may be integers, or if the layer before it could absorb it: a clamp, or a function that would
        share a table with it. The mark is an op, so that files keep it. Its name distinguishes it from casts without effect; another
        program may drop it.
        """
        now = self.current(node)
        read = [v for i in QUANTIZABLE[node.op].spec.positions(len(now.inputs)) if (v := now.inputs[i]) is not None]
        x = read_by_link(self.graph, node)
        if (
            (read and all(map(self.may_be_integers, read)))
            or (is_clamp(node.op) and self.may_hold(read[0]))
            or (x is not None and self.may_be_in_a_table(x))
        ):
            kept = self.editor.add("cast", read[0], out=f"{node.output.name}{KEEPS_FLOAT}", to=read[0].type.dtype.name)
            self.editor.set_inputs(now, [kept if v == read[0] else v for v in now.inputs])

    def may_be_integers(self, value: Value) -> bool:
        """Whether lowering may find integers with parameters for a value: those of a bracket, or of a bracket that was moved."""
        before = self.editor.producer(value)
        return before is not None and (
            before.op == "dequantize_linear" or (self.may_be_lowered(before) and QUANTIZABLE[before.op].spec.output == "same")
        )

    def may_hold(self, value: Value) -> bool:
        """Whether the layer that makes the value may absorb a clamp after it."""
        before = self.editor.producer(value)
        return before is not None and self.may_be_lowered(before) and QUANTIZABLE[before.op].spec.fuses_clip

    def may_be_in_a_table(self, value: Value) -> bool:
        """Whether the layer that makes the value is a function of one value that may be lowered."""
        before = self.graph.producers.get(value.name)
        return before is not None and read_by_link(self.graph, before) is not None and self.may_be_lowered(before)

    def may_be_lowered(self, node: Node) -> bool:
        decided = self.decisions.get(node.output.name)
        return decided is not None and node.op in QUANTIZABLE and (decided.mode == "static" or decided.free)

    def tap_params(self, name: str, tap: Tap) -> QuantParams:
        """The parameters of a tap, with powers of two as scales where its rule wants shifts."""
        params = self.seen_params(name, tap)
        return with_power_scale(params) if tap.decided.shifts and tap.given is None else params

    def seen_params(self, name: str, tap: Tap) -> QuantParams:
        group = self.taps.groups[name]
        given = [(m, p) for m in group if (p := self.taps.taps[m].given) is not None]
        for other, params in given[1:]:
            if params != given[0][1]:
                one, two = (f"{m!r} by {self.taps.taps[m].decided.because}" for m in (given[0][0], other))
                raise QuantError(
                    f"{one} has {given[0][1]}, {two} has {params}, but they must share their parameters",
                    hint="the same scale and offset for both, or one of the two rules",
                )
        if given:
            return given[0][1]
        fixed = [f for m in group if (f := self.taps.taps[m].fixed) is not None]
        if len(fixed) == len(group):
            return fixed_params(fixed[0], tap.dtype)
        observed = [m for m in group if self.taps.taps[m].fixed is None]
        unseen = [p for m in observed if m not in self.record.taps and (p := self.taps.taps[m].decided.params) is not None]
        if unseen:
            return unseen[0]
        params = self.record.shared_params(observed, tap.dtype, tap.scheme, reach=reach_of(self.graph, group))
        check_axis(self.graph.values[name], params)
        if any(isinstance(self.record.taps[m], CalibrationEntry) for m in observed):
            return params  # fixed: constants beside it are clipped to it, as training saw them
        return widened(params, self.constant_sides(group))

    def constant_sides(self, group: tuple[str, ...]) -> list[Array]:
        """The constants that share the parameters of a group: tables that are gathered from, constant parts of a concat."""
        found = []
        for producer in (self.graph.producers.get(name) for name in group):
            if producer is None or self.decisions[producer.output.name].mode != "static":
                continue
            spec = QUANTIZABLE[producer.op].spec
            if spec.output == "same":
                sides = (self.graph.constant(producer.inputs[i]) for i in spec.positions(len(producer.inputs)))
                found += [data for data in sides if data is not None and not hides(self.graph, producer, data, self.scores)]
        return found

    def static(self, node: Node, decided: QuantNode) -> None:
        """Connects the node's quantized inputs to brackets, and quantizes its constants."""
        spec = QUANTIZABLE[node.op].spec
        now = self.current(node)
        inputs: list[Value | None] = list(now.inputs)
        x = read_by_link(self.graph, node)
        if x is not None and (x.name in self.inner or node.output.name in self.inner):
            self.editor.set_inputs(now, [self.activation(v, decided) if v == x and v.name in self.params else v for v in now.inputs])
            return  # one table with the function before or after it: its constants stay real
        input_scale: Array | None = None
        weight_scale: Array | None = None
        # Activations first: the grid of a layer's bias is that of its input and its weight, wherever they stand.
        for i in sorted(spec.positions(len(node.inputs)), key=lambda i: self.graph.constant(node.inputs[i]) is not None):
            v = node.inputs[i]
            if v is None or not v.type.dtype.is_float:
                continue
            data = self.graph.constant(v)
            if data is not None:
                inputs[i], p = self.constant(node, i, v, data, decided, input_scale)
                weight_scale = p.scale if i in spec.channel_axis else weight_scale
            elif v.name in self.params:
                inputs[i] = self.activation(v, decided)
                p = self.params_at(v, decided)
                input_scale = p.scale if isinstance(p.granularity, PerTensor) and input_scale is None else input_scale
        if spec.bias is not None and input_scale is not None and weight_scale is not None and weight_scale.ndim <= 1:
            bias = node.input(spec.bias)
            data = self.graph.constant(bias)
            if bias is not None and data is not None:
                on_grid = quantized_bias(self.editor, bias, data, (input_scale * weight_scale).astype(np.float32))
                inputs[spec.bias] = on_grid if on_grid is not None else bias
        for i, state in spec.states.items():
            inputs += [None] * (i + 1 - len(inputs))
            inputs[i] = self.initial_state(node, i, state, inputs[i], decided)
        self.editor.set_inputs(self.current(node), inputs)

    def initial_state(self, node: Node, i: int, state: State, now: Value | None, decided: QuantNode) -> Value:
        """The initial state with the parameters of the state; zeros if none is given."""
        given = node.input(i)
        data = self.graph.constant(given)
        constants = () if data is None else (data,)
        params = widened(self.params_at(node.outputs[state.outputs[0]], decided), constants)
        if given is not None and data is not None:
            return self.integers(given, data, params)
        if given is not None and given.name in self.params and now is not None and self.params_at(given, decided) == params:
            return now
        if given is None:
            final = node.outputs[state.outputs[-1]]
            given = self.editor.add("fill", out=f"{node.output.name}:{i}", shape=final.shape, value=0.0, dtype=final.type.dtype.name)
        return bracket(self.editor, given, params, rewire=False)

    def current(self, node: Node) -> Node:
        now = self.editor.producer(node.output)
        assert now is not None
        return now

    def activation(self, value: Value, decided: QuantNode) -> Value:
        """The bracketed value in the width that the node wants."""
        tap = self.taps.taps[value.name]
        wanted = decided.activation
        assert wanted is not None
        key = (value.name, wanted)
        if key not in self.brackets:  # another width: a second bracket after the first
            first = self.brackets[value.name, tap.dtype]
            self.brackets[key] = bracket(self.editor, first, self.params_at(value, decided), rewire=False)
        return self.brackets[key]

    def params_at(self, value: Value, decided: QuantNode) -> QuantParams:
        """The parameters of the value as the node reads it."""
        tap = self.taps.taps[value.name]
        wanted = decided.activation
        assert wanted is not None
        if wanted == tap.dtype:
            return self.params[value.name]
        params = self.other_width(value, tap, decided)
        return with_power_scale(params) if decided.shifts else params

    def other_width(self, value: Value, tap: Tap, decided: QuantNode) -> QuantParams:
        """The parameters of a tap in another dtype than it is kept in."""
        wanted = decided.activation
        assert wanted is not None
        if tap.fixed is not None:
            return fixed_params(tap.fixed, wanted)
        group = list(self.taps.groups[value.name])
        if any(self.taps.taps[m].given is not None or m not in self.record.taps for m in group):  # the user's own: nothing else is known
            return in_width(self.params[value.name], wanted, decided.activation_scheme)
        return self.record.shared_params(group, wanted, decided.activation_scheme, reach=reach_of(self.graph, group))

    def constant(
        self, node: Node, i: int, value: Value, data: Array, decided: QuantNode, input_scale: Array | None
    ) -> tuple[Value, QuantParams]:
        """The constant as integers and a dequantize: per channel or block where it is a weight, per tensor where it is data."""
        spec = QUANTIZABLE[node.op].spec
        if i in spec.channel_axis and (spec.output != "same" or decided.granularity != "tensor"):
            if spec.output == "same" and decided.weight is not None and decided.weight.bits < 8:
                # rows of a table are activations: few bits are for summed weights
                decided = replace(decided, weight=dtype("int8"), weight_scheme="symmetric_restricted")
            params = weight_params(data, decided, spec.axis(i, node.attrs), spec.contract_axis.get(i))
            if input_scale is not None and decided.activation is not None:
                bias = None if spec.bias is None else self.graph.constant(node.input(spec.bias))
                bits = 30 if params.dtype.bits <= 8 else 50  # sums of 32 bits where the weights have 8
                held = holding(params, bias, input_scale, bits)
                if decided.weight_scale is not None and held != params:
                    raise too_fine(params, held, bias, bits).at(decided.because)
                params = with_power_scale(held) if decided.shifts else held
        elif spec.output == "same" and node.output.name in self.params:
            params = self.params[node.output.name]  # one rounding: the integers are those of the result
        else:
            assert decided.activation is not None
            params = params_from_data(data, decided.activation, decided.activation_scheme)
        given = self.weights.get((value.name, params.dtype.name))
        params = params if given is None else given
        table = spec.output == "same" and isinstance(params.granularity, PerAxis) and given is None  # given: as it was trained
        result = self.params.get(node.output.name) if table and not self.multiplied(value) else None
        powers = decided.shifts and i in spec.channel_axis and spec.output != "same"
        return self.integers(value, data, params, result, powers), params

    def multiplied(self, value: Value) -> bool:
        """Whether a layer multiplies by the constant. An embedding that is also the head's weight is stored once, rounded to nearest."""
        users = (n for n in self.graph.nodes if value in n.inputs and n.op in QUANTIZABLE)
        return any(QUANTIZABLE[n.op].spec.output != "same" for n in users)

    def integers(self, value: Value, data: Array, params: QuantParams, result: QuantParams | None = None, powers: bool = False) -> Value:
        """A constant's bracket: one for all nodes that use it with the same parameters, so shared weights stay shared."""
        key = (value.name, params, result)
        if key not in self.constants:
            rounded = power_codes if powers else quantize
            ints = rounded(data, params) if result is None else rounded_for(data, params, result)
            self.constants[key] = quantized_constant(self.editor, value, ints, params)
        return self.constants[key]

    def rows(self, node: Node) -> Value | None:
        """The node's activation, quantized row by row at run time: once for all nodes that read it."""
        x = node.inputs[0]
        if x is None or x.type.dtype.name != "float32":
            return x
        if x.name not in self.by_rows:
            now = self.current(node).inputs[0]
            ints, scale = self.editor.add_node("quantize_rows", now, outputs=(f"{x.name}:rows", f"{x.name}:rows:scale"))
            self.by_rows[x.name] = self.editor.add("dequantize_rows", ints, scale, out=f"{x.name}:rows:real")
        return self.by_rows[x.name]

    def weights_only(self, node: Node, decided: QuantNode) -> None:
        """Weights become integers; activations stay float or are quantized at run time, row by row."""
        spec = QUANTIZABLE[node.op].spec
        inputs: list[Value | None] = list(self.current(node).inputs)
        for i in spec.channel_axis:
            v = node.input(i)
            data = self.graph.constant(v)
            if v is None or data is None or data.ndim < 2:
                continue
            if decided.weight is not None and decided.weight.bits < 8 and self.is_table(v):  # few bits are for summed weights
                decided = replace(decided, weight=dtype("int8"), offsets=False, weight_scheme="symmetric_restricted")
            if decided.offsets:
                self.with_offsets(node, v, data, decided)
                return
            params = weight_params(data, decided, spec.axis(i, node.attrs), spec.contract_axis.get(i))
            params = self.weights.get((v.name, params.dtype.name), params)
            inputs[i] = self.integers(v, data, params, powers=decided.shifts)
            if decided.mode == "dynamic" and i:  # the activation is right of its weights: its rows are not those of the contraction
                inputs[0] = self.rows(node)
        self.editor.set_inputs(self.current(node), inputs)

    def with_offsets(self, node: Node, weight: Value, data: Array, decided: QuantNode) -> None:
        """A linear layer whose blocks of weights have offsets: x · (d q + m)ᵀ = x · (d q)ᵀ + s · mᵀ, s the sums of x over the blocks.

        The first is an ordinary layer with weights in few bits, the second has a block's length times fewer weights.
        """
        assert isinstance(decided.granularity, int) and node.inputs[0] is not None
        params, offset = offset_params(data, decided.granularity)
        now = self.current(node)
        x, layer, e = now.inputs[0], node.name or node.output.name, self.editor
        assert x is not None
        centred = data - np.repeat(offset, decided.granularity, axis=1)
        real = self.integers(weight, centred, params)
        product = e.add("linear", x, real, *now.inputs[2:], name=node.name, out=f"{layer}:product", **node.attrs)
        sums = self.block_sums(x, decided.granularity)
        shift = e.add("linear", sums, e.constant(offset, name=f"{weight.name}:offset"), None, name=f"{layer}.shift", out=f"{layer}:shift")
        e.replace(now.output, e.add("add", product, shift, name=f"{layer}.shifted", out=f"{layer}:shifted"), inherit=True)

    def is_table(self, value: Value) -> bool:
        """Whether rows of the constant are looked up."""
        return any(n.op == "gather" and n.inputs[0] == value for n in self.graph.users.get(value.name, ()))

    def looked_up(self, node: Node) -> None:
        """A lookup in a table that a layer multiplies by reads the layer's integers: the table is stored once."""
        table, ids = node.inputs[0], node.inputs[1]
        stored = [(p, v) for (name, p, _), v in self.constants.items() if table is not None and name == table.name]
        if table is None or ids is None or len(stored) != 1 or table.type.rank != 2 or node.attrs["axis"] not in (0, -2):
            return
        params, real = stored[0]
        before, (_, size) = self.editor.producer(real), table.shape
        if before is None or params.axis(2) is None or np.any(params.zero_point):
            return
        by_row = not isinstance(params.granularity, PerBlock)
        if by_row and params.axis(2) != 0:
            return
        scale = self.editor.constant(params.scale.reshape(-1, 1), name=f"{table.name}:rows:scale") if by_row else before.inputs[1]
        parts = [self.editor.add("gather", v, ids, out=f"{node.output.name}:{i}", axis=0) for i, v in enumerate((before.inputs[0], scale))]
        block = params.granularity.size if isinstance(params.granularity, PerBlock) else int(size)
        rows = self.editor.add(
            "dequantize_linear", *parts, None, name=node.name, out=f"{node.output.name}:rows", axis=parts[0].type.rank - 1, block_size=block
        )
        self.editor.replace(self.current(node).output, rows, inherit=True)

    def block_sums(self, x: Value, size: int) -> Value:
        """The sums of rows over blocks: once for all layers that read the value."""
        if (x.name, size) not in self.sums:
            cut = self.editor.add("reshape", x, out=f"{x.name}:blocks", shape=(*x.shape[:-1], int(x.shape[-1]) // size, size))
            self.sums[x.name, size] = self.editor.add("reduce_sum", cut, out=f"{x.name}:sums", axes=(x.type.rank,), keepdims=False)
        return self.sums[x.name, size]


def too_fine(own: QuantParams, needed: QuantParams, bias: Array | None, bits: int) -> QuantError:
    """The error about a user's weight scales that are too small: they hold or are refused, and are never replaced."""
    c = int(np.argmax((needed.scale / own.scale).reshape(-1)))
    at = f" of channel {c}" if own.scale.ndim else ""
    largest = 0.0 if bias is None else np.abs(bias.reshape(-1, own.scale.size)[:, c]).max(initial=0.0)
    why = f"its bias {largest:g} needs more than {bits} bits on the grid input scale × weight scale"
    if not largest:
        why = "input scale × weight scale leaves the range of float32"
    least = float(needed.scale.reshape(-1)[c])
    return QuantError(
        f"weight_scale {float(own.scale.reshape(-1)[c]):g}{at} is too small: {why}", hint=f"weight_scale={1.01 * least:.3g} or larger"
    )


def bracket(editor: Editor, value: Value, params: QuantParams, *, rewire: bool = True) -> Value:
    """quantize → dequantize after a value. With `rewire`, every other use of it reads the result: so do outputs of the graph, unless the
    value is an input. An input that is handed on comes back as it was."""
    scale, zero = parameter_constants(editor, value.name, params)
    axis, to = params.axis(value.type.rank) or 0, params.dtype.name
    ints = editor.add("quantize_linear", value, scale, zero, out=f"{value.name}:{to}", to=to, axis=axis, block_size=0)
    real = editor.add("dequantize_linear", ints, scale, zero, out=f"{value.name}:real", axis=axis, block_size=0)
    if rewire:
        editor.replace(value, real, outputs=editor.producer(value) is not None)
    return real


def parameter_constants(editor: Editor, name: str, params: QuantParams) -> tuple[Value, Value]:
    """Scale and zero point as constants named after what they describe."""
    scale = editor.constant(np.asarray(params.scale), name=f"{name}:scale")
    zero = editor.constant(params.zero_point.astype(params.dtype.numpy), name=f"{name}:zero", dtype=params.dtype)
    return scale, zero


def quantized_constant(editor: Editor, value: Value, data: Array, params: QuantParams) -> Value:
    """The constant's integers and a dequantize; zero points only where they are not zero."""
    name = f"{value.name}:{params.dtype}"
    ints = editor.constant(data, name=name, dtype=params.dtype)
    scale, zero = parameter_constants(editor, name, params)
    block = params.granularity.size if isinstance(params.granularity, PerBlock) else 0
    used = zero if np.any(params.zero_point) else None
    return editor.add("dequantize_linear", ints, scale, used, out=f"{name}:real", axis=params.axis(data.ndim) or 0, block_size=block)


def quantized_bias(editor: Editor, value: Value, data: Array, grid: Array) -> Value | None:
    """The bias as int32 on the accumulator's grid; None where it does not fit, and then it stays float.

    Groups of a transposed convolution share the scales: the grid then repeats along the bias.
    """
    grid = np.tile(grid, data.size // grid.size) if grid.ndim else grid
    with np.errstate(all="ignore"):
        ints = np.rint(data / grid)
    if not np.all(np.abs(ints) < 2**31) or not np.all(np.isfinite(grid) & (grid > 0)):
        return None
    name = f"{value.name}:int32"
    scale = editor.constant(grid, name=f"{name}:scale")
    stored = editor.constant(ints.astype(np.int32), name=name)
    return editor.add("dequantize_linear", stored, scale, None, out=f"{name}:real", axis=0, block_size=0)


def check_axis(value: Value, params: QuantParams) -> None:
    """An error that names the tap when parameters along an axis do not fit the value."""
    if isinstance(params.granularity, PerAxis):
        try:
            params.check([int(d) if isinstance(d, int) else -1 for d in value.shape])
        except LowbitError as e:
            raise e.at(f"tap {value.name!r}") from None
