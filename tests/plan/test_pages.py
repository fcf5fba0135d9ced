"""Weights on huge pages: the same bits, aligned, and no more memory than they fill."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.plan import pages
from lowbit.plan.pages import LARGE, PAGE, HugePageArena, aligned
from lowbit.runtime.program import Native
from lowbit.types import Array, TensorType

linux = pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux only")


def address(x: Array) -> int:
    return int(x.ctypes.data)


def resident(at: int) -> int:
    """Bytes of memory behind the mapping that holds this address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            start, end = (int(n, 16) for n in first.split("-"))
            inside = start <= at < end
        elif inside and first == "Rss:":
            return 1024 * int(line.split()[1])
    raise AssertionError("nothing is mapped there")


def chain(width: int) -> Graph:
    """Three layers of so many columns and rows."""
    b, rng = Builder("chain"), np.random.default_rng(0)
    y = b.input("x", TensorType((1, width), "int8"))
    for name in "abc":
        w = b.constant(rng.integers(-128, 128, (width, width)).astype(np.int8), name=f"{name}.w")
        m = b.constant(np.full(width, 1e-4, np.float32), name=f"{name}.m")
        y = b.add("q_linear", y, w, m, name=name, x_zero=0, y_zero=0, lo=-128, hi=127, to="int8", bound=1 << 28)
    return b.finish({"y": y})


def weights(session: Any) -> list[Array]:
    plans = [p.plan for program in session._programs.values() for p in program.parts if isinstance(p, Native)]
    return [c for plan in plans for c in plan.constants if c.nbytes > 1 << 16]


@linux
@pytest.mark.parametrize("size", [LARGE, LARGE + 1, 3 * PAGE - 1])
def test_large_bytes_begin_with_a_huge_page(size: int) -> None:
    x = aligned(size)
    x[:] = 1
    assert (address(x) % PAGE, x.nbytes) == (0, size)


@pytest.mark.parametrize("size", [1, 64, PAGE, LARGE - 1, LARGE])
def test_bytes_of_any_size_are_aligned_and_writable(size: int) -> None:
    x = aligned(size)
    x[:] = 7
    assert address(x) % 64 == 0 and x.size == size and (x == 7).all()


@linux
def test_arrays_on_a_shelf_are_equal_copies_that_share_pages_and_no_bytes() -> None:
    rng, arena = np.random.default_rng(0), HugePageArena()
    arrays = [rng.integers(0, 99, (n, 3)).astype(t) for n in (1, 7, 64, 100_001) for t in (np.int8, np.int16, np.float32)]
    put = [arena.put(x) for x in arrays]
    for x, y in zip(arrays, put, strict=True):
        assert y.tobytes() == x.tobytes() and (y.dtype, y.shape) == (x.dtype, x.shape) and address(y) % 64 == 0
    for x, y in pairwise(put):
        assert 0 <= address(y) - (address(x) + x.nbytes) < 64
    assert address(put[0]) % PAGE == 0


@linux
def test_a_shelf_is_less_than_a_page_larger_than_what_lies_on_it() -> None:
    arena = HugePageArena()
    put = [arena.put(np.ones(900_000, np.uint8)) for _ in range(7)]
    total = sum(-(-x.nbytes // 64) * 64 for x in put)
    assert total <= resident(address(put[0])) < total + PAGE


@linux
def test_a_full_shelf_goes_on_in_another_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOM", PAGE)
    arena = HugePageArena()
    put = [arena.put(np.full(1_500_000, i, np.uint8)) for i in range(5)]
    assert all((x == i).all() for i, x in enumerate(put))
    assert [address(x) % PAGE for x in put] == [0, 0, 1_500_032, 0, 1_500_032]


@linux
def test_weights_of_a_large_network_share_huge_pages() -> None:
    session = lowbit.compile(chain(1600), threads=1)
    found = sorted(map(address, weights(session)))
    assert len(found) == 3 and found[0] % PAGE < 1 << 16 and found[-1] - found[0] < 2 * LARGE


def test_small_networks_have_no_shelf() -> None:
    assert lowbit.compile(chain(200), threads=1)._packed.huge_pages is None


@pytest.mark.parametrize("missing", ["advice", "address space"])
def test_without_huge_pages_a_session_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    graph, x = chain(1600), np.arange(1600, dtype=np.int64).astype(np.int8)[None]
    expected = lowbit.compile(graph, threads=1)(x)

    class Refusing(pages.mmap.mmap):
        def __new__(cls, *_: Any, **__: Any) -> Refusing:
            raise OSError(12, "Cannot allocate memory")

    if missing == "advice":
        monkeypatch.delattr(pages.mmap, "MADV_HUGEPAGE", raising=False)
    else:
        monkeypatch.setattr(pages.mmap, "mmap", Refusing)
    array = np.ones(100, np.uint8)
    assert HugePageArena().put(array) is array
    assert address(aligned(LARGE)) % 64 == 0
    assert np.array_equal(lowbit.compile(graph, threads=1)(x), expected)


@linux
def test_arrays_keep_their_memory_when_the_session_is_gone() -> None:
    session = lowbit.compile(chain(1600), threads=1)
    kept = weights(session)
    before = [x.tobytes() for x in kept]
    del session
    assert [x.tobytes() for x in kept] == before
