"""LSTM and GRU by their integer arithmetic (docs/arithmetic.md §7): a Scan of standard ops that gives the layer's very bytes.

Products are MatMul of int32 (int64 where their sums need it), which every CPU adds exactly; roundings are Mul, Round and Clip of float32;
shifts of signed numbers are floor divisions. tanh of a 16-bit number is one Gather: the table holds what interpolation gives for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import UnsupportedOp
from lowbit.export.onnx.tensors import element_type
from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import bracket_params, bracketed_operands, check_quantized
from lowbit.ops.q_rnn import ONE, tanh16, tanh_table
from lowbit.ops.quant import QUANTIZABLE, Const, NotLowered, Operand, Outputs, Ref, Result, RowsOperand
from lowbit.types import Array

if TYPE_CHECKING:
    from lowbit.export.onnx.writer import Writer

FLOAT, INT32 = 1, 6  # ONNX's numbers for them: onnx itself is imported when a file is written
Do = Callable[..., str]  # (op_type, *inputs, **attrs) -> name of the result: a step of the graph, or of a Scan's body


@dataclass(frozen=True)
class Form:
    """A layer in integers, and the quantizes after it (by their outputs) that have the parameters of what they read."""

    made: Outputs
    same: frozenset[str]


def integer_forms(graph: Graph) -> dict[str, Form]:
    """The integer form of every LSTM and GRU that lowbit computes in integers, by the layer's first output.

    Layers that lowbit computes in float too have none. Scales that are found at run time, and states of four bits, cannot be said.
    """
    editor = Editor(graph)
    forms = {}
    for node in graph.nodes:
        if node.op not in ("lstm", "gru"):
            continue
        entry, operands = QUANTIZABLE[node.op], bracketed_operands(editor, node)
        if any(isinstance(o, RowsOperand) for o in operands):
            raise UnsupportedOp(
                "its input and states are quantized at run time, which has no integer form in ONNX",
                where=node.where,
                hint='recurrences="float", or a recipe with calibrated activations (int8, uint8)',
            )
        assert entry.unfit is not None and entry.lower is not None
        if entry.unfit(tuple(v is not None for v in node.inputs), **node.attrs) is not None:
            continue
        try:
            check_quantized(entry.spec, operands)
            made = entry.lower(cast("Any", operands), Result(node.output.type, None), **node.attrs)
        except NotLowered:
            continue
        assert isinstance(made, Outputs)
        narrow = [o.params.dtype for o in (operands[0], operands[4]) if isinstance(o, Operand) and o.params.dtype.bits < 8]
        if narrow:
            raise UnsupportedOp(
                f"its input or state is {narrow[0]}, which ONNX cannot move from step to step",
                where=node.where,
                hint='recurrences="float", or a recipe with activations of 8 bits or more',
            )
        codes = [(o, p) for o, p in zip(node.outputs, made.params, strict=True) if p is not None]
        behind = [(u, p) for o, p in codes for u in editor.users(o) if u.op == "quantize_linear"]
        forms[node.output.name] = Form(made, frozenset(u.output.name for u, p in behind if bracket_params(editor, u) == p))
    return forms


def write_recurrence(w: Writer, node: Node, form: Form) -> None:
    """The layer's integers, and after them the dequantize of every output whose reals are read. The cells of an LSTM are reals."""
    made, layer = form.made, _Layer.of(w, node, form.made)
    for output, ints, params in zip(node.outputs, layer.written(), made.params, strict=True):
        users = w.graph.users.get(output.name, ())
        if params is None and (users or output in w.graph.outputs.values()):
            w.define(node, output, "Identity", ints)
        w.codes |= {u.output.name: ints for u in users if u.output.name in form.same}
        if params is not None and (any(u.output.name not in form.same for u in users) or output in w.graph.outputs.values()):
            zero = w.constant(np.asarray(params.zero_point.astype(params.dtype.numpy)), params.dtype, hint="zero")
            w.define(node, output, "DequantizeLinear", ints, w.constant(np.asarray(params.scale), hint="scale"), zero)


