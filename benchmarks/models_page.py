"""A page of what models.py measured on one machine: `python benchmarks/models_page.py run.json [more.json …] > docs/speed.md`.

docs/speed.md is of a CPU with AVX2, docs/speed-avx512.md of one with AVX-512-VNNI, docs/speed-only-avx2.md of the latter with all engines
on AVX2 (only_avx2.py). results/ keeps the run behind the last of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from models_goals import GOALS, reached

Row = dict[str, Any]
LABELS = {
    "resnet18": "ResNet-18, 224²",
    "resnet50": "ResNet-50, 224²",
    "mobilenetv2": "MobileNetV2, 224²",
    "dscnn": "DS-CNN, 49×10",
    "mlp": "MLP 784-512-512-10, batch 1",
    "mlp-64": "MLP, batch 64",
    "lstm": "LSTM, 2×512, 35 steps",
    "minilm": "MiniLM-L6, 128 tokens",
    "gpt": "GPT 6×512, 128 tokens",
}
WAYS = ("int8", "int8-dynamic", "w4a8", "fp32")
RATIO = "lowbit ÷ it"
COLUMNS = (
    "network",
    *(f"lowbit {w}" for w in WAYS),
    "fastest int8 peer",
    "right",
    RATIO,
    "fastest right one",
    RATIO,
    "fastest fp32",
    RATIO,
)
TITLES = {"avx2": "Speed on the CPU", "avx512vnni": "Speed on a CPU with AVX-512-VNNI", "only avx2": "Speed on an Intel CPU by AVX2 alone"}
PAGES = {
    "avx2": "[AMD, AVX2](speed.md)",
    "only avx2": "[Intel, AVX2 alone](speed-only-avx2.md)",
    "avx512vnni": "[Intel, AVX-512-VNNI](speed-avx512.md)",
}
HEAD = """
Made by `python benchmarks/models.py --threads 1,2 --json run.json` and `python benchmarks/models_page.py run.json`. Whole networks at
batch 1 (where no other is named), every engine in turns in one process pinned to as many CPUs as it has threads, the least time of all
runs. Peers quantize the network with their own tools and the fastest of their settings stands here; *right* says whether what it computes
is what its own file says (no more than 1 dB lost; u8×s8 products saturate on AVX2). lowbit's integers are the interpreter's bit for bit;
its floats (fp32, and what stands between integers in the dynamic transformers) are held to what peers are. Times are of one machine: what
counts is the ratio. Single layers stand in [kernels.md](kernels.md).
"""

AVX2 = """
Ratios move by a few hundredths from run to run, as hosts share their cores: ResNet-50 on two threads takes 0.76 to 0.80, the LSTM 0.74 to
0.79 on one and 0.62 to 0.75 on two. By `session.profile`, the LSTM has half of its time in a head of 10,000 words (near, at 100 to 109
GMAC/s of the 111 that its chain has in registers), the rest in input products and in a recurrence that reads 1 MB of weights at each of 70
steps (63 GMAC/s, what the second-level cache gives to plain loads); 0.60 would take 112 GMAC/s over all. DS-CNN has 60 % of its time in 1×1
layers of 64 channels, two thirds of whose cycles are products at the peak of the multipliers.
"""
AVX512 = """
The goals are those that were set for CPUs with AVX2. Ratios move by up to a tenth from run to run on this host (on one thread: ResNet-18
0.81 to 0.94, ResNet-50 0.86 to 0.93, the LSTM 0.57 to 0.64). By `session.profile`, ResNet-50's products run at 85 to 100 % of the peak of
vpdpbusd, which its peers have, too: Winograd on large images (1.2 of that peak), residual sums (6 % of the time) and layers of 64 channels
(75 %) are what is left. Weights of four bits have no faster multiplication here: with many rows they are multiplied as bytes, with the
same bits, and are faster only where few rows wait for weights from memory. Of the MLP's 6.5 µs 1 is the call from Python.
"""
ONLY_AVX2 = """
This is a CPU with AVX-512-VNNI whose CPUID named nothing beyond AVX2, to every engine (`python benchmarks/only_avx2.py
benchmarks/models.py --threads 1,2 --json run.json`). From run to run, on one and on two threads, ResNet-50 takes 0.76 to 0.79 and 0.78 to
0.81, in w4a8 0.65 to 0.68 and 0.61 to 0.69, the batch of 64 0.89 to 0.90 and 0.68 to 0.85, the LSTM 0.70 to 0.75 and 0.65 to 0.72. By
`session.profile`, the LSTM's head runs at 106 GMAC/s of the 107 that the chain named near has in registers, the products of its inputs at
102 and its recurrence at 74. All 326 million at that peak would take 3.05 ms, 0.63 of ONNX Runtime's time, before any gate.
"""
FEET = {"avx2": AVX2, "avx512vnni": AVX512, "only avx2": ONLY_AVX2}


def least(rows: list[Row], *, right: bool = False) -> Row | None:
    return min((r for r in rows if r["exact"] or not right), key=lambda r: float(r["ms_min"]), default=None)


def cell(row: Row | None, named: bool = False) -> str:
    if row is None:
        return "–"
    name = f" {row['engine']} {row['variant']}" if named else " **wrong**" if not row["exact"] else ""
    return f"{row['ms_min']:.3g}{name}"


def share(mine: Row | None, peer: Row | None) -> str:
    return "–" if mine is None or peer is None else f"{mine['ms_min'] / peer['ms_min']:.2f}"


def table(rows: list[Row], threads: int) -> list[str]:
    """One line for each network: lowbit's ways in milliseconds, the best peers, and the ratios of the faster int8 to them."""
    lines = [
        f"\n## {threads} thread{'s' if threads > 1 else ''}\n",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for model in dict.fromkeys(r["model"] for r in rows):
        these = [r for r in rows if r["model"] == model and r["threads"] == threads]
        mine = {r["variant"]: r for r in these if r["engine"] == "lowbit"}
        peers = [r for r in these if r["engine"] != "lowbit"]
        few, floats = [r for r in peers if r["variant"] != "fp32"], [r for r in peers if r["variant"] == "fp32"]
        best, right, real = least(few), least(few, right=True), least(floats)
        ours = least([mine[v] for v in ("int8", "int8-dynamic") if v in mine])
        word = "–" if best is None else {True: "yes", False: "no", None: "?"}[best["exact"]]
        columns = [cell(mine.get(w)) for w in WAYS]
        columns += [cell(best, True), word, share(ours, best), cell(right, True), share(ours, right), cell(real, True), share(ours, real)]
        lines.append(f"| {LABELS.get(model, model)} | " + " | ".join(columns) + " |")
    return lines


def goals(rows: list[Row]) -> list[str]:
    """What was aimed at, and what came of it."""
    counts = sorted({r["threads"] for r in rows})
    lines = ["\n## Goals\n", "| network | variant | goal | " + " | ".join(f"{t} thread{'s' if t > 1 else ''}" for t in counts) + " |"]
    lines.append("|---|---|---|" + "---|" * len(counts))
    for goal in GOALS:
        found = [reached(goal, [r for r in rows if r["model"] == goal.model and r["threads"] == t]) for t in counts]
        if any(found):
            what = "fp32" if goal.variants == ("fp32",) else "w4a8" if goal.variants == ("w4a8",) else "int8"
            against = f"{goal.engine or 'best'} {goal.against}"
            cells = ["–" if f is None else f"{f[0]:.2f}" if f[0] <= goal.share else f"**{f[0]:.2f}**, not reached" for f in found]
            lines.append(f"| {LABELS.get(goal.model, goal.model)} | {what} | ≤ {goal.share} of {against} | " + " | ".join(cells) + " |")
    return lines


def page(files: list[dict[str, Any]]) -> str:
    """The document; a later file's rows stand for an earlier one's of the same network and number of threads."""
    rows: list[Row] = []
    for file in files:
        new = {(r["model"], r["threads"]) for r in file["rows"]}
        rows = [r for r in rows if (r["model"], r["threads"]) not in new] + file["rows"]
    rows.sort(key=lambda r: list(LABELS).index(r["model"]) if r["model"] in LABELS else len(LABELS))
    machine = files[-1]["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in machine["peers"].items())
    kind = f"only {machine['only']}" if machine.get("only") else machine["isa"]
    head = f"# {TITLES.get(kind, f'Speed on a CPU with {kind}')}\n{HEAD}"
    lines = [
        head,
        f"Other CPUs: {', '.join(text for name, text in PAGES.items() if name != kind)}.\n",
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['isa']}; {peers}. Milliseconds.",
    ]
    for threads in sorted({r["threads"] for r in rows}):
        lines += table(rows, threads)
    return "\n".join([*lines, *goals(rows)]) + "\n" + FEET.get(kind, "")


if __name__ == "__main__":
    print(page([json.loads(Path(name).read_text()) for name in sys.argv[1:]]), end="")
