"""Linear layers of 8 bits, and what convolutions share with them: linear_s8, its float results, packed weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.kernels import native
from lowbit.plan.kernels.call import MANY, SEVERAL, Context, Data, KernelCall, Scratch, ints, is_int8, kernels_for, short
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array

PANEL = 16  # output channels that kernels do at once
PLAIN = ("ref", "armdsp", "mve", "neon")  # instruction sets that take weights in the order of `ref`, if not in quads
DOT4 = ("avxvnni", "avx512vnni", "neon", "neondot")  # those that take weights as linear_s8_pack_dot4 makes them
ROWS_EACH = 64  # with fewer rows for each thread, quads wait for weights that are not in its own cache
MACS_PER_NS = 60.0
FASTER = {"avxvnni": 150.0, "avx512vnni": 300.0}  # of linear_s8 and conv_s8 by these instructions
RELU_ZERO = -112  # zero points up to that are those of a relu's results, most of which are small
CENTRED_ZERO = 48  # zero points up to which activations count as being on both sides of it
FEW_ROWS = 4  # fewer: reading the weights takes longer than multiplying
ROWS_IN_CACHE = 384 << 10  # bytes of rows that stay in the second-level cache while the weights pass


def in_integers(node: Node, ctx: Context) -> bool:
    """Whether the kernels compute it: int8 activations, 8-bit constant weights, sums within 32 bits."""
    w, m = ctx.constant(node.inputs[1]), ctx.constant(node.inputs[2])
    if w is None or m is None or w.dtype != np.int8 or not is_int8(node.inputs[0]):
        return False
    finite = bool(np.isfinite(m).all())
    return finite and ints(node, "bound")["bound"] < 2**31 and short(node.output) is not None


def per_channel(node: Node, ctx: Context, channels: int) -> tuple[Data, Data]:
    """Bias and multiplier, one for each channel."""
    bias, m = ctx.constant(node.input(3)), ctx.constant(node.inputs[2])
    assert m is not None
    full = np.ascontiguousarray(np.broadcast_to(m, (channels,)), np.float32)
    return Data(np.zeros(channels, np.int32) if bias is None else bias), Data(full)


def clamp(node: Node) -> dict[str, int]:
    return ints(node, "x_zero", "y_zero", "lo", "hi")


@lru_cache(1024)
def sizes(isa: str, rows: int, k: int, n: int) -> tuple[int, int, int]:
    """Bytes of packed weights (n, k) at most, of the scratch for blocks of so many rows, and of the scratch of packing."""
    if isa in DOT4:
        return 64 + -(-n // PANEL) * PANEL * (4 + -(-k // 4) * 4), 64 * rows * (-(-k // 64) | 1), 0
    out = np.zeros(3, np.int64)
    native.having("linear_s8_sizes", isa)({"rows": rows, "k": k, "n": n}, out)
    return int(out[0]), int(out[1]), int(out[2])


def pack(isa: str, weights: Array, rows: int, activations: int = 0) -> Array:
    """Weights (groups, n, k) in the layout of the instruction set, for products of about so many rows.

    activations  as the contract of linear_s8_pack says
    """
    groups, n, k = weights.shape
    if isa in DOT4:
        return pack_dot4(weights)
    kernel = native.having("linear_s8_pack", isa)
    if kernel.isa == "ref":
        return np.ascontiguousarray(weights)
    size, _, work = sizes(isa, rows, k, n)
    out, scratch, used = aligned(groups * size), aligned(work), np.zeros(1, np.int64)
    params = {"rows": rows, "k": k, "n": n, "activations": int(activations)}
    for g in range(groups):
        kernel(params, np.ascontiguousarray(weights[g]), out[g * size : (g + 1) * size], used, scratch)
    if groups > 1:
        return out
    cut = aligned(int(used[0]))
    cut[:] = out[: len(cut)]
    return cut


def pack_dot4(weights: Array) -> Array:
    """Weights (groups, n, k) as linear_s8_pack_dot4 makes them, for any machine."""
    groups, n, k = weights.shape
    size = sizes(DOT4[0], 0, k, n)[0]
    out = aligned(groups * size)
    for g in range(groups):
        native.having("linear_s8_pack_dot4", "ref")({"k": k, "n": n}, np.ascontiguousarray(weights[g]), out[g * size : (g + 1) * size])
    return out


def activations_of(node: Node) -> int:
    """Where most activations are, as their zero point tells, in the numbers of linear_s8_pack.

    Those on both sides of their zero point are mostly near to it; in convolutions, whose rows are short or made anew for each window, that
    was not found to pay.
    """
    x_zero = ints(node, "x_zero")["x_zero"]
    return 1 if x_zero <= RELU_ZERO else 2 if node.op == "q_linear" and abs(x_zero) <= CENTRED_ZERO else 0


def layout_of(node: Node, isa: str, rows: int) -> tuple[str, int, int]:
    """The layout of the weights by name, and what packing is told to get it: a number of rows, and where most activations are."""
    if isa in DOT4:
        return "dot4", rows, 0
    activations = activations_of(node)
    few = "few rows near -128" if activations == 1 else "few rows"
    many = ("rows", "rows near -128", "rows near zero")[activations]
    return few if rows < FEW_ROWS else many, rows, activations


def block_of(isa: str, rows: int, k: int, activations: int, threads: int) -> int:
    """Rows that are done at once."""
    bytes_each = isa in DOT4 or activations == 1  # else rows are widened to words
    return row_block(rows, k // 2 if bytes_each else k, threads)


def by_columns(isa: str, rows: int, n: int, threads: int) -> bool:
    """Whether threads share the columns of all rows, not the rows: each weight is read by one of them, which the fewer rows there are
    counts the more."""
    return threads > 1 and isa in DOT4 and 0 < rows < ROWS_EACH * threads and n >= 4 * PANEL * threads


def row_block(rows: int, words: int, threads: int) -> int:
    """Rows of so many words that are done at once: as many as stay in the cache, in blocks of about equal size, equally many for each
    thread."""
    depth = max(16, -(-words // 16) * 16)
    most = min(192, max(32, ROWS_IN_CACHE // (2 * depth)))
    blocks = max(1, -(-rows // most))
    if threads > 1 and rows >= 8 * threads:
        blocks = -(-blocks // threads) * threads
        return -(-rows // blocks)  # not rounded: few blocks of a multiple of four rows leave a rest that is much smaller
    return max(4, -(-rows // (blocks * 4)) * 4)


def linear_call(node: Node, ctx: Context, x: Value, rows: int, k: int, n: int, weights: Array) -> KernelCall:
    kernel = ctx.kernel(f"linear_{short(x, node.output)}")
    return product_call(node, ctx, kernel, x, (rows, k, n), weights, per_channel(node, ctx, n))


def product_call(
    node: Node, ctx: Context, kernel: native.Kernel, x: Value, size: tuple[int, int, int], weights: Array, after: tuple[Value | Data, ...]
) -> KernelCall:
    """Rows times weights by a kernel like linear_s8, whose arguments are x, the weights, those `after` them, out and scratch."""
    threads = ctx.target.threads
    rows, k, n = size
    layout, packed_for, activations = layout_of(node, kernel.isa, rows)
    block = rows if by_columns(kernel.isa, rows, n, threads) else block_of(kernel.isa, rows, k, activations, threads)
    columns = -(-max(n, 1) // PANEL) * PANEL
    if threads > 1 and rows <= block:  # a single block of rows: the threads share its columns
        wide = 2 * PANEL if kernel.isa in DOT4 else PANEL
        columns = max(PANEL, -(-n // (wide * threads * 2)) * wide)
    w = node.inputs[1]
    assert w is not None
    data = ctx.once(w, "linear", kernel.isa, layout, make=lambda: pack(kernel.isa, weights.reshape(1, n, k), packed_for, activations))
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": block, "block_columns": columns, "out_stride": n, **clamp(node),
    }  # fmt: skip
    items = -(-rows // block) * -(-n // columns)
    args = (ctx.argument(x), data, *after, node.output, Scratch(sizes(kernel.isa, block, k, n)[1]))
    # reading the weights takes as long as the products of a few rows
    cost, whole = k * n * max(rows / FASTER.get(kernel.isa, MACS_PER_NS), 1 / MACS_PER_NS), columns >= n
    return KernelCall(kernel, params, args, items, cost, parts=MANY if whole else SEVERAL, item_elements=block * n if whole else 0)


@dataclass(frozen=True)
class Convolved:
    """A convolution's weights as an image of rows and columns, and its sizes."""

    w4: Array  # (O, C/G, KH, KW)
    groups: int
    pixels: int  # of the output, through the batch
    pointwise: bool  # 1×1, every pixel once: a linear layer

    @property
    def in_c(self) -> int:
        return self.w4.shape[1] * self.groups


