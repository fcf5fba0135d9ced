"""How good a network is: by the user's metric, by the labels of samples, or by the noise of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lowbit.decide.samples import Sample
from lowbit.errors import InputError
from lowbit.runtime.session import Session
from lowbit.types import Array

Metric = Callable[[Session], float]


class BadScore(InputError):
    """The metric gave no score for a network."""


def scored(metric: Callable[[Session], Any], session: Session) -> float:
    """What the metric says of a session: a finite number, or a BadScore that says what came instead."""
    try:
        given = metric(session)
    except BadScore:
        raise
    except Exception as e:
        raise BadScore(f"metric raised {type(e).__name__}: {e}", hint="metric(session) gives a number, higher is better") from e
    try:
        found = float(given)
    except (TypeError, ValueError):
        what = type(given).__name__
        raise BadScore(f"metric gave {what}, a number is needed", hint="metric(session) gives a number, higher is better") from None
    if not math.isfinite(found):
        raise BadScore(f"metric gave {found}, a finite number is needed", hint="a metric that is defined for every output")
    return found


def top1(samples: Sequence[Sample], labels: Sequence[Array]) -> Metric:
    """The share of rows whose largest output is at their label."""

    def metric(session: Session) -> float:
        right = rows = 0
        for sample, label in zip(samples, labels, strict=True):
            logits = next(iter(session.run(dict(sample)).values()))
            if logits.ndim != 2 or len(logits) != len(label):
                said = f"the first output is {list(logits.shape)} for {len(label)} labels"
                raise BadScore(f"{said}, a row of classes for each label is needed", hint="lowbit.search(metric=) takes any measure")
            wrong = label[(label < 0) | (label >= logits.shape[1])]
            if wrong.size:
                said = f"label {wrong[0]}, and the first output has the classes 0 … {logits.shape[1] - 1}"
                raise BadScore(said, hint="classes counted from 0, in the order of the outputs")
            right += int(np.count_nonzero(logits.argmax(axis=1) == label))
            rows += len(label)
        return right / rows

    return metric


def fastest(times: Mapping[int, Sequence[float]], scores: Mapping[int, float]) -> int:
    """The one with the least time, of those measured some times over; among those as fast as it was itself at its slowest, the best score.

    >>> fastest({3: [1.0, 1.1], 5: [1.05, 1.2], 6: [1.2, 1.2]}, {3: 0.90, 5: 0.92, 6: 0.95})
    5
    """
    first = min(times, key=lambda i: min(times[i]))
    equal = [i for i in times if min(times[i]) <= max(times[first])]
    return max(equal, key=lambda i: (scores[i], -min(times[i])))
