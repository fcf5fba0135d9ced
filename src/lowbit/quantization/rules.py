"""Rules: which layer is quantized how. First match wins; every decision carries its reason.

    rules = [FloatRule(r"^head\\."), CalibratedQuantRule(r".*", "int8")]

A rule of your own is a subclass with its `matches` or `create_quant_node`; nothing else in lowbit needs to know it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lowbit.arguments import shown
from lowbit.dtypes import DType, dtype
from lowbit.errors import DTypeError, InputError, QuantError
from lowbit.ir.graph import Graph, Node, need_graph
from lowbit.numerics import as_array
from lowbit.ops.op import OPS
from lowbit.ops.quant import QUANTIZABLE, QuantSpec
from lowbit.quant_params import QuantParams, Scheme, quant_dtype
from lowbit.types import Array

Mode = Literal["static", "dynamic", "weights", "float"]
LINEAR = ("symmetric", "symmetric_restricted", "asymmetric")  # schemes whose steps are equal: what integer arithmetic needs
WeightGranularity = Literal["tensor", "channel"] | int  # an int is a block size along the contraction

FLOAT = "float32"  # as a rule's dtype: nothing changes
ACTIVATIONS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "binary")
WEIGHTS = ACTIVATIONS
SIGNS = ("conv", "linear")  # ops that multiply binary activations; others read int8 where a rule says binary


@dataclass(frozen=True)
class QuantNode:
    """The decision for one node.

    static   activations and weights are integers, parameters known beforehand
    dynamic  weights are integers, activations get their scale at run time
    weights  weights are stored as integers and multiplied as floats
    float    nothing changes

    >>> import lowbit
    >>> node = lowbit.Workload("linear", (4, 3)).graph().nodes[0]
    >>> decided = CalibratedQuantRule(".*", "int8", "int4").create_quant_node(node)
    >>> decided.mode, str(decided.activation), str(decided.weight)
    ('static', 'int8', 'int4')
    """

    mode: Mode
    activation: DType | None
    weight: DType | None
    granularity: WeightGranularity
    activation_scheme: Scheme
    weight_scheme: Scheme
    because: str
    params: QuantParams | None = None  # of the output, where the user gave them
    output: DType | None = None  # of the result, if it differs from that of the operands
    weight_scale: tuple[float, ...] | None = None  # of the weights, where the user gave them: one for all, or one for each channel
    offsets: bool = False  # whether each block of weights has an offset beside its scale
    free: bool = False  # float because no rule or integer form applies, not because a rule says so: neighbouring integer ops may absorb it

    @property
    def shifts(self) -> bool:
        """Whether weights and scales are powers of two, so that layers shift instead of multiplying."""
        return self.weight_scheme == "logarithmic"

    @property
    def own(self) -> bool:
        """Whether it brings its own integer arithmetic (lowbit.CustomQuantNode) and is to be used as it is."""
        return False

    @property
    def result(self) -> DType | None:
        """The dtype in which the result is kept."""
        return self.output or self.activation


@dataclass(frozen=True)
class QuantRule:
    """The base: layers whose name matches `pattern` (a regular expression, searched) become static integers of `dtype`.

    weights      dtype of the weights (default int8, or the dtype itself if it is narrower)
    granularity  "channel" (default), "tensor", or a block size along the contraction
    ops          only these ops (default: all that can be quantized)
    because      the reason that reports print
    output       dtype of a static layer's result, if it differs from the dtype of its input
    values       only the nodes that make one of these values: for layers that share a name, a relu that is called twice
    weight_scheme  "logarithmic": weights are 0 or a sign and a power of two (four bits), and static scales are powers of two, so that
                 generated C shifts where it would multiply

    dtype="float32" keeps the layers float, as a FloatRule does.

    >>> CalibratedQuantRule("^head", "float32").mode, CalibratedQuantRule("^head").mode
    ('float', 'static')
    """

    pattern: str
    dtype: str = "int8"
    weights: str | None = None
    granularity: WeightGranularity = "channel"
    scheme: Scheme = "asymmetric"
    ops: tuple[str, ...] = ()
    because: str = ""
    output: str | None = field(default=None, kw_only=True)
    values: tuple[str, ...] = field(default=(), kw_only=True)
    weight_scheme: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        where = f"{type(self).__name__}({self.pattern!r})"
        named_float = isinstance(self.dtype, str) and self.dtype == FLOAT  # anything may be given, arrays too
        object.__setattr__(self, "dtype", FLOAT if named_float else quant_dtype(self.dtype).name)
        if self.dtype == FLOAT and self.weights is not None:
            hint = f'dtype="int8", or WeightOnlyRule({self.pattern!r}, {self.weights!r})'
            raise QuantError(f'weights={self.weights!r} beside dtype="float32", which keeps the layer float', where=where, hint=hint)
        if self.weights is not None:
            object.__setattr__(self, "weights", quant_dtype(self.weights).name)
        if not isinstance(self.pattern, str):
            raise QuantError(f"pattern {self.pattern!r} is not a text", where=type(self).__name__, hint='".*" matches every layer')
        _ = self._regex
        if not isinstance(self.scheme, str) or self.scheme not in LINEAR:
            said = f"scheme {self.scheme!r} is not one that layers compute with"
            raise QuantError(said, where=where, hint=f'one of {", ".join(LINEAR)}; weight_scheme="logarithmic" is for weights')
        if self.weight_scheme is not None and not (isinstance(self.weight_scheme, str) and self.weight_scheme == "logarithmic"):
            said = f"weight_scheme {self.weight_scheme!r} is not one that a rule gives"
            raise QuantError(said, where=where, hint='weight_scheme="logarithmic", or none: symmetric weights')
        stored = self.weights or (self.dtype if self.mode == "weights" else "int4")
        if self.weight_scheme is not None and stored != "int4":
            raise QuantError(f"logarithmic weights are int4, not {stored}", where=where, hint='weights="int4", or no weights=')
        size = self.granularity
        whole = isinstance(size, int) and not isinstance(size, bool) and size > 0
        if not whole and not (isinstance(size, str) and size in ("tensor", "channel")):
            raise QuantError(
                f"granularity {size!r} is none", where=where, hint='"channel", "tensor", or a block size along the contraction'
            )
        if not isinstance(self.ops, tuple | list) or not all(isinstance(op, str) for op in self.ops):
            raise QuantError(f"ops={self.ops!r} are not names of ops", where=where, hint='ops=("conv", "linear")')
        if not isinstance(self.because, str):
            raise QuantError(f"because={self.because!r} is not a text", where=where, hint="a reason in words")
        object.__setattr__(self, "ops", tuple(self.ops))
        if not isinstance(self.values, tuple | list) or not all(isinstance(v, str) for v in self.values):
            raise QuantError(f"values={self.values!r} are not names of values", where=where, hint='values=("relu_1",)')
        object.__setattr__(self, "values", tuple(self.values))
        if self.output is not None:
            object.__setattr__(self, "output", quant_dtype(self.output).name)
            if self.mode != "static":
                raise QuantError(f"output={self.output!r} is for static integers", where=where, hint="a CalibratedQuantRule, or no output=")

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        try:
            return re.compile(self.pattern)
        except re.error as e:
            raise QuantError(
                f"pattern {self.pattern!r} is not a regular expression ({e})",
                where=type(self).__name__,
                hint="a backslash before ( ) [ ] . + * ? that stand for themselves",
            ) from e

    def matches(self, node: Node) -> bool:
        """Whether this rule applies to the node: by the layer's name, and by its op and its value if `ops` and `values` are given."""
        meant = (not self.ops or node.op in self.ops) and (not self.values or node.output.name in self.values)
        return meant and self._regex.search(node.name or node.output.name) is not None

    def get_quant_params(self) -> QuantParams | None:
        """Parameters of the layer's output, if the rule gives them."""
        return None

    @property
    def mode(self) -> Mode:
        """static, dynamic, weights or float, as QuantNode says."""
        return "float" if self.dtype == FLOAT else "static"

    def create_quant_node(self, node: Node) -> QuantNode:
        """The decision for a node that matches."""
        activation = dtype(self.dtype)
        weight = dtype(self.weights or ("int8" if activation.bits >= 8 and self.mode != "weights" else self.dtype))
        plain: Scheme = "symmetric" if weight.bits < 8 and self.granularity == "tensor" else "symmetric_restricted"
        weight = dtype("int4") if self.weight_scheme is not None else weight
        return QuantNode(
            self.mode,
            activation if self.mode == "static" else None,
            weight if self.mode != "float" else None,
            self.granularity,
            self.scheme if activation.bits not in (1, 16) else "symmetric",
            "logarithmic" if self.weight_scheme is not None else plain,
            self.because or f"{type(self).__name__}({self.pattern!r})",
            self.get_quant_params(),
            dtype(self.output) if self.output is not None else dtype("int8") if activation.bits == 1 and self.mode == "static" else None,
        )


