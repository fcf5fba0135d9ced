"""Sums that do not depend on how many threads BLAS has: what is written must be the same bytes in every process and on every worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products inside run on one thread: their additions then have one order, whatever the environment says."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
