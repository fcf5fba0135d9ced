"""Work on graphs over the workers of an executor: the graphs travel once to each worker, results come back in order.

They are written once to temporary files. A worker that sees the same disk reads them there; one on another machine says that it has
none, and gets the bytes with its next task. Either keeps them for the tasks that follow.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lowbit.blas import one_thread
from lowbit.errors import CalibrationError
from lowbit.ir.file import load, save
from lowbit.ir.graph import Graph

T = TypeVar("T")
IN_FLIGHT = 2  # tasks waiting per worker: enough to keep it busy, few enough to stay streaming

_held: tuple[tuple[str, ...], tuple[Graph, ...]] | None = None  # of a worker: the graphs it works on


@dataclass(frozen=True)
class Shipped:
    """Graphs on their way: the files they are in, and the modules that make their ops known (those of users are not lowbit's to import)."""

    paths: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True)
class NoGraph:
    """A worker's answer when it cannot see the file."""


def spread(executor: Executor, graphs: tuple[Graph, ...], function: Callable[..., T], tasks: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """`function(*graphs, *task)` for every task, in order. Tasks that have not begun are cancelled when the consumer stops."""
    workers: int = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    waiting: deque[tuple[Future[T | NoGraph], tuple[Any, ...]]] = deque()
    with tempfile.TemporaryDirectory(prefix="lowbit-") as folder:
        paths = [Path(folder) / f"{i}.lowbit" for i in range(len(graphs))]
        for graph, path in zip(graphs, paths, strict=True):
            save(graph, path)
        modules = {n.definition.infer.__module__ for graph in graphs for n in graph.nodes}
        shipped = Shipped(tuple(map(str, paths)), tuple(sorted(modules)))

        def finished() -> T:
            future, task = waiting.popleft()
            try:
                done = future.result()
                if isinstance(done, NoGraph):
                    done = executor.submit(work, shipped, tuple(p.read_bytes() for p in paths), function, task).result()
            except BrokenExecutor as e:
                raise CalibrationError(f"a worker died ({e})", hint="fewer workers: each holds the network and a sample's values") from e
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


def work(shipped: Shipped, data: tuple[bytes, ...] | None, function: Callable[..., T], task: tuple[Any, ...]) -> T | NoGraph:
    """One task, in a worker."""
    graphs = held_graphs(shipped, data)
    if graphs is None:
        return NoGraph()
    with one_thread():
        return function(*graphs, *task)


def held_graphs(shipped: Shipped, data: tuple[bytes, ...] | None) -> tuple[Graph, ...] | None:
    """The graphs this worker holds, reads from the shared disk, or was given."""
    global _held
    if _held is not None and _held[0] == shipped.paths:
        return _held[1]
    if data is None and not all(map(os.path.exists, shipped.paths)):
        return None
    for module in shipped.modules:
        if module != "__main__":
            importlib.import_module(module)
    if data is None:
        graphs = tuple(map(load, shipped.paths))
    else:
        with tempfile.TemporaryDirectory(prefix="lowbit-") as folder:
            path = Path(folder) / "graph.lowbit"
            graphs = ()
            for one in data:
                path.write_bytes(one)
                graphs += (load(path),)
    _held = (shipped.paths, graphs)
    return graphs
