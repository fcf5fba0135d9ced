"""Language modelling on token streams: batches, a softmax over a sample of the vocabulary, perplexity in windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW = 256  # tokens that a model reads from a fresh start when it is scored


def streams(tokens: Tensor, batch: int, length: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(batch, length) ids and the ids that follow them; row i of one step goes on in row i of the next. `skip` shifts the whole text."""
    tokens = tokens[skip:]
    columns = (len(tokens) - 1) // batch
    x, y = (tokens[i : i + batch * columns].view(batch, columns) for i in (0, 1))
    for at in range(0, columns - length + 1, length):
        yield x[:, at : at + length], y[:, at : at + length]


def windows(tokens: Tensor, batch: int, length: int = WINDOW) -> Iterator[tuple[Tensor, Tensor]]:
    """The text cut into pieces of `length`, each read on its own, `batch` at a time; the rest that fills no piece is left out."""
    count = (len(tokens) - 1) // length
    x, y = (tokens[i : i + count * length].view(count, length) for i in (0, 1))
    yield from zip(x.split(batch), y.split(batch))


@torch.no_grad()
def perplexity(logits: Callable[[Tensor], Tensor], tokens: Tensor, batch: int = 8, length: int = WINDOW) -> float:
    """exp of the mean negative log likelihood of a token of the text, given those before it in its window."""
    total, count = 0.0, 0
    for x, y in windows(tokens, batch, length):
        total += float(F.cross_entropy(logits(x).flatten(0, 1), y.flatten(), reduction="sum"))
        count += y.numel()
    return math.exp(total / count)


class SampledSoftmax:
    """Cross-entropy whose normalizer is estimated without bias from a part of the vocabulary: word i takes part with probability p_i
    and then counts 1 / p_i times. Frequent words always take part. Ids must fall in frequency."""

    def __init__(self, counts: Tensor, expected: int) -> None:
        low, high = 0.0, float(expected)
        for _ in range(60):  # the factor c with sum(min(1, c sqrt(count))) = expected
            c = (low + high) / 2
            if float((c * counts.sqrt()).clamp(max=1).sum()) > expected:
                high = c
            else:
                low = c
        self.keep = (low * counts.sqrt()).clamp(1e-6, 1)

    def __call__(self, h: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, generator: torch.Generator) -> Tensor:
        """h (N, width), target (N) -> the mean loss."""
        part = (torch.rand(len(self.keep), generator=generator) < self.keep).nonzero()[:, 0]
        logits = h @ weight[part].T - self.keep[part].log()
        right = (h * weight[target]).sum(1)
        if bias is not None:
            logits, right = logits + bias[part], right + bias[target]
        logits = logits.masked_fill(part[None, :] == target[:, None], -torch.inf)
        return (torch.cat([right[:, None], logits], 1).logsumexp(1) - right).mean()
