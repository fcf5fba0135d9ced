"""Sampling: the filters one by one against their definitions, and the same tokens for the same seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from lowbit.errors import InputError
from lowbit.llm.sampler import Sampler, Sampling, exp


def some_logits(seed: int = 0, n: int = 300) -> np.ndarray[Any, np.dtype[np.float32]]:
    return (np.random.default_rng(seed).standard_normal(n) * 2).astype(np.float32)


def drawn(count: int, logits: Any = None, **options: Any) -> Counter[int]:
    sampler = Sampler(Sampling(**{"temperature": 1.0, **options}))
    logits = some_logits() if logits is None else logits
    return Counter(sampler(logits) for _ in range(count))


def test_exp_is_right_to_eleven_digits() -> None:
    x = -np.random.default_rng(0).uniform(0, 700, 100_000)
    assert np.abs(exp(x) / np.exp(x) - 1).max() < 1e-11 and exp(np.zeros(1))[0] == 1


def test_temperature_zero_takes_the_first_of_the_likeliest() -> None:
    assert Sampler(Sampling())(np.array([0, 3, 3, 1], np.float32)) == 1


def test_tokens_come_as_often_as_the_softmax_says() -> None:
    logits = np.array([0, 1, 2, -1], np.float32)
    found = drawn(20_000, logits, temperature=0.7)
    p = np.exp(logits / 0.7) / np.exp(logits / 0.7).sum()
    for i in range(4):
        assert abs(found[i] / 20_000 - p[i]) < 0.012


def test_top_k_keeps_k_and_of_equal_ones_the_lower_ids() -> None:
    assert set(drawn(300, np.array([1, 2, 2, 2, 0], np.float32), top_k=2)) == {1, 2}
    assert len(drawn(2000, top_k=5)) == 5


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9])
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float) -> None:
    logits = some_logits(n=12)
    p = np.sort(np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum())[::-1]
    want = int(np.argmax(np.cumsum(p) >= top_p)) + 1
    assert len(drawn(20_000, logits, top_p=top_p)) == want


def test_min_p_keeps_what_is_not_far_below_the_likeliest() -> None:
    assert set(drawn(5000, np.log(np.array([0.5, 0.26, 0.2, 0.04], np.float32)), min_p=0.5)) == {0, 1}


def test_a_repetition_penalty_lowers_logits_of_both_signs() -> None:
    greedy = Sampler(Sampling(repetition_penalty=2.0))
    assert greedy(np.array([3, 2], np.float32), [0]) == 1
    assert greedy(np.array([-1, -1.5], np.float32), [0]) == 1
    assert greedy(np.array([3, 2], np.float32), []) == 0


def test_the_same_seed_gives_the_same_tokens_and_another_one_others() -> None:
    def tokens(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler(some_logits(i)) for i in range(40)]

    assert tokens(7) == tokens(7) != tokens(8)
    assert tokens(0)[:6] == [7, 124, 47, 128, 177, 126]  # as they were when this was written: seeds keep their meaning


def test_only_allowed_tokens_come_and_in_their_proportion() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    sampler = Sampler(Sampling(temperature=1.0))
    found = Counter(sampler(logits, allowed=lambda i: i in (1, 3)) for _ in range(10_000))
    assert set(found) == {1, 3} and abs(found[1] / 10_000 - 0.3 / 0.35) < 0.02
    assert Sampler(Sampling())(logits, allowed=lambda i: i > 1) == 2
    with pytest.raises(InputError, match="no token of the vocabulary may follow"):
        sampler(logits, allowed=lambda i: False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "temperature=-1 is not a number from 0 to 100"),
        ({"temperature": float("nan")}, "temperature=nan is not"),
        ({"top_p": 1.5}, "top_p=1.5 is not a number from 0 to 1"),
        ({"top_k": 2.5}, "top_k=2.5 is not a number"),
        ({"seed": -1}, "seed=-1 is not a number"),
        ({"min_p": "x"}, "min_p='x' is not a number"),
        ({"repetition_penalty": 0}, "repetition_penalty=0 is not a number"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        Sampling(**options)
    assert message in str(error.value)


def test_logits_that_are_no_numbers_are_refused() -> None:
    for temperature in (0.0, 1.0):
        with pytest.raises(InputError, match="the logits are not numbers"):
            Sampler(Sampling(temperature=temperature))(np.array([1, np.nan], np.float32))
