"""A graph whose nodes all have kernels → a Plan: where each step writes, and which values share memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from lowbit.errors import GraphError
from lowbit.ir.graph import Graph, Node, Value
from lowbit.plan.bounds import check_bounds
from lowbit.plan.kernels import KERNELS, UPDATED, VIEWS, Context, Data, KernelCall, Packed, Scratch
from lowbit.plan.kernels.call import Calls
from lowbit.plan.kernels.movement import copy_call, dense, shape_of
from lowbit.plan.memory import Buffer, fullest, least, place
from lowbit.plan.plan import Check, Place, Plan, Slot, Step, Target
from lowbit.types import Array, normalize_axis

WORTH = 2_000.0  # nanoseconds of work that pay for another part


def view_offset(node: Node) -> int | None:
    """The offset of the output in the memory of the first input, if the output is a view."""
    view = VIEWS.get(node.op)
    return view(node) if view is not None and len(node.outputs) == 1 and node.inputs[0] is not None else None


def kernel_calls(node: Node, ctx: Context) -> list[KernelCall] | None:
    """The kernel calls that stand for a node; None where it has no kernels."""
    name = node.output.name
    if name not in ctx.calls:
        planner = KERNELS.get(node.op)
        ctx.calls[name] = planner(node, ctx) if planner is not None and all(o.type.is_static for o in node.outputs) else None
    return ctx.calls[name]


@dataclass
class _Store:
    """Memory that holds one or more values: in the arena, or in a constant, an input or an output."""

    size: int
    place: Place = Place.ARENA
    index: int = 0
    first: int = -1
    last: int = -1


_Where = dict[int | tuple[int, int], int]  # a store's id, or step and argument of a scratch → offset in the arena


def nbytes(value: Value) -> int:
    return int(value.type.size) * value.type.dtype.numpy.itemsize


class _Builder:
    def __init__(self, graph: Graph, ctx: Context, states: Mapping[str, str]) -> None:
        self.graph, self.ctx = graph, ctx
        self.kept = {out: name for name, out in states.items()}  # output → the input that it becomes
        self.homes: dict[str, tuple[_Store, int]] = {}  # value name → store, offset
        self.constants: list[Array] = []
        self.constant_index: dict[int, int] = {}
        self.work: list[tuple[Node, KernelCall]] = []
        self.results: list[_Store] = []  # of the outputs, in order
        self.fused_to: list[int] = []  # of each step: itself, or the step that it is fused to

    def run(self, target: Target, join: bool = True) -> Plan:
        for i, v in enumerate(self.graph.inputs):
            inside = target.io_in_arena and v.name not in self.kept.values()
            self.homes[v.name] = _Store(nbytes(v), Place.ARENA if inside else Place.INPUT, i), 0
        for name, c in self.graph.constants.items():
            self.homes[name] = _Store(c.data.nbytes, Place.CONSTANT, -1), 0
        for node in self.graph.nodes:
            offset = view_offset(node)
            if offset is not None:
                assert node.inputs[0] is not None
                store, at = self._home(node.inputs[0])
                self.homes[node.output.name] = store, at + offset
                continue
            found = kernel_calls(node, self.ctx)
            assert found is not None, node.where
            for o in node.outputs:
                self.homes[o.name] = self._updated(node) if node.op in UPDATED else (_Store(nbytes(o)), 0)
            for arg in (a for call in found for a in call.args if isinstance(a, Value)):
                self.homes.setdefault(arg.name, (_Store(nbytes(arg)), 0))  # between the calls of a node
            self.work += [(node, call) for call in found]
        if join:
            self._join()
        self._outputs(target)
        self._drop_unread()
        self._fuse_elementwise(target)
        self._lives(target)
        self._in_place()
        return self._plan(target)

    def _updated(self, node: Node) -> tuple[_Store, int]:
        """Where a node writes over its first input: a state of the plan, which no later node reads as it was."""
        old, new = node.inputs[0], node.output
        assert old is not None
        outputs = {v.name: name for name, v in self.graph.outputs.items()}
        if self.kept.get(outputs.get(new.name, "")) != self._root(old).name:
            raise GraphError(
                f"{old.name} is written over, so it must be a state of the plan and {new.name} what it becomes", where=node.where
            )
        readers = self.graph.users[old.name]
        if readers[-1] is not node:
            raise GraphError(f"{old.name} is read after it was written over", where=node.where, hint=f"read {new.name}")
        return self._home(old)

    def _root(self, value: Value) -> Value:
        """The input of the graph that a value is, through updates of it."""
        while value.name in self.graph.producers and self.graph.producers[value.name].op in UPDATED:
            above = self.graph.producers[value.name].inputs[0]
            assert above is not None
            value = above
        return value

    def _home(self, value: Value) -> tuple[_Store, int]:
        return self.homes[value.name]

    def _join(self) -> None:
        """Concat inputs are written directly into the output buffer, if they are contiguous there, or if the kernel that makes them
        supports strides and no other node reads the result."""
        given = {id(self._home(v)[0]) for v in (*self.graph.inputs, *self.graph.outputs.values())}
        for node, copy in [w for w in self.work if w[0].op == "concat"]:
            x, out = copy.args[0], node.output
            if not isinstance(x, Value) or not nbytes(x):
                continue
            store, at = self._home(x)
            if store.place is not Place.ARENA or at or store.size != nbytes(x) or id(store) in given or self._home(out)[0] is store:
                continue
            axis = normalize_axis(node.attrs["axis"], out.type.rank)  # type: ignore[arg-type]
            rows, run, total = prod(shape_of(x)[:axis]), prod(shape_of(x)[axis:]), prod(shape_of(out)[axis:])
            touching = [i for i, (_, c) in enumerate(self.work) if any(isinstance(v, Value) and self._home(v)[0] is store for v in c.args)]
            if rows > 1:
                maker = self.work[touching[0]][1]
                if len(touching) != 2 or maker.params.get("out_stride") != run or x not in outputs_of(maker):
                    continue
                strided = replace(maker, params={**maker.params, "out_stride": total}, item_elements=0)
                self.work[touching[0]] = self.work[touching[0]][0], strided
            offset: Any = copy.params["out_offset"]
            end, first = self._home(out)
            for name, (old, where) in self.homes.items():
                if old is store:
                    self.homes[name] = end, first + where + offset * out.type.dtype.numpy.itemsize
            self.work = [w for w in self.work if w[1] is not copy]

    def _outputs(self, target: Target) -> None:
        """Outputs are written into the caller's memory; outputs that are views are copied there at the end.

        A state output is written over its input as soon as no later step reads the input.
        """
        theirs = Place.ARENA if target.io_in_arena else Place.OUTPUT
        inputs = {id(self.homes[v.name][0]) for v in self.graph.inputs}
        given, sources = set(inputs), {id(self._home(v)[0]) for v in self.graph.outputs.values()}
        ends: dict[int, _Store] = {}
        last: list[tuple[str, Value, _Store]] = []  # copies over inputs, after all that read them
        for i, (name, v) in enumerate(self.graph.outputs.items()):
            store, offset = self._home(v)
            state = self.homes[self.kept[name]][0] if name in self.kept else None
            whole = store.place is Place.ARENA and offset == 0 and store.size == nbytes(v) and id(store) not in given
            early = state is None or (id(state) not in sources and self._read(state) < self._written(store))
            if whole and early:
                store.place, store.index = (theirs, i) if state is None else (state.place, state.index)
                given.add(id(store))
                ends[i] = store
            elif state is None:
                ends[i] = _Store(nbytes(v), theirs, i)
                self._copied(name, v, f"{name}:out", ends[i])
            else:
                ends[i] = state
                if id(store) in inputs and store is not state:  # another copy may overwrite it: it is saved first
                    v = self._copied(name, v, f"{name}:aside", _Store(nbytes(v)))
                if store is not state:
                    last.append((name, v, state))
        for name, v, state in last:
            self._copied(name, v, f"{name}:out", state)
        self.results = [ends[i] for i in sorted(ends)]

    def _copied(self, name: str, v: Value, to: str, store: _Store) -> Value:
        copy = Value(to, v.type)
        self.homes[copy.name] = store, 0
        shape = shape_of(v)
        made = copy_call(self.ctx, v, copy, shape, dense(shape), dense(shape), 0, 0)
        assert made is not None, v.type
        self.work.append((Node("identity", (v,), {}, name, (copy,)), made))
        return copy

    def _read(self, store: _Store) -> int:
        """The last step that reads the store."""
        return max((i for i, (_, c) in enumerate(self.work) if any(self._home(v)[0] is store for v in inputs_of(c))), default=-1)

    def _written(self, store: _Store) -> int:
        """The first step that writes the store."""
        found = (i for i, (_, c) in enumerate(self.work) if any(isinstance(v, Value) and self._home(v)[0] is store for v in c.args))
        return min(found, default=len(self.work))

    def _drop_unread(self) -> None:
        """Removes calls whose results no step reads, because a kernel reads an earlier value by strides instead."""
        read = {id(store) for store in self.results}
        kept = []
        for node, call in reversed(self.work):
            values = [(v, arg.is_input) for v, arg in zip(call.args, call.kernel.contract.args, strict=True) if isinstance(v, Value)]
            if any(not is_input and id(self._home(v)[0]) in read for v, is_input in values):
                read.update(id(self._home(v)[0]) for v, _ in values)
                kept.append((node, call))
        self.work = kept[::-1]

    def _fuse_elementwise(self, target: Target) -> None:
        """Fuses elementwise steps to the step before them: they run on each item while it is in the cache."""
        self.fused_to = list(range(len(self.work)))
        if target.scratch_in_arena or self.kept:  # generated C has a call for each step
            return
        for i, (_, call) in enumerate(self.work[1:], 1):
            producer = self.work[self.fused_to[i - 1]][1]
            made = [self._home(v) for v in outputs_of(self.work[i - 1][1])]
            taken = [v for v in inputs_of(call) if any(self._home(v)[0] is s and self._home(v)[1] == at for s, at in made)]
            if (
                call.elementwise
                and producer.item_elements
                and producer.items >= max(2, target.threads)
                and taken
                and call.items == int(taken[0].type.size) <= producer.items * producer.item_elements
            ):
                self.fused_to[i] = self.fused_to[i - 1]

    def _lives(self, target: Target) -> None:
        if target.io_in_arena:
            for store, _ in (self.homes[v.name] for v in self.graph.inputs):
                if store.place is Place.ARENA:
                    store.first = store.last = 0  # written before the first step
            for store in self.results:
                if store.place is Place.ARENA:
                    store.last = len(self.work)  # and read after the last
        for step, (_, call) in zip(self.fused_to, self.work, strict=True):  # fused steps are one
            for arg in call.args:
                if isinstance(arg, Value):
                    store, _ = self._home(arg)
                    store.first = step if store.first < 0 else store.first
                    store.last = max(store.last, step)

    def _in_place(self) -> None:
        """An output reuses the memory of an input whose last reader is this call, if the kernel allows it.

        Both fill their stores; no later call touches the input's store, and no earlier call the output's. The step that the call is
        fused to does not read it.
        """
        touched: dict[int, list[int]] = {}  # the calls of each store
        for i, (_, call) in enumerate(self.work):
            for v in (a for a in call.args if isinstance(a, Value)):
                touched.setdefault(id(self._home(v)[0]), []).append(i)
        for i, (producer, (node, call)) in enumerate(zip(self.fused_to, self.work, strict=True)):
            target, _ = self._home(node.output)
            if (
                target.place is not Place.ARENA
                or target.first != producer
                or target.size != nbytes(node.output)
                or touched.get(id(target), [-1])[0] != i
            ):
                continue
            read = {id(self._home(v)[0]) for v in inputs_of(self.work[producer][1])} if producer != i else set()
            for source in (v for v in (call.args[k] for k in call.in_place) if isinstance(v, Value)):
                store, _ = self._home(source)
                if store is target or store.place is not Place.ARENA or id(store) in read:
                    continue
                if not nbytes(source) == store.size == target.size or store.last != producer or touched[id(store)][-1] != i:
                    continue
                store.last = max(store.last, target.last)
                touched[id(store)] += touched[id(target)]
                self.results = [store if r is target else r for r in self.results]
                for name, (old, where) in self.homes.items():
                    if old is target:
                        self.homes[name] = store, where
                break

    def _plan(self, target: Target) -> Plan:
        stores = list({id(s): s for s, _ in self.homes.values() if s.place is Place.ARENA and s.first >= 0}.values())
        spare = [(i, k, a.size) for i, (_, c) in enumerate(self.work) for k, a in enumerate(c.args) if isinstance(a, Scratch)]
        scratch = max((size for _, _, size in spare), default=0)
        if not target.scratch_in_arena:
            spare = []
        buffers = [Buffer(s.size, s.first, s.last) for s in stores] + [Buffer(size, i, i) for i, _, size in spare]
        offsets, arena = place(buffers, target.alignment)
        where: _Where = dict(zip([*map(id, stores), *((i, k) for i, k, _ in spare)], offsets, strict=True))
        steps = []
        for i, (node, call) in enumerate(self.work):
            parts = self._parts(i, target)
            args = tuple(self._slot(arg, where, (i, k)) for k, arg in enumerate(call.args))
            kernel, macs = call.kernel, _macs(node) if call.macs is None else call.macs
            whole = tuple(v for v in node.inputs if v is not None and v.name not in self.graph.constants)
            layer = node.name or node.output.name
            steps.append(
                Step(
                    layer, node.op, kernel.contract.name, kernel.isa, call.params, args, call.items, parts, macs, whole, node.outputs,
                    bound if isinstance(bound := node.attrs.get("bound"), int) else None,
                    0 if self.fused_to[i] == i else self.work[self.fused_to[i]][1].item_elements,
                )
            )  # fmt: skip
        checks = tuple(Check(self._home(c.value)[0].index, c.size, c.where) for _, call in self.work for c in call.checks)
        ends: tuple[list[Slot], list[Slot]] = ([], [])
        if target.io_in_arena:
            ends = [self._slot(v, where) for v in self.graph.inputs], [_end(s, where) for s in self.results]
        most, step = fullest(buffers, target.alignment)
        return Plan(
            self.graph.inputs, self.graph.outputs, tuple(steps), tuple(self.constants), arena,
            0 if target.scratch_in_arena else scratch, most, tuple(ends[0]), tuple(ends[1]), checks,
            least(buffers[: len(stores)], target.alignment), step,
        )  # fmt: skip

    def _parts(self, i: int, target: Target) -> int:
        call = self.work[i][1]
        most = min(call.items, call.parts * target.threads)
        if target.threads == 1 or most == 1:
            return 1
        fused = (c.cost for producer, (_, c) in zip(self.fused_to, self.work, strict=True) if producer == i)
        cost = sum(fused)
        return int(max(1, min(most, max(cost, call.cost) / WORTH)))

    def _slot(self, arg: Value | Data | Scratch, where: _Where, at: tuple[int, int] = (-1, 0)) -> Slot:
        if isinstance(arg, Scratch):
            return Slot(Place.ARENA, 0, where[at], arg.size) if at in where else Slot(Place.SCRATCH, size=arg.size)
        if isinstance(arg, Data):
            return self._constant(arg.array)
        store, offset = self._home(arg)
        if store.place is Place.CONSTANT:  # a view of one
            data = next(d for d in (self._constant_behind(arg),) if d is not None)
            return Slot(Place.CONSTANT, self._constant(data).index, offset, nbytes(arg))
        return Slot(store.place, 0 if store.place is Place.ARENA else store.index, offset + where.get(id(store), 0), nbytes(arg))

    def _constant_behind(self, value: Value) -> Array | None:
        while self.graph.constant(value) is None:
            above = self.graph.producers[value.name].inputs[0]
            assert above is not None
            value = above
        return self.graph.constant(value)

    def _constant(self, data: Array) -> Slot:
        if id(data) not in self.constant_index:
            self.constant_index[id(data)] = len(self.constants)
            self.constants.append(data)
        return Slot(Place.CONSTANT, self.constant_index[id(data)], 0, data.nbytes)


def inputs_of(call: KernelCall) -> list[Value]:
    return [v for v, arg in zip(call.args, call.kernel.contract.args, strict=True) if isinstance(v, Value) and arg.is_input]


def outputs_of(call: KernelCall) -> list[Value]:
    return [v for v, arg in zip(call.args, call.kernel.contract.args, strict=True) if isinstance(v, Value) and not arg.is_input]


def _end(store: _Store, where: _Where) -> Slot:
    if store.place is not Place.ARENA:
        return Slot(store.place, store.index, 0, store.size)
    return Slot(Place.ARENA, 0, where[id(store)], store.size)


def _macs(node: Node) -> int:
    macs = node.definition.macs
    return int(macs(*(v.type if v is not None else None for v in node.inputs), **node.attrs)) if macs is not None else 0


def build(
    graph: Graph, target: Target, packed: Packed | None = None, states: Mapping[str, str] | None = None, calls: Calls | None = None
) -> Plan:
    """The plan of a graph without symbols whose nodes all have kernels.

    packed  keeps packed weights between plans
    states  inputs that are outputs of the call before (input name → output name): the output is written over the input
    calls   kernel calls of nodes that are known already (`segments`)
    """
    context = Context(graph, target, packed if packed is not None else Packed(), calls if calls is not None else {})
    plan = _Builder(graph, context, states or {}).run(target)
    if target.scratch_in_arena and any(node.op == "concat" for node in graph.nodes):  # a concat's buffer lives longer
        copied = _Builder(graph, context, states or {}).run(target, join=False)
        plan = min(plan, copied, key=lambda p: p.arena_bytes)
    check_bounds(plan)
    return plan
