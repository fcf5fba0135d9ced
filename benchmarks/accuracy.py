"""int8 accuracy beside ONNX Runtime's: output SQNR, top-1 agreement and multiplications on integers, on data that calibration never saw.

    python benchmarks/accuracy.py                                  every network; results are kept, a second run goes on where it stopped
    python benchmarks/accuracy.py --models resnet9 silero --json out.json
    python benchmarks/accuracy.py --recipe w4a8 --models demo --no-ort

ONNX Runtime is taken at its best setting: per channel; min-max, entropy, percentile; u8s8, u8u8, s8s8, reduced range; prepared as it
recommends; same calibration data, same test data, its own kernels on this machine. lowbit's numbers are those of its session: integers.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import platform
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from accuracy_cases import CASES, Case
from accuracy_ort import SOURCE, finite, outputs, quantized

from lowbit.decide.effort import mac_counts
from lowbit.ir.graph import Graph
from lowbit.ir.text import print_graph
from lowbit.lower import lower
from lowbit.metrics import sqnr_db
from lowbit.pipeline import compile, decided
from zoo.fetch import cache

Results = list[list[NDArray[Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--json", type=Path, help="where the table goes as JSON")
    parser.add_argument("--markdown", action="store_true", help="the rows of the table in docs/accuracy.md")
    parser.add_argument("--recipe", default="int8")
    parser.add_argument("--no-ort", action="store_true", help="leave ONNX Runtime out")
    parser.add_argument("--fresh", action="store_true", help="forget lowbit's kept results (ONNX Runtime's stay)")
    args = parser.parse_args()
    rows = []
    if not args.markdown:
        print(HEAD)
    for name in args.models:
        case = lru_cache(1)(CASES[name])
        row = kept(f"lowbit-{args.recipe}", case, name, ours_by(), args.fresh, lambda c: ours(c, args.recipe))
        if not args.no_ort:
            row |= {"ort": kept("ort", case, name, theirs_by(), False, theirs)}
        rows.append(row | {"model": name})
        print(markdown(rows[-1]) if args.markdown else line(rows[-1]), flush=True)
    if args.json:
        machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
        args.json.write_text(json.dumps({"recipe": args.recipe, "rows": rows, **machine}, indent=1) + "\n")


HERE = Path(__file__).resolve()
ASIDE = ("cli", "codegen", "demo", "export", "report")  # of lowbit's folders: they have no part in quantizing and running a network


@lru_cache(1)
def ours_by() -> str:
    """Of all code that decides lowbit's figures: Python, kernels, and how they are scored."""
    root = HERE.parent.parent
    python = [p for p in sorted((root / "src" / "lowbit").rglob("*.py")) if p.relative_to(root).parts[2] not in ASIDE]
    native = [p for folder in ("csrc", "bindings") for p in sorted((root / folder).rglob("*")) if p.suffix in (".c", ".h")]
    versions = f"numpy {np.__version__} {platform.machine()}".encode()
    return hashlib.sha256(b"".join(p.read_bytes() for p in (*python, *native, HERE)) + versions).hexdigest()[:12]


@lru_cache(1)
def theirs_by() -> str:
    """Of all code that decides ONNX Runtime's figures: its own, what calls it, and how they are scored."""
    versions = f"onnxruntime {version('onnxruntime')} onnx {version('onnx')} {platform.machine()}".encode()
    return hashlib.sha256(SOURCE.read_bytes() + HERE.read_bytes() + versions).hexdigest()[:12]


def digest(case: Case) -> str:
    """Of a case's network, as a graph with all its numbers and as a file, and of its data."""
    found = hashlib.sha256(print_graph(case.graph).encode() + case.onnx)
    for name, constant in case.graph.constants.items():
        found.update(f"{name} {constant.digest}".encode())
    for sample in (*case.calibration, *case.test):
        for name, x in sample.items():
            found.update(f"{name} {x.dtype} {x.shape}".encode() + x.tobytes())
    return found.hexdigest()[:12]


def kept(kind: str, case: Callable[[], Case], name: str, by: str, fresh: bool, compute: Any) -> dict[str, Any]:
    """The result of this network and data `by` this code, from the cache or computed: an interrupted run goes on where it stopped."""
    path = cache() / "accuracy" / f"{kind}-{name}-{digest(case())}-{by}.json"
    if path.is_file() and not fresh:
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    with contextlib.redirect_stdout(io.StringIO()):  # quantizers talk
        result: dict[str, Any] = compute(case())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return result


def ours(case: Case, recipe: str) -> dict[str, Any]:
    start = time.perf_counter()
    found = decided(case.graph, case.calibration, recipe=recipe)
    seconds = time.perf_counter() - start
    plain, session = compile(case.graph), compile(found.graph)
    reference = [list(plain.run(s).values()) for s in case.test]
    got = [list(session.run(s).values()) for s in case.test]
    return {
        **scores(case, reference, got),
        "integer_macs": integer_macs(case, found.graph),
        "wide_macs": wide_macs(case, found.graph),
        "plain": found.plain.db,
        "held_back": found.quality.db,
        "steps": [str(s) for s in found.steps],
        "seconds": seconds,
    }


