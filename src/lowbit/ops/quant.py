"""The quantized side of an op: which of its tensors become integers (`QuantSpec`), and the integer op that then stands for it (`lower`).

An op that can be quantized says so in one place, its `q_*.py` file:

    quantizes("conv", QuantSpec(inputs=(0, 1), channel_axis={1: 0}, bias=2, fuses_clip=True), lower)

`lower` is pure: from operands (integers with their parameters) and the parameters of the result it gives a `OpCall` of an integer op, whose
`real` is exact and is the oracle of every kernel. Where it cannot, it raises `NotLowered` with the reason that the report will print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from lowbit.errors import GraphError
from lowbit.numerics import F32
from lowbit.quant_params import PerTensor, QuantParams
from lowbit.types import Array, TensorType


@dataclass(frozen=True)
class Fixed:
    """An output whose range is known without data: sigmoid gives 0 … 1."""

    low: float
    high: float


Output = Literal["own", "same"] | Fixed


@dataclass(frozen=True)
class State:
    """A state that a recurrence passes from step to step. The initial state has its parameters; zeros if it is absent.

    outputs  the outputs it is seen in, the last of them of its own shape
    """

    outputs: tuple[int, ...]


@dataclass(frozen=True)
class QuantSpec:
    """Which tensors of a node become integers.

    inputs         positions that must be quantized; None: every input
    channel_axis   of an input that is a weight (when constant): the axis with one scale each, or several that have one together; a name is
                   that of the attribute which says it (the axis that a table's rows are gathered along)
    contract_axis  of such an input: the axis that is summed over, where block-wise scales lie
    blocks         whether its integer form takes them; else only weights that are multiplied as floats have them
    bias           position of the bias, which goes on the accumulator's grid
    output         "own": a range of its own; "same": the parameters of its inputs, which share them; Fixed: known beforehand.
                   Results that are no reals (the indices of argmax and topk) have no parameters and stay what they are
    fuses_clip     a relu or clip after the node is part of its clamp
    states         of an input that is the initial state of a recurrence: what that state is on the way
    """

    inputs: tuple[int, ...] | None = (0,)
    channel_axis: Mapping[int, int | tuple[int, ...] | str] = field(default_factory=dict)
    contract_axis: Mapping[int, int] = field(default_factory=dict)
    bias: int | None = None
    output: Output = "own"
    fuses_clip: bool = False
    states: Mapping[int, State] = field(default_factory=dict)
    blocks: bool = False

    def axis(self, position: int, attrs: Mapping[str, Any]) -> int | tuple[int, ...]:
        """The channel axis of a weight, in a node with these attributes."""
        found = self.channel_axis[position]
        return int(attrs[found]) if isinstance(found, str) else found

    def positions(self, count: int) -> tuple[int, ...]:
        """Positions that must be quantized, of a node with `count` inputs."""
        return tuple(range(count)) if self.inputs is None else tuple(i for i in self.inputs if i < count)


@dataclass(frozen=True)
class Operand:
    """A quantized input as `lower` sees it: its integers' type, their parameters, and the integers themselves if constant."""

    type: TensorType
    params: QuantParams
    data: Array | None = None

    def per_tensor(self, what: str) -> tuple[F32, int]:
        """Scale and zero point, which must be one for all."""
        if not isinstance(self.params.granularity, PerTensor):
            raise NotLowered(f"its {what} is quantized {self.params.granularity}, per tensor is needed")
        return self.params.scale, int(self.params.zero_point)

    def constant(self, what: str) -> Array:
        if self.data is None:
            raise NotLowered(f"its {what} is not constant")
        return self.data


@dataclass(frozen=True)
class RowsOperand:
    """An activation quantized at run time, each row of its last axis by a scale of its own."""

    type: TensorType


@dataclass(frozen=True)
class FloatOperand:
    """An input that stays float, with its data if constant."""

    type: TensorType
    data: Array | None = None


@dataclass(frozen=True)
class Result:
    """The requested result: integers by these parameters within lo … hi, or (params None) float32."""

    type: TensorType  # of the float result
    params: QuantParams | None
    lo: int = 0
    hi: int = 0

    @property
    def is_sign(self) -> bool:
        """Whether the result is binary: -1 where the real is negative, else +1, whatever its scale."""
        return self.params is not None and self.params.dtype.name == "binary"

    def per_tensor(self) -> tuple[F32, int]:
        if self.params is None:
            raise NotLowered("its result stays float")
        if self.is_sign:
            raise NotLowered("its result is binary, which only linear layers and convolutions give as integers")
        if not isinstance(self.params.granularity, PerTensor):
            raise NotLowered(f"its result is quantized {self.params.granularity}, per tensor is needed")
        return self.params.scale, int(self.params.zero_point)

    def rescaled(self, grid: F32) -> tuple[F32, int]:
        """The multiplier and the zero point that turn sums on `grid` into the result.

        The sign of a sum is clamp(rne(2·acc) + 1, -1, 1): 0 gives +1, and so do all sums above it.
        """
        if self.is_sign:
            return np.full(grid.shape, 2, np.float32), 1
        sy, yz = self.target()
        return np.asarray(grid / sy, np.float32), yz

    def target(self) -> tuple[F32, int]:
        """Scale and zero point; 1 and 0 where the result stays float: the formulas are the same there, without their rounding."""
        return (np.asarray(1, np.float32), 0) if self.params is None else self.per_tensor()

    @property
    def clamp(self) -> dict[str, Any]:
        """The attributes that end every integer op: the range of the codes and their dtype."""
        return {"lo": self.lo, "hi": self.hi, "to": self.dtype}

    @property
    def dtype(self) -> str:
        return "float32" if self.params is None else self.params.dtype.name


@dataclass(frozen=True)
class Ref:
    """The integers of operand `index` (or the float values of a FloatOperand); `what` asks for another side of it.

    real   its float values, also where it is quantized
    scale  the run-time scales of a RowsOperand
    """

    index: int
    what: Literal["integers", "real", "scale"] = "integers"


@dataclass(frozen=True)
class OpCall:
    """An integer op to be put in the node's place; arguments are operands, constants, or other calls."""

    op: str
    args: tuple[Arg, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outputs:
    """The result of `lower` for an op with several outputs: the call, and the parameters of each result (None: it is real)."""

    call: OpCall
    params: tuple[QuantParams | None, ...]


@dataclass(frozen=True)
class Const:
    """A constant made by lowering: multipliers, tables, biases. `name` says which, `dtype` more than NumPy can (int4 in int8)."""

    data: Array
    name: str
    dtype: str | None = None


Arg = Ref | Const | OpCall | None
Operands = tuple[Operand | FloatOperand | None, ...]
DynamicOperands = tuple[RowsOperand | Operand | FloatOperand | None, ...]
Lower = Callable[..., OpCall | Outputs | None]  # lower(operands: Operands, result: Result, **attrs); None: the same op on integers
Bounds = Callable[..., tuple[float | None, float | None]]  # bounds(**attrs): what a clamp limits reals to
IntegerAttrs = Callable[..., Mapping[str, Any]]  # integer_attrs(params: QuantParams, **attrs)
Unfit = Callable[..., str | None]  # unfit(given: tuple[bool, ...], **attrs): `given` says which inputs are there


class NotLowered(Exception):
    """This node stays float, for this reason."""

    def __init__(self, because: str) -> None:
        super().__init__(because)
        self.because = because


class WeightsOnly(NotLowered):
    """This node multiplies floats by rule: only its weights are stored as integers."""


@dataclass(frozen=True)
class Quantizable:
    """How an op is quantized.

    lower          the integer op in its place; None: the very same op on integers ("same" ops)
    bounds         of an op that is nothing but a clamp (relu, clip): its limits, which the clamp of the op before it can take over
    integer_attrs  of a "same" op with attributes that are reals (a pad's value): those attributes as integers by the parameters
    dynamic        like `lower`, for an activation that is quantized row by row at run time (its operand is a RowsOperand)
    flat           of a function: the reals below and above which it gives (to less than an 8-bit step) one and the same value
    unfit          why a node cannot be lowered with any parameters (an option without integer form), or None: it is not quantized at all
    """

    spec: QuantSpec
    lower: Lower | None
    bounds: Bounds | None = None
    integer_attrs: IntegerAttrs | None = None
    dynamic: Lower | None = None
    unfit: Unfit | None = None
    flat: Bounds | None = None


QUANTIZABLE: dict[str, Quantizable] = {}


def quantizes(
    op: str,
    spec: QuantSpec,
    lower: Lower | None = None,
    *,
    bounds: Bounds | None = None,
    integer_attrs: IntegerAttrs | None = None,
    dynamic: Lower | None = None,
    unfit: Unfit | None = None,
    flat: Bounds | None = None,
) -> None:
    """Says that an op can be quantized. Without `lower` it must be a "same" op: it means the same on integers as on reals."""
    if op in QUANTIZABLE:
        raise GraphError(f"op {op!r} is quantizable already", hint="one place per op")
    if lower is None and spec.output != "same":
        raise GraphError(f"op {op!r} needs a `lower`, or output='same'")
    QUANTIZABLE[op] = Quantizable(spec, lower, bounds, integer_attrs, dynamic, unfit, flat or bounds)


def is_clamp(op: str) -> bool:
    """Whether the op is nothing but a clamp."""
    return op in QUANTIZABLE and QUANTIZABLE[op].bounds is not None


def bias_on_grid(bias: Operand | FloatOperand | None, grid: Array, size: int) -> Array | None:
    """The bias as int64 numbers on the accumulator's grid (sx·sw, per channel or one for all); None where there is none.

    On the fine grid of 16-bit inputs and weights it may need more than 32 bits: the accumulator has 64 there.
    """
    if bias is None:
        return None
    if isinstance(bias, Operand):
        data = bias.constant("bias")
        if not np.array_equal(np.broadcast_to(bias.params.scale, (size,)), np.broadcast_to(grid, (size,))) or np.any(
            bias.params.zero_point
        ):
            raise NotLowered("its bias is quantized on another grid than input scale × weight scale")
        return data.astype(np.int64)
    if bias.data is None:
        raise NotLowered("its bias is not constant")
    with np.errstate(over="ignore"):
        ints = np.rint(bias.data.astype(np.float32) / grid)
    if not np.all(np.abs(ints) < 2**52):
        raise NotLowered("its bias does not fit 52 bits on the accumulator's grid")
    return ints.astype(np.int64)


def largest_magnitude(operand: Operand) -> int:
    """The largest |q - zero_point| that an activation of this type can have."""
    d, z = operand.params.dtype, operand.params.zero_point
    assert d.min is not None and d.max is not None
    return max(int(d.max - z.min()), int(z.max() - d.min))


def symmetric_weights(operand: Operand) -> tuple[Array, str]:
    """Weights with their zero points taken off, and the dtype that holds them: an asymmetric uint8 weight may need 16 bits.

    Where nothing is taken off they are the same array: weights are large.
    """
    data = operand.constant("weight")
    kept = operand.params.dtype.name
    if kept == "binary":
        return data.astype(np.int8, copy=False), kept
    if np.any(operand.params.zero_point):
        data = data.astype(np.int32) - operand.params.expand(data.shape)[1]
    limits = [
        (d, n) for d, n in (("int4", 8), ("int8", 128), ("int16", 1 << 15)) if data.size == 0 or (data.min() >= -n and data.max() < n)
    ]
    names = [d for d, _ in limits]
    name = kept if kept in names else next(d for d in names if d != "int4" or kept == "uint4")
    return data.astype(np.int16 if name == "int16" else np.int8, copy=False), name
