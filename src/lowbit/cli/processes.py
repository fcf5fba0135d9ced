"""Processes to work with that leave Ctrl-C to their parent: it says one word and ends them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.context import SpawnContext, SpawnProcess


class Deaf(SpawnProcess):
    """A process that never hears Ctrl-C, not while it starts either: a mask of signals is inherited, and imports take a second."""

    def start(self) -> None:
        if not hasattr(signal, "pthread_sigmask"):  # Windows: `ignore_interrupts` must do
            super().start()
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class DeafContext(SpawnContext):
    Process = Deaf


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def process_pool(count: int) -> Iterator[Executor]:
    """A pool of processes; when this one is interrupted, they are ended at once, whatever they are at."""
    with ProcessPoolExecutor(count, mp_context=DeafContext(), initializer=ignore_interrupts) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for child in active_children():
                if isinstance(child, Deaf):
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
