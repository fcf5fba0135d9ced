"""Each architecture against transformers: logits of a small random network close, the greedy text of 64 tokens equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_networks import NETWORKS, VOCABULARY, InterpretedPlan, saved

from lowbit import llm
from lowbit.llm import runner as runners

pytest.importorskip("transformers", reason="the peer is not installed")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")
torch = pytest.importorskip("torch", reason="the extra torch is not installed")

PROMPT = np.random.default_rng(5).integers(2, VOCABULARY, 70).tolist()


def logits_of(model: llm.Model, ids: list[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return model.runner.logits(model._hidden(ids))


def clearest(model: Any, count: int) -> tuple[list[int], list[int]]:
    """Of some prompts the one whose likeliest tokens by transformers are ahead of the second by most, and those tokens.

    Random networks are often undecided, and the cache rounds keys and values to float16.
    """
    prompts = torch.from_numpy(np.random.default_rng(6).integers(2, VOCABULARY, (48, 30)))
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0, "top_k": None, "top_p": None, "temperature": None}
    out = model.generate(prompts, max_new_tokens=count, output_logits=True, return_dict_in_generate=True, **options)
    two = torch.stack(out.logits).topk(2, dim=-1).values  # (count, prompts, 2)
    best = int((two[..., 0] - two[..., 1]).amin(0).argmax())
    return prompts[best].tolist(), out.sequences[best, 30:].tolist()


def made_by(model: llm.Model, ids: list[int], count: int) -> list[int]:
    sequence = model.scheduler.add_sequence(ids, max_tokens=count)
    while sequence.finish is None:
        model.scheduler.step()
    return sequence.made


@pytest.mark.parametrize("name", NETWORKS)
def test_logits_and_greedy_text_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = saved(name, tmp_path)
    mine = llm.load(tmp_path, threads=1)
    with torch.no_grad():
        want = theirs(torch.tensor([PROMPT])).logits[0].numpy()
    got = logits_of(mine, PROMPT)
    assert np.ptp(want) > 1 and np.abs(got - want).max() < 2e-3 * np.ptp(want)
    assert np.median(np.abs(got - want)) < 2e-4 * np.ptp(want)
    prompt, text = clearest(theirs, 64)
    assert made_by(mine, prompt, 64) == text and len(set(text)) > 5


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_plans_compute_what_the_interpreter_computes_bit_by_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(name, tmp_path)
    native = logits_of(llm.load(tmp_path, threads=1), PROMPT[:21])
    monkeypatch.setattr(runners, "TokenPlan", InterpretedPlan)
    assert np.array_equal(logits_of(llm.load(tmp_path, threads=1), PROMPT[:21]), native)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_of_16_bits_are_used_as_they_are(dtype: str, tmp_path: Path) -> None:
    theirs = saved("llama", tmp_path, dtype)
    mine = llm.load(tmp_path, threads=1)
    assert {t.format for t in mine.weights.tensors.values()} == {{"bfloat16": "BF16", "float16": "F16"}[dtype]}
    with torch.no_grad():
        want = theirs(torch.tensor([PROMPT])).logits[0].numpy()
    assert np.abs(logits_of(mine, PROMPT) - want).max() < 2e-3 * np.ptp(want)
