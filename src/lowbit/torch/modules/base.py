"""The common part of all quantized modules: modes, observers, weights that become integers and floats again, and their state.

    mode         forward, in eval
    float        as the module it was made from; weights that are integers are dequantized
    calibration  the same, and observers see input and output
    weights      the same: weights are stored in few bits and multiplied as floats
    dynamic      on integers: activations get a scale for each row at run time
    static       on integers: input and output have the parameters that calibration found

In training the module is always float. Gradients pass an integer forward as if it were the float one (straight through).

`quantize_weights()` chooses the mode: static where observers have seen data, else dynamic. It keeps the float weights beside the integers:
`.train()` has them again, the very parameters, and `.eval()` quantizes what training made of them.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from lowbit.arguments import flag
from lowbit.calibration.observers import Observer, make_observer
from lowbit.dtypes import dtype as dtype_of
from lowbit.errors import DTypeError, InputError, LowbitWarning, QuantError
from lowbit.ir.graph import Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import find_result, operand
from lowbit.ops.quant import QUANTIZABLE, Operand, RowsOperand
from lowbit.quant_params import PerBlock, QuantParams
from lowbit.quantization.params import weight_params
from lowbit.quantization.rules import DynamicQuantRule, QuantNode, WeightGranularity
from lowbit.torch.layer import Compiled, array, not_plain
from lowbit.torch.modules.kept import Kept
from lowbit.torch.qtensor import QTensor, quantize
from lowbit.types import TensorType

Mode = Literal["float", "calibration", "weights", "dynamic", "static"]
MODES: tuple[Mode, ...] = ("float", "calibration", "weights", "dynamic", "static")
HALF = (torch.float16, torch.bfloat16)
INTEGERS: tuple[Mode, ...] = ("dynamic", "static")
ADDED = (
    "quant_mode",
    "plan",
    "input_params",
    "output_params",
    "input_observer",
    "output_observer",
)  # attributes that a module has beyond its float twin
Q = TypeVar("Q", bound="Quantized")


@dataclass(frozen=True)
class Plan:
    """The decision of a rule for a layer, as plain values that a state dict can hold."""

    mode: Mode = "dynamic"
    activation: str | None = None
    weight: str | None = "int8"
    granularity: WeightGranularity = "channel"
    activation_scheme: Any = "asymmetric"
    weight_scheme: Any = "symmetric_restricted"
    because: str = "quantized by hand"
    offsets: bool = False

    @staticmethod
    def of(decided: QuantNode) -> Plan:
        a, w = decided.activation, decided.weight
        return Plan(
            decided.mode, None if a is None else a.name, None if w is None else w.name, decided.granularity,
            decided.activation_scheme, decided.weight_scheme, decided.because, decided.offsets,
        )  # fmt: skip

    def decided(self) -> QuantNode:
        a, w = (None if d is None else dtype_of(d) for d in (self.activation, self.weight))
        mode: Any = "float" if self.mode == "calibration" else self.mode
        return QuantNode(mode, a, w, self.granularity, self.activation_scheme, self.weight_scheme, self.because)


class Quantized(nn.Module, ABC):
    """The part of a module that lowbit adds. It stands before the float module among the bases."""

    op: ClassVar[str]  # the graph's op that the module is
    weights: ClassVar[tuple[str, ...]] = ("weight",)

    quant_mode: Mode
    plan: Plan
    input_params: QuantParams | None
    output_params: QuantParams | None
    input_observer: Observer | None
    output_observer: Observer | None
    _compiled: Compiled
    _kept: Kept
    _resumed: Mode | None  # the mode that eval has again after training
    _exact: Callable[..., Any]  # the layer on integers, without gradients

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._begin()

    def _begin(self) -> None:
        self.quant_mode, self.plan = "float", Plan()
        self.input_params = self.output_params = None
        self.input_observer = self.output_observer = None
        self.__dict__["_compiled"], self.__dict__["_kept"], self.__dict__["_resumed"] = Compiled(), Kept(), None

    @classmethod
    def from_float(cls: type[Q], module: nn.Module) -> Q:
        """The same layer, with the same parameters, as one that can be quantized."""
        base = cls.float_type()
        if type(module) is not base:
            raise InputError(f"{type(module).__name__} given, {base.__name__} needed", where=f"{cls.__name__}.from_float")
        made = base.__new__(base)
        made.__dict__ = {k: v.copy() if isinstance(v, dict | list) else v for k, v in module.__dict__.items()}
        return cls.swapped(made)

    @classmethod
    def float_type(cls) -> type[nn.Module]:
        """The class of the float module: the base class after Quantized."""
        return next(b for b in cls.__mro__ if b.__module__.startswith("torch.nn"))

    @classmethod
    def swapped(cls: type[Q], module: nn.Module) -> Q:
        """The module itself, which is one of this class from now on: its hooks, its place and its name stay."""
        module.__class__ = cls
        assert isinstance(module, cls)
        module._begin()
        return module

    def unswapped(self) -> nn.Module:
        """The module itself, which is plain again."""
        for name in (*ADDED, "_compiled", "_kept", "_resumed", "layers", "params"):
            self.__dict__.pop(name, None)
        self.__class__ = self.float_type()  # type: ignore[assignment]
        return self

    # --- weights ---

    def quantize_weights(self: Q, dtype: str | None = None, granularity: WeightGranularity | None = None, *, keep_float: bool = True) -> Q:
        """Weights are integers from now on: by the layer's rule, or as said. In eval the layer multiplies integers.

        Static where observers have seen data (`start_calibration`), else dynamic. In training it is float32, with gradients.

        keep_float  keeps the float weights beside: `.train()` and `dequantize_weights()` have them again, the very parameters. Without
                    them, training sees the floats that the integers stand for, which get no gradient

        >>> layer = Linear(4, 2).quantize_weights().eval()
        >>> layer.quant_mode, layer.weight.ints.dtype, layer(torch.ones(1, 4)).dtype
        ('dynamic', torch.int8, torch.float32)
        """
        flag("keep_float", keep_float)
        plan = self.plan
        if dtype is not None or granularity is not None:
            rule = DynamicQuantRule(".*", weights=dtype or plan.weight, granularity=granularity or plan.granularity)  # which checks them
            plan = Plan.of(rule.create_quant_node(self.node("layer")))
            if self.is_quantized and plan != self.plan:
                self._to_floats()
        self.plan = plan
        if not keep_float:
            self.__dict__["_kept"] = Kept()
        elif not self.is_quantized:
            self._kept.keep(self)
        self._to_integers()
        return self.to_mode(self._decided_mode())

    def _to_integers(self) -> None:
        """Weights become integers by the plan."""
        for name in self.weights:
            self._quantize(name, self.plan)
        self._compiled.clear()

    def _decided_mode(self) -> Mode:
        """How the layer computes in eval, by what it knows."""
        if self.plan.mode == "weights":
            return "weights"
        if all(o is not None and o.seen is not None for o in (self.input_observer, self.output_observer)):
            self._learn()
        return "dynamic" if self.input_params is None else "static"

    def _learn(self) -> None:
        """Input and output have the parameters of what the observers saw."""
        assert self.input_observer is not None and self.output_observer is not None
        d = self.plan.activation or "int8"
        self.input_params = self.input_observer.params(d, self.plan.activation_scheme)
        self.output_params = self.output_observer.params(d, self.plan.activation_scheme)

    def _quantize(self, name: str, plan: Plan) -> None:
        w = getattr(self, name)
        if w is None or isinstance(w, QTensor) or plan.weight is None:
            return
        params = self._weight_params(name, w.detach(), plan)
        setattr(self, name, nn.Parameter(quantize(w.detach(), params=params), requires_grad=False))

    def _weight_params(self, name: str, weight: Tensor, plan: Plan) -> QuantParams:
        spec = QUANTIZABLE[self.op].spec
        position = min(spec.channel_axis)
        axis = spec.channel_axis[position]
        assert not isinstance(axis, str)
        return weight_params(array(weight), plan.decided(), axis, spec.contract_axis.get(position))

    def dequantize_weights(self: Q) -> Q:
        """Weights are floats again and get gradients: the very ones that were kept, else those that the integers stand for.

        >>> layer = Linear(4, 2)
        >>> weight = layer.weight
        >>> layer.quantize_weights().dequantize_weights().weight is weight
        True
        """
        if self._kept.lost and self.is_quantized:
            said = f"{type(self).__name__}: the file had integers only, its weights are the floats that they stand for"
            warnings.warn(said, LowbitWarning, stacklevel=2)
        self._to_floats()
        self.__dict__["_kept"], self.__dict__["_resumed"] = Kept(), None
        self.quant_mode = "float"
        return self

    def _to_floats(self) -> None:
        for owner in (self, *self.children()):
            for name, p in list(owner._parameters.items()):
                if isinstance(p, QTensor):
                    setattr(owner, name, nn.Parameter(self._stands_for(p)))
        self._kept.put_back(self)
        self._compiled.clear()

    @property
    def keeps_float(self) -> bool:
        """Whether the float weights are kept beside the integers."""
        return self.is_quantized and bool(self._kept)

    def train(self: Q, mode: bool = True) -> Q:
        """Training has the float weights again where they were kept; eval quantizes them anew."""
        super().train(mode)
        if mode:
            self._for_training()
        elif self._resumed is not None and not self.is_quantized:
            resumed, self._resumed = self._resumed, None
            self._kept.keep(self)
            self._to_integers()
            self.to_mode(resumed)
        return self

    def _for_training(self) -> None:
        if self.keeps_float:
            self._resumed = self.quant_mode
            self._to_floats()
            self.quant_mode = "float"

    def _stands_for(self, q: QTensor) -> Tensor:
        """The floats of a quantized parameter."""
        return q.dequantize()

    def _constants(self) -> tuple[Any, ...]:
        """The constants of its sessions."""
        return tuple(self._parameters.values())

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """Other memory or another device. With 16 bits integers, scales and what is added to them stay: the activations may have them."""

        def move(t: Tensor) -> Tensor:
            made: Tensor = fn(t)
            if made.dtype == t.dtype:
                return made
            if made.dtype not in HALF:
                said = f"a quantized layer cannot be {made.dtype}"
                raise DTypeError(said, where=type(self).__name__, hint="it takes float32, float16 and bfloat16: model.float()")
            return t.to(made.device)

        if self.keeps_float:
            self._kept.moved(fn)
        return super()._apply(move if self.is_quantized else fn, recurse)  # type: ignore[no-untyped-call]

    @property
    def is_quantized(self) -> bool:
        """Whether its weights are integers."""
        return any(isinstance(getattr(self, n), QTensor) for n in self.weights)

    def node(self, path: str) -> Node:
        """The layer as rules see it."""
        x, path = Value("x", TensorType((1,), "float32")), path or self.op
        w = Value("w", TensorType(self._weight_shape(), "float32"))
        return Node(self.op, self._inputs(x, w), self.attrs(), path, (Value(path, x.type),))

    def _weight_shape(self) -> tuple[int, ...]:
        """The weight's shape in the graph."""
        return tuple(getattr(self, self.weights[0]).shape)

    def _inputs(self, x: Value, w: Value) -> tuple[Value, ...]:
        return (x, w)

    def attrs(self) -> dict[str, Any]:
        """The attributes of the op."""
        return {}

    # --- modes ---

    def start_calibration(self: Q, method: str = "minmax") -> Q:
        """Observers see input and output from now on; the layer computes in float."""
        self.quant_mode = "calibration"
        self.input_observer, self.output_observer = make_observer(method), make_observer(method)
        return self

    def finish_calibration(self: Q) -> Q:
        """Static, with what the observers saw: its input and output have these parameters, its weights are integers."""
        if self.input_observer is None or self.output_observer is None:
            raise QuantError("it has not been calibrated", where=type(self).__name__, hint=".start_calibration(), then run it on data")
        self._learn()
        return self.to_mode("static")

    def take(self, editor: Editor, node: Node) -> dict[str, str]:
        """Becomes the layer that a quantized graph has at this node; which of its constants are which parameters here."""
        x, w, b = (operand(editor, node.input(i)) for i in range(3))
        self.output_params = find_result(editor, node, QUANTIZABLE[node.op].spec.fuses_clip)[1].params
        self.input_params = x.params if isinstance(x, Operand) else None
        owned = {self._take(editor, node.inputs[1], w, self.weights[0]): self.weights[0]}
        if b is not None:
            owned[self._take(editor, node.input(2), b, "bias")] = "bias"
        quantized = isinstance(w, Operand)
        self.quant_mode = (
            "float" if not quantized else "static" if isinstance(x, Operand) else "dynamic" if isinstance(x, RowsOperand) else "weights"
        )
        self._compiled.clear()
        return owned

    def _take(self, editor: Editor, value: Value | None, given: Any, name: str) -> str:
        """A parameter from a constant of the graph: its integers, or its reals. The constant's name."""
        assert value is not None and given.data is not None
        data = torch.from_numpy(np.array(given.data))
        if isinstance(given, Operand):
            before = editor.producer(value)
            assert before is not None and before.inputs[0] is not None
            setattr(self, name, nn.Parameter(QTensor.of(data, given.params), requires_grad=False))
            return before.inputs[0].name
        setattr(self, name, nn.Parameter(data))
        return value.name

    def to_mode(self: Q, mode: Mode) -> Q:
        """Another mode; weights become integers where it needs them."""
        if mode not in MODES:
            raise QuantError(f"mode {mode!r} does not exist", hint="one of " + ", ".join(MODES))
        if mode == "static" and self.input_params is None:
            raise QuantError("static needs the parameters of its input", where=type(self).__name__, hint="calibrate it, or mode 'dynamic'")
        if mode in ("weights", "dynamic", "static"):
            self._to_integers()
        self.quant_mode = mode
        self._compiled.clear()
        return self

    def _forward(self, *args: Any, **options: Any) -> Any:
        """The forward of every module, under the float module's own signature, which tracing reads."""
        if self.training:
            self._for_training()
        if self.training or self.quant_mode in ("float", "weights"):
            return super().forward(*args, **options)
        if self.quant_mode == "calibration":
            return self._observed(*args, **options)
        return self._on_integers(*args, **options)

    def _wide(self, *args: Any, **options: Any) -> Any:
        """The layer for activations of 16 bits: computed in float32, its results rounded to their dtype."""
        given = {id(t): t for t in tree_leaves((args, options)) if isinstance(t, Tensor) and t.dtype in HALF}
        wide = {key: t.float() for key, t in given.items()}  # a shared tensor stays shared
        wide_args, wide_options = tree_map_only(Tensor, lambda t: wide.get(id(t), t), (args, options))
        y, kind = self.forward(*wide_args, **wide_options), next(iter(given.values())).dtype
        return tree_map_only(Tensor, lambda t: t.to(kind) if t.dtype == torch.float32 else t, y)

    def _observed(self, x: Tensor, *args: Any, **options: Any) -> Any:
        assert self.input_observer is not None and self.output_observer is not None
        y = super().forward(x, *args, **options)
        if x.dtype.is_floating_point:
            self.input_observer.observe(array(x.float()))
        self.output_observer.observe(array((y[0] if isinstance(y, tuple) else y).float()))
        return y

    @abstractmethod
    def _on_integers(self, *args: Any, **options: Any) -> Any:
        """The layer in dynamic and static mode."""

    def _real(self, *args: Any) -> Any:
        """The layer in float."""
        return super().forward(*args)

    # --- state ---

    def get_extra_state(self) -> dict[str, Any]:
        p = self.plan
        params = [None if q is None else q.to_dict() for q in (self.input_params, self.output_params)]
        state = {"mode": self.quant_mode, "plan": dict(p.__dict__), "input": params[0], "output": params[1]}
        return state | {"float weights": "not saved, integers only"} if self.is_quantized else state

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        mode: Mode = state["mode"]
        self.quant_mode, self.plan = mode, Plan(**state["plan"])
        self.input_params, self.output_params = (None if s is None else QuantParams.from_dict(s) for s in (state["input"], state["output"]))
        self._compiled.clear()
        self._kept.floats, self._kept.lost, self._resumed = {}, "float weights" in state, None

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **options: Any) -> None:
        """A parameter that is quantized there or here becomes what the state holds; others are copied as always."""
        floats = [n for n in self.weights if isinstance(self._parameters.get(n), QTensor) and _is_float(state_dict.get(prefix + n))]
        if floats and prefix + "_extra_state" not in state_dict:  # a plain layer's state says nothing of modes
            said = f"the state holds a float {floats[0]!r}, the layer is quantized"
            hint = "load it into the float model and quantize_ that, or dequantize_(model) first"
            raise InputError(said, where=prefix.rstrip(".") or type(self).__name__, hint=hint)
        for name, mine in list(self._parameters.items()):
            theirs = state_dict.get(prefix + name)
            if theirs is None or (mine is not None and mine.shape != theirs.shape):
                continue
            if mine is None or isinstance(mine, QTensor) or isinstance(theirs, QTensor):
                setattr(self, name, nn.Parameter(theirs.detach().clone(), requires_grad=not isinstance(theirs, QTensor)))
        super()._load_from_state_dict(state_dict, prefix, *args, **options)
        self._compiled.clear()

    def extra_repr(self) -> str:
        said = super().extra_repr()
        w = getattr(self, self.weights[0], None)
        beside = ", float weights beside" if self.keeps_float else ""
        kind = f"weights {w._layout.dtype}{beside}" if isinstance(w, QTensor) else "float weights"
        return f"{said}, {self.quant_mode}, {kind}" if said else f"{self.quant_mode}, {kind}"


class StraightThrough(torch.autograd.Function):
    """Forward on integers, backward as the float layer with the dequantized weights: for the input, and for `trained` parameters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, module: Any, *trained: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.module, ctx.trained = module, trained
        return module._exact(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            of_x, *others = torch.autograd.grad(ctx.module._real(x), (x, *ctx.trained), grad)
        return of_x, None, *others

    @classmethod
    def of(cls, x: Tensor, module: Quantized) -> Tensor:
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise not_plain(x)
        trained = [p for p in module._parameters.values() if p is not None and not isinstance(p, QTensor) and p.requires_grad]
        made: Tensor = cls.apply(x, module, *trained)  # type: ignore[no-untyped-call]
        return made


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and not isinstance(x, QTensor)


def faked(x: Tensor, p: QuantParams | None) -> Tensor:
    """Quantized and dequantized again: what an integer layer sees, where its kernels do not run."""
    return x if p is None else quantize(x, params=p).dequantize()


def row_blocks(p: QuantParams) -> bool:
    """Whether there is one scale for each row, spelled as a block of the row's length."""
    return isinstance(p.granularity, PerBlock) and p.scale.shape[-1] == 1
