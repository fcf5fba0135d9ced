"""Texts of a small random network: the same alone and in company, read in chunks, from the cache, and after losing their pages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_networks import VOCABULARY, saved

from lowbit import llm
from lowbit.errors import InputError
from lowbit.llm.cache import PAGE
from lowbit.llm.stream import StopTexts

pytest.importorskip("transformers", reason="it makes the networks")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")
torch = pytest.importorskip("torch", reason="the extra torch is not installed")

RNG = np.random.default_rng(9)
PROMPTS = [RNG.integers(2, VOCABULARY, int(n)).tolist() for n in (3, 40, 1, 150, 33, 64)]
OPTIONS: dict[str, Any] = {"temperature": 0.9, "top_p": 0.95, "seed": 4, "max_tokens": 12}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    saved("llama", path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[llm.Model]:
    m = llm.load(folder, threads=1)
    yield m
    assert m.runner.pool.available == m.runner.pool.count and (m.runner.table == -1).all()  # nothing is left behind


def tokens(m: llm.Model, prompt: list[int], **options: Any) -> list[int]:
    with m.stream(prompt, **{**OPTIONS, **options}) as stream:
        list(stream)
    return stream.tokens


def test_a_rows_bits_do_not_depend_on_the_chunk(model: llm.Model) -> None:
    ids = PROMPTS[3]
    whole = model._hidden(ids)
    for size in (1, 7, 128):
        pages = llm.model.Pages(model.runner.pool, model.runner.table, 0)
        pages.reserve(len(ids))
        parts = [
            model.runner.hidden(ids[at : at + size], range(at, min(at + size, len(ids))), [0] * len(ids[at : at + size]))
            for at in range(0, len(ids) if size > 1 else 20, size)
        ]
        pages.close()
        got = np.concatenate(parts)
        assert np.array_equal(got, whole[: len(got)])


def test_a_text_is_the_same_in_any_company(model: llm.Model) -> None:
    alone = [tokens(model, p) for p in PROMPTS]
    assert len({tuple(t) for t in alone}) == len(PROMPTS)
    model.runner.pool.forget()
    streams = [model.stream(p, **OPTIONS) for p in PROMPTS]
    while any(s.sequence.finish is None for s in streams):
        model.scheduler.step()
    assert [s.tokens for s in streams] == alone
    assert ["".join(s) for s in streams] == [model.tokenizer.decode(t) for t in alone]


def test_several_threads_read_streams_of_the_same_network(model: llm.Model) -> None:
    alone = [tokens(model, p) for p in PROMPTS]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda p: tokens(model, p), PROMPTS)) == alone


def test_a_beginning_that_was_read_is_not_read_again(model: llm.Model) -> None:
    first = tokens(model, PROMPTS[3])
    stream = model.stream(PROMPTS[3], **OPTIONS)
    list(stream)
    assert stream.sequence.reused == len(PROMPTS[3]) // PAGE * PAGE and stream.tokens == first
    longer = model.stream(PROMPTS[3] + first + [5, 6], **OPTIONS)
    list(longer)
    assert longer.sequence.reused >= len(PROMPTS[3]) // PAGE * PAGE
    model.runner.pool.forget()
    assert tokens(model, PROMPTS[3] + first + [5, 6]) == longer.tokens


def test_sequences_that_lose_their_pages_write_the_same_text(folder: Path, model: llm.Model) -> None:
    small = llm.load(folder, threads=1, context=96, cache_tokens=160)  # five pages for six sequences of two or three
    prompts = [p[:40] for p in PROMPTS]
    streams = [small.stream(p, **{**OPTIONS, "max_tokens": 40}) for p in prompts]
    while any(s.sequence.finish is None for s in streams):
        small.scheduler.step()
    assert [s.tokens for s in streams] == [tokens(model, p, max_tokens=40) for p in prompts]
    assert small.runner.pool.available == 5


def test_the_same_seed_gives_the_same_text_and_another_one_another(model: llm.Model) -> None:
    assert tokens(model, PROMPTS[1], seed=1) == tokens(model, PROMPTS[1], seed=1) != tokens(model, PROMPTS[1], seed=2)


def test_a_closed_stream_stops_and_gives_its_pages_back(model: llm.Model) -> None:
    stream = model.stream(PROMPTS[0], max_tokens=100, temperature=1.0)
    next(stream)
    stream.close()
    made = len(stream.tokens)
    assert stream.finish == "cancelled" and list(stream) == [] and made < 20 and model.scheduler.idle
    forgotten = model.stream(PROMPTS[0], max_tokens=100)
    next(forgotten)
    del forgotten
    assert model.scheduler.idle


def test_texts_end_where_they_should(model: llm.Model) -> None:
    whole = model.generate(PROMPTS[1], max_tokens=30, temperature=1.0)
    middle = whole[8:11]
    stream = model.stream(PROMPTS[1], max_tokens=30, temperature=1.0, stop=[middle, "never"])
    assert "".join(stream) == whole[: whole.index(middle)] and stream.finish == "stop"
    stream = model.stream(PROMPTS[1], max_tokens=3)
    list(stream)
    assert stream.finish == "length" and len(stream.tokens) == 3
    end = stream.tokens[1]
    sequence = model.scheduler.add_sequence(PROMPTS[1], ends=frozenset([end]), max_tokens=30)
    while sequence.finish is None:
        model.scheduler.step()
    assert sequence.finish == "stop" and sequence.made == stream.tokens[:1]


def test_a_text_never_outgrows_the_context(folder: Path) -> None:
    small = llm.load(folder, threads=1, context=32)
    stream = small.stream(PROMPTS[0], max_tokens=1000, temperature=1.0)
    list(stream)
    assert stream.finish in ("length", "stop") and len(PROMPTS[0]) + len(stream.tokens) <= 32
    with pytest.raises(InputError, match="the prompt has 40 tokens, the context is 32"):
        small.generate(PROMPTS[1])
    with pytest.raises(InputError, match="40 tokens, 1 to 32 needed"):
        small.score(PROMPTS[1])


@pytest.mark.parametrize("stop", [["b"], ["ab", "bc"], ["abcabd"], []])
def test_stop_texts_are_found_across_pieces(stop: list[str]) -> None:
    text = "xxabcabcabdyy"
    want = text[: min((text.index(s) for s in stop if s in text), default=len(text))]
    for size in (1, 2, 3, 20):
        s = StopTexts(stop)
        got = "".join(s.add(text[i : i + size]) for i in range(0, len(text), size))
        assert got + ("" if s.found else s.rest()) == want and s.found == bool(stop)


def test_scores_are_the_logarithms_that_transformers_gives(folder: Path, model: llm.Model) -> None:
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    ids = PROMPTS[3]
    with torch.no_grad():
        p = torch.log_softmax(theirs(torch.tensor([ids])).logits[0].double(), -1)
    want = p[range(len(ids) - 1), ids[1:]].numpy()
    score = model.score(ids)
    assert np.abs(score.logprobs - want).max() < 0.02 and score.total == pytest.approx(want.sum(), rel=1e-3)
    assert score.perplexity == pytest.approx(math.exp(-want.mean()), rel=1e-3)
    assert model.score("a").perplexity != model.score("a").perplexity  # one token: nothing is predicted
    assert len(model.score("hello there").logprobs) == len(model.tokenizer.encode("hello there")) - 1


def test_embeddings_have_length_one_and_differ(model: llm.Model) -> None:
    e = model.embed(["hello there", "another", "hello there"])
    assert e.shape == (3, 64) and np.allclose(np.linalg.norm(e, axis=1), 1, atol=1e-6)
    assert np.array_equal(e[0], e[2]) and e[0] @ e[1] < 0.99 and model.embed([]).shape == (0, 64)
    assert np.array_equal(model.embed("another")[0], e[1])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_network_can_only_write_what_fits_the_schema(model: llm.Model, seed: int) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}, "b": {"enum": ["x", "yy"]}},
        "required": ["name", "b"],
    }
    stream = model.stream(PROMPTS[0], schema=schema, temperature=1.0, seed=seed, max_tokens=200)
    value = json.loads("".join(stream))
    assert stream.finish == "stop" and set(value) >= {"name", "b"} and len(value["name"]) <= 5 and value["b"] in ("x", "yy")
    assert json.loads(model.generate(PROMPTS[0], schema={"type": "boolean"})) in (True, False)


def test_an_error_ends_its_own_sequence_and_no_other(model: llm.Model) -> None:
    bad = model.stream(PROMPTS[0], schema={"$ref": "#"}, max_tokens=5)  # nothing fits it
    good = model.stream(PROMPTS[0], **OPTIONS)
    assert "".join(good) == model.tokenizer.decode(tokens(model, PROMPTS[0]))
    with pytest.raises(InputError, match="no token of the vocabulary may follow here"):
        list(bad)
    assert bad.finish == "error" and model.scheduler.idle


CHAT = [{"role": "system", "content": "be short"}, {"role": "user", "content": "hello"}]


def test_a_chat_goes_through_the_template(model: llm.Model) -> None:
    text = "<|im_start|>system\nbe short<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert model.prompt(CHAT) == model.tokenizer.encode(text) and model.prompt(CHAT)[0] == 0
    assert model.chat(CHAT, max_tokens=8) == model.generate(text, max_tokens=8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.generate("a", max_tokens=0), "max_tokens=0 is not a whole number from 1 on"),
        (lambda m: m.generate([]), "the prompt has no tokens"),
        (lambda m: m.generate([VOCABULARY]), f"token {VOCABULARY} is outside a vocabulary of {VOCABULARY}"),
        (lambda m: m.generate("a", stop=[""]), "is no text, or has an empty one"),
        (lambda m: m.generate("a", temperature=-1), "temperature=-1 is not a number"),
        (lambda m: m.score([VOCABULARY]), "is outside the vocabulary"),
        (lambda m: m.chat([]), "no messages given"),
        (lambda m: m.chat([{"role": "user"}]), "message 0 is no role and content"),
    ],
)
def test_wrong_arguments_are_refused(model: llm.Model, call: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        call(model)
    assert message in str(error.value)
