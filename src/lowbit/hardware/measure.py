"""A short measurement of this machine: how fast memory is read, and how fast matrices are multiplied in float32 and in integers.

All cases take turns until the time is over, so that a change of clock or a busy neighbour hits them alike. The best visit counts:
noise only adds time. `spread` (median over best) says how much of it there was, `waited` for how much of the best visit other
processes had the CPU (Linux says so); what differs by less is not told apart.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isqrt, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import InputError
from lowbit.hardware.system import Cache
from lowbit.matmul import BACKENDS, matmul
from lowbit.quant_params import PerBlock, PerTensor, QuantParams, middle

BATCHES = (1, 4, 16, 64, 256)
PAIR_BATCH = 64  # the batch at which dtype pairs are compared: many rows, as in a convolution
BLOCKS = (32, 64, 128)  # the block sizes of the recipes
PAIRS = (("uint8", "int8"), ("uint8", "uint8"), ("int16", "int16"), ("int8", "int4"))
FLOAT = "float32"

SIDE_UNKNOWN = 512  # rows and columns of the weights if the size of L2 is unknown
BEYOND_CACHES = 4  # a buffer of this many times the last cache is read from memory
LARGEST_BUFFER = 256 << 20  # filling more would take longer than the measurement
LATEST = 4
VISIT = 1e-3  # seconds: shorter cases are repeated, or the clock's own cost would show


@dataclass(frozen=True)
class Case:
    """A product (m, k) × (k, n): dtypes of the sides; the right side per tensor or in blocks along k, and symmetric or not."""

    left: str
    right: str
    m: int
    k: int
    n: int
    block: int | None = None
    asymmetric: bool = False


@dataclass(frozen=True)
class Product:
    """The result of a case. `threads` is CPU time over wall time: how many cores worked.

    `waited` is the time that threads of this process were ready and had no CPU, over wall time; 0 where the system does not say.
    """

    case: Case
    gmacs: float
    spread: float
    threads: float
    waited: float = 0.0

    def clearly_faster(self, other: Product) -> bool:
        """Faster by more than the noise of either, and than the other could have been had it never waited."""
        return self.gmacs * (1 - other.waited) > other.gmacs * (1 + max(self.spread, other.spread))


class Bandwidth(NamedTuple):
    """GB/s at which one thread reads a buffer of `bytes`, which fits `level` ("L2", "L3", "memory") and nothing nearer."""

    level: str
    bytes: int
    gb_per_s: float


@dataclass(frozen=True)
class Measurement:
    """The results and their conditions. `isa_cap` is LOWBIT_ISA at that time, `not_reached` the products left out."""

    seconds: float
    backend: str
    isa_cap: str | None
    products: tuple[Product, ...]
    bandwidth: tuple[Bandwidth, ...]
    not_reached: int = 0

    def product(self, left: str, right: str, m: int, block: int | None = None, asymmetric: bool = False) -> Product | None:
        """The product of this kind, if it was measured."""
        want = (left, right, m, block, asymmetric)
        return next((p for p in self.products if (p.case.left, p.case.right, p.case.m, p.case.block, p.case.asymmetric) == want), None)

    def sweep(self, left: str, right: str) -> tuple[Product, ...]:
        """The measured batches of one pair, ascending."""
        found = (self.product(left, right, m) for m in sorted({p.case.m for p in self.products}))
        return tuple(p for p in found if p is not None)

    def read(self, level: str) -> float | None:
        """GB/s of a level, if it was measured."""
        return next((b.gb_per_s for b in self.bandwidth if b.level == level), None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form."""
        return asdict(self) | {"products": [asdict(p.case) | {k: v for k, v in asdict(p).items() if k != "case"} for p in self.products]}


def measure(caches: Sequence[Cache], seconds: float = 0.3) -> Measurement:
    """Takes about `seconds`, and up to LATEST times that if two visits to each case need it; cases not reached are left out."""
    if not seconds > 0:
        raise InputError(f"a measurement of {seconds} seconds measures nothing", hint="seconds=0.3")
    start = time.perf_counter()
    cases = plan(caches)
    rng = np.random.default_rng(0)
    works = {c: _work(c, rng) for c in cases}
    buffers = {(level, size): _read(size) for level, size in reads(caches)}
    ready = time.perf_counter()  # filling buffers takes a second on a busy machine: it is none of the time to measure in
    times = _take_turns([*buffers.values(), *works.values()], ready, seconds)
    bandwidth = tuple(Bandwidth(level, size, size / t[0].wall / 1e9) for (level, size), t in zip(buffers, times) if t)
    products = tuple(_product(c, t) for c, t in zip(cases, times[len(buffers) :]) if t)
    cap = os.environ.get("LOWBIT_ISA") or None
    return Measurement(time.perf_counter() - start, next(reversed(BACKENDS)), cap, products, bandwidth, len(cases) - len(products))


