"""Work on one graph over the workers of an executor: the graph travels once to each worker, results come back in order.

The graph is written once to a temporary file. A worker that sees the same disk reads it there; one on another machine says that it has
none, and gets the bytes with its next task. Either keeps it for the tasks that follow.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lowbit.ir.file import load, save
from lowbit.ir.graph import Graph

T = TypeVar("T")
IN_FLIGHT = 2  # tasks waiting per worker: enough to keep it busy, few enough to stay streaming

_held: tuple[str, Graph] | None = None  # of a worker: the graph it works on


@dataclass(frozen=True)
class Shipped:
    """A graph on its way: the file it is in, and the modules that make its ops known (those of users are not lowbit's to import)."""

    path: str
    modules: tuple[str, ...]


@dataclass(frozen=True)
class NoGraph:
    """A worker's answer when it cannot see the file."""


def spread(executor: Executor, graph: Graph, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """`function(graph, *task)` for every task, in order. When the consumer stops or is interrupted, what has not begun is cancelled."""
    workers: int = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    waiting: deque[tuple[Future[T | NoGraph], tuple[Any, ...]]] = deque()
    with tempfile.TemporaryDirectory(prefix="lowbit-") as folder:
        path = Path(folder) / "graph.lowbit"
        save(graph, path)
        shipped = Shipped(str(path), tuple(sorted({n.definition.infer.__module__ for n in graph.nodes})))

        def finished() -> T:
            future, task = waiting.popleft()
            done = future.result()
            if isinstance(done, NoGraph):
                done = executor.submit(work, shipped, path.read_bytes(), function, task).result()
            assert not isinstance(done, NoGraph)
            return done

        try:
            for task in tasks:
                waiting.append((executor.submit(work, shipped, None, function, task), task))
                if len(waiting) >= workers * IN_FLIGHT:
                    yield finished()
            while waiting:
                yield finished()
        finally:
            for future, _ in waiting:
                future.cancel()


def work(shipped: Shipped, data: bytes | None, function: Callable[..., T], task: tuple[Any, ...]) -> T | NoGraph:
    """One task, in a worker."""
    graph = held_graph(shipped, data)
    return NoGraph() if graph is None else function(graph, *task)


def held_graph(shipped: Shipped, data: bytes | None) -> Graph | None:
    """The graph this worker holds, reads from the shared disk, or was given."""
    global _held
    if _held is not None and _held[0] == shipped.path:
        return _held[1]
    if data is None and not os.path.exists(shipped.path):
        return None
    for module in shipped.modules:
        if module != "__main__":
            importlib.import_module(module)
    if data is None:
        graph = load(shipped.path)
    else:
        with tempfile.TemporaryDirectory(prefix="lowbit-") as folder:
            path = Path(folder) / "graph.lowbit"
            path.write_bytes(data)
            graph = load(path)
    _held = (shipped.path, graph)
    return graph