class _Body:
    """The nodes of a Scan's body. Names differ from all others of the file: a body sees the graph around it."""

    def __init__(self, w: Writer, node: Node) -> None:
        self.w, self.hint, self.nodes = w, f"{w.name(node.output)}/step", list[Any]()

    def fresh(self, what: str) -> str:
        return self.w.fresh(f"{self.hint}/{what}")

    def do(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        return self.several(op_type, 1, *inputs, **attrs)[0]

    def several(self, op_type: str, count: int, *inputs: str, **attrs: Any) -> list[str]:
        from onnx import helper

        outputs = [self.fresh(op_type) for _ in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attrs))
        return outputs

    def split(self, x: str, *sizes: int) -> list[str]:
        return self.several("Split", len(sizes), x, self.w.ints(sizes), axis=-1)


@dataclass(frozen=True)
class _Layer:
    """One layer's constants and options as q_lstm and q_gru take them."""

    w: Writer
    node: Node
    op: str
    attrs: Mapping[str, Any]
    x: str
    states: tuple[str, str | None]  # h0; c0 or s0
    state_type: int  # the element type of h
    constants: Mapping[str, Array | None]

    @staticmethod
    def of(w: Writer, node: Node, made: Outputs) -> _Layer:
        call, h = made.call, made.params[0]
        assert h is not None
        found: list[str | Array | None] = []
        for a in call.args:
            found.append(_named(w, node, a) if isinstance(a, Ref) else a.data if isinstance(a, Const) else None)
        if call.op == "q_lstm":
            x, wx, ws, r, rs, _, h0, inner, bias = found
            r_bias = None
        else:
            x, wx, ws, r, rs, _, h0, bias, r_bias, inner = found
        constants = {"w": wx, "w_scale": ws, "r": r, "r_scale": rs, "bias": bias, "r_bias": r_bias}
        states, kind = cast("Any", (h0, inner)), element_type(h.dtype)
        layer = _Layer(w, node, call.op, call.attrs, cast("str", x), states, kind, cast("Any", constants))
        layer.check_finite()
        return layer

    def check_finite(self) -> None:
        """Gates are never NaN, which Clip and Cast would not bring to 0 as lowbit does."""
        most = sum(self.attrs[f"bound_{k}"] * float(np.abs(self.get(s)).max()) for k, s in (("x", "w_scale"), ("h", "r_scale")))
        most += sum(float(np.abs(b).max()) for k in ("bias", "r_bias") if (b := self.constants[k]) is not None)
        if not most < float(np.finfo(np.float32).max):
            raise UnsupportedOp("its gates may leave the range of float32", where=self.node.where, hint='recurrences="float"')

    def get(self, key: str) -> Array:
        found = self.constants[key]
        assert found is not None
        return found

    @property
    def hidden(self) -> int:
        return int(self.get("r").shape[2])

    # -- numbers -------------------------------------------------------------------------------------------------------

    def f32(self, v: float | np.float32 | Array) -> str:
        return self.w.constant(np.asarray(v, np.float32))

    def i32(self, v: int) -> str:
        return self.w.constant(np.asarray(v, np.int32))

    def matrix(self, key: str, d: int, rows: slice = slice(None)) -> str:
        """The weights of a direction as (in, rows), wide enough for the sums."""
        data = np.ascontiguousarray(self.get(key)[d, rows].T)
        return self.w.step(self.node, "Cast", self.w.constant(data, hint="weights"), to=self.wide("x" if key == "w" else "h"))

    def wide(self, side: str) -> int:
        """The integers that hold every sum of products."""
        return element_type(dtype("int32" if self.attrs[f"bound_{side}"] < 2**31 else "int64"))

    def product(self, do: Do, codes: str, side: str, matrix: str, scale: Array, bias: Array | None) -> str:
        """fl32(Σ (q - zero)·weight) × scale (+ bias)."""
        wide, zero = self.wide(side), self.attrs[f"{side}_zero"]
        centred = do("Cast", codes, to=wide)
        if zero:
            kind = np.int32 if wide == element_type(dtype("int32")) else np.int64
            centred = do("Sub", centred, self.w.constant(np.asarray(zero, kind)))
        real = do("Mul", do("Cast", do("MatMul", centred, matrix), to=FLOAT), self.f32(scale))
        return real if bias is None else do("Add", real, self.f32(bias))

    def rounded(self, do: Do, t: str) -> str:
        """Codes of the hidden state: clamp(rne(t) + zero)."""
        zero, lo, hi = (self.attrs[k] for k in ("h_zero", "lo", "hi"))
        r = do("Clip", do("Round", t), self.f32(lo - zero), self.f32(hi - zero))
        return do("Cast", do("Add", r, self.f32(zero)) if zero else r, to=self.state_type)

    def times(self, do: Do, ints: str, factor: float | np.float32) -> str:
        return do("Mul", do("Cast", ints, to=FLOAT), self.f32(factor))

    def shifted(self, do: Do, v: str, n: int) -> str:
        """v >> n of signed numbers; Div rounds toward zero, so the rest goes first."""
        unit = self.i32(1 << n)
        return v if n == 0 else do("Div", do("Sub", v, do("Mod", v, unit)), unit)

    def clamp16(self, do: Do, v: str) -> str:
        return do("Clip", v, self.i32(-ONE), self.i32(ONE - 1))

    def tanh(self, do: Do, at: str) -> str:
        """tanh in Q0.15 of a number in Q3.12 that is given as its place in the table."""
        tables = self.w.tables
        if "tanh" not in tables:
            tables["tanh"] = self.w.constant(tanh16(np.arange(-ONE, ONE), tanh_table()).astype(np.int16), hint="tanh")
        return do("Cast", do("Gather", tables["tanh"], at), to=INT32)

    def gates(self, do: Do, pre: str, factor: float | Array) -> str:
        """tanh in Q0.15 of clamp16(rne(pre × factor))."""
        g = do("Clip", do("Round", do("Mul", pre, self.f32(factor))), self.f32(-ONE), self.f32(ONE - 1))
        return self.tanh(do, do("Add", do("Cast", g, to=INT32), self.i32(ONE)))

    def sigmoid(self, do: Do, tanh: str) -> str:
        """(1 + tanh) / 2, which is nowhere negative."""
        return do("Div", do("Add", tanh, self.i32(ONE)), self.i32(2))

    def real_tanh(self, do: Do, tanh: str) -> str:
        return self.times(do, tanh, 2.0**-15)

    def real_sigmoid(self, do: Do, tanh: str) -> str:
        """(1 + tanh) / 2 as a real; the largest tanh is an open gate, 1."""
        opened = do("Cast", do("Equal", tanh, self.i32(ONE - 1)), to=INT32)
        return self.times(do, do("Add", do("Add", tanh, self.i32(ONE)), opened), 2.0**-16)

    def mixed(self, do: Do, keep: str, old: str, take: str, new: str) -> str:
        taken = self.shifted(do, do("Mul", take, new), 15 - self.attrs["state_bits"])
        total = do("Add", do("Add", do("Mul", keep, old), taken), self.i32(1 << 14))
        return self.clamp16(do, self.shifted(do, total, 15))

    # -- one step ------------------------------------------------------------------------------------------------------

    def lstm_step(self, b: _Body, d: int, matrices: list[str], x: str, h: str, c: str) -> tuple[str, str]:
        do, n = b.do, self.hidden
        pre = do("Add", x, self.product(do, h, "h", matrices[0], self.get("r_scale")[d], None))
        halved, new = b.split(self.gates(do, pre, np.repeat(np.array([2048, 4096], np.float32), (3 * n, n))), 3 * n, n)
        take, out, keep = b.split(self.real_sigmoid(do, halved), n, n, n)
        cell = do("Add", do("Mul", keep, c), do("Mul", take, self.real_tanh(do, new)))
        made = do("Mul", out, self.real_tanh(do, self.gates(do, cell, 4096)))
        return self.rounded(do, do("Mul", made, self.f32(self.attrs["h_multiplier"]))), cell

    def gru_step(self, b: _Body, d: int, matrices: list[str], x: str, h: str, s: str) -> tuple[str, str]:
        do, n, bits = b.do, self.hidden, self.attrs["state_bits"]
        f32, scale, bias = np.float32, self.get("r_scale")[d], self.constants["r_bias"]
        h_scale = f32(self.attrs["h_scale"])

        def recurrent(codes: str, matrix: str, rows: slice) -> str:
            return self.product(do, codes, "h", matrix, scale[rows], None if bias is None else bias[d, rows])

        x_zr, x_n = b.split(x, 2 * n, n)
        zr = do("Add", x_zr, recurrent(h, matrices[0], slice(0, 2 * n)))
        z, reset = b.split(self.sigmoid(do, self.gates(do, zr, 2048)), n, n)
        if self.attrs["linear_before_reset"]:
            h_n = do("Mul", self.times(do, reset, f32(2.0**-15)), recurrent(h, matrices[1], slice(2 * n, None)))
        else:
            unit = f32(2.0 ** -(bits + 15)) / h_scale
            h_n = recurrent(self.rounded(do, self.times(do, do("Mul", reset, s), unit)), matrices[1], slice(2 * n, None))
        new = self.mixed(do, z, s, do("Sub", self.i32(ONE), z), self.gates(do, do("Add", x_n, h_n), 4096))
        return self.rounded(do, self.times(do, new, f32(2.0**-bits) / h_scale)), new

    # -- the layer -----------------------------------------------------------------------------------------------------

    def written(self) -> list[str]:
        """The names of the integers of y and the last states (an LSTM's cells: reals), in the layout of the layer."""
        do: Do = partial(self.w.step, self.node)
        first, batch_first = self.first_states(do), self.attrs["layout"] == 1
        x = self.x
        if batch_first:
            x, first = do("Transpose", x, perm=(1, 0, 2)), [do("Transpose", s, perm=(1, 0, 2)) for s in first]
        directions = [self.direction(do, d, x, first) for d in range(len(self.get("w")))]
        joined = []
        for parts, axis in zip(zip(*directions, strict=True), (1, 0, 0), strict=True):
            ranked = [do("Unsqueeze", p, self.w.ints([axis])) for p in parts]
            joined.append(ranked[0] if len(ranked) == 1 else do("Concat", *ranked, axis=axis))
        y, h, s = joined
        s = s if self.op == "q_lstm" else do("Cast", s, to=element_type(dtype("int16")))
        if batch_first:
            y, h, s = do("Transpose", y, perm=(2, 0, 1, 3)), do("Transpose", h, perm=(1, 0, 2)), do("Transpose", s, perm=(1, 0, 2))
        return [y, h, s][: len(self.node.outputs)]

    def first_states(self, do: Do) -> list[str]:
        """h in its own type; beside it an LSTM's cells, zeros where none are given, or a GRU's 16 bits as int32, h's where none are."""
        h, inner = self.states
        if self.op == "q_lstm":
            return [h, do("Expand", self.f32(0), do("Shape", h)) if inner is None else inner]
        if inner is not None:
            return [h, do("Cast", inner, to=INT32)]
        zero, scale = self.attrs["h_zero"], np.float32(self.attrs["h_scale"]) * np.float32(2.0 ** self.attrs["state_bits"])
        centred = do("Sub", do("Cast", h, to=INT32), self.i32(zero))
        wide = do("Clip", do("Round", self.times(do, centred, scale)), self.f32(-ONE), self.f32(ONE - 1))
        return [h, do("Cast", wide, to=INT32)]

    def direction(self, do: Do, d: int, x: str, first: list[str]) -> tuple[str, str, str]:
        """y (time, batch, hidden) and the last states (batch, hidden) of one direction. The input's products are made before the walk."""
        from onnx import helper

        bias = self.constants["bias"]
        px = self.product(do, x, "x", self.matrix("w", d), self.get("w_scale")[d], None if bias is None else bias[d])
        states = [do("Gather", s, self.w.constant(np.asarray(d, np.int64)), axis=0) for s in first]
        lstm, n = self.op == "q_lstm", self.hidden
        parts = (slice(None),) if lstm else (slice(0, 2 * n), slice(2 * n, None))
        matrices = [self.matrix("r", d, rows) for rows in parts]
        b = _Body(self.w, self.node)
        names, kinds = [b.fresh(what) for what in ("h", "state", "x")], (self.state_type, FLOAT if lstm else INT32, FLOAT)
        h, s = (self.lstm_step if lstm else self.gru_step)(b, d, matrices, names[2], names[0], names[1])
        seen = b.do("Identity", h)
        inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
        outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in ((h, kinds[0]), (s, kinds[1]), (seen, kinds[0]))]
        body = helper.make_graph(b.nodes, f"{b.hint}/{d}", inputs, outputs)
        back = [int(self.attrs["direction"] == "reverse" or d == 1)]
        options = {"num_scan_inputs": 1, "scan_input_directions": back, "scan_output_directions": back}
        last_h, last_s, y = self.w.steps(self.node, "Scan", 3, *states, px, body=body, **options)
        return y, last_h, last_s


def _named(w: Writer, node: Node, ref: Ref) -> str:
    """The name of an input in the file: that of its integers, or of its reals."""
    value = node.inputs[ref.index]
    assert value is not None
    return w.name(value if ref.what == "real" else w.graph.producers[value.name].inputs[0])
