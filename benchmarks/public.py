"""Public trained networks beside ONNX Runtime: milliseconds of float and int8, all ways in turns in one process.

    taskset -c 1 python benchmarks/public.py                        every public network, one thread
    python benchmarks/public.py --models silero ocr-rec --threads 2 --json out.json

lowbit's int8 is what `lowbit.quantize` makes of the calibration data by itself (--plain: without its guard); ONNX Runtime's is the fastest
of u8s8, u8u8 and s8s8, static, by channel. The batch is the first one of the test data.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accuracy_cases import CASES, Case
from accuracy_ort import files
from models_cases import digest

import lowbit
import zoo
from lowbit.files import cache_folder
from lowbit.ir.graph import Graph
from lowbit.report.onnxruntime_int8 import Setting
from lowbit.report.onnxruntime_int8 import session as in_onnxruntime
from lowbit.runtime.timing import in_turns, pinned

PUBLIC = [name for name in CASES if name not in zoo.ZOO]
TYPES = ("u8s8", "u8u8", "s8s8")


def quantized(case: Case, guard: bool) -> Graph:
    """lowbit's int8 network; kept, for the guard takes minutes."""
    path = cache_folder() / "models" / "public" / f"{case.name}-{'guard' if guard else 'plain'}-{digest()}.lowbit"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        lowbit.quantize(case.graph, case.calibration, guard=guard).save(path)
    return lowbit.load(path)


def in_ort(path: Path, case: Case, threads: int) -> Callable[[], object]:
    session = in_onnxruntime(str(path), threads)
    session.run(None, case.test[0])
    return lambda: session.run(None, case.test[0])


def measured(case: Case, threads: int, guard: bool, rounds: int, work: Path) -> list[dict[str, Any]]:
    """A row for each way in which the network runs."""
    ways: dict[str, Callable[[], object]] = {}
    for variant, graph in (("fp32", case.graph), ("int8", quantized(case, guard))):
        session = lowbit.compile(graph, threads=threads)
        ways[f"lowbit {variant}"] = lambda session=session: session.run(case.test[0])  # type: ignore[misc]
    (work / "float.onnx").write_bytes(case.onnx)
    ways["ort fp32"] = in_ort(work / "float.onnx", case, threads)
    for setting, path in files(case, [Setting("MinMax", types) for types in TYPES], work):
        try:
            if isinstance(path, Path):
                ways[f"ort {setting.types}"] = in_ort(path, case, threads)
                continue
        except Exception as e:  # ONNX Runtime's errors have no common base; a file that it made and cannot run is its answer
            path = str(e).splitlines()[0]
        print(f"{case.name}: ONNX Runtime {setting.types}: {path}", file=sys.stderr)
    times = in_turns(ways, rounds)
    split = {name: name.partition(" ") for name in ways}
    return [
        {"model": case.name, "engine": split[n][0], "variant": split[n][2], "threads": threads, "ms_min": t.least, "ms_median": t.median}
        for n, t in times.items()
    ]


def line(rows: list[dict[str, Any]]) -> str:
    """A network's row of the table."""
    ms = {(r["engine"], r["variant"]): r["ms_min"] for r in rows}
    theirs = {v: t for (engine, v), t in ms.items() if engine == "ort" and v != "fp32"}
    mine, floats, ort = ms["lowbit", "int8"], ms["lowbit", "fp32"], ms["ort", "fp32"]
    best = min(theirs, key=lambda v: theirs[v], default=None)
    peer = "–" if best is None else f"{theirs[best]:.3g} {best}"
    ratio = "–" if best is None else f"{mine / theirs[best]:.2f}"
    return f"| {rows[0]['model']} | {mine:.3g} | {peer} | {ratio} | {floats:.3g} | {ort:.3g} | {floats / ort:.2f} | {mine / floats:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=PUBLIC, choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--plain", action="store_true", help="int8 by the plain rules, without the guard")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print("| network | lowbit int8 | ONNX Runtime int8 | ratio | lowbit fp32 | ONNX Runtime fp32 | ratio | lowbit int8 ÷ fp32 |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.models:
        with tempfile.TemporaryDirectory() as work, pinned(args.threads):
            found = measured(CASES[name](), args.threads, not args.plain, args.rounds, Path(work))
        print(line(found), flush=True)
        rows += found
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
