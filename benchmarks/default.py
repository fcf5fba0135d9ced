"""What `lowbit.quantize` makes by itself of every public network: score, decibels, milliseconds, bytes, seconds; docs/defaults.md.

    python benchmarks/default.py --page docs/defaults.md          every network, int8; a second run goes on where the first one stopped
    python benchmarks/default.py --recipe w4a8 --page docs/defaults.md
    python benchmarks/default.py --models silero ocr-rec --json out.json

Each network has a process of its own with one thread on one CPU. Data to test with is not used to quantize. ONNX Runtime quantizes with the
same calibration data: static by channel (u8s8, u8u8, s8s8) and dynamic. All ways are timed in turns, on the first batch of the test data.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from accuracy import integer_macs, ours_by, wide_macs
from accuracy_cases import Case
from accuracy_ort import SOURCE, files
from default_cases import CASES, HOLDOUT
from default_page import criteria, page
from default_scores import Noise, Outputs, Results, said_decibels
from numpy.typing import NDArray

import lowbit
from lowbit.decide.quality import Ruler
from lowbit.files import cache_folder, write_whole
from lowbit.ir.graph import Graph
from lowbit.report.onnxruntime_int8 import DEFAULTS, words
from lowbit.report.onnxruntime_int8 import session as in_onnxruntime
from lowbit.runtime.timing import in_turns, pinned

Row = dict[str, Any]
HERE = Path(__file__).resolve().parent
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOWBIT_THREADS")}


def scored(case: Case, real: Results, run: Callable[[Mapping[str, NDArray[Any]]], Outputs]) -> Row:
    """Points and decibels of a way to run the network, against the float network's outputs."""
    assert case.score is not None
    noise, kept = Noise(), []
    for sample, reference in zip(case.test, real, strict=True):
        got = run(sample)
        noise.add(reference, got, len(next(iter(sample.values()))))
        kept.append(case.score.keep(got))
    points = case.score.of(kept, [case.score.keep(r) for r in real])
    return {"score": points, "db": noise.pooled(), "db_worst_tenth": noise.worst_tenth()}


def of_session(session: lowbit.Session) -> Callable[[Mapping[str, NDArray[Any]]], Outputs]:
    return lambda sample: list(session.run(sample).values())


def of_onnxruntime(path: Path) -> Callable[[Mapping[str, NDArray[Any]]], Outputs]:
    session = in_onnxruntime(str(path), 1)
    return lambda sample: session.run(None, dict(sample))  # type: ignore[no-any-return]


def quantized_by_onnxruntime(case: Case, real: Results) -> dict[str, Row]:
    """ONNX Runtime's network and points for each setting, or its error. Both are kept: they do not change with lowbit."""
    by_file = hashlib.sha256(case.onnx + f"{version('onnxruntime')} {version('onnx')}".encode() + SOURCE.read_bytes())
    for sample in case.calibration:
        for name, x in sample.items():
            by_file.update(f"{name} {x.dtype} {x.shape}".encode() + x.tobytes())
    by_score = by_file.copy()
    for sample in case.test:
        for x in sample.values():
            by_score.update(x.tobytes())
    for name in ("default.py", "default_scores.py", "default_cases.py", "accuracy_cases.py"):
        by_score.update((HERE / name).read_bytes())
    folder = cache_folder() / "default" / f"{case.name}-{by_file.hexdigest()[:12]}"
    made, points = folder / "made.json", folder / f"points-{by_score.hexdigest()[:12]}.json"
    if not made.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        found = {s: f for s, f in files(case, DEFAULTS, folder)}
        told = {s.name: {"error": f} if isinstance(f, str) else {"file": f.name} for s, f in found.items()}
        write_whole(made, json.dumps(told).encode())
    if not points.is_file():
        told = json.loads(made.read_text())
        rows = {name: scored_file(case, real, folder / row["file"]) if "file" in row else row for name, row in told.items()}
        write_whole(points, json.dumps(rows).encode())
    kept: dict[str, Row] = json.loads(points.read_text())
    return kept


def scored_file(case: Case, real: Results, path: Path) -> Row:
    try:
        return {**scored(case, real, of_onnxruntime(path)), "file": str(path), "bytes": path.stat().st_size}
    except Exception as e:  # ONNX Runtime's errors have no common base; a file that it made and cannot run is its answer
        return {"error": words(e)}


def quantized(case: Case, recipe: str, guard: bool) -> tuple[Graph, float]:
    """The network as a user gets it who asks for nothing more, and the seconds that it took of one CPU."""
    more: dict[str, Any] = ({} if recipe == "int8" else {"recipe": recipe}) | ({} if guard else {"guard": False})
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lowbit.LowbitWarning)
        graph = lowbit.quantize(case.graph, case.calibration, **more)
    return graph, time.process_time() - start


