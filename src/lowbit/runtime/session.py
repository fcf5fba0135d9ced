"""A graph ready to run: compiled once for each shape that its symbols take, then executed in C.

What has kernels runs natively, in one call; nodes that have none yet run in the interpreter between native parts, and the bits are the
same either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from lowbit.errors import InputError, LowbitError, ShapeError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import check_inputs
from lowbit.plan import Target, channels_last, segments
from lowbit.runtime import threads as threads_of
from lowbit.runtime.profile import Profile, profiled
from lowbit.runtime.program import Interpreted, Native, Part
from lowbit.types import Array

CACHED_SHAPES = 16


@dataclass(frozen=True)
class _Program:
    """The parts of a bound graph in order, and the outputs by name."""

    parts: tuple[Part, ...]
    outputs: Mapping[str, Value]


class Session:
    """Runs one graph. May be called from several threads at once."""

    def __init__(self, graph: Graph, *, threads: int | None = None, isa: str | None = None) -> None:
        count = threads_of.count() if threads is None else threads
        if count < 1:
            raise InputError(f"threads={threads} is not a number of threads", hint="1 or more, or leave it out")
        self.graph = graph
        self.target = Target(isa, count)
        self._programs: dict[tuple[int, ...], _Program] = {}
        self._packed: dict[tuple[str, ...], Array] = {}
        self._lock = Lock()
        self._symbols = graph.symbols
        self._types = tuple((v.name, v.type.dtype.numpy, v.shape) for v in graph.inputs)
        if not self._symbols:
            self._programs[()] = self._compile(graph)

    @property
    def backend(self) -> str:
        """native, interpreter, or both; for a graph with symbolic dimensions that has not run yet: not compiled."""
        if not self._programs:
            return "not compiled"
        kinds = {part.native for program in self._programs.values() for part in program.parts}
        return "native" if kinds <= {True} else "interpreter" if kinds == {False} else "native and interpreter"

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """The outputs for inputs given in order: the array itself if there is one output, else a tuple."""
        if len(arrays) != len(self._types):
            names = [name for name, _, _ in self._types]
            raise InputError(
                f"{len(arrays)} arrays given, {len(names)} needed", where=self.graph.name, hint=f"the inputs are {', '.join(names)}"
            )
        outputs = tuple(self.run({t[0]: a for t, a in zip(self._types, arrays, strict=True)}).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, for inputs by name."""
        env, program = self._prepare(inputs)
        for part in program.parts:
            part.run(env)
        return {name: env[v.name] for name, v in program.outputs.items()}

    def profile(self, *arrays: Array, repeats: int = 20) -> Profile:
        """How long each kernel takes: the least of some repeats."""
        names = [name for name, _, _ in self._types]
        env, program = self._prepare(dict(zip(names, arrays, strict=True)))
        return profiled(program.parts, env, repeats)

    def _prepare(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Any], _Program]:
        """The inputs, checked, and the program for their shapes."""
        if not self._symbols and isinstance(inputs, dict) and len(inputs) == len(self._types):
            env = {}
            for name, dtype, shape in self._types:
                x = inputs.get(name)
                if type(x) is not np.ndarray or x.dtype != dtype or x.shape != shape or not x.dtype.isnative:
                    break
                env[name] = x
            else:
                return env, self._programs[()]
        arrays = check_inputs(self.graph, inputs)
        return dict(arrays), self._for_shapes(arrays)

    def _for_shapes(self, arrays: Mapping[str, Array]) -> _Program:
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
                found = self._compile(bind(self.graph, binding))
                while len(self._programs) >= CACHED_SHAPES:
                    self._programs.pop(next(iter(self._programs)))
                self._programs[key] = found
        return found

    def _compile(self, graph: Graph) -> _Program:
        physical = channels_last(graph)
        parts = segments(physical, self.target, self._packed)
        made = tuple(Native(s.graph, self.target, self._packed) if s.native else Interpreted(s.graph) for s in parts)
        return _Program(made, physical.outputs)
