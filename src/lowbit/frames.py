"""A network on whole sequences as a network on frames: what it must remember from frame to frame becomes inputs and outputs.

    stream = lowbit.streaming(graph, frame=16)           # x (1, C, T) -> (1, C, 16)
    lowbit.emit_c(stream.graph, "out/", state=stream.state)

A causal convolution (padded on the left over time) keeps the last inputs that it will read again; an LSTM or a GRU keeps its state,
with the cells of the one and the 16 bits inside the other. Frames one after the other, from states of zero on, give what the whole
sequence gives: integers bit for bit, because both compute the same sums. Works on the graph that `quantize` gives, before lowering: states
have the scales of what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from lowbit.arguments import is_whole, items, shown, text, whole
from lowbit.errors import InputError, ShapeError, UnsupportedOp
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ops.q_rnn import gru_state_bits
from lowbit.ops.quant import NotLowered, Operand
from lowbit.quant_params import PerTensor, QuantParams
from lowbit.types import TensorType, normalize_axis

ANYWHERE = frozenset(
    re.findall(
        r"\w+",
        "identity relu relu6 clip sigmoid silu swish hardswish hardsigmoid tanh gelu erf exp log sqrt abs neg reciprocal leaky_relu elu "
        "softplus mish floor ceil round prelu add mul sub div maximum minimum pow cast where",
    )
)  # element by element, whatever the axes are
ONE_AXIS = frozenset(["softmax", "log_softmax", "concat", "split"])  # work along `axis`
ALONG_LAST = frozenset(["linear", "quantize_rows", "dequantize_rows"])
HINT = "layers that look back only: convolutions padded on the left, LSTM, GRU, and what works on each time by itself"


@dataclass(frozen=True)
class Streaming:
    """A network on frames. `state` says which input is which output of the frame before; all begin with zeros.

    >>> import lowbit, numpy as np
    >>> from lowbit.ir.build import Builder
    >>> b = Builder()
    >>> x, w = b.input("x", lowbit.TensorType((1, 2, 8), "float32")), b.constant(np.ones((1, 2, 3), np.float32))
    >>> y = b.add("conv", x, w, None, stride=(1,), pads=(2, 0), dilation=(1,), groups=1)
    >>> sorted(lowbit.streaming(b.finish({"y": y}), frame=2).state)
    ['conv:state']
    """

    graph: Graph
    state: Mapping[str, str]


@dataclass(frozen=True)
class _Stream:
    """A value of the new graph; along `axis` stand `history` elements of earlier frames, then those of this one."""

    value: Value
    axis: int
    history: int = 0


def streaming(graph: Graph, *, frame: int, axis: int = -1, inputs: Iterable[str] | None = None) -> Streaming:
    """The network on frames of `frame` times; `axis` is the time of the inputs (of those named; None: of all).

    >>> import lowbit, numpy as np
    >>> from lowbit.ir.build import Builder
    >>> b = Builder()
    >>> x, w = b.input("x", lowbit.TensorType((1, 2, 8), "float32")), b.constant(np.ones((1, 2, 3), np.float32))
    >>> y = b.add("conv", x, w, None, stride=(1,), pads=(2, 0), dilation=(1,), groups=1)
    >>> s = lowbit.streaming(b.finish({"y": y}), frame=2)
    >>> [v.name for v in s.graph.inputs], len(s.state)
    (['x', 'conv:state'], 1)
    """
    if not isinstance(graph, Graph):
        raise InputError(f"{type(graph).__name__} given, a Graph is needed", hint="lowbit.streaming(lowbit.load(...), frame=16)")
    whole("frame", frame, 1)
    if not is_whole(axis):
        raise InputError(f"axis={shown(axis)}, a whole number is needed", hint="axis=-1: time is the last axis")
    known = [v.name for v in graph.inputs]
    over = known if inputs is None else [text("a name in inputs", n) for n in items("inputs=", inputs, "inputs=('x',), or None: all")]
    unknown = [n for n in over if n not in known]
    if unknown or not over:
        raise InputError(
            f"inputs={shown(inputs)}, {f'{unknown[0]!r} is no input' if unknown else 'one at least has time'}",
            where=graph.name,
            hint="one of " + ", ".join(known),
        )
    for v in graph.inputs:
        if v.name in over and not -v.type.rank <= axis < v.type.rank:
            raise ShapeError(f"axis={axis}, input {v.name!r} is {v.type}: it has {v.type.rank} axes", where=graph.name, hint="axis=-1")
    return _Pass(graph, int(frame), int(axis), tuple(over)).run()


class _Pass:
    def __init__(self, graph: Graph, frame: int, axis: int, inputs: tuple[str, ...]) -> None:
        self.graph, self.frame = graph, frame
        self.builder = Builder(graph.name)
        self.streams: dict[str, _Stream] = {}  # by old name
        self.plain: dict[str, Value] = {}  # values without time, by old name
        self.state: dict[str, str] = {}
        self.outputs: dict[str, Value] = {}  # of the states
        self.remembered: dict[tuple[str, int], _Stream] = {}
        for v in graph.inputs:
            if v.name in inputs:
                at = normalize_axis(axis, v.type.rank)
                shape = [frame if i == at else d for i, d in enumerate(v.shape)]
                self.streams[v.name] = _Stream(self.builder.input(v.name, TensorType(shape, v.type.dtype)), at)
            else:
                self.plain[v.name] = self.builder.input(v.name, v.type)
        for c in graph.constants.values():
            self.plain[c.value.name] = self.builder.constant(c.data, name=c.value.name, dtype=c.value.type.dtype)

    def run(self) -> Streaming:
        for node in self.graph.nodes:
            if not any(v is not None and v.name in self.streams for v in node.inputs):
                made = self.again(node, {})
                self.plain.update(zip((o.name for o in node.outputs), made, strict=True))
            else:
                found = zip((o.name for o in node.outputs), self.moved(node), strict=True)
                self.streams.update((name, stream) for name, stream in found if stream is not None)
        ends = {}
        for name, v in self.graph.outputs.items():
            stream = self.streams.get(v.name)
            if stream is not None and stream.history:
                raise UnsupportedOp(f"output {name!r} holds earlier frames", where=self.graph.name, hint=HINT)
            ends[name] = self.plain[v.name] if stream is None else stream.value
        return Streaming(self.builder.finish({**ends, **self.outputs}), self.state)

    # -- a node on frames ---------------------------------------------------------------------------------------------------

    def again(self, node: Node, attrs: Mapping[str, Any]) -> tuple[Value, ...]:
        inputs = [self.now(v) for v in node.inputs]
        names = tuple(o.name for o in node.outputs)
        return self.builder.add_node(node.op, *inputs, name=node.name, outputs=names, **{**node.attrs, **attrs})

    def now(self, v: Value | None) -> Value | None:
        if v is None:
            return None
        return self.streams[v.name].value if v.name in self.streams else self.plain[v.name]

    def moved(self, node: Node) -> Sequence[_Stream | None]:
        """The node's outputs as streams (None: one without time); each kind of op says where time goes, and what it must not do to it."""
        first = node.inputs[0]
        x = self.streams.get(first.name) if first is not None else None
        a: Any = node.attrs
        if node.op in ("lstm", "gru"):
            return self.recurrent(node)
        if node.op in ANYWHERE:
            return self.elementwise(node)
        if x is None:
            self.refuse(node, "time comes in by an operand that it multiplies or looks up")
        rank = x.value.type.rank
        if node.op == "conv":
            return [self.conv(node, x)]
        if node.op == "pad":
            return [self.pad(node, x)]
        if node.op in ("quantize_linear", "dequantize_linear") and (self.scalar(node) or normalize_axis(a["axis"], rank) != x.axis):
            return self.same(node, x)
        if node.op in ONE_AXIS and normalize_axis(a["axis"], rank) != x.axis:
            return self.elementwise(node)
        if node.op in ALONG_LAST and x.axis != rank - 1:
            return self.same(node, x)
        if node.op in ("layer_norm", "rms_norm") and x.axis < normalize_axis(a["axis"], rank):
            return self.same(node, x)
        if node.op == "gather" and first is not None and first.name not in self.streams:
            return self.same(node, x)
        if node.op == "slice" and x.axis not in [normalize_axis(i, rank) for i in a["axes"]]:
            return self.same(node, x)
        if node.op == "transpose":
            return [_Stream(self.again(node, {})[0], a["perm"].index(x.axis), x.history)]
        if node.op == "reshape":
            return [self.reshape(node, x)]
        self.refuse(node, f"{node.op} looks at several times at once, or this is not known of it")

    def same(self, node: Node, x: _Stream) -> list[_Stream]:
        return [_Stream(v, x.axis, x.history) for v in self.again(node, {})]

    def elementwise(self, node: Node) -> list[_Stream]:
        """All streams that meet have the same time, counted from the last axis."""
        rank = node.output.type.rank
        given = [self.streams[v.name] for v in node.inputs if v is not None and v.name in self.streams]
        kinds = {(s.axis - s.value.type.rank, s.history, s.value.shape[s.axis]) for s in given}
        if len(kinds) != 1:
            self.refuse(node, "its inputs do not run side by side over time")
        ((axis, history, length),) = kinds
        for v in node.inputs:
            if v is not None and v.name in self.plain and v.type.rank >= -axis and v.shape[axis] != 1 and node.op not in ONE_AXIS:
                self.refuse(node, f"{v.name!r} has a value of its own for each time")
        if any(s.value.shape[s.axis] != length for s in given):
            self.refuse(node, "its inputs have different lengths")
        return [_Stream(v, rank + axis, history) for v in self.again(node, {})]

    def scalar(self, node: Node) -> bool:
        scale = node.inputs[1]
        return scale is not None and scale.type.size == 1

    def reshape(self, node: Node, x: _Stream) -> _Stream:
        """Time stays an axis of its own: as many elements stand before it as did."""
        old = node.inputs[0]
        assert old is not None
        before, length = int(np.prod([int(d) for d in old.shape[: x.axis]])), old.shape[x.axis]
        target: Any = node.attrs["shape"]
        for i, d in enumerate(target):
            if d == length and int(np.prod([int(e) for e in target[:i]])) == before:
                shape = tuple(x.value.shape[x.axis] if j == i else e for j, e in enumerate(target))
                return _Stream(self.again(node, {"shape": shape})[0], i, x.history)
        self.refuse(node, "it folds time into another axis")

    # -- what remembers -----------------------------------------------------------------------------------------------------

    def pad(self, node: Node, x: _Stream) -> _Stream:
        a: Any = node.attrs
        rank = x.value.type.rank
        left, right = a["pads"][x.axis], a["pads"][rank + x.axis]
        rest = tuple(0 if i % rank == x.axis else p for i, p in enumerate(a["pads"]))
        if right or a["mode"] != "constant" or a.get("value", 0.0) != 0 or x.history or left < 0:
            self.refuse(node, "it pads time otherwise than with zeros on the left")
        if any(rest):
            x = _Stream(self.again(node, {"pads": rest})[0], x.axis)
        return self.with_history(node, x, int(left)) if left else x

    def conv(self, node: Node, x: _Stream) -> _Stream:
        a: Any = node.attrs
        spatial = x.axis - 2
        w = node.inputs[1]
        assert w is not None
        if spatial < 0 or w.name in self.streams:
            self.refuse(node, "time is no axis that it slides along")
        n = w.type.rank - 2
        left, right = int(a["pads"][spatial]), int(a["pads"][n + spatial])
        reach, step = (int(w.shape[2 + spatial]) - 1) * int(a["dilation"][spatial]), int(a["stride"][spatial])
        history = left + x.history
        if right or not reach - step + 1 <= history <= reach or (left and x.history):
            self.refuse(
                node, f"it is not causal: {left} times are padded on the left, {right} on the right, its kernel reaches over {reach}"
            )
        frame = int(x.value.shape[x.axis]) - x.history
        if frame % step:
            raise ShapeError(
                f"a frame has {frame} times here, its stride is {step}",
                where=node.where,
                hint=f"frame= a multiple of {self.frame * step // int(np.gcd(frame, step))}",
            )
        x = self.with_history(node, x, left) if left else x
        pads = tuple(0 if i % n == spatial else p for i, p in enumerate(a["pads"]))
        inputs = [x.value, *(self.now(v) for v in node.inputs[1:])]
        made = self.builder.add(node.op, *inputs, name=node.name, out=node.output.name, **{**a, "pads": pads})
        return _Stream(made, x.axis)

    def remember(self, layer: str, kind: TensorType) -> Value:
        """A new input, for what an output of the frame before holds."""
        name, number = f"{layer}:state", 1
        while name in self.graph.values or name in self.state or f"{name}:next" in self.graph.outputs:
            name, number = f"{layer}:state.{number}", number + 1
        self.state[name] = f"{name}:next"
        return self.builder.input(name, kind)

    def with_history(self, node: Node, x: _Stream, count: int) -> _Stream:
        """The last `count` times of earlier frames, and x. Integers before a dequantize stay integers."""
        key = (x.value.name, count)
        if key not in self.remembered:
            b, q, params = self.builder, self.integers(x.value), self.bracket(x.value)
            shape = [count if i == x.axis else d for i, d in enumerate(x.value.shape)]
            state = self.remember(node.name or node.output.name, TensorType(shape, x.value.type.dtype))
            old = state
            if params is not None:
                old = b.add("quantize_linear", state, *params[0], **params[1], to=q.type.dtype.name)
            joined = b.add("concat", old, q, axis=x.axis, name=node.name)
            size = int(joined.shape[x.axis])
            rest = b.add("slice", joined, axes=(x.axis,), starts=(size - count,), ends=(size,), steps=(1,), name=node.name)
            if params is not None:
                joined, rest = (b.add("dequantize_linear", v, *params[0], **params[1]) for v in (joined, rest))
            self.outputs[self.state[state.name]] = rest
            self.remembered[key] = _Stream(joined, x.axis, count)
        return self.remembered[key]

    def bracket(self, value: Value) -> tuple[tuple[Value | None, Value | None], dict[str, Any]] | None:
        """Scale, zero point and attributes of the dequantize that makes the value, where they are for all of it."""
        node = self.builder.producer(value)
        if node is None or node.op != "dequantize_linear" or not self.scalar(node):
            return None
        return (node.inputs[1], node.input(2)), {"axis": 0, "block_size": 0}

    def integers(self, value: Value) -> Value:
        node = self.builder.producer(value)
        behind = node.inputs[0] if node is not None and self.bracket(value) is not None else None
        return behind if behind is not None else value

    def recurrent(self, node: Node) -> list[_Stream | None]:
        """y over time, and the last states, which are those that the next frame begins with."""
        a: Any = node.attrs
        x = self.streams.get(node.inputs[0].name) if node.inputs[0] is not None else None
        if x is None or x.axis != (1 if a["layout"] else 0) or x.history or a["direction"] != "forward":
            self.refuse(node, "it reads time backwards, or along another axis")
        count = 2 if node.op == "lstm" else 1
        inputs = [self.now(v) for v in node.inputs] + [None] * (7 - len(node.inputs))
        bits = self.bits_inside(node, inputs[4])
        made_of: dict[int, Value] = {}
        for i in range(count):
            given = inputs[4 + i]
            if self.is_zero(given):
                made_of[i] = self.remember(f"{node.name or node.output.name}:{'hc'[i]}", node.outputs[1 + i].type)
                inputs[4 + i] = self.bracketed(given, made_of[i])
            elif given is None or not self.builder.is_input(self.behind(given)):
                self.refuse(node, "its first state is neither zero nor an input")
            elif bits is not None:
                self.refuse(node, "its first state is an input, and holds fewer bits than a GRU in integers does inside")
        if bits is not None:
            made_of[1] = self.remember(f"{node.name or node.output.name}:s", node.outputs[1].type)
            inputs[6] = self.sixteen_bits(made_of[1], bits)
        names = tuple(o.name for o in node.outputs)
        y, *lasts = self.builder.add_node(node.op, *inputs, name=node.name, outputs=names, **a)
        for i, state in made_of.items():
            self.outputs[self.state[state.name]] = lasts[i]
        for old, new in zip(node.outputs[1:], lasts, strict=False):  # the bits inside a GRU were no output
            self.plain[old.name] = new
        return [_Stream(y, x.axis), *(None for _ in node.outputs[1:])]

    def bits_inside(self, node: Node, h0: Value | None) -> int | None:
        """The fractional bits of the state that a GRU in integers has beside h: frames hand it on as well, or they would lose bits."""
        params = self.bracket(h0) if h0 is not None and node.op == "gru" else None
        if params is None or h0 is None:
            return None
        (scale, zero), kind = (self.builder.constant_data(v) for v in params[0]), self.integers(h0).type
        if scale is None or (zero is None and params[0][1] is not None):
            self.refuse(node, "the scale of its state is not known")
        z = np.int32(0) if zero is None else zero.reshape(()).astype(np.int32)
        try:
            return gru_state_bits(Operand(kind, QuantParams(kind.dtype, scale.reshape(()), z, None, PerTensor()), None))
        except NotLowered as e:
            self.refuse(node, e.because)

    def sixteen_bits(self, state: Value, bits: int) -> Value:
        b = self.builder
        scale, zero = b.constant(np.float32(2.0**-bits), name=f"{state.name}:scale"), b.constant(np.int16(0), name=f"{state.name}:zero")
        q = b.add("quantize_linear", state, scale, zero, axis=0, block_size=0, to="int16")
        return b.add("dequantize_linear", q, scale, zero, axis=0, block_size=0)

    def bracketed(self, given: Value | None, state: Value) -> Value:
        """The state as the first state was: quantized, if that was."""
        params = self.bracket(given) if given is not None else None
        if params is None or given is None:
            return state
        q = self.builder.add("quantize_linear", state, *params[0], **params[1], to=self.integers(given).type.dtype.name)
        return self.builder.add("dequantize_linear", q, *params[0], **params[1])

    def behind(self, value: Value) -> Value:
        """A value without its brackets."""
        node = self.builder.producer(value)
        while node is not None and node.op in ("quantize_linear", "dequantize_linear") and node.inputs[0] is not None:
            value = node.inputs[0]
            node = self.builder.producer(value)
        return value

    def is_zero(self, value: Value | None) -> bool:
        if value is None:
            return True
        source = self.behind(value)
        node, data = self.builder.producer(source), self.builder.constant_data(source)
        if data is not None and source is not value:  # integers: zero is the zero point
            params = self.bracket(value)
            zero = None if params is None or params[0][1] is None else self.builder.constant_data(params[0][1])
            return bool((data == (0 if zero is None else zero)).all())
        return bool((data == 0).all()) if data is not None else node is not None and node.op == "fill" and node.attrs["value"] == 0

    def refuse(self, node: Node, because: str) -> NoReturn:
        raise UnsupportedOp(f"it cannot run frame by frame: {because}", where=node.where, hint=HINT)
