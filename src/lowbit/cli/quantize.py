"""lowbit quantize MODEL --data … -o small.lowbit (small.onnx, or a folder of C): quantizes a network and says what that gave.

A language model (a Hugging Face folder, or a .gguf file that shall become another one) is quantized by quantize_llm.py.
"""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from lowbit.calibration.record import CalibrationRecord
from lowbit.cli.calibrate import add_rule_arguments, rules_from, workers
from lowbit.cli.common import (
    UsageError,
    add_model_arguments,
    example_shapes,
    load_model,
    memory,
    positive,
    print_json,
    say,
    size,
    table,
    tell,
)
from lowbit.cli.data import add_data_arguments, data_from, has_data
from lowbit.cli.labels import add_score_arguments, labels_from, max_drop_argument, metric_from, need_max_drop, need_one
from lowbit.cli.quantize_llm import LLM_RECIPES, add_llm_arguments, is_language_model, main_llm, need_no_llm
from lowbit.cli.written import check_kind, write
from lowbit.data.bake import bake, preprocessing_of
from lowbit.decide.decision import Decision
from lowbit.decide.goal import Prefer
from lowbit.decide.limits import limits_in
from lowbit.decide.verdict import verdict
from lowbit.errors import QuantError
from lowbit.ir.graph import Graph
from lowbit.pipeline import quantize
from lowbit.quantization.recipes import RECIPES
from lowbit.report.coverage import Coverage, coverage
from lowbit.report.text import times_smaller

HELP = "quantize a network by a recipe or by rules of your own"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    add_data_arguments(p)
    p.add_argument("--record", metavar="RECORD.json", help="ranges from lowbit calibrate, instead of data")
    add_rule_arguments(p, *(r for r in LLM_RECIPES if r not in RECIPES))
    add_llm_arguments(p)
    p.add_argument("--no-guard", action="store_true", help="take the recipe as it is; do not measure and repair what loses too much")
    p.add_argument("--no-wide", action="store_true", help="no layer gets 16 bits: they cost time, and their tables 128 KB of flash each")
    p.add_argument(
        "--prefer",
        choices=get_args(Prefer),
        default="balanced",
        help="balanced is never slower than float (of 0.1 ms or more), accuracy may be (default: balanced)",
    )
    add_score_arguments(p, "--data")
    max_drop_argument(p)
    p.add_argument("--max-ms", type=positive, metavar="MS", help="milliseconds that a batch may take on one thread")
    p.add_argument(
        "--max-bytes", type=memory, metavar="SIZE", help="bytes of the parameters, as 64k or 1.5M; weights get 4 bits if need be"
    )
    p.add_argument("--max-ram", type=memory, metavar="SIZE", help="bytes that a session needs beside the weights, for a batch")
    p.add_argument("--minutes", type=positive, metavar="M", help="take the best that was found after so long")
    p.add_argument("-v", "--verbose", action="store_true", help="say what was tried, and what became of each layer")
    p.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors and warnings")
    p.add_argument(
        "--bake", action="store_true", help="with pictures: put the preprocessing into the network, which then takes uint8 pixels"
    )
    p.add_argument("--target", metavar="NAME", help="of a folder of C: cortex-m4, host … (portable)")
    p.add_argument("--strict", action="store_true", help="a rule that decides nothing is an error")
    p.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="what to write: small.lowbit, small.onnx, or a folder of C; of a language model, small.gguf",
    )


def main(args: argparse.Namespace) -> None:
    if is_language_model(args):
        main_llm(args)
        return
    need_no_llm(args)
    kind = check_kind(args)
    if has_data(args) and args.record:
        raise UsageError("--data and --record are both given", hint="one of them: a record already holds what the data said")
    need_one(args)
    need_max_drop(args)
    if args.labels and not args.data:
        raise UsageError("--labels are those of the rows of --data, and there is none", hint="--data samples.npz --labels y.npy")
    metric = metric_from(args.metric) if args.metric else None
    graph = load_model(args)
    calibration: Any = CalibrationRecord.load(args.record) if args.record else None
    labels = None
    if has_data(args):
        calibration = data_from(args, graph)
        labels = labels_from(args, calibration) if args.labels else None
    if args.bake and not getattr(calibration, "preprocessing", None) and not any(preprocessing_of(graph, v.name) for v in graph.inputs):
        raise UsageError(
            "--bake puts the preprocessing of pictures into the network, and there are none", hint="--data photos/ --image imagenet --bake"
        )
    decisions: list[Decision] = []
    with workers(args.workers) as executor:
        q = quantize(
            graph,
            calibration,
            recipe=args.recipe,
            rules=rules_from(args),
            method=args.method,
            executor=executor,
            strict=args.strict,
            guard=not args.no_guard,
            wide=not args.no_wide,
            prefer=args.prefer,
            labels=labels,
            output=args.output,
            metric=metric,
            max_drop=args.max_drop,
            max_ms=args.max_ms,
            max_bytes=args.max_bytes,
            max_ram=args.max_ram,
            minutes=args.minutes,
            on_decision=decisions.append,
        )
    found = coverage(graph, q)
    if args.bake:
        q = bake(q)
    said = write(kind, q, args)
    if args.json:
        print_json({"written": args.out, **(decided(graph, decisions[0]) if decisions else {}), **facts(found)})
        need_limits(args, decisions)
        return
    if args.quiet:
        need_limits(args, decisions)
        return
    if decisions:
        tell(verdict(graph, decisions[0]))
    if args.verbose or not decisions:
        say(f"{found}")
    for remark in found.remarks:
        step = re.match(r"decided|not met", remark)  # the verdict says it in short
        if not re.match(r"rule \d+: |scale of ", remark) and (args.verbose or not step):  # of these there was a warning
            tell(f"note: {remark}")
    if args.verbose and decisions:
        show_front(decisions[0])
    tell(f"written: {args.out}, {sizes(kind, args)}{parameters(found)}")
    if said:
        tell(said)
    if kind == ".lowbit":
        data = " ".join(shlex.quote(p) for p in args.data) or "samples.npz"
        bound = f" {example_shapes(v.type for v in q.inputs)}" if q.symbols else ""
        say(f"next   lowbit compare {args.model} {args.out} --data OTHERS.npz")
        say(f"       lowbit verify {args.out} --data {data}")
        say(f"       lowbit run {args.out}{bound}")
        say(f"       lowbit emit-c {args.out} -o c{bound}")
        say(f"       lowbit export {args.out} -o small.onnx")
    need_limits(args, decisions)


