"""Scores of the networks in default_cases.py: from outputs on the test set to points in 0 … 100, larger is better; and decibels.

A score with labels compares with them; one without compares with the float network's outputs, which have 100 points by definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = list[Array]  # of one sample, in the order of the network's outputs
Results = list[Outputs]


def everything(outputs: Outputs) -> Outputs:
    return outputs


@dataclass(frozen=True)
class Score:
    """`of` maps the results and the float network's results to points. `keep` reduces large outputs sample by sample, before `of`."""

    name: str
    of: Callable[[Results, Results], float]
    keep: Callable[[Outputs], Outputs] = everything


def column(results: Results, output: int = 0) -> Array:
    """One output of all samples, joined along the batch."""
    return np.concatenate([r[output] for r in results])


def share(right: Array) -> float:
    return 100 * float(np.mean(right))


def top1(labels: Array) -> Score:
    """How often the largest logit is at the label; the logits may have any leading axes."""
    return Score("top-1", lambda got, _: share(column(got).reshape(-1) == labels.reshape(-1)), largest)


def largest(outputs: Outputs) -> Outputs:
    """The class of the largest logit of the first output."""
    return [outputs[0].argmax(-1)]


def agreement() -> Score:
    """How often the largest logit is where the float network has it."""
    return Score("agreement", lambda got, real: share(column(got) == column(real)), largest)


def lines_read(characters: Sequence[str], texts: Sequence[str]) -> Score:
    """Lines that are read without a wrong letter, spaces apart: the likeliest class of each column, repeats once, without blanks."""

    def of(got: Results, _: Results) -> float:
        read = [ctc_text(row, characters) for row in column(got)]
        return share(np.array([a.replace(" ", "") == b.replace(" ", "") for a, b in zip(read, texts, strict=True)]))

    return Score("lines read", of, largest)


def lines_agree() -> Score:
    """Lines that are read as the float network reads them."""

    def of(got: Results, real: Results) -> float:
        return share(np.array([ctc(a) == ctc(b) for a, b in zip(column(got), column(real), strict=True)]))

    return Score("lines agree", of, largest)


def ctc(classes: Array) -> list[int]:
    """Classes by columns -> the text's: repeats once, then without the blank (class 0)."""
    first = np.concatenate([[True], classes[1:] != classes[:-1]]) & (classes > 0)
    return [int(k) for k in classes[first]]


def ctc_text(classes: Array, characters: Sequence[str]) -> str:
    return "".join(characters[k - 1] for k in ctc(classes))


def above(threshold: float, name: str, outputs: Sequence[int] = (0,)) -> Score:
    """F1 of the elements above the threshold against the float network's: 2·both ÷ (ours + theirs)."""

    def of(got: Results, real: Results) -> float:
        a, b = (np.concatenate([r[k].reshape(-1) for r in rows for k in range(len(outputs))]) for rows in (got, real))
        return 100 * f1(int(np.sum(a & b)), int(a.sum()), int(b.sum()))

    return Score(name, of, lambda found: [found[k] > threshold for k in outputs])


def f1(both: int, mine: int, theirs: int) -> float:
    """2·both ÷ (mine + theirs); 1 where neither has any."""
    return 2 * both / (mine + theirs) if mine + theirs else 1.0


def boxes_matched(least: float = 0.25, overlap: float = 0.9, suppress: float = 0.45) -> Score:
    """F1 of YOLOv8's boxes against the float network's: of the same class, overlapping by at least `overlap`."""

    def of(got: Results, real: Results) -> float:
        both = mine = theirs = 0
        for a, b in zip(got, real, strict=True):
            for rows in zip(a[0], b[0], strict=True):
                ours, floats = (suppressed(boxes(r, least), suppress) for r in rows)
                both += matched(ours, floats, overlap)
                mine, theirs = mine + len(ours), theirs + len(floats)
        return 100 * f1(both, mine, theirs)

    return Score("boxes matched", of)


def boxes(output: Array, least: float) -> Array:
    """YOLOv8's (4 + classes, N) -> (K, 6): left, top, right, bottom, confidence, class; the most confident first."""
    confidence, kind = output[4:].max(0), output[4:].argmax(0)
    order = np.argsort(-confidence, kind="stable")
    order = order[confidence[order] > least]
    x, y, w, h = output[:4, order]
    return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2, confidence[order], kind[order]], 1)


def iou(a: Array, b: Array) -> Array:
    """(K, M) intersections over unions of two lists of boxes."""
    least, most = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:4], b[None, :, 2:4])
    both = np.prod(np.clip(most - least, 0, None), -1)
    sizes = [np.prod(x[:, 2:4] - x[:, :2], -1) for x in (a, b)]
    return both / np.maximum(sizes[0][:, None] + sizes[1][None] - both, 1e-9)


