"""Progress of long loops: a bar on the terminal's stderr after the first second, nothing anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
QUIET_SECONDS = 1.0
_shown = threading.Lock()  # held by the one bar on the screen: a loop inside a loop that has one stays silent


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar (done, total, time left) on stderr if it is a terminal and the loop takes longer than a second."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    if not sys.stderr.isatty():
        yield from items
        return
    start = time.monotonic()
    bar = task = None
    try:
        for done, item in enumerate(items):
            if bar is None and time.monotonic() - start > QUIET_SECONDS and _shown.acquire(blocking=False):
                bar = _bar()
                bar.start()
                task = bar.add_task(what, total=total, completed=done)
            yield item
            if bar is not None and task is not None:
                bar.update(task, completed=done + 1)
    finally:
        if bar is not None:
            bar.stop()
            _shown.release()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