def sizes(kind: str, args: argparse.Namespace) -> str:
    """The size of the file that was written, beside the one that was read."""
    if kind == "C":
        return ""
    before, after = file_bytes(Path(args.model)), Path(args.out).stat().st_size
    than = " as" if times_smaller(before, after) == "as large" else " than"
    return f"{size(after)}, {times_smaller(before, after)}{than} {Path(args.model).name}; "


def file_bytes(path: Path) -> int:
    """The bytes of a model's file, with those of the files that hold the weights of an .onnx."""
    if path.suffix != ".onnx":
        return path.stat().st_size
    import onnx
    from onnx.external_data_helper import uses_external_data

    tensors = onnx.load(str(path), load_external_data=False).graph.initializer
    places = {e.value for t in tensors if uses_external_data(t) for e in t.external_data if e.key == "location"}
    return path.stat().st_size + sum(p.stat().st_size for name in sorted(places) if (p := path.parent / name).is_file())


def parameters(found: Coverage) -> str:
    said = f"parameters {size(found.bytes_before)} → {size(found.bytes_after)}"
    if found.bytes_before and found.bytes_after:
        said += f", {times_smaller(found.bytes_before, found.bytes_after)}"
    return said


def need_limits(args: argparse.Namespace, decisions: list[Decision]) -> None:
    """Raises, after the network is written, if a limit of the command line is not kept: a script shall see it."""
    unmet = decisions[0].unmet if decisions else ""
    broken = [f"--{name.replace('_', '-')}" for name in limits_in(unmet)]
    broken += ["--max-drop"] if args.max_drop is not None and any(part.endswith("is the least") for part in unmet.split("; ")) else []
    if broken:
        raise QuantError(f"{' and '.join(broken)} cannot be kept: the best network that was found is written", where=args.out)


def decided(graph: Graph, found: Decision) -> dict[str, Any]:
    """The decision as JSON, with the score if labels or a metric gave one."""
    scores = {"score_name": found.score_name, "score": found.score, "float_score": found.float_score, "scored_on": found.scored}
    return {
        "verdict": verdict(graph, found),
        "met": found.met,
        "unmet": found.unmet,
        "stopped": found.stopped,
        "front": [t.to_dict() for t in found.front],
        "tried": [t.to_dict() for t in found.tried],
        **({} if found.score is None else scores),
    }


def show_front(found: Decision) -> None:
    """The networks that no other beats, on the samples that decided: the smallest first."""
    rows = [
        [t.what, f"{t.worst:.1f}", *([] if t.score is None else [f"{t.score:.6g}"]), "" if t.ms is None else f"{t.ms:.3g}", f"{t.bytes:,}",
         "chosen" if t.chosen else ""]
        for t in found.front
    ]  # fmt: skip
    score = {} if found.score is None else {"score": "right"}
    table("", {"front": "left", "dB of the worst tenth": "right", **score, "ms": "right", "bytes": "right", "": "left"}, rows)


def _plain(value: object) -> object:
    """Numbers of an open size as a text: 128*batch."""
    return value if value is None or isinstance(value, int | str) else str(value)


def facts(found: Coverage) -> dict[str, Any]:
    """The facts that need no data, as JSON."""
    layers = [{f.name: _plain(getattr(s, f.name)) for f in fields(s) if f.name != "value"} for s in found.layers]
    return {
        "coverage": str(found),
        "bytes_before": found.bytes_before,
        "bytes_after": found.bytes_after,
        "remarks": list(found.remarks),
        "layers": layers,
    }