def suppressed(found: Array, overlap: float) -> Array:
    """The boxes without those that overlap a more confident one of their class."""
    same = (iou(found, found) > overlap) & (found[:, None, 5] == found[None, :, 5])
    kept: list[int] = []
    for i in range(len(found)):
        if not same[i, kept].any():
            kept.append(i)
    return found[kept]


def matched(a: Array, b: Array, overlap: float) -> int:
    """How many boxes of `a` have a box of `b` to themselves."""
    near = iou(a, b) * (a[:, None, 5] == b[None, :, 5])
    count = 0
    for row in near:
        at = int(row.argmax()) if row.size else 0
        if row.size and row[at] >= overlap:
            near[:, at] = 0  # taken; rows are views of it
            count += 1
    return count


def neighbours(labels: Array, gallery: int, k: int = 5) -> Score:
    """k nearest neighbours by cosine: the first `gallery` rows are known, the others get the label of most of their neighbours."""

    def of(got: Results, _: Results) -> float:
        x = column(got).reshape(len(labels), -1).astype(np.float64)
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        near = np.argsort(-(x[gallery:] @ x[:gallery].T), 1, kind="stable")[:, :k]
        votes = [np.bincount(labels[:gallery][row], minlength=int(labels.max()) + 1).argmax() for row in near]
        return share(np.array(votes) == labels[gallery:])

    return Score(f"{k}-NN", of)


def cosine(axes: int = 1, output: int = 0) -> Score:
    """The mean cosine between an output's vectors (its last `axes` axes) and the float network's."""

    def of(got: Results, real: Results) -> float:
        a, b = (column(rows).astype(np.float64) for rows in (got, real))
        a, b = (x.reshape(-1, int(np.prod(x.shape[x.ndim - axes :]))) for x in (a, b))
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        kept = lengths > 0
        return 100 * float(np.mean(np.sum(a[kept] * b[kept], 1) / lengths[kept]))

    return Score("cosine", of, lambda outputs: [outputs[output]])


def within_cents(pitches: Array, cents: Callable[[Array], Array], least: float = 50) -> Score:
    """Pitches (Hz) that are found within 50 cents; `cents` maps an output to cents above 10 Hz."""

    def of(got: Results, _: Results) -> float:
        return share(np.abs(cents(column(got)) - 1200 * np.log2(pitches / 10)) <= least)

    return Score(f"within {least:.0f} cents", of)


# --- decibels ---

MOST = 200.0  # decibels: JSON has no infinity
TENTH = 10  # per cent of the rows that may have fewer decibels than what is reported as those of the worst tenth


class Noise:
    """Decibels of every float output against a reference, over all rows together and by rows."""

    def __init__(self) -> None:
        self.rows: list[list[tuple[float, float]]] = []  # by row, by output: signal and noise

    def add(self, real: Outputs, got: Outputs, rows: int) -> None:
        """A sample of `rows` rows; outputs that do not have as many count as one row."""
        pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(real, got, strict=True) if a.dtype.kind == "f"]
        parts = rows if all(a.shape[:1] == (rows,) for a, _ in pairs) else 1
        split = [(a.reshape(parts, -1), b.reshape(parts, -1)) for a, b in pairs]
        each = [(np.sum(a * a, 1), np.sum((a - b) ** 2, 1)) for a, b in split]
        self.rows += [[(float(signal[i]), float(noise[i])) for signal, noise in each] for i in range(parts)]

    def pooled(self) -> float:
        """Of the worst output."""
        sums = np.sum(np.array(self.rows), 0)
        return min(decibels(signal, noise) for signal, noise in sums)

    def worst_tenth(self) -> float:
        """What nine tenths of the rows reach, each in its worst output."""
        each = [min(decibels(signal, noise) for signal, noise in row) for row in self.rows]
        return float(np.sort(each)[len(each) * TENTH // 100])


def decibels(signal: float, noise: float) -> float:
    """10·log10(signal ÷ noise), cut at ±200."""
    if not np.isfinite(noise):
        return -MOST
    return float(np.clip(10 * np.log10(max(signal, 1e-30) / max(noise, 1e-30)), -MOST, MOST))


def said_decibels(notes: Mapping[str, str]) -> float | None:
    """The decibels of the outputs that `quantize` reports; None where it has not measured them."""
    found = re.search(r"(-?[\d.]+|inf) dB, worst tenth", notes.get("decided", ""))
    return None if found is None else min(float(found.group(1)), MOST)
