"""The network in training: the exported program with fakes in it, over the parameters of the module that it came from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_leaves, tree_unflatten

from lowbit.calibration.record import CalibrationEntry, CalibrationRecord
from lowbit.errors import InputError, QuantError
from lowbit.ir.graph import Graph
from lowbit.quantization.transform import QuantizationTransform
from lowbit.torch.qat.fake import ActivationFake, FakeQuant
from lowbit.torch.qat.layers import QatLayer
from lowbit.torch.qat.placing import Placing, batch_norm_of, schema_name, target_of
from lowbit.torch.qat.trace import Traced, trace


class QatModel(nn.Module):
    """Called like the module it was made of; `lowbit.load(this)` is the quantized graph with the weights and scales of the moment.

    steps      training steps so far
    warmup     steps in which ranges follow the data and no step size learns; None: all
    freeze_bn  steps after which batch norms keep their statistics; None: never
    """

    steps: Tensor
    observers_off: Tensor
    bn_frozen: Tensor

    def __init__(
        self,
        model: nn.Module,
        traced: Traced,
        placing: Placing,
        transform: QuantizationTransform,
        record: CalibrationRecord | None,
        example: tuple[Any, Mapping[str, Any] | None],
        *,
        warmup: int | None,
        freeze_bn: int | None,
    ) -> None:
        super().__init__()
        self.model = model
        self.fakes = nn.ModuleList(dict.fromkeys(placing.taps.values()))
        self.layers = nn.ModuleList(layer for layer, _ in placing.layers.values())
        self.others = nn.ModuleList(dict.fromkeys([*placing.rows.values(), *placing.operands.values()]))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("observers_off", torch.tensor(False))
        self.register_buffer("bn_frozen", torch.tensor(False))
        self.warmup, self.freeze_bn = warmup, freeze_bn
        self._taps, self._weights = dict(placing.taps), dict(placing.weights)
        self._transform, self._record, self._example = transform, record, example
        self._names = list(inspect.signature(model.forward).parameters)
        self._out_spec = traced.program.call_spec.out_spec
        self._leaves, self._run = compiled(self, traced, placing)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.training:
            self._advance()
        bound = inspect.signature(self.model.forward).bind(*args, **kwargs)
        leaves = tree_leaves(list(bound.args))
        if bound.kwargs or len(leaves) != self._leaves:
            raise InputError(f"{len(leaves)} inputs given, the network was prepared with {self._leaves}", where=type(self.model).__name__)
        assert self._out_spec is not None
        return tree_unflatten(list(self._run(self, *leaves)), self._out_spec)

    def _advance(self) -> None:
        """Before each training step: who observes, who learns, and which batch norms rest."""
        step = int(self.steps)
        observing = not bool(self.observers_off) and (self.warmup is None or step < self.warmup)
        for module in self.modules():
            if isinstance(module, FakeQuant):
                module.observing = observing
        if self.freeze_bn is not None and step >= self.freeze_bn:
            self.bn_frozen.fill_(True)
        if bool(self.bn_frozen):
            for module in self.model.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        self.steps += 1

    def freeze_batch_norm(self) -> None:
        """From now on batch norms keep their statistics and are part of the weights, in training too."""
        self.bn_frozen.fill_(True)

    def freeze_observers(self) -> None:
        """From now on no range follows the data; steps that learn go on."""
        self.observers_off.fill_(True)

    def step_sizes(self) -> Iterator[nn.Parameter]:
        """The learned steps: parameters that want no weight decay."""
        seen = set()
        for module in self.modules():
            if isinstance(module, FakeQuant) and module.learn and module not in seen:
                seen.add(module)
                yield module.step

    def quantized_graph(self, inputs: Any = None, dynamic: Mapping[str, Any] | None = None) -> Graph:
        """The graph that `lowbit.quantize` would give for the module as it is now, with the steps of the fakes."""
        if inputs is None:
            inputs, dynamic = self._example[0], self._example[1] if dynamic is None else dynamic
        inputs = torch.utils._pytree.tree_map(self._here, inputs)
        graph = trace(self.model, inputs, dynamic).graph
        kept = {} if self._record is None else {k: v for k, v in self._record.taps.items() if k not in self._taps}
        taps = {name: entry(fake) for name, fake in self._taps.items()}
        weights = {key: fake.params() for key, fake in self._weights.items()}
        unknown = [name for name in self._transform.taps(graph).required if name not in kept and name not in taps]
        if unknown:
            raise QuantError(
                f"{unknown[0]!r} was simplified away when training was prepared, by a parameter that was 0 or 1 then",
                where=type(self.model).__name__,
                hint="begin with another value for it (1.0001), or a FloatRule",
            )
        return self._transform.apply(graph, CalibrationRecord({**kept, **taps}), weights=weights)

    __lowbit_graph__ = quantized_graph

    def _here(self, x: Any) -> Any:
        return x.to(self.steps.device) if isinstance(x, Tensor) else x


def entry(fake: ActivationFake) -> CalibrationEntry:
    p = fake.params()
    return CalibrationEntry.per_tensor(float(p.scale), int(p.zero_point))


def compiled(owner: QatModel, traced: Traced, placing: Placing) -> tuple[int, Callable[..., tuple[Any, ...]]]:
    """The number of input tensors, and the function run(owner, *tensors) of the program with the fakes in it."""
    graph, scope = fx.Graph(), dict[fx.Node, Any]()
    specs = {spec.arg.name: spec for spec in traced.program.graph_signature.input_specs}
    index = {id(m): f"{kind}.{i}" for kind in ("fakes", "layers", "others") for i, m in enumerate(getattr(owner, kind))}
    inside = {node for last, (_, call) in placing.layers.items() for node in between(call, last)}
    leaves = 0

    def behind(node: fx.Node, made: Any) -> Any:
        fake = placing.behind.get(node)
        return made if fake is None else graph.call_module(index[id(fake)], (made,))

    def value(reader: fx.Node, node: fx.Node) -> Any:
        fake = placing.operands.get((reader, node))
        return scope[node] if fake is None else graph.call_module(index[id(fake)], (scope[node],))

    for node in traced.program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            if spec.kind == InputKind.USER_INPUT:
                leaves += 1
                made: Any = graph.placeholder(node.name)
                scope[node] = spec.arg.value if isinstance(spec.arg, ConstantArgument) else behind(node, made)
            else:
                scope[node] = graph.get_attr(attribute(owner, traced, str(spec.target)))
        elif node.op == "output":
            graph.output(tuple(scope[a] if isinstance(a, fx.Node) else a for a in node.args[0]))
        elif node in inside or "assert" in str(node.target) or "sym_constrain" in str(node.target):
            continue
        else:
            scope[node] = behind(node, call(graph, node, owner, traced, placing, index, scope, value))
    graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output"))
    code = graph.python_code("self")
    space: dict[str, Any] = dict(code.globals)
    exec(code.src, space)
    return leaves, space["forward"]


def call(
    graph: fx.Graph, node: fx.Node, owner: QatModel, traced: Traced, placing: Placing, index: Mapping[int, str],
    scope: Mapping[fx.Node, Any], value: Callable[[fx.Node, fx.Node], Any],
) -> Any:  # fmt: skip
    """The node as it trains."""
    if node in placing.layers:
        layer, source = placing.layers[node]
        x, weight, *rest = (scope[a] if isinstance(a, fx.Node) else a for a in source.args[:3])
        if node in placing.rows:
            x = graph.call_module(index[id(placing.rows[node])], (x,))
        times = placing.times.get(node)
        by = {} if times is None else {"times": scope[times] if isinstance(times, fx.Node) else times}
        return graph.call_module(index[id(layer)], (x, weight, *(rest if takes_bias(layer, source) else ())), by)
    kind = schema_name(node)
    if kind == "lowbit::dropout":
        owner.others.append(nn.Dropout(float(node.args[1])))  # type: ignore[arg-type]
        return graph.call_module(f"others.{len(owner.others) - 1}", (scope[node.args[0]],))  # type: ignore[index]
    if kind == "lowbit::batch_norm":
        bn = batch_norm_of(traced, owner.model, node)
        x = scope[node.args[0]]  # type: ignore[index]
        if bn is not None:
            path = target_of(traced, node.args[3]).rpartition(".")[0]  # type: ignore[arg-type]
            return graph.call_module(f"model.{path}", (x,))
        w, b, mean, var = (scope[a] if isinstance(a, fx.Node) else None for a in node.args[1:5])
        return graph.call_function(nn.functional.batch_norm, (x, mean, var, w, b, False, node.args[5], node.args[6]))
    args = fx.map_arg(node.args, lambda a: value(node, a))
    kwargs = fx.map_arg(node.kwargs, lambda a: value(node, a))
    if kind.startswith("lowbit::"):
        return graph.call_function(getattr(torch._VF, kind.removeprefix("lowbit::")), tuple(args), dict(kwargs))
    return graph.call_function(node.target, tuple(args), dict(kwargs))  # type: ignore[arg-type]


def between(call: fx.Node, last: fx.Node) -> Iterator[fx.Node]:
    """The nodes of a layer before its last: each is read by the next alone."""
    while call is not last:
        yield call
        call = next(iter(call.users))


def takes_bias(layer: QatLayer, source: fx.Node) -> bool:
    return len(source.args) > 2 and layer.op is source.target


def attribute(owner: QatModel, traced: Traced, target: str) -> str:
    """The path of a parameter, buffer or constant below the owner; constants that the module does not have are put there."""
    path, _, name = target.rpartition(".")
    try:
        if isinstance(getattr(owner.model.get_submodule(path), name), Tensor):
            return f"model.{target}"
    except AttributeError:
        pass
    own = f"constant_{target.replace('.', '_')}"
    owner.register_buffer(own, traced.program.constants[target], persistent=False)
    return own