@dataclass(frozen=True)
class CalibratedQuantRule(QuantRule):
    """Static, with ranges from the calibration record. The usual rule.

    >>> CalibratedQuantRule("^block2", "int16", because="a wide range").mode
    'static'
    """


@dataclass(frozen=True)
class StaticQuantRule(QuantRule):
    """Static, with the user's own scale and offset (zero point) for the layer's output; no calibration is needed for it.

    per_channel   whether the weights have a scale for each channel, or one for all
    weight_scale  the scales of the weights, instead of computed ones: one, or with per_channel one for each channel

    >>> StaticQuantRule("^stem$", scale=0.02, offset=-128).get_quant_params().zero_point.item()
    -128
    """

    scale: ArrayLike = 1.0
    offset: ArrayLike = 0
    per_channel: bool = True
    weight_scale: ArrayLike | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is not None:
            where = f"StaticQuantRule({self.pattern!r})"
            raise QuantError("output= is not for a rule that brings its own scale", where=where, hint="dtype= is the output's")
        self.get_quant_params()
        _ = self._weight_scales

    def get_quant_params(self) -> QuantParams | None:
        if self.dtype == FLOAT:
            return None
        scale, offset = self._numbers("scale", self.scale), self._numbers("offset", self.offset)
        for name, numbers in (("scale", scale), ("offset", offset)):
            if numbers.size != 1:
                raise QuantError(
                    f"{name} has {numbers.size} numbers, the output of a layer has one",
                    where=f"StaticQuantRule({self.pattern!r})",
                    hint="one scale and offset for the output; weight_scale= takes one scale for each channel of the weights",
                )
        try:
            return QuantParams(self.dtype, scale.reshape(()), offset.reshape(()), self.scheme)
        except QuantError as e:
            raise QuantError(
                e.message, where=f"StaticQuantRule({self.pattern!r})", hint=f"scale=0.1, and an offset in {self.dtype}"
            ) from None

    @cached_property
    def _weight_scales(self) -> tuple[float, ...] | None:
        """The weights' scales as they were given, checked."""
        if self.weight_scale is None:
            return None
        with np.errstate(over="ignore"):  # values too large for float32 are refused below
            scales = self._numbers("weight_scale", self.weight_scale).astype(np.float32)
        fine = bool(scales.size) and scales.ndim <= 1 and bool(np.all(np.isfinite(scales) & (scales > 0)))
        if not fine or (scales.size > 1 and not self.per_channel):
            need = "one, or one for each channel" if self.per_channel else "one, for per_channel=False"
            wrong = f"weight_scale={self.weight_scale!r} is not a finite positive number"
            raise QuantError(f"{wrong} ({need})", where=f"StaticQuantRule({self.pattern!r})", hint="weight_scale=[0.01, 0.02, …]")
        return tuple(map(float, scales.reshape(-1)))

    def _numbers(self, name: str, given: ArrayLike) -> Array:
        """An argument as an array of numbers."""
        array = as_array(given, what=f"StaticQuantRule({self.pattern!r}): {name}")
        if array.dtype.kind not in "iuf":
            raise QuantError(
                f"{name}={given!r} is not a number",
                where=f"StaticQuantRule({self.pattern!r})",
                hint=f"{name}={'3' if name == 'offset' else '0.1'}",
            )
        return array

    def create_quant_node(self, node: Node) -> QuantNode:
        decided = replace(super().create_quant_node(node), weight_scale=self._weight_scales)
        return decided if self.per_channel else replace(decided, granularity="tensor")


