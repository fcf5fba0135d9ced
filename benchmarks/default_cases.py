"""The networks of benchmarks/default.py: each with calibration data as a user has it, other data to test with, and a score.

Weights and data are fetched by name into the cache (zoo/fetch.py); none of them is part of this repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import accuracy_cases
import default_data as data
import default_scores as scores
import numpy as np
from accuracy_cases import Case, of_file, of_module
from default_scores import Results, Score
from numpy.typing import NDArray

from zoo import fetched
from zoo.fetch import debian


def answers(case: Case, name: str) -> Score:
    """The share of right answers of a case that knows them."""
    right = case.right
    assert right is not None
    return Score(name, lambda got, _: scores.share(right(got)))


# --- the networks of docs/public.md ---


def demo() -> Case:
    case = accuracy_cases.demo(debian("dataset-fashion-mnist") / "usr" / "share" / "datasets" / "fashion-mnist")
    images = np.concatenate([s["image"] for s in case.calibration])[:128]
    return replace(case, calibration=data.batches(images, 8, "image"), score=answers(case, "top-1"))


def mnist_conv() -> Case:
    case = accuracy_cases.mnist_conv(2000)
    return replace(case, score=answers(case, "top-1"))


def silero() -> Case:
    """Speech out of recordings; the points are frames on which both say speech, or both do not."""
    frames, zero, samples = 16, np.zeros((1, 1, 128), np.float32), []
    for half, count in ((0, 48), (1, 96)):
        for _, x in data.clips(count, frames * 512 + 64, half, half):
            rows = np.stack([x[i * 512 : i * 512 + 576] for i in range(frames)])
            samples.append({"input": rows, "h": zero, "c": zero})

    def of(got: Results, real: Results) -> float:
        return scores.share((scores.column(got) > 0.5) == (scores.column(real) > 0.5))

    return of_file("silero", fetched.silero(), samples, 48, score=Score("agreement", of))


# --- the second list of networks ---


def table_cls() -> Case:
    found = list(data.tables(64 + 400, 224, 1))
    samples = [{"input": data.normalized(x.mean(0, keepdims=True))[None]} for _, x in found]
    labels = np.array([0 if lined else 1 for lined, _ in found[64:]])
    return of_file("table-cls", fetched.table_cls(), samples, 64, classifier=True, score=scores.top1(labels))


def crepe(size: str, calibration: int, test: int) -> Case:
    """Batches of eight frames, each normalized as the package does it."""
    found = list(data.tones(calibration + test, 1024, 3))
    rows = np.stack([(x - x.mean()) / max(float(x.std()), 1e-10) for _, x in found]).astype(np.float32)
    pitches = np.array([pitch for pitch, _ in found])[calibration:]
    score = scores.within_cents(pitches, crepe_cents)
    return of_module(f"crepe-{size}", fetched.crepe(size), data.batches(rows, 8, "x"), calibration // 8, score=score)


def crepe_cents(y: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean of the bins around the largest, weighted by what they say: 20 cents a bin, from 1997.38 above 10 Hz."""
    bins = y.argmax(1)[:, None] + np.arange(-4, 5)
    weights = np.take_along_axis(y, np.clip(bins, 0, 359), 1) * ((bins >= 0) & (bins < 360))
    return (weights * (20.0 * bins + 1997.3794084376191)).sum(1) / weights.sum(1)


CASES: dict[str, Callable[[], Case]] = {
    "mnist-conv": mnist_conv,
    "silero": silero,
    "demo": demo,
    "table-cls": table_cls,
    "crepe-tiny": lambda: crepe("tiny", 128, 800),
}
HOLDOUT: dict[str, Callable[[], Case]] = {}
CASES |= HOLDOUT