def plan(caches: Sequence[Cache]) -> tuple[Case, ...]:
    """The cases. The weights are square and as int8 just fit L2: the layer of that size is the largest that a core keeps near."""
    l2 = next((c.bytes for c in caches if c.level == 2), None)
    side = 1 << isqrt(l2).bit_length() - 1 if l2 else SIDE_UNKNOWN
    shape = (PAIR_BATCH, side, side)
    return (
        *(Case(d, d, m, side, side) for m in BATCHES for d in (FLOAT, "int8")),
        *(Case(*pair, *shape) for pair in PAIRS),
        Case("int8", "int8", *shape, asymmetric=True),
        Case("int8", "int4", 1, side, side),
        *(Case("int8", "int4", *shape, block=b) for b in BLOCKS),
    )


def reads(caches: Sequence[Cache]) -> tuple[tuple[str, int], ...]:
    """The buffers to read: half of L2 and L3, and one beyond all caches unless that would be too large to fill quickly."""
    data = {c.level: c.bytes for c in caches if c.kind != "instruction"}
    rows = [(f"L{level}", data[level] // 2) for level in (2, 3) if data.get(level, LARGEST_BUFFER) < LARGEST_BUFFER]
    beyond = BEYOND_CACHES * max(data.values(), default=0)
    if 0 < beyond <= LARGEST_BUFFER:
        rows.append(("memory", beyond))
    return tuple(rows)


@dataclass(frozen=True, order=True)
class _Visit:
    wall: float
    cpu: float
    waited: float


Work = Callable[[], object]


def _take_turns(works: Sequence[Work], start: float, seconds: float) -> list[list[_Visit]]:
    """The visits to each work, best first: two to each, then all in turn until the time is over.

    The first visit is a cold one. It counts, so that where the time allows no more than two the spread is wide, as it should be. On a
    machine too busy for two visits each within LATEST times the time, the last works have none.
    """
    visits: list[list[_Visit]] = [[] for _ in works]
    repeats = [1] * len(works)
    for i, work in enumerate(works):
        if time.perf_counter() > start + LATEST * seconds:
            return [sorted(row) for row in visits]
        visits[i].append(_visit(work, 1))
        repeats[i] = max(1, int(VISIT / max(visits[i][0].wall, 1e-6)))
        visits[i].append(_visit(work, repeats[i]))
    while time.perf_counter() < start + seconds:
        for work, n, row in zip(works, repeats, visits):
            row.append(_visit(work, n))
    return [sorted(row) for row in visits]


def _visit(work: Work, n: int) -> _Visit:
    waited, cpu, wall = _waited(), time.process_time(), time.perf_counter()
    for _ in range(n):
        work()
    return _Visit((time.perf_counter() - wall) / n, (time.process_time() - cpu) / n, (_waited() - waited) / n)


def _waited() -> float:
    """Seconds that the threads of this process have been ready to run without a CPU; 0 where the system does not count them."""
    total = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[1])  # nanoseconds on a CPU, nanoseconds waiting for one, number of turns
        except (OSError, IndexError, ValueError):  # a thread that ended meanwhile, or a kernel that does not count
            continue
    return total / 1e9


def _product(case: Case, visits: list[_Visit]) -> Product:
    best = visits[0]
    spread = statistics.median(v.wall for v in visits) / best.wall - 1
    return Product(case, prod((case.m, case.k, case.n)) / best.wall / 1e9, spread, best.cpu / best.wall, best.waited / best.wall)


def _work(c: Case, rng: np.random.Generator) -> Work:
    if c.left == FLOAT:
        x, w = rng.standard_normal((c.m, c.k), np.float32), rng.standard_normal((c.k, c.n), np.float32)
        return lambda: x @ w
    left, right = dtype(c.left), dtype(c.right)
    qx = rng.integers(left.min or 0, left.max or 0, (c.m, c.k), left.numpy, endpoint=True)
    qw = rng.integers(right.min or 0, right.max or 0, (c.k, c.n), right.numpy, endpoint=True)
    granularity = PerTensor() if c.block is None else PerBlock(0, c.block)
    scale = np.float32(1) if c.block is None else np.ones((-(-c.k // c.block), c.n), np.float32)
    px, pw = QuantParams(left, 1.0), QuantParams(right, scale, middle(right) + c.asymmetric, granularity=granularity)
    return lambda: matmul(qx, px, qw, pw)


def _read(size: int) -> Work:
    """Reads every byte once: the C library's memchr looks for a byte that is not there."""
    buffer = bytearray(size)
    return lambda: buffer.find(1)
