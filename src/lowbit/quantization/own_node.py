"""CustomQuantNode: a rule's decision that brings its own integer arithmetic, in NumPy and in C.

    class QuantBatchNormNode(CustomQuantNode):
        arrays = {"multiplier": "float", "offset": "float"}          # constants that lowering makes, C types
        fields = {"channels": "int32_t", "inner": "int32_t"}         # numbers that lowering makes

        @staticmethod
        def lower(operands, result, **attrs): return {"multiplier": …, "offset": …, "channels": …, "inner": …}

        @staticmethod
        def exact(x, multiplier, offset, *, channels, inner, y_zero, lo, hi): …      # integers in, integers out

        @staticmethod
        def generate_c(): return "for (int32_t i = begin; i < end; i++) …"

`create_quant_node` of a rule returns `QuantBatchNormNode.of(super().create_quant_node(node))`. In the quantized graph the node is an op of
that class. Its kernel is compiled once; sessions run it, and `emit_c` copies it. `exact` and the C must say the same:
`lowbit.verify_backends` compares them, bit by bit.
"""

from __future__ import annotations

import atexit
import inspect
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from lowbit.arguments import shown
from lowbit.dtypes import dtype
from lowbit.errors import InputError, LowbitError, QuantError
from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor
from lowbit.kernels.own_kernels import load_kernels
from lowbit.ops.op import OPS, Op, get_op, register
from lowbit.ops.quant import QUANTIZABLE, Arg, Const, NotLowered, OpCall, Operand, Operands, QuantSpec, Ref, Result, quantizes
from lowbit.plan.kernels import KERNELS, Context, KernelCall, kernels_for
from lowbit.quantization.rules import QuantNode
from lowbit.types import Array, TensorType

C = TypeVar("C", bound="CustomQuantNode")
NUMPY = {"int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "uint8_t": np.uint8, "float": np.float32}
END = ("y_zero", "lo", "hi")  # the clamp that ends every integer op: its zero point, lowest and highest code


class CustomQuantNode(QuantNode):
    """A decision with its own integer arithmetic: one tensor of int8 in, one of its shape out. Subclass it; the module shows how.

    >>> sorted(CustomQuantNode.arrays), CustomQuantNode.spec.inputs
    ([], (0,))
    """

    arrays: ClassVar[Mapping[str, str]] = {}
    fields: ClassVar[Mapping[str, str]] = {}
    spec: ClassVar[QuantSpec] = QuantSpec(inputs=(0,))

    @property
    def own(self) -> bool:
        return True

    @classmethod
    def of(cls: type[C], decided: QuantNode, **changes: Any) -> C:
        """Another node's decision, by this class."""
        if not isinstance(decided, QuantNode):
            hint = f"{cls.__name__}.of(super().create_quant_node(node))"
            raise InputError(f"{shown(decided)} given, a QuantNode is needed", where=f"{cls.__name__}.of", hint=hint)
        return cls(**{f.name: getattr(decided, f.name) for f in fields_of(decided)} | changes)

    @staticmethod
    def lower(operands: Operands, result: Result, **attrs: Any) -> Mapping[str, Any]:
        """The arrays and fields of the kernel, from what the node reads (`operands`) and what it gives (`result`)."""
        raise NotImplementedError

    @staticmethod
    def exact(x: Array, *arrays: Array, **numbers: Any) -> Array:
        """The integers of the result, in NumPy: what every backend must give."""
        raise NotImplementedError

    @staticmethod
    def generate_c() -> str:
        """The body of the kernel: element i of `out` for begin ≤ i < end, from `x`, the arrays, and `p->field`."""
        raise NotImplementedError

    @classmethod
    def own_op(cls, op: str) -> str:
        """The name of the op that stands for `op` in a quantized graph; made known when it is first asked for."""
        name = re.sub(r"\W", "_", f"{op}_{cls.__qualname__.split('.')[-1]}").lower()
        known = OPS.get(name)
        if known is None or known.doc != _mark(cls):
            _forget(name)
            try:
                _make_known(cls, op, name)
            except LowbitError as e:
                raise e.at(cls.__name__) from None
        return name


def _mark(cls: type[CustomQuantNode]) -> str:
    """What tells one class from another of the same name."""
    return f"{cls.__module__}.{cls.__qualname__} {id(cls)}"


def _forget(name: str) -> None:
    for each in (name, f"q_{name}"):
        OPS.pop(each, None)
        QUANTIZABLE.pop(each, None)
        KERNELS.pop(each, None)


def _make_known(cls: type[CustomQuantNode], op: str, name: str) -> None:
    for method in ("lower", "exact", "generate_c"):
        if getattr(cls, method) is getattr(CustomQuantNode, method):
            raise QuantError(f"it has no {method}", hint=f"a static method {method}, as lowbit.quantization.own_node shows")
    odd = [t for t in (*cls.arrays.values(), *cls.fields.values()) if t not in NUMPY]
    if odd:
        raise QuantError(f"{odd[0]!r} is no type of its arrays and fields", hint="one of " + ", ".join(NUMPY))
    contract = _compiled(cls, name)
    base = get_op(op)
    register(Op(name, base.infer, base.real, base.macs, doc=_mark(cls)), Op(f"q_{name}", _infer(cls), _real(cls), doc=_mark(cls)))
    quantizes(name, cls.spec, _lower(cls, name))
    kernels_for(f"q_{name}")(_kernel_call(cls, contract))


def _lower(cls: type[CustomQuantNode], name: str) -> Callable[..., OpCall]:
    def lower(operands: Operands, result: Result, **attrs: Any) -> OpCall:
        x = operands[0]
        if not isinstance(x, Operand) or result.params is None:
            raise NotLowered("its result stays float")
        made = cls.lower(operands, result, **attrs)
        wanted = {*cls.arrays, *cls.fields}
        if not isinstance(made, Mapping) or set(made) != wanted:
            found = ", ".join(sorted(map(str, made))) if isinstance(made, Mapping) else shown(made)
            raise QuantError(f"its lower gave {found or 'nothing'}, {', '.join(sorted(wanted)) or 'nothing'} needed", where=cls.__name__)
        args: list[Arg] = [Ref(0), *(Const(np.ascontiguousarray(made[a], NUMPY[t]), a) for a, t in cls.arrays.items())]
        numbers = {f: float(np.float32(made[f])) if t == "float" else int(made[f]) for f, t in cls.fields.items()}
        return OpCall(f"q_{name}", tuple(args), numbers | {"y_zero": result.per_tensor()[1]} | result.clamp)

    return lower


def _infer(cls: type[CustomQuantNode]) -> Callable[..., TensorType]:
    def infer(x: TensorType, *arrays: TensorType, **numbers: Any) -> TensorType:
        return TensorType(x.shape, numbers["to"])

    inputs = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("x", *cls.arrays)]
    attributes = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in (*cls.fields, *END, "to")]
    infer.__signature__ = inspect.Signature([*inputs, *attributes])  # type: ignore[attr-defined]
    return infer


