"""Walks an exported program and calls one function per ATen op. Functions are found by name in a table that decorators fill.

A function takes the arguments of the op's schema, with tensors as Values, sizes as Dims, and options as they are:

    @aten("linear")
    def linear(c: Importer, x: Value, w: Value, b: Value | None = None) -> Value:
        return c.add("linear", x, w, b)

What torch already knows of the result (its shape, its dtype after promotion) is asked by `c.shape()` and `c.dtype()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lowbit.dims import Dim, Sym, symbol
from lowbit.dtypes import DType, dtype
from lowbit.errors import GraphError, LowbitError, UnsupportedOp
from lowbit.frontends.folding import FoldingBuilder
from lowbit.ir.graph import Graph, Value
from lowbit.types import TensorType, normalize_axis, shape_text

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node as FxNode

Number = bool | int | float | Sym
Operand = Value | Number
Handler = Callable[..., Any]  # Value, a sequence of them, or None for an op without effect
HANDLERS: dict[str, Handler] = {}

# Options that say where and how a tensor lies in memory: no meaning in a graph.
PLACEMENT = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "requires_grad"})


def aten(*names: str) -> Callable[[Handler], Handler]:
    """Registers a function as the import of these ops: `add` for all overloads, `max.dim` for one."""

    def put(f: Handler) -> Handler:
        for n in names:
            assert n not in HANDLERS, n
            HANDLERS[n] = f
        return f

    return put


def op_name(target: Any) -> str:
    """`linear.default` for aten ops, `torchvision.nms.default` for those of other libraries, the Python name for functions."""
    if hasattr(target, "_schema"):
        library, name = target._schema.name.split("::")
        return f"{name if library == 'aten' else f'{library}.{name}'}.{target._overloadname}"
    return str(getattr(target, "__name__", target))


def find_handler(name: str) -> Handler | None:
    """The function for this overload, else the one for all overloads."""
    return HANDLERS.get(name) or HANDLERS.get(name.rpartition(".")[0])


def layer_name(node: FxNode) -> str:
    """The module path of the layer, `layer1.0.conv2`; for what stands in the outermost forward, the name of the operation."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    path = stack[-1][0] if stack else ""
    if path.startswith("_empty_nn_module_stack"):
        path = ""
    path = re.sub(r"@\d+", "", path)  # torch counts the calls of a module that is called twice
    return path or str(node.name)


def place(node: FxNode) -> str:
    """How errors call a node: linear.default 'blocks.0.mlp.0'."""
    if node.op != "call_function":
        return f"{node.op} '{node.name}'"
    return f"{op_name(node.target).removeprefix('lowbit.')} '{layer_name(node)}'"


def dtype_of(t: torch.dtype) -> DType:
    return dtype(str(t).removeprefix("torch."))


