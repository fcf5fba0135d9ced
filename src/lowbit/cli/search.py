"""lowbit search MODEL --data … -o best.lowbit: a width for each layer, the cheapest network whose score holds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lowbit.cli.calibrate import add_calibration_arguments, workers
from lowbit.cli.common import (
    UsageError,
    add_model_arguments,
    check_out,
    example_shapes,
    load_model,
    number,
    print_json,
    say,
    size,
    table,
    whole,
)
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.cli.labels import add_score_arguments, labels_from, max_drop_argument, metric_from, need_max_drop, need_one
from lowbit.decide.labelled import MAX_DROP
from lowbit.decide.samples import split
from lowbit.decide.scores import top1
from lowbit.decide.search.result import Point, SearchResult
from lowbit.decide.search.units import FLOAT, WIDTHS
from lowbit.decide.search.walk import COSTS, MINUTES, TRIALS, search
from lowbit.errors import InputError
from lowbit.ir.graph import Graph
from lowbit.report.scored_output import scored_output
from lowbit.report.scores import labels_by_batch
from lowbit.runtime.session import Session
from lowbit.types import Array

HELP = "find a width for each layer: the cheapest network whose accuracy holds; Ctrl-C keeps the best so far"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    add_data_arguments(p)
    p.add_argument("--test", nargs="+", default=[], metavar="PATH", help="samples to measure with; else one batch in four of --data")
    add_score_arguments(p, "--test (or of --data)")
    max_drop_argument(p)
    p.add_argument("--least-db", type=number, metavar="DB", help="without: the least signal to noise ratio of the outputs (30)")
    p.add_argument("--cost", choices=COSTS, default="time", help="what is to be little (time: measured here, for a batch)")
    narrow = [w for w in WIDTHS if w != FLOAT]
    p.add_argument("--widths", nargs="+", choices=narrow, default=narrow, help=f"widths beside float ({' '.join(narrow)})")
    p.add_argument("--minutes", type=number, default=MINUTES, metavar="M", help=f"for about so long ({MINUTES:g})")
    p.add_argument("--trials", type=whole(1), default=TRIALS, metavar="N", help=f"at most so many networks ({TRIALS})")
    p.add_argument("--threads", type=whole(1), metavar="N", help="threads that networks run on (all CPUs)")
    add_calibration_arguments(p)
    p.add_argument("-o", "--out", required=True, metavar="MODEL.lowbit", help="the best network")
    p.add_argument("--rules-out", metavar="RULES.toml", help="its rules, for lowbit quantize --rules")


def main(args: argparse.Namespace) -> None:
    check_out(args.out, "a network", (".lowbit",), args.model)
    if args.rules_out:
        check_out(args.rules_out, "rules", (".toml",))
    need_one(args)
    need_max_drop(args, ", or --least-db 30")
    if args.least_db is not None and (args.labels or args.metric):
        said = "--labels are" if args.labels else "--metric is"
        raise UsageError(f"--least-db is for the outputs' dB, and {said} given", hint=f"--max-drop {MAX_DROP}")
    if args.minutes <= 0:
        raise UsageError(f"--minutes {args.minutes:g}, more than 0 are needed", hint=f"--minutes {MINUTES:g}")
    metric = metric_from(args.metric) if args.metric else None
    graph = load_model(args)
    given = samples(args, graph, metric)
    with workers(args.workers) as executor:
        best = search(
            graph, given.data, test=given.test, metric=given.metric, max_drop=args.max_drop, least_db=args.least_db, cost=args.cost,
            trials=args.trials, minutes=args.minutes, widths=args.widths, method=args.method, threads=args.threads, executor=executor,
            on_trial=tell if sys.stderr.isatty() and not args.json else None,
        )  # fmt: skip
    best.graph.save(args.out)
    if args.rules_out:
        best.save_rules(args.rules_out)
    if args.json:
        print_json({"written": args.out, **best.to_dict(), "measured_on": given.said or best.measured_on})
    else:
        show(args, best, given.said)
    if best.stopped == "interrupted":
        raise KeyboardInterrupt  # the best so far is written; the exit code reports the interrupt


def tell(point: Point) -> None:
    """One line for each network, on stderr."""
    what = f"no score ({point.failed})" if point.failed else f"score {point.score:.6g}, {size(point.bytes)}, {point.ms:.3g} ms"
    say(f"  {point.what}: {what}{'' if point.accepted else ', not enough'}", file=sys.stderr)


def show(args: argparse.Namespace, best: SearchResult, said: str) -> None:
    table("", {"layer": "left", "width": "left", "why": "left"}, [[a.name, a.width, a.why] for a in best.layers])
    rows = [
        [p.what, best.said(p.score), f"{p.bytes:,}", f"{p.ms:.4f}", "chosen" if p is best.chosen else "" if p.accepted else "not enough"]
        for p in best.pareto
    ]
    columns = {"front (layers of each width)": "left", "score": "right", "bytes": "right", "ms": "right", "": "left"}
    table("", columns, rows)
    say(best.summary)
    if said:
        say(f"score: {said}")
    say(f"written: {args.out}" + (f", {args.rules_out}" if args.rules_out else ""))
    if best.is_float:
        wide = "--max-drop" if args.labels or args.metric else "--least-db"
        say(f"next   another {wide}, or data in more batches")
    else:
        bound = f" {example_shapes(v.type for v in best.graph.inputs)}" if best.graph.symbols else ""
        say(f"next   lowbit compare {args.model} {args.out} --data OTHERS.npz   ·   lowbit run {args.out}{bound}")


@dataclass(frozen=True)
class Given:
    """Samples to calibrate and to measure with, and the accuracy where there are labels; `said` tells what it is measured on."""

    data: Iterable[Any]
    test: Iterable[Any] | None
    metric: Callable[[Session], Any] | None
    said: str = ""


def samples(args: argparse.Namespace, graph: Graph, metric: Callable[[Session], Any] | None) -> Given:
    data = data_from(args, graph)
    of_test = argparse.Namespace(**vars(args) | {"data": args.test, "limit": None})
    test = data_from(of_test, graph) if args.test else None
    if not args.labels:
        return Given(data, test, metric)
    labels = labels_from(args, data) if test is None else labels_from(of_test, test, "--test")
    arrays = list(data if test is None else test)
    output = scored_output(graph, args.output)
    parts = list(zip(arrays, labels_by_batch(graph, arrays, labels, output), strict=True))
    top = "top-1" if len(graph.outputs) == 1 else f"top-1 of output {output!r}"
    if test is None:
        if len(parts) < 2:
            raise InputError(
                "there is one batch: none can be held back to measure with", where=", ".join(args.data), hint="--test, or --batch"
            )
        cut = split([x for x, _ in parts], len(parts), len(parts))
        kept = [parts[i] for i in cut.held.numbers]
        said = f"{top} on {sum(len(y) for _, y in kept):,} rows held back from calibration"
        return _labelled([parts[i][0] for i in cut.fit.numbers], kept, output, said)
    return _labelled(data, parts, output, f"{top} on {test.rows:,} rows of --test")


def _labelled(data: Iterable[Any], parts: list[tuple[dict[str, Array], Array]], output: str, said: str) -> Given:
    arrays = [x for x, _ in parts]
    return Given(data, arrays, top1(arrays, [y for _, y in parts], output), said)