def _real(cls: type[CustomQuantNode]) -> Callable[..., Array]:
    def real(x: Array, *arrays: Array, to: str, **numbers: Any) -> Array:
        return np.asarray(cls.exact(x, *arrays, **numbers)).astype(dtype(to).numpy)

    return real


def _kernel_call(cls: type[CustomQuantNode], contract: str) -> Callable[[Node, Context], list[KernelCall] | None]:
    def call(node: Node, ctx: Context) -> list[KernelCall] | None:
        x = node.inputs[0]
        if x is None or x.type.dtype.name != "int8" or node.output.type.dtype.name != "int8":
            return None  # the interpreter runs other widths
        n = int(node.output.type.size)
        args = tuple(ctx.argument(v) for v in node.inputs if v is not None)
        params = {f: node.attrs[f] for f in (*cls.fields, *END)}
        return [KernelCall(ctx.kernel(contract), params, (*args, node.output), items=n, cost=n * 1.0)]  # type: ignore[arg-type]

    return call


_folders: dict[str, str] = {}  # C text → name of its contract: the same text is compiled once


def _compiled(cls: type[CustomQuantNode], name: str) -> str:
    """The class's kernel, compiled and loaded; the name of its contract."""
    body = cls.generate_c()
    if not isinstance(body, str):
        raise QuantError(f"generate_c gave {shown(body)}, C as text is needed", hint='"for (int32_t i = begin; i < end; i++) …"')
    key = f"{name}\n{body}\n{dict(cls.arrays)}{dict(cls.fields)}"
    if key in _folders:
        return _folders[key]
    contract = f"{name}_{len(_folders)}" if f"{name}_s8" in _folders.values() else f"{name}_s8"
    folder = Path(tempfile.mkdtemp(prefix="lowbit-own-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = [*(f"{t} {f};" for f, t in cls.fields.items()), *(f"int32_t {f};" for f in END)]
    arrays = "".join(f"const {t} *{a}, " for a, t in cls.arrays.items())
    arguments = f"(const lb_{contract}_params *p, const int8_t *x, {arrays}int8_t *out, int32_t begin, int32_t end)"
    (folder / f"{contract}.h").write_text(
        f"#ifndef LB_{contract.upper()}_H\n#define LB_{contract.upper()}_H\n#include <stdint.h>\n\n"
        f"/* {contract}: element i of out, begin <= i < end. From {cls.__name__}.generate_c. */\n"
        f"typedef struct {{\n    " + "\n    ".join(rows) + f"\n}} lb_{contract}_params;\n\n"
        f"typedef void lb_{contract}_fn{arguments};\n\n#endif\n"
    )
    (folder / f"{contract}__ref.c").write_text(
        f'#include "{contract}.h"\n#include "base/numerics.h"\n\nlb_{contract}_fn lb_{contract}__ref;\n\n'
        f"void lb_{contract}__ref{arguments} {{\n{body}\n}}\n"
    )
    load_kernels(folder)
    _folders[key] = contract
    return contract


def with_own_nodes(graph: Graph, decisions: Mapping[str, QuantNode]) -> Graph:
    """The graph whose nodes are ops of the user's own where the decisions bring them; names of values stay."""
    editor = Editor(graph)
    for node in editor.nodes():
        decided = decisions[node.output.name]
        if isinstance(decided, CustomQuantNode) and decided.mode == "static":
            attrs: dict[str, Any] = dict(node.attrs)
            editor.become(node, decided.own_op(node.op), *node.inputs, **attrs)
    return editor.done()