def convolved(node: Node, g: dict[str, Any], w: Array) -> Convolved:
    groups = ints(node, "groups")["groups"]
    one = g["kernel_h"] == g["kernel_w"] == g["stride_h"] == g["stride_w"] == 1 and not g["pad_h"] and not g["pad_w"]
    whole = groups == 1 and g["out_h"] == g["in_h"] and g["out_w"] == g["in_w"]
    w4 = w.reshape(*w.shape[:2], g["kernel_h"], g["kernel_w"])
    return Convolved(w4, groups, g["batch"] * g["out_h"] * g["out_w"], one and whole)


@kernels_for("q_linear")
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], ctx.constant(node.inputs[1])
    assert x is not None
    rows = prod(int(d) for d in x.shape[:-1])
    if w is None or not in_integers(node, ctx):
        return None
    n, k = w.shape
    return [linear_call(node, ctx, x, rows, k, n, w)]


def is_column(node: Node) -> bool:
    """Whether image, kernel and result are one pixel wide: the bytes are those of a row, and kernels read a row at once, a column not."""
    x, y = node.inputs[0], node.output
    assert x is not None
    return x.type.rank == 4 and int(x.shape[2]) == int(y.shape[2]) == int(kernel_sizes(node)[1]) == 1


def kernel_sizes(node: Node) -> Any:
    """The kernel along each spatial axis: of a pool an attribute, of a convolution the last axes of its weights."""
    w = node.inputs[1] if len(node.inputs) > 1 else None
    return node.attrs["kernel"] if w is None else w.shape[2:]


def rows_and_columns(node: Node, values: Any, missing: int = 1) -> tuple[int, int]:
    """Values along spatial axes as those of rows and columns. One axis is an image of height 1, and so is a column."""
    numbers = [int(v) for v in values]
    if len(numbers) == 1:
        return missing, numbers[0]
    high, wide = numbers
    return (wide, high) if is_column(node) else (high, wide)


def two_spatial(node: Node) -> dict[str, Any] | None:
    """The geometry of an image of one or two spatial axes, with the kernel's size."""
    x, y = node.inputs[0], node.output
    assert x is not None
    rank = x.type.rank
    if rank not in (3, 4):
        return None
    pads: Any = node.attrs["pads"]
    sizes = {
        "in": x.shape[1:-1], "out": y.shape[1:-1], "kernel": kernel_sizes(node), "stride": node.attrs["stride"],
        "dilation": node.attrs["dilation"],
    }  # fmt: skip
    pairs = {name: rows_and_columns(node, values) for name, values in sizes.items()}
    pairs["pad"] = rows_and_columns(node, pads[: rank - 2], 0)
    return {"batch": int(x.shape[0]), **{f"{name}_{axis}": v for name, pair in pairs.items() for axis, v in zip("hw", pair, strict=True)}}
