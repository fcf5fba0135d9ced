"""Whole networks against other engines, interleaved in one process: milliseconds, the ratio to each peer, and who computes what it says.

    python benchmarks/models.py                                     every network, one thread
    python benchmarks/models.py --models dscnn mlp --threads 1,2 --json out.json
    python benchmarks/models.py --models resnet18 --variants int8 --against ort --rounds 40
    python benchmarks/only_avx2.py benchmarks/models.py             as on a CPU that has AVX2 and nothing beyond it

Networks are those of zoo/ in full size with seeded weights. lowbit: int8 (static, every layer; --guard lets the guard mend it, which may
widen layers), int8-dynamic, w4a8, fp32. Peers that are installed (`pip install -e '.[bench]'`) quantize the same network with their own
tools (LiteRT, whose converter needs TensorFlow, runs lowbit's int8 network: litert_writer.py); those that are not are named and left out.
Each number of threads runs in a process of its own, pinned to as many CPUs. What takes time to make is kept under LOWBIT_CACHE, so that a
second run only measures.

exact: lowbit's integers are the interpreter's, bit for bit (where floats stand between them: within what peers are allowed); a peer loses
no more than 1 dB against the meaning of its own file (its Q/DQ brackets in floats, its integer products without overflow); fp32 is
PyTorch's within the rounding of float sums. "?" where the meaning is not known.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import models_cases
from models_cases import CASES, VARIANTS, Case, graph_path
from models_goals import show_goals
from models_peers import ALLOWED, PEERS, exact, lost_db, prepare

from lowbit.runtime.timing import in_turns


@dataclass(frozen=True)
class Way:
    """An engine's variant of a network, ready to run."""

    engine: str
    variant: str
    run: Callable[[], object]
    exact: bool | None
    note: str = ""


def ours(case: Case, variant: str, threads: int, guard: bool) -> Way:
    """lowbit, and whether its outputs are the expected ones."""
    import numpy as np

    import lowbit

    path = graph_path(case, variant, guard)
    session = lowbit.compile(lowbit.load(path), threads=threads)
    expected = np.load(path.with_suffix(".npy"))
    feeds = [tuple(s.values()) for s in case.test]
    got = np.stack([np.asarray(session(*f)) for f in feeds])
    remark = "" if session.backend == "native" else session.backend
    if variant == "fp32":
        same = bool(np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max())
    else:
        same = got.tobytes() == expected.tobytes()
        if not same and has_floats(session.graph):  # float sums may round otherwise, and what is quantized behind them then, too
            lost = lost_db(case, got, expected)
            same, remark = lost <= ALLOWED, f"{remark} floats between integers, {lost:.1f} dB lost".strip()
    return Way("lowbit", variant, lambda: session(*feeds[0]), same, remark)


def has_floats(graph: Any) -> bool:
    """Whether it computes in floats between its integers."""
    edges = ("quantize_linear", "dequantize_linear")
    nodes = [n for n in graph.nodes if n.op not in edges and not n.op.startswith("q_")]
    return any(v is not None and v.type.dtype.is_float and v.name not in graph.constants for n in nodes for v in n.inputs)


def theirs(name: str, case: Case, variant: str, threads: int) -> Way | str:
    """A peer, or why it is not there."""
    peer, note = PEERS[name], prepare(PEERS[name], case, variant)
    if "failed" in note:
        return str(note["failed"])
    run, sample = peer.load(case, variant, peer.path(case, variant), threads), case.test[0]
    lost = note.get("lost")
    return Way(name, variant, lambda: run(sample), exact(note, variant), f"{lost:.1f} dB lost" if lost is not None and lost > 1 else "")


def measured(args: argparse.Namespace, threads: int) -> dict[str, Any]:
    """One number of threads: a row for each way of each network."""
    rows, remarks = [], []
    for name in args.models:
        case = CASES[name]
        ways = [ours(case, v, threads, args.guard) for v in case.variants if v in args.variants]
        for peer in args.against:
            for variant in PEERS[peer].variants(case):
                found = theirs(peer, case, variant, threads)
                if isinstance(found, str):
                    remarks.append(f"{name}: {peer} {variant} failed: {found}")
                else:
                    ways.append(found)
        times = in_turns({f"{way.engine} {way.variant}": way.run for way in ways}, args.rounds)
        for way in ways:
            time = times[f"{way.engine} {way.variant}"]
            row = {"model": name, "engine": way.engine, "variant": way.variant, "threads": threads}
            rows.append(row | {"ms_min": time.least, "ms_median": time.median, "exact": way.exact})
            if way.note:
                remarks.append(f"{name}: {way.engine} {way.variant}: {way.note}")
        print(f"{name}, {threads} thread(s): measured", file=sys.stderr)
    return {"rows": rows, "remarks": remarks}


