"""The page that default.py writes: tables of its rows, and which of the criteria hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
REASONS = Path(__file__).with_name("default_reasons.md")  # why criteria are not reached, written by hand; the page ends with it
KEEPS = 0.5  # points that a network may lose and still keep its score
W4A8_KEEPS = 1.0
TIME, MOST_TIME, MOST_OF_OWN = 0.45, 0.75, 0.9  # shares of ONNX Runtime's fp32, and of lowbit's
INTEGERS = 0.95
APART = 3.0  # dB between what quantize reports and what the test set gives
SECONDS, FEW_SECONDS, SHORT = 60.0, 10.0, 10.0  # to quantize; fewer for networks of a run shorter than 10 ms

HEAD = """# Defaults

What `lowbit.quantize(graph, calibration)` makes by itself of every public network, beside ONNX Runtime. Made by
`python benchmarks/default.py --page docs/defaults.md` (and `--recipe w4a8`). Times are of one thread, all ways in turns in one process, the
least of all runs in milliseconds (CPU time of runs that take more than 0.5 ms). Data to test with is not used to quantize. ONNX Runtime's
int8 is the fastest of its settings that loses at most 0.5 points: static by channel (u8s8, u8u8, s8s8) with the same calibration data, and
dynamic. Where none does, the one with most points stands in brackets. *dB* are of the outputs on the test set, before a final softmax or
sigmoid: the mean of the rows, of their worst tenth, and as `quantize` reported the mean. Seconds are of one CPU. Scores without labels
compare with the float network's answers.
"""
COLUMNS = (
    "network", "score", "float", "lowbit", "ONNX Runtime", "dB", "worst tenth", "reported", "ms", "fp32", "ONNX Runtime fp32",
    "ONNX Runtime int8", "÷ ONNX Runtime fp32", "÷ own fp32", "integers", "MB", "of float", "seconds",
)  # fmt: skip


def settings(row: Row) -> dict[str, Row]:
    """ONNX Runtime's quantized networks that run."""
    return {k.removeprefix("ort "): w for k, w in row["ways"].items() if k.startswith("ort ") and k != "ort fp32" and "ms" in w}


def best_setting(row: Row) -> tuple[str, Row, bool] | None:
    """The fastest setting that keeps the score, and True; else the one with most points, and False."""
    found = settings(row)
    keeping = {k: w for k, w in found.items() if w["score"] >= row["ways"]["ort fp32"]["score"] - KEEPS}
    if keeping:
        name = min(keeping, key=lambda k: keeping[k]["ms"])
        return name, keeping[name], True
    if found:
        name = max(found, key=lambda k: found[k]["score"])
        return name, found[name], False
    return None


def line(row: Row) -> str:
    """A network's row of the table."""
    if "error" in row:
        return f"| {row['model']} | {row['error'].replace('|', '/')} |" + " |" * (len(COLUMNS) - 2)
    ways, best = row["ways"], best_setting(row)
    mine, own, theirs = ways["lowbit"], ways["lowbit fp32"], ways["ort fp32"]
    peer = ("–", "–") if best is None else (f"{best[1]['score']:.1f}", f"{best[1]['ms']:.3g} {best[0]}")
    peer = peer if best is None or best[2] else (f"({peer[0]})", f"({peer[1]})")
    cells = [
        row["model"], row["metric"], f"{theirs['score']:.1f}", f"{mine['score']:.1f}", peer[0], f"{mine['db']:.1f}",
        f"{mine['db_worst_tenth']:.1f}", "–" if row["said_db"] is None else f"{row['said_db']:.1f}", f"{mine['ms']:.3g}",
        f"{own['ms']:.3g}", f"{theirs['ms']:.3g}", peer[1], f"{mine['ms'] / theirs['ms']:.2f}", f"{mine['ms'] / own['ms']:.2f}",
        f"{row['integer_macs']:.1%}", f"{mine['bytes'] / 1e6:.3g}", f"{mine['bytes'] / own['bytes']:.2f}", f"{row['seconds']:.1f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table(rows: Sequence[Row]) -> list[str]:
    return ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *map(line, rows)]


def page(rows: Sequence[Row], machine: dict[str, str]) -> str:
    """The document: a table for each recipe, one for the networks held out, and the criteria."""
    lines = [HEAD, f"{machine['cpu']}; ONNX Runtime {machine['onnxruntime']}."]
    for recipe in sorted({r["recipe"] for r in rows}):
        these = [r for r in rows if r["recipe"] == recipe]
        lines += [f"\n## {recipe}\n", *table([r for r in these if not r["holdout"]])]
        if aside := [r for r in these if r["holdout"]]:
            lines += [f"\n## {recipe}: networks held out\n", "Nothing in lowbit was tuned with these.\n", *table(aside)]
    text = "\n".join([*lines, "\n## Criteria\n", *(f"- {text}" for text in criteria(rows))]) + "\n"
    return f"{text}\n{REASONS.read_text()}" if REASONS.is_file() else text


