"""Worker processes that ignore Ctrl-C: their parent handles it and ends them. They also end when the parent ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread


class Deaf(SpawnProcess):
    """A process that ignores Ctrl-C, also while it starts: the signal mask is inherited, and imports take a second."""

    def start(self) -> None:
        if not hasattr(signal, "pthread_sigmask"):  # Windows: `begin` must do
            super().start()
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class DeafContext(SpawnContext):
    Process = Deaf


def begin() -> None:
    """The start of a worker: it ignores Ctrl-C, and watches for the end of its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def process_pool(count: int) -> Iterator[Executor]:
    """A pool of processes. After an error no further work starts; an interrupt ends them at once."""
    with ProcessPoolExecutor(count, mp_context=DeafContext(), initializer=begin) as pool:
        try:
            yield pool
        except BaseException as e:
            for child in active_children() if isinstance(e, KeyboardInterrupt) else ():
                if isinstance(child, Deaf):
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
