"""Processes to work with that leave Ctrl-C to their parent, which says one word and ends them, and that end when it does."""

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
    """A process that never hears Ctrl-C, not while it starts either: a mask of signals is inherited, and imports take a second."""

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
    """What a worker does first: it is deaf to Ctrl-C, and waits for its parent's end, of which nobody tells it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def process_pool(count: int) -> Iterator[Executor]:
    """A pool of processes. On an error nothing more is begun; on an interrupt they are ended at once, whatever they are at."""
    with ProcessPoolExecutor(count, mp_context=DeafContext(), initializer=begin) as pool:
        try:
            yield pool
        except BaseException as e:
            for child in active_children() if isinstance(e, KeyboardInterrupt) else ():
                if isinstance(child, Deaf):
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
