"""A graph ready to run. Symbolic dimensions are bound by the inputs of each call, and what that takes is done once per shape."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from lowbit.errors import InputError, ShapeError
from lowbit.ir.bind import bind, binding_for
from lowbit.ir.graph import Graph
from lowbit.ir.interp import check_inputs, evaluate
from lowbit.types import Array

CACHED_SHAPES = 16


class Session:
    """Runs one graph. May be called from several threads at once."""

    backend = "interpreter"

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._bound: dict[tuple[int, ...], Graph] = {}
        self._lock = Lock()

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """The outputs for inputs given in order: the array itself if there is one output, else a tuple."""
        names = [v.name for v in self.graph.inputs]
        if len(arrays) != len(names):
            raise InputError(
                f"{len(arrays)} arrays given, {len(names)} needed", where=self.graph.name, hint=f"the inputs are {', '.join(names)}"
            )
        outputs = tuple(self.run(dict(zip(names, arrays, strict=True))).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, for inputs by name."""
        arrays = check_inputs(self.graph, inputs)
        return evaluate(self._for_shapes(arrays), arrays)

    def _for_shapes(self, arrays: Mapping[str, Array]) -> Graph:
        binding: dict[str, int] = {}
        for v in self.graph.inputs:
            binding_for(v.type, arrays[v.name].shape, binding)
        free = [s for s in self.graph.symbols if s not in binding]
        if free:
            raise ShapeError(f"dimensions {', '.join(free)} are not given by any input's shape", hint="bind them when loading: shapes=")
        key = tuple(binding[s] for s in self.graph.symbols)
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                found = bind(self.graph, binding)
                while len(self._bound) >= CACHED_SHAPES:
                    self._bound.pop(next(iter(self._bound)))
                self._bound[key] = found
        return found
