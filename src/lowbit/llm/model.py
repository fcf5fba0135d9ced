"""A language model: load, generate, stream, chat, embed, score.

m = lowbit.llm.load("model.gguf")
m.generate("The sky is", max_tokens=32)
m.chat([{"role": "user", "content": "Why is the sky blue?"}])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.arguments import whole
from lowbit.errors import InputError, LowbitError
from lowbit.kernels import threads as threads_of
from lowbit.llm import chat as chats
from lowbit.llm.architectures import Config, config_of
from lowbit.llm.architectures.layers import CacheShape
from lowbit.llm.cache import PAGE, Pages
from lowbit.llm.runner import HEAD_ROWS, MOST_ROWS, Runner
from lowbit.llm.sampler import Sampling
from lowbit.llm.scheduler import Scheduler
from lowbit.llm.stream import Stream
from lowbit.llm.tokenizer import Tokenizer
from lowbit.llm.weights import Weights, named, open_weights
from lowbit.numerics import F32

CONTEXT = 8192  # tokens, where nothing is said and the network was trained for more
SEQUENCES = 32  # that run at once
CACHES = ("float16",)


@dataclass(frozen=True)
class Score:
    """Natural logarithms of the probability of each token after the first, given those before it.

    >>> load(path, threads=1).score([5, 6, 7]).perplexity > 1
    True
    """

    tokens: list[int]
    logprobs: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The sum of the log probabilities."""
        return float(self.logprobs.sum())

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log probability; NaN for a text of one token."""
        return math.exp(-self.total / len(self.logprobs)) if len(self.logprobs) else math.nan


class Model:
    """A network with its tokenizer and cache. Methods may be called from several threads: their steps are made together.

    >>> with load(path, threads=1).stream([5, 6, 7], max_tokens=4) as stream:
    ...     text = "".join(stream)
    >>> len(stream.tokens) <= 4
    True
    """

    def __init__(self, weights: Weights, config: Config, tokenizer: Tokenizer, runner: Runner) -> None:
        self.weights, self.config, self.tokenizer, self.runner = weights, config, tokenizer, runner
        self.scheduler = Scheduler(runner)

    @property
    def context(self) -> int:
        """Tokens of the longest text, prompt and answer."""
        return self.scheduler.context

    def __repr__(self) -> str:
        c = self.config
        return f"<lowbit.llm.Model {self.weights.name!r}: {c.architecture}, {c.layers} layers of {c.width}, context {self.context:,}>"

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> Stream:
        """The text after a prompt (a text, or token ids), in pieces as they are made.

        stop    texts that end it, and are no part of it
        schema  a JSON schema: only what fits it is written
        """
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
            raise InputError(f"max_tokens={max_tokens!r} is not a whole number from 1 on")
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        allowed = None
        if schema is not None:
            from lowbit.llm.constrained import tokens_of_schema

            allowed = tokens_of_schema(self.tokenizer, schema)
        stops = [stop] if isinstance(stop, str) else stop
        sequence = self.scheduler.add_sequence(ids, sampling=sampling, max_tokens=max_tokens, ends=self.tokenizer.ends, allowed=allowed)
        return Stream(self.scheduler, sequence, self.tokenizer, stops)

    def generate(self, prompt: str | Sequence[int], **options: Any) -> str:
        """The text after a prompt; options are those of `stream`."""
        with self.stream(prompt, **options) as stream:
            return "".join(stream)

    def prompt(self, messages: Sequence[chats.Message], **more: Any) -> list[int]:
        """The token ids of a chat, up to where the answer begins."""
        return self.tokenizer.encode(chats.render(self.tokenizer, messages, **more))

    def chat_stream(self, messages: Sequence[chats.Message], **options: Any) -> Stream:
        """The answer to a chat, in pieces; options are those of `stream`."""
        return self.stream(self.prompt(messages), **options)

    def chat(self, messages: Sequence[chats.Message], **options: Any) -> str:
        """The answer to a chat: messages of role (system, user, assistant) and content."""
        with self.chat_stream(messages, **options) as stream:
            return "".join(stream)

    def embed(self, texts: str | Sequence[str | Sequence[int]]) -> F32:
        """A vector of length 1 for each text, or token ids (texts, width): the mean of the last hidden states of its tokens."""
        rows = []
        for text in [texts] if isinstance(texts, str) else texts:
            ids = self.tokenizer.encode(text) if isinstance(text, str) else list(text)
            mean = self._hidden(ids).astype(np.float64).mean(axis=0)
            rows.append((mean / max(np.linalg.norm(mean), 1e-30)).astype(np.float32))
        return np.stack(rows) if rows else np.zeros((0, self.config.width), np.float32)

    def score(self, text: str | Sequence[int]) -> Score:
        """How likely the text's tokens are."""
        ids = self.tokenizer.encode(text) if isinstance(text, str) else list(text)
        hidden, found = self._hidden(ids), []
        for at in range(0, len(ids) - 1, HEAD_ROWS):
            part = hidden[at : min(at + HEAD_ROWS, len(ids) - 1)]
            logits = self.runner.logits(part).astype(np.float64)
            logits -= logits.max(axis=1, keepdims=True)
            picked = logits[np.arange(len(part)), ids[at + 1 : at + 1 + len(part)]]
            found.append(picked - np.log(np.exp(logits).sum(axis=1)))
        return Score(ids, np.concatenate(found) if found else np.zeros(0))

    def _hidden(self, ids: list[int]) -> F32:
        """The hidden states of all tokens (tokens, width). Nothing of the cache is reused: every row is wanted."""
        wrong = next((i for i in ids if not 0 <= i < self.config.vocabulary), None)
        if not ids or len(ids) > self.context or wrong is not None:
            what = f"token {wrong} is outside the vocabulary" if wrong is not None else f"{len(ids):,} tokens"
            raise InputError(f"{what}, 1 to {self.context:,} needed", hint="a shorter text, or load(context=…)")
        with self.scheduler.lock:
            row = self.runner.shape.sequences - 1  # the scheduler leaves it
            pages = Pages(self.runner.pool, self.runner.table, row)
            try:
                parts = []
                for at in range(0, len(ids), MOST_ROWS):
                    part = ids[at : at + MOST_ROWS]
                    pages.reserve(len(part))
                    parts.append(self.runner.hidden(part, range(at, at + len(part)), [row] * len(part)))
                    pages.wrote(part)
                return np.concatenate(parts)
            finally:
                pages.close()