@dataclass(frozen=True)
class DynamicQuantRule(QuantRule):
    """Integer weights now, activations quantized row by row at run time, to int8: no calibration.

    >>> DynamicQuantRule(".*", weights="int4", granularity=32).mode
    'dynamic'
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in ("int8", FLOAT):
            where = f"DynamicQuantRule({self.pattern!r})"
            raise DTypeError(
                f"activations are quantized at run time to int8, not {self.dtype}", where=where, hint='dtype="int8"; weights= is free'
            )

    @property
    def mode(self) -> Mode:
        return "float" if self.dtype == FLOAT else "dynamic"


@dataclass(frozen=True)
class WeightOnlyRule(QuantRule):
    """Weights stored in few bits and multiplied as floats.

    offsets  each block has an offset beside its scale, real = scale · q + offset: its least and its largest weight are met exactly. By
             default where it pays, linear layers with four bits in whole blocks; False: one scale for both signs

    >>> WeightOnlyRule("^head").dtype, WeightOnlyRule("^head").granularity
    ('int4', 32)
    """

    dtype: str = "int4"
    granularity: WeightGranularity = 32
    offsets: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"WeightOnlyRule({self.pattern!r})"
        if self.offsets is not None and not isinstance(self.offsets, bool):
            raise QuantError(
                f"offsets={self.offsets!r} is neither true nor false", where=where, hint="offsets=True, offsets=False, or none"
            )
        if self.offsets and ((self.weights or self.dtype) != "int4" or not isinstance(self.granularity, int)):
            found = f"{self.weights or self.dtype} with granularity {self.granularity!r}"
            raise QuantError(f"offsets are for int4 in blocks, not {found}", where=where, hint='dtype="int4", granularity=32')

    @property
    def mode(self) -> Mode:
        return "float" if self.dtype == FLOAT else "weights"

    def create_quant_node(self, node: Node) -> QuantNode:
        decided = super().create_quant_node(node)
        block, weight = self.granularity, node.input(1)
        no = self.offsets is False or decided.shifts
        if no or decided.weight is None or decided.weight.name != "int4" or not isinstance(block, int):
            return decided
        # Sums over blocks of the input must be an axis of their own: whole blocks, and rows that are multiplied.
        fits = node.op == "linear" and weight is not None and weight.type.rank == 2 and int(weight.shape[1]) % block == 0
        return replace(decided, offsets=True) if fits else decided


@dataclass(frozen=True)
class FloatRule(QuantRule):
    """The layer stays float, whatever its op: no neighbour absorbs it, not even a convolution the relu after it.

    >>> FloatRule("^head", because="it is small").mode
    'float'
    """

    @property
    def mode(self) -> Mode:
        return "float"


class RuleMatcher:
    """First match wins.

    >>> import lowbit
    >>> g = lowbit.Workload("linear", (4, 3)).graph()
    >>> RuleMatcher([FloatRule("^nothing"), CalibratedQuantRule(".*")]).decide(g.nodes[0]).mode
    'static'
    """

    def __init__(self, rules: Iterable[QuantRule]) -> None:
        self.rules: Sequence[QuantRule] = as_rules(rules)

    def rule_for(self, node: Node) -> QuantRule | None:
        """The first rule that matches a node; None if none does."""
        return next((r for r in self.rules if r.matches(node)), None)

    def decide(self, node: Node) -> QuantNode:
        """The decision of the first rule that matches; float if none matches or the op has no such form."""
        if not isinstance(node, Node):
            raise InputError(f"{shown(node)} given, a Node is needed", hint='graph.node("layer1.0.conv2")')
        rule = self.rule_for(node)
        entry = QUANTIZABLE.get(node.op)
        if entry is None and (rule is None or type(rule).create_quant_node is QuantRule.create_quant_node):
            return _float(f"{node.op} has no integer form")
        if rule is None:
            return _float("no rule matches")
        decided = rule.create_quant_node(node)
        if not isinstance(decided, QuantNode):
            raise QuantError(
                f"create_quant_node gave {shown(decided)}, a QuantNode is needed",
                where=f"{type(rule).__name__}({rule.pattern!r}) on {node.where}",
                hint="super().create_quant_node(node), changed by dataclasses.replace, or a lowbit.CustomQuantNode",
            )
        if decided.own:
            return decided
        if entry is None:
            return _float(f"{node.op} has no integer form")
        decided = int8_unless_product(node, decided)
        chosen_types = (("activations", decided.activation, ACTIVATIONS), ("weights", decided.weight, WEIGHTS))
        for what, chosen, legal in (*chosen_types, ("results", decided.output, ACTIVATIONS)):
            if chosen is not None and chosen.name not in legal:
                raise DTypeError(f"{what} cannot be {chosen} ({decided.because})", where=node.where, hint="one of " + ", ".join(legal))
        if decided.mode in ("dynamic", "weights") and (not entry.spec.channel_axis or entry.spec.output == "same"):
            return _float(f"{node.op} has no weights")
        unfit = None if entry.unfit is None else entry.unfit(tuple(v is not None for v in node.inputs), **node.attrs)
        if unfit is not None and decided.mode == "static":
            return _float(unfit)
        if decided.mode == "dynamic" and (entry.dynamic is None or unfit is not None):
            why = unfit or f"{node.op} has no form for activations quantized at run time"
            decided = replace(decided, mode="weights", because=f"{decided.because}; {why}, so only its weights are integers")
        return in_blocks(node, decided, entry.spec)

    def get_quantizable_nodes(self, graph: Graph) -> list[Node]:
        """The nodes of a graph that the rules quantize, in its order.

        >>> from lowbit.ir.build import Builder
        >>> from lowbit.types import TensorType
        >>> b = Builder()
        >>> y = b.add("relu", b.add("reshape", b.input("x", TensorType((2, 2), "float32")), shape=(4,)), name="act")
        >>> [n.name for n in RuleMatcher([CalibratedQuantRule("^act")]).get_quantizable_nodes(b.finish({"y": y}))]
        ['act']
        """
        return [n for n in need_graph(graph, "RuleMatcher(rules).get_quantizable_nodes").nodes if self.decide(n).mode != "float"]

    def explain(self, node: Node) -> str:
        """The reason for this node's decision, in a sentence."""
        decided = self.decide(node)
        rule = self.rule_for(node)
        said = f"{node.where}: {decided.mode}"
        if decided.weight is not None:
            said += f", weights {decided.weight}" + (f", activations {decided.activation}" if decided.activation else "")
        at = next((i for i, r in enumerate(self.rules) if r is rule), -1)  # by identity: rules may hold arrays
        which = "" if rule is None else f" (rule {at}: {type(rule).__name__} {rule.pattern!r})"
        return f"{said}, because {decided.because}{which}"

    def remarks(self, graph: Graph) -> dict[str, str]:
        """Remarks on rules that decide nothing in this graph: {"rule 2": "FloatRule '^hed' matches no layer"}."""
        said = {}
        for rule in self.unused(graph):
            matched = [n for n in graph.nodes if rule.matches(n)]
            if not matched:
                why = "matches no layer" + unknown_ops(rule)
            elif any(n.op in QUANTIZABLE for n in matched):
                why = "decides nothing: rules before it match all of its layers"
            elif rule.mode == "float":
                continue  # they are float anyway, as the rule says
            else:
                why = f"matches only what has no integer form ({', '.join(sorted({n.op for n in matched}))})"
            said[f"rule {next(i for i, r in enumerate(self.rules) if r is rule)}"] = f"{type(rule).__name__} {rule.pattern!r} {why}"
        return said

    def unused(self, graph: Graph) -> list[QuantRule]:
        """Rules that decide nothing in this graph: they match no node, or earlier rules match all of theirs."""
        used = {id(r) for n in graph.nodes if n.op in QUANTIZABLE and (r := self.rule_for(n)) is not None}
        return [r for r in self.rules if id(r) not in used]