def theirs(case: Case) -> dict[str, Any]:
    """The best setting by SQNR of the worst output, and all of them."""
    reference = outputs(case.onnx, case.test)
    tried: dict[str, Any] = {}
    for setting, got in quantized(case):
        tried[str(setting)] = got if isinstance(got, str) else scores(case, reference, got) if finite(got) else "not finite"
    worked = {k: v for k, v in tried.items() if not isinstance(v, str)}
    best = max(worked, key=lambda k: worked[k]["db"]) if worked else ""
    return {"best": best, "tried": tried, **worked.get(best, {"db": None, "top1": None})}


def scores(case: Case, reference: Results, got: Results) -> dict[str, Any]:
    """SQNR of every float output over all test data, the worst of them, how often the largest logit is the same, and what is right."""
    columns = [k for k in range(len(reference[0])) if reference[0][k].dtype.kind == "f"]
    each = [sqnr_db(*(np.concatenate([r[k].reshape(-1) for r in rows]) for rows in (reference, got))) for k in columns]
    top1 = None
    if case.classifier:
        a, b = (np.concatenate([r[0].argmax(-1).reshape(-1) for r in rows]) for rows in (reference, got))
        top1 = float(np.mean(a == b))
    accuracy = [float(np.mean(case.right(rows))) for rows in (reference, got)] if case.right is not None else None
    return {"db": min(each), "each": each, "top1": top1, "accuracy": accuracy}


def integer_macs(case: Case, graph: Graph) -> float:
    """The share of all multiplications that no float op of the lowered graph does."""
    lowered = lower(graph).graph
    floats = {n.output.name for n in lowered.nodes if not n.op.startswith("q_")}
    left = sum(count for k, count in mac_counts(lowered, case.test[0]).items() if k in floats)
    return 1 - left / max(1, sum(mac_counts(case.graph, case.test[0]).values()))


def wide_macs(case: Case, graph: Graph) -> float:
    """The share of all multiplications that read 16-bit activations."""
    lowered = lower(graph).graph
    wide = {n.output.name for n in lowered.nodes if n.input(0) is not None and n.inputs[0].type.dtype.name == "int16"}
    counts = mac_counts(lowered, case.test[0])
    return sum(count for k, count in counts.items() if k in wide) / max(1, sum(counts.values()))


HEAD = " ".join(
    [f"{'network':20}", f"{'plain':>6}", f"{'lowbit':>7}", f"{'ORT best':>9}", f"{'gain':>6}", f"{'top-1':>7}", f"{'ORT':>6}"]
    + [f"{'int MACs':>9}", f"{'16-bit':>7}", f"{'s':>5}", " ORT's setting"]
)


def line(row: dict[str, Any]) -> str:
    ort = row.get("ort", {"db": None, "top1": None, "best": ""})

    def number(x: float | None, form: str) -> str:
        return "–" if x is None else format(x, form)

    gain = row["db"] - ort["db"] if ort["db"] is not None else None
    text = (
        f"{row['model']:20} {row['plain']:6.1f} {row['db']:7.1f} {number(ort['db'], '.1f'):>9} {number(gain, '+.1f'):>6}  "
        f"{number(row['top1'], '.1%'):>6} {number(ort['top1'], '.1%'):>6}  "
        f"{row['integer_macs']:8.1%} {row['wide_macs']:7.1%} {row['seconds']:5.0f}  {ort['best']}"
    )
    if row["accuracy"]:
        theirs = f", ORT {ort['accuracy'][1]:.2%}" if ort.get("accuracy") else ""
        text += f"\n{'':20} right: float {row['accuracy'][0]:.2%}, lowbit {row['accuracy'][1]:.2%}{theirs}"
    return text


def markdown(row: dict[str, Any]) -> str:
    ort = row.get("ort", {"db": None, "top1": None, "best": ""})

    def shares(*values: float | None) -> str:
        return " / ".join("–" if x is None else f"{x:.1%}" for x in values) if values[0] is not None else ""

    accuracy = (*(row["accuracy"] or (None, None)), (ort.get("accuracy") or (None, None))[1])
    gain = "" if ort["db"] is None else f"{row['db'] - ort['db']:+.1f}"
    best = "not one worked" if ort["db"] is None else f"{ort['db']:.1f} ({ort['best']})"
    cells = [row["model"], f"{row['plain']:.1f}", f"**{row['db']:.1f}**", best, gain, shares(row["top1"], ort["top1"]), shares(*accuracy)]
    cells += [f"{row['integer_macs']:.1%}", f"{row['wide_macs']:.1%}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
