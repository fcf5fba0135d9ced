"""Pages of the cache: who uses them, which are found again, and that none is lost or shared while it is written."""

from __future__ import annotations

import numpy as np
import pytest

from lowbit.errors import InputError
from lowbit.llm.cache import PAGE, PagePool, Pages, anonymous


def table(rows: int = 8, pages: int = 8) -> np.ndarray:  # type: ignore[type-arg]
    return np.full((rows, pages), -1, np.int32)


def written(pages: Pages, tokens: list[int]) -> None:
    pages.reserve(len(tokens))
    pages.wrote(tokens)


def test_a_text_that_begins_as_an_earlier_one_finds_its_full_pages() -> None:
    pool, t = PagePool(8), table()
    first = Pages(pool, t, 0)
    text = list(range(100))
    written(first, text)
    assert t[0].tolist() == [0, 1, 2, 3, -1, -1, -1, -1]
    second = Pages(pool, t, 1)
    assert second.reuse(text[:70] + [7]) == 2 * PAGE and t[1, :2].tolist() == [0, 1]
    assert Pages(pool, t, 2).reuse(text[: 2 * PAGE]) == PAGE  # the last token's logits are wanted: it is computed
    assert Pages(pool, t, 3).reuse([5, *text]) == 0


def test_pages_are_kept_after_their_sequence_until_memory_is_needed_and_the_end_goes_first() -> None:
    pool, t = PagePool(4), table()
    first = Pages(pool, t, 0)
    written(first, list(range(3 * PAGE + 1)))
    first.close()
    assert pool.available == 4 and (t == -1).all()
    other = Pages(pool, t, 1)
    written(other, [9] * (2 * PAGE))
    again = Pages(pool, t, 2)
    assert again.reuse(list(range(3 * PAGE + 1))) == 2 * PAGE


def test_equal_pages_written_at_the_same_time_are_found_under_one_text_and_never_mixed_up() -> None:
    pool, t = PagePool(6), table()
    a, b = Pages(pool, t, 0), Pages(pool, t, 1)
    text = list(range(2 * PAGE))
    written(a, text[:PAGE])
    written(b, text[:PAGE])  # the same tokens in a page of its own
    written(b, text[PAGE:])
    b.close()
    a.close()
    c = Pages(pool, t, 2)
    written(c, [77] * (3 * PAGE))  # may take b's first page
    d = Pages(pool, t, 3)
    found = d.reuse([*text, 1])
    assert found in (PAGE, 2 * PAGE) and not set(d.pages) & set(c.pages)
    e = Pages(pool, t, 4)
    assert e.reuse([77] * PAGE + text[PAGE:] + [1]) == PAGE  # not b's second page


def test_too_many_tokens_are_refused_and_nothing_is_taken() -> None:
    pool, t = PagePool(4), table(pages=3)
    a = Pages(pool, t, 0)
    with pytest.raises(InputError, match="97 tokens, the context is 96"):
        a.reserve(97)
    written(a, [1] * 90)
    b = Pages(pool, t, 1)
    with pytest.raises(InputError, match="2 pages of the cache needed, 1 of 4 are left"):
        b.reserve(40)
    assert pool.available == 1


def test_a_thousand_sequences_lose_no_page() -> None:
    rng = np.random.default_rng(0)
    pool, t = PagePool(20), table(4, 20)
    live: dict[int, Pages] = {}
    for _ in range(1000):
        row = int(rng.integers(4))
        if row in live:
            live.pop(row).close()
        p = Pages(pool, t, row)
        text = [int(x) for x in np.repeat(rng.integers(0, 2, 8), PAGE)][: int(rng.integers(1, 8 * PAGE))]
        at = p.reuse(text)
        if p.missing(len(text) - at) > pool.available:
            p.close()
            continue
        written(p, text[at:])
        live[row] = p
        held = [q for x in live.values() for q in x.pages]
        assert all(pool._users[q] == held.count(q) for q in range(20))
        for x in live.values():  # a page that is not full has one user
            assert len(x.tokens) % PAGE == 0 or pool._users[x.pages[-1]] == 1
    for x in live.values():
        x.close()
    assert pool.available == 20
    pool.forget()
    assert pool.available == 20 and Pages(pool, t, 0).reuse([0] * 100) == 0


def test_memory_is_taken_when_it_is_written() -> None:
    x = anonymous((1 << 10, 1 << 20), np.dtype(np.float16))  # 2 GB of addresses
    x[5, :3] = 1
    assert x.flags.writeable and x[5, :4].tolist() == [1, 1, 1, 0]