def measured(case: Case, recipe: str, guard: bool, rounds: int) -> Row:
    """The row of a network."""
    say(f"{case.name}: quantizing")
    small, seconds = quantized(case, recipe, guard)
    floats, made = lowbit.compile(case.graph, threads=1), lowbit.compile(small, threads=1)
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "float.onnx"
        file.write_bytes(case.onnx)
        say(f"{case.name}: {seconds:.1f} s; scoring")
        onnxruntime = of_onnxruntime(file)
        real = [onnxruntime(sample) for sample in case.test]
        rows = {"lowbit fp32": scored(case, real, of_session(floats)), "lowbit": scored(case, real, of_session(made))}
        quality = Ruler(case.graph, case.test).measure(small)  # as quantize measures, before a final softmax or sigmoid
        rows["lowbit"] |= {"db": min(quality.db, 200.0), "db_worst_tenth": min(quality.worst_db, 200.0)}
        rows["lowbit fp32"]["bytes"], rows["lowbit"]["bytes"] = (file_bytes(g, Path(work)) for g in (case.graph, small))
        rows["ort fp32"] = {**scored(case, real, onnxruntime), "bytes": len(case.onnx)}
        if recipe == "int8":
            rows |= {f"ort {name}": row for name, row in quantized_by_onnxruntime(case, real).items()}
        say(f"{case.name}: timing")
        first = dict(case.test[0])
        ways = {"lowbit fp32": of_session(floats), "lowbit": of_session(made), "ort fp32": onnxruntime}
        ways |= {name: of_onnxruntime(Path(row["file"])) for name, row in rows.items() if "file" in row}
        for name, timing in in_turns({name: lambda run=run: run(first) for name, run in ways.items()}, rounds).items():
            rows[name] |= {"ms": timing.least, "ms_median": timing.median}
    for row in rows.values():
        row.pop("file", None)
    return {
        "metric": case.score.name if case.score else "",
        "holdout": case.holdout,
        "classifier": case.classifier,
        "ways": rows,
        "said_db": said_decibels(small.notes),
        "seconds": seconds,
        "integer_macs": integer_macs(case, small),
        "wide_macs": wide_macs(case, small),
        "native": {"fp32": floats.backend, recipe: made.backend},
        "rows": sum(len(next(iter(s.values()))) for s in case.test),
    }


def file_bytes(graph: Graph, work: Path) -> int:
    """Of the .lowbit file."""
    graph.save(work / "network.lowbit")
    return (work / "network.lowbit").stat().st_size


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def sources() -> str:
    """Of all code that decides a row."""
    own = b"".join((HERE / name).read_bytes() for name in ("default.py", "default_cases.py", "default_data.py", "default_scores.py"))
    return hashlib.sha256(own + (HERE / "accuracy_cases.py").read_bytes() + ours_by().encode()).hexdigest()[:12]


def in_own_process(name: str, args: argparse.Namespace) -> Row:
    """The row of a network, measured by this file in a process of its own; or the words with which it ended."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "row.json"
        command = [sys.executable, __file__, "--one", name, "--json", str(out), "--recipe", args.recipe, "--rounds", str(args.rounds)]
        command += ["--plain"] * args.plain
        last = ""
        with subprocess.Popen(command, env={**os.environ, **ONE_THREAD}, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr is not None
            for line in child.stderr:
                sys.stderr.write(line)
                last = line.strip() or last
        if child.returncode == 0:
            row: Row = json.loads(out.read_text())
            return row
    error = without_paths(last) if child.returncode > 0 else f"killed by signal {-child.returncode}"
    return {"error": error, "holdout": name in HOLDOUT, "metric": ""}


def without_paths(text: str) -> str:
    """The text for a page that others read: of paths, the last name alone."""
    return re.sub(r"(/[\w.+-]+)+/", "", text)[:200]


def kept_rows(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    found: list[Row] = json.loads(path.read_text())["rows"]
    return found


def keep(path: Path, rows: Iterable[Row]) -> None:
    machine = {"machine": platform.machine(), "cpu": cpu(), "numpy": np.__version__, "onnxruntime": version("onnxruntime")}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps({"machine": machine, "rows": list(rows)}, indent=1) + "\n").encode())


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--recipe", default="int8", choices=("int8", "w4a8"))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path, help="where rows are kept (default: in the cache)")
    parser.add_argument("--page", type=Path, help="where the tables and criteria go as Markdown")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)  # by the plain rules: to try this script quickly
    parser.add_argument("--one", choices=list(CASES), help=argparse.SUPPRESS)  # in this process, the row alone
    args = parser.parse_args()
    if args.one:
        with pinned(1):
            row = measured(CASES[args.one](), args.recipe, not args.plain, args.rounds)
        args.json.write_text(json.dumps(row))
        return
    path = args.json or cache_folder() / "default" / "rows.json"
    by = sources()
    for name in args.models:
        who = {"model": name, "recipe": args.recipe, "plain": args.plain}
        rows = kept_rows(path)
        mine = [r for r in rows if all(r[k] == v for k, v in who.items())]
        if mine and mine[0]["by"] == by and "error" not in mine[0] and not args.fresh:
            say(f"{name}: kept")
            continue
        row = {**who, "by": by, **in_own_process(name, args)}
        say(f"{name}: {row['error']}" if "error" in row else summary(row))
        keep(path, [*(r for r in kept_rows(path) if r not in mine), row])
    rows = [r for r in kept_rows(path) if r["plain"] == args.plain]
    rows.sort(key=lambda r: list(CASES).index(r["model"]) if r["model"] in CASES else len(CASES))
    if args.page:
        write_whole(args.page, page(rows, json.loads(path.read_text())["machine"]).encode())
    print("\n".join(criteria(rows)))


def summary(row: Row) -> str:
    """A network in one line, while others are still to come."""
    ways = row["ways"]
    ort = {k.removeprefix("ort "): f"{r['score']:.1f} {r['ms']:.3g} ms" for k, r in ways.items() if k.startswith("ort ") and "ms" in r}
    mine, floats = ways["lowbit"], ways["lowbit fp32"]
    return (
        f"{row['model']}: {row['metric']} {ways['ort fp32']['score']:.2f} -> {mine['score']:.2f}, {mine['db']:.1f} dB "
        f"(worst tenth {mine['db_worst_tenth']:.1f}, said {row['said_db']}), {mine['ms']:.3g} ms (fp32 {floats['ms']:.3g}), "
        f"integers {row['integer_macs']:.1%}, {row['seconds']:.1f} s, {row['native']}; ONNX Runtime {ort}"
    )


if __name__ == "__main__":
    main()