def int8_unless_product(node: Node, decided: QuantNode) -> QuantNode:
    """The decision with int8 for binary where a node sums no products: signs alone would say nothing of a sum or a maximum."""
    if decided.activation is None or decided.activation.name != "binary" or node.op in SIGNS:
        return decided
    int8, because = dtype("int8"), f"{decided.because}; {node.op} reads int8, because binary activations are for conv and linear"
    weight = int8 if decided.weight is not None and decided.weight.name == "binary" else decided.weight
    return replace(decided, activation=int8, weight=weight, activation_scheme="asymmetric", because=because)


def unknown_ops(rule: QuantRule) -> str:
    """The addition to the remark if a rule names unknown ops: ": there is no op 'con' (conv?)"."""
    for op in rule.ops:
        if op not in OPS:
            near = difflib.get_close_matches(op, OPS, n=3)
            return f": there is no op {op!r} ({' or '.join(near)}?)" if near else f": there is no op {op!r} (docs/ops.md lists them)"
    return ""


def as_rules(rules: Iterable[QuantRule]) -> tuple[QuantRule, ...]:
    """The rules of a list; an InputError if it is no list of rules."""
    hint = 'rules=[lowbit.FloatRule("^head"), lowbit.CalibratedQuantRule(".*", "int8")], or recipe="int8"'
    if isinstance(rules, str | bytes | QuantRule) or not isinstance(rules, Iterable):
        raise InputError(f"{type(rules).__name__} given, a list of rules is needed", hint=hint)
    found = tuple(rules)
    for i, rule in enumerate(found):
        if not isinstance(rule, QuantRule):
            raise InputError(f"{rule!r} is no rule", where=f"rule {i}", hint=hint)
    return found


