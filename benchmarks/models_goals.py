"""What lowbit wants to reach on whole networks: its time as a share of the best peer's, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Goal:
    """The best of lowbit's `variants` takes at most `share` of the time of the best peer (of `engine` alone, if given) in `against`."""

    model: str
    variants: tuple[str, ...]
    share: float
    against: str = "int8"  # or fp32
    engine: str | None = None


EITHER = ("int8", "int8-dynamic")
GOALS = (
    Goal("resnet18", ("int8",), 0.75),
    Goal("resnet50", ("int8",), 0.80),
    Goal("mobilenetv2", ("int8",), 0.85),
    Goal("dscnn", ("int8",), 0.60),
    Goal("dscnn", ("int8",), 0.80, "fp32"),
    Goal("mlp", ("int8",), 0.85),
    Goal("mlp-64", ("int8",), 0.90),
    Goal("lstm", EITHER, 0.60),
    Goal("minilm", EITHER, 0.85),
    Goal("gpt", EITHER, 0.85),
    *(Goal(m, ("w4a8",), 0.65) for m in ("minilm", "gpt", "resnet50")),
    *(Goal(m, ("fp32",), 1.2, "fp32", "ort") for m in ("resnet18", "mobilenetv2", "minilm")),
)


def reached(goal: Goal, rows: list[dict[str, Any]]) -> tuple[float, dict[str, Any], dict[str, Any]] | None:
    """The share, lowbit's row and the peer's; None where one of them was not run. Only exact rows of lowbit count."""
    mine = [r for r in rows if r["engine"] == "lowbit" and r["variant"] in goal.variants and r["exact"]]
    peers = [r for r in rows if r["engine"] != "lowbit" and (r["variant"] == "fp32") == (goal.against == "fp32")]
    peers = [r for r in peers if goal.engine in (None, r["engine"])]
    if not mine or not peers:
        return None
    best, peer = min(mine, key=lambda r: r["ms_min"]), min(peers, key=lambda r: r["ms_min"])
    return best["ms_min"] / peer["ms_min"], best, peer


def show_goals(rows: list[dict[str, Any]]) -> None:
    print(f"\n{'goal':12} {'lowbit':13} {'threads':>7} {'best peer':>19} {'share':>7} {'goal':>6}")
    for goal in GOALS:
        these = [r for r in rows if r["model"] == goal.model]
        for threads in sorted({r["threads"] for r in these}):
            found = reached(goal, [r for r in these if r["threads"] == threads])
            if found is None:
                continue
            share, mine, peer = found
            word = "reached" if share <= goal.share else "not reached"
            who = f"{peer['engine']} {peer['variant']}"
            print(f"{goal.model:12} {mine['variant']:13} {threads:7} {who:>19} {share:7.2f} {goal.share:6.2f}  {word}")
