"""A converted model's own graph: in eval its forward runs it, so that it gives the bits of the interpreter, the session and the C.

What happens between modules (sums, activations, reshapes) is quantized too in a static network, and only the graph knows how. So the root
holds it, as its attribute `lowbit_graph`; in state dicts it is the graph's text and the constants that no module has. It is no submodule:
an nn.Sequential would run it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten, treespec_dumps, treespec_loads

from lowbit.errors import InputError, LowbitWarning, ShapeError
from lowbit.ir.graph import Graph
from lowbit.ir.text import parse_graph, print_graph, stands_in_text
from lowbit.packing import is_packed, pack, unpack
from lowbit.runtime.session import Session
from lowbit.torch.layer import array, not_plain, plain, session
from lowbit.torch.modules.base import HALF
from lowbit.torch.qtensor import QTensor
from lowbit.torch.watch import Watch

NAME = "lowbit_graph"
AGAIN = "quantize_(model, recipe, data=batches) once more makes a graph of what it is now"


@dataclass(frozen=True)
class Owned:
    """A constant of the graph that a module has: the parameter of that name, whose integers it is."""

    module: str
    parameter: str


class QuantizedGraph:
    """The quantized graph of a model and how its inputs and outputs are spelled there."""

    def __init__(self) -> None:
        self._held = _Held()
        self.owned: dict[str, Owned] = {}
        self.folded: tuple[str, ...] = ()  # batch norms that are part of a convolution now
        self.outputs = ""  # the tree of the model's result, as torch writes it
        self.watch = Watch()
        self.warned = False

    def set_graph(self, model: nn.Module, graph: Graph, owned: Mapping[str, Owned], folded: tuple[str, ...], outputs: TreeSpec) -> None:
        self._held = _Held(graph)
        self.owned, self.folded, self.outputs = dict(owned), folded, treespec_dumps(outputs)
        self.watch.settle(model)
        self.warned = False

    def graph(self, model: nn.Module) -> Graph:
        """The graph; after loading a state it is put together with the constants that the model's modules have."""
        held: _Held = self._held
        change = self.watch.change(model)
        if change is not None:
            raise InputError(f"the model is not what its graph was made from: {change}", where=type(model).__name__, hint=AGAIN)
        if held.graph is None:
            held.graph = self._whole(model, held.state)
        return held.graph

    @property
    def ready(self) -> bool:
        return self._held.graph is not None or bool(self._held.state)

    def run(self, model: nn.Module, leaves: list[Any]) -> Any:
        held: _Held = self._held
        if held.session is None:
            held.session = session(self.graph(model))
            held.spec = treespec_loads(self.outputs)
        half = next((x.dtype for x in leaves if isinstance(x, Tensor) and x.dtype in HALF), None)
        wide = [x.float() if half is not None and isinstance(x, Tensor) and x.dtype in HALF else x for x in leaves]
        arrays = [plain(x) if isinstance(x, Tensor) else np.asarray(x) for x in wide]
        try:
            made = held.session(*arrays)
        except ShapeError as e:
            hint = "quantize_(…, dynamic={argument: {axis: name}}) keeps a dimension open"
            raise ShapeError(e.message, where=e.where, hint=hint) from None
        assert held.spec is not None
        results = [torch.from_numpy(y) for y in (made if isinstance(made, tuple) else (made,))]
        return tree_unflatten([y.to(half) if half is not None and y.dtype == torch.float32 else y for y in results], held.spec)

    # --- state: what no module has ---

    def get_state(self) -> dict[str, Any]:
        held: _Held = self._held
        if held.graph is None:
            return dict(held.state)
        tensors = {}
        for name, c in held.graph.constants.items():
            if not stands_in_text(c.data) and name not in self.owned:
                d = c.value.type.dtype
                tensors[name] = torch.from_numpy(np.array(pack(c.data, d) if is_packed(d) else c.data))
        return {
            "graph": print_graph(held.graph),
            "notes": dict(held.graph.notes),
            "tensors": tensors,
            "owned": {k: [o.module, o.parameter] for k, o in self.owned.items()},
            "folded": list(self.folded),
            "outputs": self.outputs,
            "seen": dict(self.watch.seen or {}),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._held = held = _Held()
        held.state = dict(state)
        self.watch, self.warned = Watch(state.get("seen") or None), False
        if state:
            self.owned = {k: Owned(*v) for k, v in state["owned"].items()}
            self.folded, self.outputs = tuple(state["folded"]), state["outputs"]

    def _whole(self, model: nn.Module, state: Mapping[str, Any]) -> Graph:
        if not state:
            raise InputError("the model has no quantized graph yet", hint="calibrate(model, data), then convert(model)")
        data = {name: t.numpy() for name, t in state["tensors"].items()}
        for name, o in self.owned.items():
            data[name] = stored(model, o)
        text = state["graph"]
        for name, dtype, shape in packed_constants(text):
            if name in data and data[name].shape != shape:
                data[name] = unpack(data[name], dtype, shape)
        return replace(parse_graph(text, data), notes=dict(state["notes"]))


class _Held:
    """The graph and its session. A graph is a value: copies share it."""

    def __init__(self, graph: Graph | None = None) -> None:
        self.graph = graph
        self.session: Session | None = None
        self.spec: TreeSpec | None = None
        self.state: dict[str, Any] = {}

    def __deepcopy__(self, memo: Any) -> _Held:
        made = _Held(self.graph)
        made.state = self.state
        return made

    def __getstate__(self) -> Any:
        return {"graph": self.graph, "session": None, "spec": None, "state": self.state}


def stored(model: nn.Module, o: Owned) -> Any:
    """The integers of a module's parameter as the graph has them."""
    module = model.get_submodule(o.module)
    spelled = getattr(module, "graph_constant", None)
    if spelled is not None and ":" in o.parameter:
        return spelled(o.parameter)
    q = module.get_parameter(o.parameter)
    return np.array(array(q.ints if isinstance(q, QTensor) else q))


def packed_constants(text: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Constants of a graph's text that are stored in bytes of several."""
    import re

    rows = re.findall(r'^const "([^"]+)": (int4|uint4|binary)\[([^\]]*)\] sha256', text, re.MULTILINE)
    return [(name, dtype, tuple(int(d) for d in shape.split(",") if d.strip())) for name, dtype, shape in rows]


class RootForward:
    """The forward of a converted model: its graph in eval, its modules in training and where a gradient is wanted."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.__signature__ = inspect.signature(type(model).forward.__get__(model))

    @property
    def __code__(self) -> Any:  # which torch.export asks for
        return type(self.model).forward.__code__

    def __call__(self, *args: Any, **options: Any) -> Any:
        model = self.model
        leaves = arguments(model, args, options)
        if model.training or not integers(leaves):
            return type(model).forward(model, *args, **options)
        return (_opaque if torch.compiler.is_compiling() else _run)(model, leaves, args, options)


def _run(model: nn.Module, leaves: list[Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    held: QuantizedGraph = getattr(model, NAME)
    for x in leaves:
        if isinstance(x, FakeTensor) or (isinstance(x, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(x)):
            raise not_plain(x)
    change, hooked = held.watch.change(model), held.watch.hooked(model)
    if change is None and hooked is None:
        return held.run(model, leaves)
    if not held.warned:
        held.warned = True
        because = (
            f"it has changed since convert: {change} ({AGAIN})" if change is not None else f"{hooked} (without it the graph runs again)"
        )
        warnings.warn(f"{type(model).__name__} runs its modules and not its graph, for {because}", LowbitWarning, stacklevel=5)
    return type(model).forward(model, *args, **options)


_opaque = torch._dynamo.disable(_run, reason="a quantized graph runs in lowbit's session, outside of compiled code")  # type: ignore[no-untyped-call]


def integers(leaves: list[Any]) -> bool:
    """Whether the graph can run on these: tensors of the CPU, none of which wants a gradient."""
    grad = torch.is_grad_enabled()
    return all(not isinstance(x, Tensor) or (x.device.type == "cpu" and not (grad and x.requires_grad)) for x in leaves)


def arguments(model: nn.Module, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[Any]:
    """The tensors of a call, in the order of forward's arguments."""
    if not options:
        return [x for x in tree_leaves(args) if x is not None]
    bound = inspect.signature(type(model).forward.__get__(model)).bind(*args, **options)
    return [x for x in tree_leaves(list(bound.arguments.values())) if x is not None]


def attach(model: nn.Module) -> QuantizedGraph:
    """The model's graph, put in place: its forward asks it from now on, and its state dicts have it."""
    found = model.__dict__.get(NAME)
    if isinstance(found, QuantizedGraph):
        return found
    made = model.__dict__[NAME] = QuantizedGraph()
    model.__dict__["forward"] = RootForward(model)
    model.register_state_dict_post_hook(save_graph)  # type: ignore[no-untyped-call]
    model.register_load_state_dict_pre_hook(load_graph)  # type: ignore[no-untyped-call]
    model.register_load_state_dict_post_hook(graph_loaded)  # type: ignore[no-untyped-call]
    return made


def save_graph(model: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    held = model.__dict__.get(NAME)
    if held is not None:
        state[prefix + NAME] = held.get_state()


def load_graph(model: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    held = model.__dict__.get(NAME)
    if held is not None and prefix + NAME in state:
        held.set_state(state.pop(prefix + NAME))


def graph_loaded(model: nn.Module, _: Any) -> None:
    """A state that does not say what its model was is taken as it was loaded."""
    held = model.__dict__.get(NAME)
    if held is not None and held.ready and held.watch.seen is None:
        held.watch.settle(model)


def detach(model: nn.Module) -> None:
    """The model without its graph: its forward is its class's again."""
    model.__dict__.pop(NAME, None)
    if isinstance(model.__dict__.get("forward"), RootForward):
        del model.__dict__["forward"]
    mine_in = (
        (model._state_dict_hooks, save_graph),
        (model._load_state_dict_pre_hooks, load_graph),
        (model._load_state_dict_post_hooks, graph_loaded),
    )
    for hooks, mine in mine_in:
        for key, hook in list(hooks.items()):
            if getattr(hook, "hook", hook) is mine:
                del hooks[key]


def spec_of(result: Any) -> TreeSpec:
    return tree_flatten(result)[1]