def in_blocks(node: Node, decided: QuantNode, spec: QuantSpec) -> QuantNode:
    """The decision with channels instead of blocks where blocks of weights are not possible; the reason says so."""
    size = decided.granularity
    if not isinstance(size, int) or decided.mode == "float":
        return decided
    for i, axes in spec.channel_axis.items():
        weight = node.input(i)
        if weight is None or i not in spec.contract_axis or weight.type.rank < 2:  # a vector is summed as a whole: one scale
            continue
        inputs = weight.shape[spec.contract_axis[i]]
        windows = weight.type.rank > 1 + (1 if isinstance(axes, int) else len(axes))  # a block then has one place of the window
        why = ""
        if decided.mode != "weights" and not spec.blocks:
            why = f"integer {node.op} has none"
        elif windows and isinstance(inputs, int) and inputs < size:
            why = f"it has {inputs} inputs at each place"
        if why:
            because = f"{decided.because}; a scale for each channel, not for blocks of {size}: {why}"
            return replace(decided, granularity="channel", because=because)
    return decided


def _float(because: str) -> QuantNode:
    return QuantNode("float", None, None, "tensor", "asymmetric", "symmetric_restricted", because, free=True)


def makes_a_mask() -> QuantNode:
    """The decision (float) about arithmetic that only makes attention masks: -inf has no integer."""
    return _float("it makes a mask")


def not_float32(node: Node) -> str | None:
    """The dtype of floats other than float32 that the node reads or gives; None where there are none."""
    types = (v.type.dtype for v in (*node.inputs, *node.outputs) if v is not None)
    return next((t.name for t in types if t.is_float and t.name != "float32"), None)


def other_floats(kind: str) -> QuantNode:
    """The decision about layers whose numbers are no float32: integers stand for float32 only."""
    return _float(f"its numbers are {kind}, float32 is needed")