def load(
    path: str | PathLike[str],
    *,
    threads: int | None = None,
    context: int | None = None,
    cache: str = "float16",
    sequences: int = SEQUENCES,
    cache_tokens: int | None = None,
) -> Model:
    """The language model of a .gguf file or of a Hugging Face folder (config.json, safetensors, tokenizer.json).

    threads       of this machine's, all of them where nothing is said
    context       tokens of the longest text; its memory is taken when it is needed
    cache         the type of keys and values that are kept
    sequences     that run at once
    cache_tokens  of all sequences together, and of beginnings that are kept for later ones: twice the context where nothing is said

    >>> model = load(path, threads=1)  # a GGUF file or a Hugging Face folder
    >>> model.context > 0
    True
    """
    if cache not in CACHES:
        raise InputError(f"cache={cache!r} is not known", hint=f"one of {', '.join(CACHES)}")
    whole("sequences", sequences, 1)
    weights = open_weights(path)
    try:
        config = config_of(weights)
        length = context if context is not None else min(config.context, CONTEXT)
        if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= config.context:
            raise InputError(f"context={length!r}: 1 to {config.context:,} tokens, for which the network was trained", hint="context=2048")
        tokenizer = weights.tokenizer()
        pages = -(-length // PAGE)
        kept = 2 * pages if cache_tokens is None else -(-whole("cache_tokens", cache_tokens, length) // PAGE)
        runner = Runner(config, weights, CacheShape(kept, sequences + 1, pages), threads_of.count(threads))
    except LowbitError as e:
        raise named(e, weights) from None
    return Model(weights, config, tokenizer, runner)
