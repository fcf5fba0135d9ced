"""A graph ready to run: compiled once for each shape that its symbols take, then executed in C.

Nodes with kernels run natively, in one call. Nodes without a kernel run in the interpreter between native parts, with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from lowbit.arguments import shown, whole
from lowbit.errors import InputError, LowbitError, ShapeError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, PackedConstants, Value, need_graph
from lowbit.ir.interp import check_inputs
from lowbit.kernels import native, sources
from lowbit.kernels import threads as threads_of
from lowbit.plan import Packed, Target, batch_symbol, physical, real_weights, rows_at_once, segments
from lowbit.plan.pages import LARGE, HugePageArena
from lowbit.runtime.profile import Profile, profiled
from lowbit.runtime.program import Interpreted, Native, Part
from lowbit.types import Array, shape_text

CACHED_SHAPES = 16


@dataclass(frozen=True)
class _Program:
    """The parts of a bound graph in order, the outputs by name, and the constants among them.

    `direct` is the only part, if its inputs and outputs are the graph's.
    """

    parts: tuple[Part, ...]
    outputs: Mapping[str, Value]
    constants: Mapping[str, Array]
    direct: Native | None

    def run(self, env: dict[str, Any]) -> dict[str, Array]:
        """The outputs by name, each an array of its own."""
        given = {id(x) for x in env.values()} | {id(x) for x in self.constants.values()}
        env.update(self.constants)
        for part in self.parts:
            part.run(env)
        outputs = {}
        for name, v in self.outputs.items():
            x = env[v.name]
            outputs[name] = x.copy() if id(x) in given else x
            given.add(id(x))
        return outputs


class Session:
    """Runs one graph. May be called from several threads at once.

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> session = lowbit.Session(g, threads=1)
    >>> session(x).shape, session.backend
    ((2, 3), 'native')
    """

    def __init__(self, graph: Graph, *, threads: int | None = None, isa: str | None = None, stored: bool = False) -> None:
        """`stored`: weights stored in few bits stay packed between runs, as in generated C."""
        if threads is not None and (
            isinstance(threads, bool) or not isinstance(threads, int | np.integer) or not 1 <= threads <= threads_of.MOST
        ):
            raise InputError(f"threads={shown(threads)} is not a number of threads", hint=f"1 to {threads_of.MOST:,}, or leave it out")
        count = threads_of.count(None if threads is None else int(threads))
        native.check_isa(isa)
        self.graph = need_graph(graph, "compile")
        self._real = graph = graph if stored else real_weights(graph)
        self.target = Target(isa, count)
        self._programs: dict[tuple[int, ...], _Program] = {}
        kept = graph.packed
        large = sum(c.data.nbytes for c in graph.constants.values()) >= LARGE  # smaller ones would not fill a page
        ready = kept.arrays if kept is not None and kept.kernels == sources.digest() else None
        self._packed = Packed(ready, HugePageArena() if large else None)
        self._lock = Lock()
        self._symbols = graph.symbols
        self._batch = batch_symbol(graph)
        self._names = tuple(v.name for v in graph.inputs)
        self._keys = frozenset(self._names)
        self._outputs = tuple(graph.outputs)
        self._made = frozenset(self._outputs)
        self._direct: Native | None = None  # of the program that ran last
        if not self._symbols:
            self._programs[()] = self._compile(graph)
            self._direct = self._programs[()].direct

    @property
    def batch(self) -> str | None:
        """The open dimension that counts rows, if every row of the outputs depends on the same row of the inputs alone."""
        return self._batch

    @property
    def backend(self) -> str:
        """ "native", "interpreter", or both. A graph with symbolic dimensions is compiled at its first call, and says so until then."""
        if not self._programs:
            return f"compiled at the first call, which says how large {', '.join(self._symbols)} is"
        kinds = {part.native for program in self._programs.values() for part in program.parts}
        return "native" if kinds <= {True} else "interpreter" if kinds == {False} else "native and interpreter"

    def __call__(self, *arrays: Array, out: Array | Sequence[Array] | None = None) -> Array | tuple[Array, ...]:
        """The outputs for inputs given in order: the array itself if there is one output, else a tuple.

        `out`: arrays to write them into, an array or several in order.
        """
        direct = self._direct
        if direct is not None:
            into = direct.empty() if out is None else (out,) if isinstance(out, np.ndarray) else several(out)
            if direct.ran(arrays, into):
                return into[0] if len(into) == 1 else into
        named = self._named(arrays)
        targets = None if out is None else self._targets(out)
        outputs = tuple(self.run(named, out=targets).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Mapping[str, Array], *, out: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Outputs by name, for inputs by name. `out`: arrays to write outputs into, all or some of them."""
        if out is not None and not isinstance(out, Mapping):
            raise InputError(
                f"out= is {shown(out)}, arrays by name are needed", hint=f"out={{{self._outputs[0]!r}: array}}" if self._outputs else None
            )
        direct = self._direct
        if direct is not None and isinstance(inputs, dict) and inputs.keys() == self._keys and (out is None or out.keys() == self._made):
            into = direct.empty() if out is None else tuple([out[name] for name in self._outputs])
            if direct.ran(tuple([inputs[name] for name in self._names]), into):
                return dict(zip(self._outputs, into, strict=True))
        arrays = check_inputs(self.graph, inputs)
        program = self._for_shapes(arrays)
        targets = {} if out is None else checked_targets(program.outputs, out)
        self._direct = program.direct
        if program.direct is not None and len(targets) == len(program.outputs):
            into = tuple([targets[name] for name in program.outputs])
            if program.direct.ran(tuple(arrays.values()), into):
                return dict(zip(program.outputs, into, strict=True))
        outputs = program.run(dict(arrays))
        for name, target in targets.items():
            np.copyto(target, outputs[name])
            outputs[name] = target
        return outputs

    def _named(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """The arrays of a call, by the names of the inputs."""
        if len(arrays) != len(self._names):
            raise InputError(
                f"{len(arrays)} arrays given, {len(self._names)} needed",
                where=self.graph.name,
                hint=f"the inputs are {', '.join(self._names)}",
            )
        return dict(zip(self._names, arrays, strict=True))

    def _targets(self, out: Array | Sequence[Array]) -> dict[str, Array]:
        """`out` of a call, by name."""
        given = (out,) if isinstance(out, np.ndarray) else several(out)
        if len(given) != len(self._outputs):
            raise InputError(
                f"out= holds {len(given)} arrays, {len(self._outputs)} needed",
                where=self.graph.name,
                hint=f"the outputs are {', '.join(self._outputs)}",
            )
        return dict(zip(self._outputs, given, strict=True))

    def arena_bytes(self, *arrays: Array) -> int:
        """Bytes of the arena for inputs of these shapes: activations at the fullest step. Interpreted parts are not counted."""
        parts = self._for_shapes(check_inputs(self.graph, self._named(arrays))).parts
        return max((part.plan.arena_bytes for part in parts if isinstance(part, Native)), default=0)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the graph as a .lowbit file together with its weights as the kernels here want them.

        `lowbit.compile(lowbit.load(path), trust_packed=True)` packs nothing again, on machines with the same build of lowbit and the same
        instruction set; any other packs anew. The file is larger by the packed weights.
        """
        replace(self.graph, packed=PackedConstants(sources.digest(), self._packed.to_store())).save(path)

    def profile(self, *arrays: Array, repeats: int = 20) -> Profile:
        """How long each kernel takes: the least of some runs on one thread, the fastest run on several."""
        checked = check_inputs(self.graph, self._named(arrays))
        return profiled(self._for_shapes(checked).parts, dict(checked), whole("repeats", repeats, 1))

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "a Session cannot be copied or sent to another process: it holds addresses in this one",
            where=self.graph.name,
            hint="send session.graph, or the path of the file, and call lowbit.compile there",
        )

    def _for_shapes(self, arrays: Mapping[str, Array]) -> _Program:
        """The program for the shapes of these arrays."""
        binding: dict[str, int] = {}
        for v in self.graph.inputs:
            try:
                binding_for(v.type, arrays[v.name].shape, binding)
            except LowbitError as e:
                raise e.at(f"input {v.name!r}") from None
        free = [s for s in self._symbols if s not in binding]
        if free:
            raise ShapeError(f"dimensions {', '.join(free)} are not given by any input's shape", hint="bind them when loading: shapes=")
        key = tuple(binding[s] for s in self._symbols)
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                found = self._bound(binding)
                while len(self._programs) >= CACHED_SHAPES:
                    self._programs.pop(next(iter(self._programs)))
                self._programs[key] = found
        return found

    def _bound(self, binding: dict[str, int]) -> _Program:
        """The program for symbols of these sizes: for the whole batch, or for slices of it that fit the caches if the whole does not."""
        graph = bind(self._real, binding)
        if self._batch is None:
            return self._compile(graph)
        whole = self._compile(graph)
        only = whole.parts[0] if len(whole.parts) == 1 else None
        batch = rows = binding[self._batch]
        if isinstance(only, Native):
            rows = rows_at_once(batch, only.plan.arena_bytes, only.plan.constant_bytes, self.target.threads)
        if rows == batch:
            return whole
        slices = self._compile(bind(self._real, {**binding, self._batch: rows}), batch)
        return replace(slices, outputs=whole.outputs)

    def _compile(self, graph: Graph, batch: int | None = None) -> _Program:
        ready = physical(graph)
        parts = segments(ready, self.target, self._packed)
        made = tuple(Native(s.graph, self.target, self._packed, batch, s.calls) if s.native else Interpreted(s.graph) for s in parts)
        values = tuple(v.name for v in ready.outputs.values())
        constants = {name: ready.constants[name].data for name in values if name in ready.constants}
        only = made[0] if len(made) == 1 else None
        direct = only if isinstance(only, Native) and only.inputs == self._names and only.outputs == values else None
        return _Program(made, ready.outputs, constants, direct)


def several(out: Sequence[Array]) -> tuple[Array, ...]:
    if not isinstance(out, Sequence):
        raise InputError(f"out= is {type(out).__name__}, an array is needed, or several")
    return tuple(out)


def checked_targets(outputs: Mapping[str, Value], out: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of `out=`, after checking that each can hold the output of its name."""
    targets: dict[str, Array] = {}
    for name, array in out.items():
        where = f"out {name!r}"
        if name not in outputs:
            raise InputError(f"there is no output named {name!r}", hint=f"the outputs are {', '.join(outputs)}")
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise InputError(f"{type(array).__name__} given, a plain array is needed", where=where)
        need = outputs[name].type
        if array.dtype != need.dtype.numpy:
            raise InputError(f"{array.dtype} given, {need.dtype.numpy} needed", where=where)
        if array.shape != need.shape:
            raise ShapeError(f"shape {array.shape} given, {shape_text(need.shape)} needed", where=where)
        if not array.flags.writeable:
            raise InputError("the array is read-only", where=where)
        if shares_with_itself(array):
            raise InputError("elements of the array share memory", where=where, hint="an array of its own: np.empty(shape, dtype)")
        for other, before in targets.items():
            if share_memory(before, array):
                raise InputError(f"the array shares memory with that of {other!r}", where=where, hint="an array for each output")
        targets[name] = array
    return targets


def share_memory(a: Array, b: Array) -> bool:
    """Whether two arrays share memory; True if that is too expensive to decide."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]  # the stub knows two of its numbers
    except np.exceptions.TooHardError:
        return True


def shares_with_itself(array: Array) -> bool:
    """Whether elements may have the same address: true of broadcasts and sliding windows, never of slices of a whole array."""
    reach = array.itemsize
    for stride, n in sorted((abs(stride), n) for stride, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach and array.size:
            return True
        reach += stride * (n - 1)
    return False
