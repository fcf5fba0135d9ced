"""LSTM and GRU: one product for the inputs of all times, then the recurrence, step by step where threads share it.

Where memory is dear nothing is kept of the products: the kernel makes those of a step while it is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Node, Value
from lowbit.kernels import native
from lowbit.plan.kernels.call import KERNELS, Context, Data, KernelCall, Scratch, kernels_for, short
from lowbit.plan.kernels.movement import copy_call, dense, shape_of
from lowbit.plan.kernels.products import PLAIN
from lowbit.plan.kernels.wide import narrowed, widened
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array, TensorType

UNITS = 16  # that threads take at a time, and weights are padded to
SUMMED = ("avx512vnni",)  # instruction sets that take recurrent weights as they are, with their sums
CHIPS = ("ref", "armdsp", "mve")  # instruction sets of machines with little memory
MACS_PER_NS = 50.0
STEP_WORTH = 4_000.0  # nanoseconds of a step's product that pay for meeting the other threads after it
F32 = np.float32


def panels(rows: Array, isa: str) -> bytes:
    """Recurrent weights of some gates (gates, hidden, hidden) as csrc/rnn/rnn.h says: in panels of eight units, plus 128, or of 16."""
    gates, hidden, _ = rows.shape
    units = UNITS if isa in SUMMED else UNITS // 2
    depth = -(-hidden // UNITS) * UNITS
    full = np.zeros((gates, depth, depth), np.int8)
    full[:, :hidden, :hidden] = rows
    quads = np.ascontiguousarray(full.reshape(gates, depth // units, units, depth // 4, 4).transpose(1, 3, 0, 2, 4))
    if isa in SUMMED:
        return quads.sum(axis=(1, 4), dtype=np.int32).tobytes() + quads.tobytes()
    return (quads.view(np.uint8) ^ 128).tobytes()


def pack(r: Array, gates: int, apart: bool, isa: str) -> Array:
    """Recurrent weights (directions, gates · hidden, hidden) for the kernels; `apart`: the last gate after the others."""
    hidden = r.shape[2]
    cuts = (slice(0, gates - 1), slice(gates - 1, gates)) if apart else (slice(0, gates),)
    whole = b"".join(panels(d.reshape(gates, hidden, hidden)[cut], isa) for d in r for cut in cuts)
    out = aligned(len(whole))
    out[:] = np.frombuffer(whole, np.uint8)
    return out


def input_products(node: Node, ctx: Context, scales: Array, x_zero: int, bound: int) -> tuple[list[KernelCall], Value] | None:
    """fl32(Σ (x - x_zero)·w) × scale for all times and directions, by the kernels of q_linear; and the value that holds them."""
    x, wv = node.inputs[0], node.inputs[1 if "rows" not in node.op else 2]
    w = ctx.constant(wv)
    assert x is not None and wv is not None
    if w is None:
        return None
    b = Builder()
    given = b.input(x.name, TensorType((int(x.shape[0]) * int(x.shape[1]), w.shape[2]), x.type.dtype))
    weights = b.constant(w.reshape(-1, w.shape[2]), name=f"{wv.name}:rows", dtype=wv.type.dtype)
    multiplier = b.constant(np.ascontiguousarray(np.broadcast_to(scales.reshape(-1), w.shape[0] * w.shape[1]), F32), name="multiplier")
    attrs = {"x_zero": x_zero, "y_zero": 0, "lo": -128, "hi": 127, "to": "float32", "bound": bound}
    made = b.add("q_linear", given, weights, multiplier, out=f"{node.output.name}:products", name=node.name, **attrs)
    part = b.finish({"y": made})
    calls = KERNELS["q_linear"](part.nodes[0], Context(part, ctx.target, ctx.packed))
    if calls is None:
        return None
    own = int(given.shape[0]) * w.shape[0] * w.shape[1] * w.shape[2]  # the recurrence counts its own
    return [replace(c, macs=0 if i else own) for i, c in enumerate(calls)], made


def from_inputs(node: Node, ctx: Context) -> bool:
    """Whether one kernel makes the products of inputs too: in generated C, where no wide kernels would multiply them all at once.

    Weights of 4 bits stay packed, and those of 16 bits are another contract's.
    """
    x, w, r = node.inputs[0], node.inputs[1], node.inputs[3]
    same = all(v is not None and v.type.dtype.name == "int8" for v in (x, w, r)) and ctx.constant(w) is not None
    return same and ctx.target.scratch_in_arena and ctx.kernel("linear_s8_f32").isa in CHIPS


def geometry(node: Node, gates: int, hidden: int) -> dict[str, int]:
    x, y = node.inputs[0], node.output
    assert x is not None
    one, two = int(x.shape[0]), int(x.shape[1])
    time, batch = (two, one) if node.attrs["layout"] else (one, two)
    directions = 2 if node.attrs["direction"] == "bidirectional" else 1
    steps = {"x_time": batch, "x_batch": 1, "y_time": directions * batch * hidden, "y_direction": batch * hidden, "y_batch": hidden}
    steps |= {"s_direction": batch * hidden, "s_batch": hidden}
    if node.attrs["layout"]:
        steps = {"x_time": 1, "x_batch": time, "y_time": directions * hidden, "y_direction": hidden, "y_batch": time * directions * hidden}
        steps |= {"s_direction": hidden, "s_batch": directions * hidden}
    assert int(y.type.size) == time * batch * directions * hidden
    reverse = int(node.attrs["direction"] == "reverse")
    return {"time": time, "batch": batch, "hidden": hidden, "directions": directions, "reverse": reverse, **steps}


def recurrence(
    node: Node,
    ctx: Context,
    kernel: native.Kernel,
    gates: int,
    fields: dict[str, Param],
    args: list[Value | Data],
    before: list[KernelCall],
) -> list[KernelCall]:
    """The calls after the product of the inputs, if that is made before: one for all times, or where threads gain by it one for each."""
    g = geometry(node, gates, int(node.outputs[1].shape[-1]))
    hidden, batch, threads = g["hidden"], g["batch"], ctx.target.threads
    cost = g["directions"] * batch * gates * hidden * hidden / MACS_PER_NS
    whole = -(-hidden // UNITS) * UNITS
    alone = not fields["linear_before_reset"] and gates == 3  # units of such a GRU meet within a step
    shares = max(1, min(threads // g["directions"], int(cost / g["directions"] / STEP_WORTH))) if not alone else 1
    block = -(-whole // (UNITS * shares)) * UNITS
    items = g["directions"] * -(-hidden // block)
    small = kernel.isa in PLAIN and "rows" not in node.op  # it keeps nothing but r * h of a GRU
    scratch = Scratch((2 * hidden if gates == 3 else 0) if small else batch * 40 * (-(-hidden // 64) * 64))
    spans = [(0, g["time"])] if shares == 1 else [(t, 1) for t in range(g["time"])]
    given = node.inputs[0]
    inner = hidden + (int(given.shape[-1]) if given is not None and "inputs" in fields else 0)
    macs = batch * g["directions"] * gates * hidden * inner
    made = [
        KernelCall(kernel, {**g, "inputs": 0, "x_zero": 0, **fields, "first": first, "steps": steps, "block": block}, (*args, scratch),
                   items, max(cost, 1e5) if items > 1 else 0.0, macs=macs * steps)
        for first, steps in spans
    ]  # fmt: skip
    return [*before, *made]


def rows_of(data: Array | None, like: Array) -> Data:
    """A bias, zeros where there is none: what they are added to rounds alike."""
    return Data(np.zeros(like.shape, F32) if data is None else np.ascontiguousarray(data, F32))


def pack_words(r: Array, gates: int, apart: bool, isa: str) -> Array:
    """The same for 16-bit states: panels of pairs of words."""
    hidden, units = r.shape[2], UNITS if isa in SUMMED else UNITS // 2
    depth = -(-hidden // UNITS) * UNITS
    cuts = (slice(0, gates - 1), slice(gates - 1, gates)) if apart else (slice(0, gates),)
    parts = []
    for d in r:
        for cut in cuts:
            rows = d.reshape(gates, hidden, hidden)[cut]
            full = np.zeros((len(rows), depth, depth), np.int16)
            full[:, :hidden, :hidden] = rows
            parts.append(full.reshape(len(rows), depth // units, units, depth // 2, 2).transpose(1, 3, 0, 2, 4).reshape(-1))
    whole = np.concatenate(parts).view(np.uint8)
    out = aligned(whole.size)
    out[:] = whole
    return out.view(np.int16)


def recurrent_weights(node: Node, ctx: Context, value: Value, contract: str, gates: int) -> tuple[native.Kernel, Data] | None:
    """The kernel, and the weights as it wants them."""
    r = ctx.constant(value)
    if r is None or (r.dtype != np.int8 and not contract.endswith("s16")):
        return None
    kernel = ctx.kernel(contract)
    apart = gates == 3 and not node.attrs["linear_before_reset"]
    if contract.endswith("s16") and kernel.isa in PLAIN:
        return kernel, ctx.once(value, "int16", make=lambda: np.ascontiguousarray(r, np.int16))
    if contract.endswith("s16"):
        return kernel, ctx.once(value, "rnn16", str(apart), kernel.isa, make=lambda: pack_words(r, gates, apart, kernel.isa))
    if kernel.isa in PLAIN:
        return kernel, Data(r)
    return kernel, ctx.once(value, "rnn", str(apart), kernel.isa, make=lambda: pack(r, gates, apart, kernel.isa))


def cells(node: Node, ctx: Context, given: Value | None) -> Value | Data:
    """The states with which a recurrence of floats begins; zeros where none are given."""
    return ctx.argument(given) if given is not None else Data(np.zeros([int(d) for d in node.outputs[1].shape], F32))


def fits(node: Node, wide: bool) -> bool:
    """Sums within int32 (16-bit states: int64, whatever they are), and something to do."""
    a: Any = node.attrs
    return (wide or (a["bound_x"] < 2**31 and a["bound_h"] < 2**31)) and int(node.output.type.size) > 0


def finite(*arrays: Array | None) -> bool:
    return all(a is not None and bool(np.isfinite(a).all()) for a in arrays)


@kernels_for("q_lstm", "q_gru")
def static(node: Node, ctx: Context) -> list[KernelCall] | None:
    gates = 4 if node.op == "q_lstm" else 3
    _, _, w_scale, rv, r_scale, table, h0 = node.inputs[:7]
    c0, bias = (node.input(7), node.input(8)) if gates == 4 else (None, node.input(7))
    a: Any = node.attrs
    kind, outputs = short(node.inputs[0], h0), node.outputs
    scales, r_scales = ctx.constant(w_scale), ctx.constant(r_scale)
    biases = [bias] if gates == 4 else [bias, node.input(8)]
    if kind not in ("s8", "s16") or not fits(node, kind == "s16") or any(b is not None and ctx.constant(b) is None for b in biases):
        return None
    if not finite(scales, r_scales) or ctx.constant(table) is None:
        return None
    assert rv is not None and h0 is not None and table is not None and scales is not None and r_scales is not None
    before, behind = list[KernelCall](), list[KernelCall]()
    if kind == "s8" and rv.type.dtype.name == "int16":  # its state is kept in 16 bits, within the range of 8
        kind = "s16"
        before, h0 = widened(ctx, h0, f"{node.output.name}:first")
        outputs, behind = narrowed(ctx, node, 2)
    found = recurrent_weights(node, ctx, rv, f"{node.op[2:]}_{'x_' if from_inputs(node, ctx) else ''}{kind}", gates)
    if found is None:
        return None
    kernel, weights = found
    calls, args, fields = list[KernelCall](), list[Value | Data](), dict[str, Param]()
    if from_inputs(node, ctx):
        x, w = node.inputs[0], node.inputs[1]
        assert x is not None and w is not None
        args = [ctx.argument(x), ctx.argument(w), Data(np.ascontiguousarray(np.broadcast_to(scales.reshape(-1), r_scales.size), F32))]
        fields = {"inputs": int(x.shape[-1]), "x_zero": a["x_zero"]}
    else:
        products = input_products(node, ctx, scales, a["x_zero"], a["bound_x"])
        if products is None:
            return None
        calls, args = products[0], [products[1]]
    sh, bits = (F32(a["h_scale"]), a["state_bits"]) if gates == 3 else (F32(1), 0)
    fields |= {
        "linear_before_reset": int(gates == 3 and a["linear_before_reset"]), "h_zero": a["h_zero"], "lo": a["lo"], "hi": a["hi"],
        "state_bits": bits, "h_multiplier": float(F32(2.0**-bits) / sh) if gates == 3 else float(a["h_multiplier"]),
        "reset_multiplier": float(F32(2.0 ** -(bits + 15)) / sh), "state_multiplier": float(sh * F32(2.0**bits)),
    }  # fmt: skip
    if not all(np.isfinite(v) for v in fields.values() if isinstance(v, float)):
        return None
    s0 = node.input(9) if gates == 3 else None
    fields |= {"state_given": int(s0 is not None), "sums_fit": int(a["bound_h"] < 2**31)}
    args += [rows_of(ctx.constant(bias), scales), weights, Data(r_scales)]
    if gates == 4:
        args += [ctx.argument(table), ctx.argument(h0), cells(node, ctx, c0), *outputs]
    else:
        state = Value(f"{node.output.name}:state", node.outputs[1].type.with_dtype("int16")) if s0 is None else node.outputs[2]
        if s0 is not None:  # the kernel goes on with what it finds in its state
            shape = shape_of(s0)
            copied = copy_call(ctx, s0, state, shape, dense(shape), dense(shape), 0, 0)
            assert copied is not None
            calls = [*calls, replace(copied, macs=0)]
        args += [rows_of(ctx.constant(node.input(8)), scales), ctx.argument(table), ctx.argument(h0), *outputs[:2], state]
    return [*recurrence(node, ctx, kernel, gates, fields, args, [*before, *calls]), *behind]


@kernels_for("q_lstm_rows", "q_gru_rows")
def dynamic(node: Node, ctx: Context) -> list[KernelCall] | None:
    gates = 4 if node.op == "q_lstm_rows" else 3
    x, x_scale, _, w_scale, rv, r_scale = node.inputs[:6]
    bias, state = node.input(6), (node.input(7), node.input(8))
    r_bias, first = (None, state) if gates == 4 else (state[0], (state[1],))
    w_scales, r_scales = ctx.constant(w_scale), ctx.constant(r_scale)
    if short(x) != "s8" or not fits(node, False) or any(b is not None and ctx.constant(b) is None for b in (bias, r_bias)):
        return None
    if w_scales is None or r_scales is None:
        return None
    assert rv is not None and x_scale is not None
    found = recurrent_weights(node, ctx, rv, f"{node.op[2:]}_s8", gates)
    products = input_products(node, ctx, np.ones(1, F32), 0, int(node.attrs["bound_x"]))  # type: ignore[arg-type]
    if found is None or products is None:
        return None
    kernel, weights = found
    names = ("h_zero", "lo", "hi", "state_bits", "state_given", "sums_fit")
    fields: dict[str, Param] = {**dict.fromkeys(names, 0), "h_multiplier": 0.0, "reset_multiplier": 0.0, "state_multiplier": 0.0}
    fields["linear_before_reset"] = int(gates == 3 and bool(node.attrs["linear_before_reset"]))
    calls, px = products
    args: list[Value | Data] = [px, ctx.argument(x_scale), Data(w_scales), rows_of(ctx.constant(bias), w_scales), weights, Data(r_scales)]
    if gates == 3:
        args.append(rows_of(ctx.constant(r_bias), w_scales))
    args += [cells(node, ctx, v) for v in first]
    return recurrence(node, ctx, kernel, gates, fields, [*args, *node.outputs], calls)