class Importer(FoldingBuilder):
    """Builds the graph: values by torch node, names from modules and parameters, dims from torch's symbols."""

    def __init__(self, program: ExportedProgram, name: str, symbols: Mapping[str, str], inputs: Mapping[str, str]) -> None:
        super().__init__(name)
        self.program = program
        self._symbol_names = symbols
        self._input_names = inputs
        self._scope: dict[FxNode, Any] = {}
        self._node: FxNode | None = None
        self._tensors: dict[Any, Value] = {}  # parameters that are one tensor are one constant

    # -- what functions of ops use -------------------------------------------------------------------------------------

    @property
    def node(self) -> FxNode:
        """The torch node being imported."""
        assert self._node is not None
        return self._node

    @property
    def values(self) -> Mapping[FxNode, Any]:
        """The result of each torch node: a Value, several of them, a size or an option."""
        return self._scope

    def _result(self, i: int) -> Any:
        val = self.node.meta["val"]
        return val[i] if isinstance(val, tuple | list) else val

    def shape(self, i: int = 0) -> tuple[Dim, ...]:
        """The shape torch found for the i-th result."""
        return tuple(self.dim(d) for d in self._result(i).shape)

    def dtype(self, i: int = 0) -> DType:
        """The dtype torch found for the i-th result, after its promotion rules."""
        return dtype_of(self._result(i).dtype)

    def results(self) -> int:
        return len(self.node.meta["val"])

    def uses(self, i: int) -> bool:
        """Whether anything reads the i-th of several results."""
        return any(u.args[1] == i and u.users for u in self.node.users)

    def promote(self, *operands: Operand) -> DType:
        """The dtype in which torch computes with these operands: numbers and rank-0 tensors yield to tensors of the same kind."""
        import torch

        def stand_in(x: Operand) -> Any:
            if isinstance(x, Value):
                return torch.empty((1,) * min(x.type.rank, 1), dtype=getattr(torch, x.type.dtype.name))
            return 1 if isinstance(x, Sym) else x

        result = stand_in(operands[0])
        for x in operands[1:]:
            left = result if isinstance(result, torch.Tensor) else torch.tensor(result)
            rank = max(left.dim() if isinstance(result, torch.Tensor) else 0, x.type.rank if isinstance(x, Value) else 0)
            result = torch.empty((1,) * min(rank, 1), dtype=torch.result_type(result, stand_in(x)))
        return dtype_of(result.dtype if isinstance(result, torch.Tensor) else torch.tensor(result).dtype)

    def cast(self, x: Value, to: DType | str) -> Value:
        return x if x.type.dtype == dtype(to) else self.add("cast", x, to=dtype(to).name)

    def tensor(self, x: Operand, to: DType | str) -> Value:
        """The operand as a value of that dtype: numbers become rank-0 constants."""
        if isinstance(x, Value):
            return self.cast(x, to)
        if isinstance(x, Sym):
            return self.cast(self.dims_value(np.array(x, dtype=object)), to)
        return self.constant(np.array(x, dtype=dtype(to).numpy), dtype=dtype(to))

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        return x if tuple(shape) == x.shape else self.add("reshape", x, shape=tuple(shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        return x if list(perm) == list(range(len(perm))) else self.add("transpose", x, perm=tuple(perm))

    def expand(self, x: Value, shape: Sequence[Dim]) -> Value:
        return x if tuple(shape) == x.shape else self.add("expand", x, shape=tuple(shape))

    def narrow(self, x: Value, axis: int, start: Dim, length: Dim, step: int = 1) -> Value:
        """`length` elements from `start` on, every `step`-th."""
        if start == 0 and length == x.shape[axis] and step == 1:
            return x
        return self.add("slice", x, axes=(axis,), starts=(start,), ends=(start + (length - 1) * step + 1,), steps=(step,))

    def axes(self, x: Value, dims: Sequence[int] | int | None, empty_is_all: bool = True) -> tuple[int, ...]:
        """Non-negative axes; None (and, for reductions, an empty list) means all."""
        if dims is None or (empty_is_all and not isinstance(dims, int) and not dims):
            return tuple(range(x.type.rank))
        listed = [dims] if isinstance(dims, int) else list(dims)
        return tuple(sorted(normalize_axis(d, x.type.rank) for d in listed)) if x.type.rank else ()

    def is_zero(self, value: Value | None) -> bool:
        """Whether every element is known to be zero."""
        if value is None:
            return True
        data = self.constant_data(value)
        if data is not None:
            return not data.any()
        made_by = self._nodes.get(value.name)
        return made_by is not None and made_by.op == "fill" and made_by.attrs["value"] == 0

    def add_node(self, op: str, *inputs: Value | None, name: str = "", outputs: tuple[str, ...] = (), **attrs: Any) -> tuple[Value, ...]:
        """Adds a node that carries the module path of the torch node being imported."""
        if self._node is not None:
            name = name or layer_name(self._node)
            outputs = outputs or (str(self._node.name),)
        return super().add_node(op, *inputs, name=name, outputs=outputs, **attrs)

    def dim(self, d: Any) -> Dim:
        """A size as torch has it (an int or a SymInt) as a Dim."""
        return d if isinstance(d, int) else self._dim_of(d.node.expr)

    def _dim_of(self, e: Any) -> Dim:
        kind = type(e).__name__
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            if str(e) not in self._symbol_names:
                raise UnsupportedOp(
                    "its shape depends on the values of data", hint="lowbit needs shapes that follow from the shapes of the inputs"
                )
            return symbol(self._symbol_names[str(e)])
        args = [self._dim_of(a) for a in e.args if kind != "Pow"]
        if kind == "Add":
            return sum(args[1:], args[0])
        if kind == "Mul":
            product: Dim = 1
            for a in args:
                product = product * a
            return product
        if kind in ("FloorDiv", "CleanDiv"):
            return args[0] // args[1]
        if kind in ("Mod", "PythonMod"):
            return args[0] % args[1]
        if kind == "Pow" and e.exp.is_Integer and e.exp > 0:
            power = base = self._dim_of(e.base)
            for _ in range(int(e.exp) - 1):
                power = power * base
            return power
        raise UnsupportedOp(f"the size {e} is not made of + - * // %", hint="bind that dimension: leave it out of dynamic=")

    # -- the walk ------------------------------------------------------------------------------------------------------

    def run(self) -> Graph:
        from torch.export.graph_signature import ConstantArgument, InputKind

        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        outputs: dict[str, Value] = {}
        for node in self.program.graph.nodes:
            try:
                if node.op == "placeholder":
                    spec = specs[node.name]
                    if isinstance(spec.arg, ConstantArgument):
                        self._scope[node] = spec.arg.value
                    elif spec.kind == InputKind.USER_INPUT:
                        self._scope[node] = self._graph_input(node, self._input_names[node.name])
                    else:
                        self._scope[node] = self._parameter(str(spec.target))
                elif node.op == "call_function":
                    self._call(node)
                elif node.op == "output":
                    outputs = self._outputs(node)
                else:
                    raise UnsupportedOp(f"a node of kind {node.op} is not supported")
            except LowbitError as e:
                raise e.at(place(node)) from None
        return self.finish(outputs)

    def _graph_input(self, node: FxNode, name: str) -> Any:
        val = node.meta["val"]
        if not hasattr(val, "dtype"):
            raise UnsupportedOp("only tensors and constants can be inputs", hint="pass numbers as tensors, or leave them constant")
        return self.input(name, TensorType([self.dim(d) for d in val.shape], dtype_of(val.dtype)))

    def _parameter(self, target: str) -> Value | None:
        program = self.program
        tensor = program.state_dict[target] if target in program.state_dict else program.constants[target]
        key = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype) if tensor.numel() else target
        if key not in self._tensors:
            first = next((k for k, t in program.state_dict.items() if t is tensor or (key != target and _same(t, tensor))), target)
            self._tensors[key] = self.constant(as_array(tensor), name=first, dtype=dtype_of(tensor.dtype))
        return self._tensors[key]

    def _call(self, node: FxNode) -> None:
        import torch

        val = node.meta.get("val")
        if isinstance(val, torch.SymInt | int) and not isinstance(val, bool):
            self._scope[node] = self.dim(val)  # shape arithmetic: torch has done it
            return
        if isinstance(val, torch.SymBool | torch.SymFloat | bool):
            self._scope[node] = None  # an assertion about sizes; a use of it in a tensor is refused below
            return
        name = op_name(node.target)
        if name == "getitem":
            self._scope[node] = self._scope[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        handler = find_handler(name)
        if handler is None:
            raise UnsupportedOp(f"the op {name} is not supported")
        self._node = node
        try:
            args = [self._argument(a) for a in node.args]
            kwargs = {k: self._argument(a) for k, a in node.kwargs.items() if k not in PLACEMENT}
            result = handler(self, *args, **kwargs)
            self._check(node, result)
        finally:
            self._node = None
        self._scope[node] = result

    def _argument(self, a: Any) -> Any:
        import torch
        from torch.fx import Node as FxNode

        if isinstance(a, FxNode):
            if isinstance(a.meta.get("val"), torch.SymFloat | torch.SymBool):
                raise UnsupportedOp(
                    "it computes with a number made of symbolic sizes that is not an integer", hint="leave that dimension out of dynamic="
                )
            return self._scope[a]
        if isinstance(a, list | tuple):
            return [self._argument(x) for x in a]
        return a

    def _check(self, node: FxNode, result: Any) -> None:
        """A GraphError when the function made something else than torch says: one of the two is wrong."""
        import torch

        made = result if isinstance(result, list | tuple) else [result]
        said = node.meta.get("val")
        for value, fake in zip(made, said if isinstance(said, list | tuple) else [said], strict=False):
            if not isinstance(value, Value) or not isinstance(fake, torch.Tensor):
                continue
            shape = tuple(self.dim(d) for d in fake.shape)
            fits = len(shape) == value.type.rank and all(
                a == b or isinstance(a, Sym) or isinstance(b, Sym) for a, b in zip(shape, value.shape, strict=True)
            )
            if not fits or value.type.dtype != dtype_of(fake.dtype):
                raise GraphError(f"imported as {value.type}, torch says {dtype_of(fake.dtype)}{shape_text(shape)}")

    def _outputs(self, node: FxNode) -> dict[str, Value]:
        from lowbit.frontends.torch.export import output_names

        outputs = {}
        for name, arg in zip(output_names(self.program), node.args[0], strict=True):  # type: ignore[arg-type]
            value = self._argument(arg)
            if isinstance(value, int | Sym) and not isinstance(value, bool):
                value = self.dims_value(np.array(value, dtype=object))
            if isinstance(value, Value):
                outputs[name] = value
        return outputs


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def as_array(t: torch.Tensor) -> Any:
    """A copy of the tensor's data, so that training the module on does not change the graph."""
    import torch

    t = t.detach().cpu().contiguous()
    if t.dtype == torch.bfloat16 or str(t.dtype).startswith("torch.float8"):
        raw = t.view(torch.int16 if t.dtype == torch.bfloat16 else torch.uint8).numpy()
        return raw.copy().view(dtype_of(t.dtype).numpy)
    return t.numpy().copy()