def pinned(arguments: list[str], threads: int) -> dict[str, Any]:
    """`measured` in a process that has that many CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    if len(cpus) < threads:
        sys.exit(f"{threads} threads, but this process may use {len(cpus)} CPUs")
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, *arguments, "--measure", str(threads)]
    out = subprocess.run(
        command, env=env, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus)
    ).stdout
    return dict(json.loads(out.splitlines()[-1]))


def show(rows: list[dict[str, Any]]) -> None:
    """A table for each network and number of threads; the ratio is lowbit's least time (int8, or fp32 beside fp32) to the peer's."""
    for model, threads in dict.fromkeys((r["model"], r["threads"]) for r in rows):
        these = [r for r in rows if (r["model"], r["threads"]) == (model, threads)]
        mine = {r["variant"]: r["ms_min"] for r in these if r["engine"] == "lowbit"}
        columns = [v for v in VARIANTS if v in mine]
        print(f"\n{model}, {threads} thread(s)")
        names = "".join(f" {v:>13}" for v in columns)
        print(f"  {'engine':9} {'variant':13} {'ms min':>9} {'median':>9}  exact{names}   lowbit ÷ this")
        for r in sorted(these, key=lambda r: r["ms_min"]):
            word = {True: "yes", False: "NO", None: "?"}[r["exact"]]
            ratios = "" if r["engine"] == "lowbit" else "".join(f" {mine[v] / r['ms_min']:13.2f}" for v in columns)
            print(f"  {r['engine']:9} {r['variant']:13} {r['ms_min']:9.4f} {r['ms_median']:9.4f}  {word:5}{ratios}")


def machine(args: argparse.Namespace) -> dict[str, Any]:
    import lowbit
    from lowbit.hardware.machine import Hardware
    from lowbit.kernels import native, sources

    hw = Hardware.detect()
    versions = {name: PEERS[name].version for name in args.against}
    found: dict[str, Any] = {"cpu": hw.cpu, "cpus": hw.usable_cpus, "isa": native.best("linear_s8").isa, "load": hw.load}
    if "only_avx2" in os.environ.get("LD_PRELOAD", ""):
        found["only"] = "avx2"
    own = {"lowbit": lowbit.__version__, "kernels": sources.digest()}
    return found | own | {"python": platform.python_version(), "peers": versions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=VARIANTS, help="of lowbit")
    parser.add_argument("--against", default=",".join(PEERS), help="peers, or nothing: " + ", ".join(PEERS))
    parser.add_argument("--threads", default="1", help="1, or 1,2")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--guard", action="store_true", help="int8 and w4a8 mended by the guard, as lowbit.quantize does by itself")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    wanted = [p for p in args.against.split(",") if p]
    unknown = [p for p in wanted if p not in PEERS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    args.against = [p for p in wanted if PEERS[p].version is not None]
    if args.measure:
        print(json.dumps(measured(args, args.measure)))
        return
    for name in args.models:
        for variant in CASES[name].variants:
            if variant in args.variants:
                models_cases.prepare(CASES[name], variant, args.guard)
        for peer in args.against:
            for variant in PEERS[peer].variants(CASES[name]):
                prepare(PEERS[peer], CASES[name], variant)
    rows, remarks = [], [f"{p} is not installed" for p in wanted if p not in args.against]
    for threads in args.threads.split(","):
        found = pinned(sys.argv[1:], int(threads))
        rows += found["rows"]
        remarks += found["remarks"]
    show(rows)
    show_goals(rows)
    print("".join(f"\n{r}" for r in dict.fromkeys(remarks)))
    if args.json:
        found = {"machine": machine(args), "rows": rows, "remarks": list(dict.fromkeys(remarks))}
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
