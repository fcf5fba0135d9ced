"""Writes the results in README.md and docs/index.md from the measurements: `make docs`. Tests keep them fresh."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from pages import between

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from default_page import KEEPS, best_setting, points_lost  # noqa: E402

PAGE = ROOT / "README.md"
SITE = ROOT / "docs" / "index.md"
MEASURED = ROOT / "benchmarks" / "results" / "default.json"  # docs/defaults.md is made of it
BEGIN, END = "<!-- results: made by `make docs` -->\n", "<!-- end of results -->\n"
CLAIM, END_OF_CLAIM = "<!-- claim: made by `make docs` -->\n", "<!-- end of claim -->\n"

# The networks of README.md, by their names in the pages: some of each kind, and one where ONNX Runtime has the better score.
DEFAULTS = {
    "resnet9-cifar10": "ResNet-9, CIFAR-10",
    "lstm-ptb": "LSTM, Penn Treebank",
    "transformer-ptb": "transformer, Penn Treebank",
    "silero": "Silero, voice detection",
    "magika": "Magika, file types",
}
SPEED = {"ResNet-50, 224²": "ResNet-50", "MobileNetV2, 224²": "MobileNetV2", "MiniLM-L6, 128 tokens": "MiniLM-L6"}
CPUS = {"speed.md": "AMD, AVX2", "speed-avx512.md": "Intel, AVX-512"}
CHIPS = {"DS-CNN, keyword spotting, 49 x 10": "DS-CNN, keywords", "ResNet-8, image classification, 32 x 32 x 3": "ResNet-8, images"}


def rows(page: str, heading: str) -> dict[str, dict[str, str]]:
    """The rows of a page's tables after a heading, by their first cell. A column that occurs twice keeps its first value."""
    found: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in (ROOT / "docs" / page).read_text().partition(heading)[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif not set(line) <= set("|-: "):
            row = {name: cell for name, cell in reversed(list(zip(header, cells)))}
            found.setdefault(cells[0], row)
    return found


def table() -> str:
    """The whole table. A network that a page has not is an error (KeyError): the page and this file are changed together."""
    lines = ["| network | lowbit int8, ms (score) | others, ms (score) | page |", "|---|---|---|---|"]
    measured = {r["model"]: r for r in defaults()}
    for name, title in DEFAULTS.items():
        mine, real, best = measured[name]["ways"]["lowbit"], measured[name]["ways"]["ort fp32"], best_setting(measured[name])
        lost = "" if best is None or best[2] else ": too low"
        int8 = "" if best is None else f"{best[1]['ms']:.3g} ort int8 ({best[1]['score']:.1f}{lost}), "
        others = f"{int8}{real['ms']:.3g} ort fp32 ({real['score']:.1f})"
        score = measured[name]["metric"]
        lines.append(f"| {title}: {score} | {mine['ms']:.3g} ({mine['score']:.1f}) | {others} | [defaults](docs/defaults.md) |")
    for file, cpu in CPUS.items():
        page = rows(file, "## 1 thread")
        for name, title in SPEED.items():
            r = page[name]
            wrong = " (answers off)" if r["right"] == "no" else ""
            other = f"{r['fastest int8 peer']}{wrong}, {r['fastest fp32']}"
            lines.append(f"| {title} | {r['lowbit int8']} | {other} | [{cpu}](docs/{file}) |")
    page = rows("tiny.md", "## Memory")
    for name, title in CHIPS.items():
        ram, arena = page[name]["RAM"], page[name]["TFLM's arena"]
        lines.append(f"| {title} | {ram} bytes of RAM | TensorFlow Lite Micro: {arena} | [Cortex-M](docs/tiny.md) |")
    return "\n".join(lines) + "\n"


def defaults() -> list[dict[str, Any]]:
    """The int8 rows of docs/defaults.md."""
    return [r for r in json.loads(MEASURED.read_text())["rows"] if r["recipe"] == "int8" and not r["plain"] and "error" not in r]


def claim() -> str:
    """The sentences that sum up docs/defaults.md."""
    found = defaults()
    of_float = [r["ways"]["lowbit"]["ms"] / r["ways"]["ort fp32"]["ms"] for r in found]
    best = [(r, b) for r in found if (b := best_setting(r)) is not None and b[2]]
    of_int8 = [r["ways"]["lowbit"]["ms"] / b[1]["ms"] for r, b in best]
    kept = sum(points_lost(r) <= KEEPS + 1e-9 for r in found)
    return (
        f"- **Fast and small.** On the {len(found)} networks of [docs/defaults.md](docs/defaults.md), int8 takes {spread(of_float)}\n"
        f"  of the time of ONNX Runtime's fp32, and loses at most half a point on {kept}. ONNX Runtime's own int8 does so on\n"
        f"  {len(best)}; there, lowbit takes {spread(of_int8)} of its time. The generated C needs no malloc.\n"
    )


def before_and_after() -> str:
    """One network of the site's first page: in float, by lowbit, by ONNX Runtime's best int8."""
    row = next(r for r in defaults() if r["model"] == "resnet9-cifar10")
    ways, best = row["ways"], best_setting(row)
    assert best is not None
    found = [ways["lowbit fp32"], ways["lowbit"], best[1]]
    lines = ["| ResNet-9, CIFAR-10 | float | lowbit int8 | ONNX Runtime int8 |", "|---|---|---|---|"]
    lines.append("| top-1 | " + " | ".join(f"{w['score']:.1f} %" for w in found) + " |")
    lines.append("| milliseconds a batch | " + " | ".join(f"{w['ms']:.3g}" for w in found) + " |")
    lines.append("| MB | " + " | ".join(f"{w['bytes'] / 1e6:.3g}" for w in found) + " |")
    return "\n".join(lines) + "\n"


def site() -> str:
    """docs/index.md with the results as they are now."""
    return between(SITE.read_text(), BEGIN, END, before_and_after())


def spread(ratios: list[float]) -> str:
    """0.08 to 0.95 (geometric mean 0.37)."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{min(ratios):.2f} to {max(ratios):.2f} (geometric mean {mean:.2f})"


def page() -> str:
    """README.md with the results as they are now."""
    return between(between(PAGE.read_text(), CLAIM, END_OF_CLAIM, claim()), BEGIN, END, table())


if __name__ == "__main__":
    PAGE.write_text(page())
    SITE.write_text(site())
