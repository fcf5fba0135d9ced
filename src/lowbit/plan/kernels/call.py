"""The words in which a family of ops says which kernels stand for a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lowbit.ir.graph import Constant, Graph, Node, Value
from lowbit.kernels import native, sources
from lowbit.plan.pages import HugePageArena, aligned
from lowbit.plan.plan import Param, Target
from lowbit.types import Array


@dataclass(frozen=True)
class Data:
    """A constant argument: weights as the kernel wants them, multipliers, tables."""

    array: Array


@dataclass(frozen=True)
class Scratch:
    """Memory that the kernel needs while it works, for each thread."""

    size: int


@dataclass(frozen=True)
class Index:
    """A promise that a call relies on: every element of an input of the graph is an index of an axis of `size` elements."""

    value: Value
    size: int
    where: str


SEVERAL, MANY = 4, 16  # parts of a call for each thread


@dataclass(frozen=True)
class KernelCall:
    """A kernel call. Arguments are values of the graph, constants, scratch, in the contract's order. A value that no node makes is
    memory that the calls of a node share.

    cost      nanoseconds of one thread, roughly: small work is not split
    in_place  positions of inputs whose memory the output may take over, if nobody reads them later
    checks    what must be true of the graph's inputs before anything runs
    macs      multiply-adds; None: those of the node
    parts     for each thread at most: more end together, fewer do less where the items of a part share work
    item_elements  elements of the output that an item makes, where items are parts of it in order; 0 where they are not
    elementwise    whether item i reads and writes element i: the call may be fused to the one that makes what it reads
    """

    kernel: native.Kernel
    params: Mapping[str, Param]
    args: tuple[Value | Data | Scratch, ...]
    items: int
    cost: float
    in_place: tuple[int, ...] = ()
    checks: tuple[Index, ...] = ()
    macs: int | None = None
    parts: int = SEVERAL
    item_elements: int = 0
    elementwise: bool = False


class Packed(dict[tuple[str, ...], Array]):
    """Constants in the kernels' layouts: by the constant's name and how it was packed.

    `stored` has those of a file (`Graph.packed`), by the constant's content. What is made here goes on huge pages, where there are some.
    """

    def __init__(self, stored: Mapping[str, Array] | None = None, huge_pages: HugePageArena | None = None) -> None:
        super().__init__()
        self.stored = stored or {}
        self.huge_pages = huge_pages
        self.sources: dict[tuple[str, ...], Constant] = {}

    def keep(self, constant: Constant, how: tuple[str, ...], make: Callable[[], Array]) -> Array:
        key = (constant.value.name, *how)
        if key not in self:
            found = self.stored.get(stored_name(constant, how)) if self.stored else None
            self[key] = self._placed(make(), constant) if found is None else at_line(found)
            self.sources[key] = constant
        return self[key]

    def _placed(self, x: Array, constant: Constant) -> Array:
        """The array on huge pages, unless it is the constant itself, which the graph keeps anyway."""
        return x if self.huge_pages is None or not x.size or np.may_share_memory(x, constant.data) else self.huge_pages.put(x)

    def to_store(self) -> dict[str, Array]:
        """What a file keeps."""
        return {stored_name(self.sources[key], key[1:]): array for key, array in self.items()}


def stored_name(constant: Constant, how: tuple[str, ...]) -> str:
    return " ".join([constant.digest, constant.value.type.dtype.name, "x".join(map(str, constant.data.shape)), *how])


Calls = dict[str, "list[KernelCall] | None"]  # by the name of a node's first output, each found once; None: it has no kernels


@dataclass(frozen=True)
class Context:
    """What a family may ask: the graph's constants, the kernels of the target, and packed weights, which are made once."""

    graph: Graph
    target: Target
    packed: Packed = field(default_factory=Packed)
    calls: Calls = field(default_factory=dict)

    def kernel(self, contract: str) -> native.Kernel:
        if self.target.isas is not None:
            return sources.kernel(contract, self.target.isas)
        return native.best(contract, self.target.isa)

    def constant(self, value: Value | None) -> Array | None:
        return self.graph.constant(value)

    def argument(self, value: Value) -> Value | Data:
        """The value, or its data if it is a constant."""
        data = self.graph.constant(value)
        return value if data is None else Data(data)

    def once(self, value: Value, *how: str, make: Callable[[], Array]) -> Data:
        """What `make` gives for a constant, kept for other shapes of the same graph."""
        return Data(self.packed.keep(self.graph.constants[value.name], how, make))


Planner = Callable[[Node, Context], "list[KernelCall] | None"]
View = Callable[[Node], "int | None"]
KERNELS: dict[str, Planner] = {}
VIEWS: dict[str, View] = {}
UPDATED: set[str] = set()  # ops whose output is their first input, written over in place


def kernels_for(*ops: str, first: bool = False) -> Callable[[Planner], Planner]:
    """Says that a function knows the kernel calls of nodes of these ops; it gives None for a node that has none.

    Several may know an op: the first that has calls is taken, and those registered with `first` are asked before the others.
    """

    def register(f: Planner) -> Planner:
        for op in ops:
            known = KERNELS.get(op)
            KERNELS[op] = f if known is None else either(f, known) if first else either(known, f)
        return f

    return register


def either(f: Planner, g: Planner) -> Planner:
    """What `f` says, or else `g`."""

    def asked(node: Node, ctx: Context) -> list[KernelCall] | None:
        found = f(node, ctx)
        return found if found is not None else g(node, ctx)

    return asked


def views(*ops: str) -> Callable[[View], View]:
    """Says that a function knows where the bytes of a node's output are among those of its first input; None where they are not."""

    def register(f: View) -> View:
        VIEWS.update(dict.fromkeys(ops, f))
        return f

    return register


def updates(*ops: str) -> Callable[[Planner], Planner]:
    """Says that nodes of these ops write over their first input, which nobody may read as it was: states of a plan."""

    def register(f: Planner) -> Planner:
        UPDATED.update(ops)
        return f

    return register


def at_line(x: Array) -> Array:
    """The array at a multiple of 64 bytes, where it is or as a copy."""
    if x.ctypes.data % 64 == 0:
        return x
    out = aligned(x.nbytes).view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


BYTES = ("int8", "binary")  # binary values are bytes of -1 and +1 between ops; the kernels that multiply bits pack them


def is_int8(*values: Value | None) -> bool:
    return all(v is not None and v.type.dtype.name in BYTES for v in values)


SHORT = {"int8": "s8", "binary": "s8", "int16": "s16", "float32": "f32"}


def short(*values: Value | None) -> str | None:
    """How contracts call the dtypes of these values, "s8_s16"; one name where all are alike. None for dtypes that have no kernels."""
    names = [SHORT.get(v.type.dtype.name) if v is not None else None for v in values]
    found = [n for n in names if n is not None]
    return "_".join(dict.fromkeys(found)) if len(found) == len(names) else None


def ints(node: Node, *names: str) -> dict[str, int]:
    """Attributes that are integers, by name."""
    return {name: int(node.attrs[name]) for name in names}  # type: ignore[arg-type]