def criteria(rows: Sequence[Row]) -> list[str]:
    """A line for each criterion: OK or NO, what was found, and the networks that miss it."""
    lines = []
    for group, held in (("", False), (" (held out)", True)):
        these = [r for r in rows if bool(r["holdout"]) == held]
        int8 = [r for r in these if r["recipe"] == "int8" and "error" not in r]
        failed = [r["model"] for r in these if "error" in r]
        if failed:
            lines.append(f"NO  every network runs{group}: {', '.join(failed)} failed")
        if int8:
            lines += [text.replace(":", f"{group}:", 1) for text in of_int8(int8)]
        w4a8 = [r for r in these if r["recipe"] == "w4a8" and r.get("classifier") and "error" not in r]
        if w4a8:
            pairs = [
                (of_own(r), of_own(o))
                for r in these
                for o in int8
                if r["recipe"] == "w4a8" and "error" not in r and r["model"] == o["model"]
            ]
            if pairs:
                mean = float(np.exp(np.mean([np.log(a / b) for a, b in pairs])))
                lines.append(f"{word(mean < 1)}  w4a8 ÷ int8 in time, geometric mean < 1{group}: {mean:.2f} of {len(pairs)} networks")
            worst = [(points_lost(r), r["model"]) for r in w4a8]
            lines.append(verdict(f"w4a8 within {W4A8_KEEPS} point on every classifier{group}", worst, lambda x: x <= W4A8_KEEPS, ".2f"))
    return lines


def of_int8(rows: Sequence[Row]) -> list[str]:
    times = [(r["ways"]["lowbit"]["ms"] / r["ways"]["ort fp32"]["ms"], r["model"]) for r in rows]
    own = [(r["ways"]["lowbit"]["ms"] / r["ways"]["lowbit fp32"]["ms"], r["model"]) for r in rows]
    mean = float(np.exp(np.mean(np.log([t for t, _ in times]))))
    integers = float(np.mean([r["integer_macs"] for r in rows]))
    below = [(max((w["score"] for w in settings(r).values()), default=0.0) - r["ways"]["lowbit"]["score"], r["model"]) for r in rows]
    apart = [(abs(r["said_db"] - r["ways"]["lowbit"]["db"]) if r["said_db"] is not None else np.inf, r["model"]) for r in rows]
    short = [(r["seconds"], r["model"]) for r in rows if r["ways"]["lowbit fp32"]["ms"] < SHORT]
    native = [r["model"] for r in rows if set(r["native"].values()) != {"native"}]
    return [
        f"{word(mean <= TIME)}  int8 ÷ ONNX Runtime fp32, geometric mean ≤ {TIME}: {mean:.3f} of {len(rows)} networks",
        verdict(f"int8 ÷ ONNX Runtime fp32, none above {MOST_TIME}", times, lambda x: x <= MOST_TIME, ".2f"),
        verdict(f"int8 ÷ own fp32, none above {MOST_OF_OWN}", own, lambda x: x <= MOST_OF_OWN, ".2f"),
        verdict(f"points lost ≤ {KEEPS}", [(points_lost(r), r["model"]) for r in rows], lambda x: x <= KEEPS, ".2f"),
        verdict("points never below ONNX Runtime's best setting", below, lambda x: x <= 1e-9, "+.2f"),
        f"{word(integers >= INTEGERS)}  multiplications on integers ≥ {INTEGERS:.0%} on average: {integers:.1%}",
        verdict(f"reported dB within {APART:.0f} of the test set's", apart, lambda x: x <= APART, ".1f"),
        verdict(f"quantize ≤ {SECONDS:.0f} s", [(r["seconds"], r["model"]) for r in rows], lambda x: x <= SECONDS, ".0f"),
        verdict(f"quantize ≤ {FEW_SECONDS:.0f} s where a run takes less than {SHORT:.0f} ms", short, lambda x: x <= FEW_SECONDS, ".0f"),
        f"{word(not native)}  all layers have native kernels: {', '.join(native) or 'every network'}",
    ]


def of_own(row: Row) -> float:
    """The network's time ÷ that of its float form, measured in turns."""
    return float(row["ways"]["lowbit"]["ms"] / row["ways"]["lowbit fp32"]["ms"])


def points_lost(row: Row) -> float:
    return float(row["ways"]["ort fp32"]["score"] - row["ways"]["lowbit"]["score"])


def word(holds: bool) -> str:
    return "OK" if holds else "NO"


def verdict(what: str, found: Sequence[tuple[float, str]], holds: Callable[[float], bool], form: str) -> str:
    """OK with the largest number, or NO with all networks that miss it."""
    missed = [(x, name) for x, name in found if not holds(x)]
    shown = sorted(missed, reverse=True) if missed else sorted(found, reverse=True)[:1]
    return f"{word(not missed)}  {what}: " + (", ".join(f"{name} {x:{form}}" for x, name in shown) or "no network")
