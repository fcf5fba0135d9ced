"""lowbit bench --against ort: the same networks in ONNX Runtime, and the int8 networks that its own tools make of the float one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lowbit.cli.data import data_from
from lowbit.cli.labels import labels_from, metric_from
from lowbit.decide.labelled import MAX_DROP
from lowbit.errors import FormatError
from lowbit.export.onnx import export_onnx
from lowbit.ir.graph import Graph
from lowbit.lower.integer import quantized_nodes
from lowbit.report.onnxruntime_int8 import DEFAULTS, OrtSession, quantized_files, words
from lowbit.report.scored_output import scored_output
from lowbit.report.scores import BadScore, counted_top, labels_by_batch, scored
from lowbit.types import Array

OWN = "ort-int8-"  # the engines that are ONNX Runtime's own int8 networks
ENGINES = {
    "ort-fp32": "ONNX Runtime runs the float network",
    "ort-int8": "ONNX Runtime's own int8 of the float network, calibrated with --data:\n"
    "  static by channel (types of activations and weights: u8s8 …), or dynamic",
    "ort-export": "ONNX Runtime runs the file that lowbit export writes;\n  its default makes uint8 of int8, which is faster",
    "ort-export-exact": "the same file in int8 as it is: exact, and slow on many CPUs",
}


class Runs(Protocol):
    """A session of lowbit or of ONNX Runtime."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]: ...


def in_ort(name: str, graph: Graph, feeds: Mapping[str, Array], threads: int, work: Path) -> dict[str, Runs]:
    """The network in ONNX Runtime, by engine: the file itself, or one that export makes of it. What it refuses is left out."""
    import onnxruntime as ort

    path = onnx_file(name, graph, work)
    engines = {"ort-export": False, "ort-export-exact": True} if quantized_nodes(graph) else {"ort-fp32": False}
    found: dict[str, Runs] = {}
    failed: Exception | None = None
    for engine, exact in engines.items():
        try:
            session = OrtSession(str(path), list(graph.outputs), threads, exact)
            session.run(feeds)
        except Exception as e:  # ONNX Runtime's errors have no common base
            if type(e).__module__.partition(".")[0] not in ("onnxruntime", "builtins"):
                raise
            failed = e
        else:
            found[engine] = session
    if failed is not None and not found:
        said = str(failed).strip().splitlines()[0] if str(failed).strip() else type(failed).__name__
        raise FormatError(f"ONNX Runtime {ort.__version__} does not run it: {said}", where=name, hint="without --against") from failed
    return found


def onnx_file(name: str, graph: Graph, work: Path) -> Path:
    """The network as an .onnx file: its own, or one that export writes."""
    if Path(name).suffix == ".onnx":
        return Path(name)
    path = work / f"{Path(name).stem}.onnx"
    export_onnx(graph, path, check=False)
    return path


def whole_model(path: Path) -> bytes:
    """The bytes of an .onnx file, with the weights that it keeps in other files."""
    import onnx

    data: bytes = onnx.load(str(path)).SerializeToString()
    return data


def own_int8(
    name: str, graph: Graph, feeds: Mapping[str, Array], data: Iterable[Mapping[str, Array]], threads: int, work: Path
) -> tuple[dict[str, Runs], dict[str, str]]:
    """ONNX Runtime's own int8 networks of a float network, by engine, and what it said of those that it did not make or run."""
    found: dict[str, Runs] = {}
    failed: dict[str, str] = {}
    model = whole_model(onnx_file(name, graph, work))
    for setting, made in quantized_files(model, data, DEFAULTS, work):
        engine = f"{OWN}{setting.name}"
        if isinstance(made, str):
            failed[engine] = made
            continue
        try:
            session = OrtSession(str(made), list(graph.outputs), threads)
            session.run(feeds)
            found[engine] = session
        except Exception as e:  # ONNX Runtime's errors have no common base
            failed[engine] = words(e)
    return found, failed


@dataclass(frozen=True)
class Scorer:
    """Scores sessions of one network by labels or by a metric."""

    name: str  # "top-1", or "score" of a metric
    score: Callable[[Runs], float]

    def of(self, session: Runs) -> float | None:
        """None if the metric needs more of a session than ONNX Runtime's has."""
        try:
            return self.score(session)
        except BadScore:
            return None


def scorer(args: argparse.Namespace, graph: Graph) -> Scorer | None:
    """By --labels (of --test, else of --data) or --metric; None if neither is given."""
    if args.metric:
        metric = metric_from(args.metric)
        return Scorer("score", lambda session: scored(metric, session))  # type: ignore[arg-type]  # it is called as a Session is
    if not args.labels:
        return None
    given = argparse.Namespace(**vars(args) | {"data": args.test or args.data})
    data = data_from(given, graph)
    samples, output = list(data), scored_output(graph, args.output)
    labels = labels_by_batch(graph, samples, labels_from(given, data, "--test" if args.test else "--data"), output)
    return Scorer("top-1", lambda session: counted_top(session, samples, labels, output).top1)  # type: ignore[arg-type]


def best_own_int8(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The fastest of ONNX Runtime's own int8 networks that keeps the float network's score, as far as scores are known; else none."""
    own = [r for r in rows if r["engine"].startswith(OWN)]
    real = next((r.get("score") for r in rows if r["engine"] == "ort-fp32"), None)
    if real is not None:
        own = [r for r in own if r.get("score") is not None and r["score"] >= real - MAX_DROP]
    return min(own, key=lambda r: r["ms_min"], default=None)


def conclusions(rows: Sequence[Mapping[str, Any]], failed: Mapping[str, str], data: bool) -> list[str]:
    """What the rows of ONNX Runtime say, in sentences: what each engine is, and how lowbit's networks compare with its best int8."""
    seen = dict.fromkeys("ort-int8" if r["engine"].startswith(OWN) else r["engine"] for r in rows if r["engine"] != "lowbit")
    said = [f"{engine}: {ENGINES[engine]}" for engine in seen]
    said += [f"{engine}: not made ({why})" for engine, why in failed.items()]
    best, real = best_own_int8(rows), any(r["engine"] == "ort-fp32" for r in rows)
    own = any(r["engine"].startswith(OWN) for r in rows)
    keeps = " that keeps the score" if best is not None and best.get("score") is not None else ""
    for r in rows:
        if best is not None and r["engine"] == "lowbit" and r["quantized"]:
            ratio = f"{r['ms_min'] / best['ms_min']:.2f} of the time of ONNX Runtime's fastest int8{keeps}"
            said.append(f"{r['model']} takes {ratio} ({best['engine']})")
    if own and best is None:
        said.append(f"none of ONNX Runtime's own int8 networks keeps the float network's score within {MAX_DROP:g}")
    if not real:
        said.append("ONNX Runtime's own int8 is of the float network: name that one, too, with --data samples.npz")
    elif not data:
        said.append("--data samples.npz adds ONNX Runtime's own int8 networks, calibrated with these samples")
    return said
