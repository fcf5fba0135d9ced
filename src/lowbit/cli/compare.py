"""lowbit compare FLOAT QUANTIZED --data …: the cost of quantizing, layer by layer."""

from __future__ import annotations

import argparse
import re

from lowbit.cli.common import add_model_arguments, check_out, count, load_beside, load_model, narrow, print_json, say, size, table, tell
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.cli.labels import add_score_arguments, labels_from, metric_from, need_one
from lowbit.report.compare import Report, compare, said_types
from lowbit.report.text import counted, decibels

HELP = "compare a quantized network with the float one it was made from, layer by layer"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument("quantized", help="the .lowbit file that lowbit quantize wrote")
    add_data_arguments(p)
    add_score_arguments(p, "--data")
    p.add_argument("-o", "--out", action="append", default=[], metavar="REPORT.html|.json", help="save the report; may be repeated")


def main(args: argparse.Namespace) -> None:
    for out in args.out:
        check_out(out, "a report", (".html", ".json"))
    need_one(args)
    metric = metric_from(args.metric) if args.metric else None
    graph = load_model(args)
    quantized = load_beside(argparse.Namespace(**vars(args) | {"no_simplify": False}), args.quantized)
    data = data_from(args, graph)
    labels = labels_from(args, data) if args.labels else None
    report = compare(graph, quantized, data, labels=labels, output=args.output, metric=metric)
    for out in args.out:
        report.save(out)
    if args.json:
        print_json(report.to_dict())
        return
    show(report)
    for out in args.out:
        say(f"written: {out}")
    if not args.out:
        say("next   the same with -o report.html")


def show(report: Report) -> None:
    columns = {
        "layer": "left",
        "became": "left",
        "local": "right",
        "accumulated": "right",
        "MACs": "right",
        "bytes": "right",
        "why": "left",
    }
    rows = [
        [
            r.layer,
            f"{r.op} → {r.now}{said_types(r)}",
            decibels(r.local_db),
            decibels(r.accumulated_db),
            count(r.macs),
            f"{r.bytes_before:,} → {r.bytes_after:,}" if r.bytes_before or r.bytes_after else "",
            r.because,
        ]
        for r in report.layers
    ]
    if narrow():  # without types and multiplications, which -o report.html and --json have
        columns.pop("MACs")
        rows = [[row[0], f"{r.op} → {r.now}", *row[2:4], *row[5:]] for r, row in zip(report.layers, rows, strict=True)]
    table("", columns, rows)
    say(report.coverage)
    say(f"{size(report.bytes_before)} → {size(report.bytes_after)}; {report.integer_macs:.1%} of {report.macs:,} MACs on integers")
    if report.proof:
        say(report.proof)
    for o in report.outputs:
        if o.sqnr_db is None:
            say(f"output {o.name}: {o.equal:.2%} of elements equal{', ' + o.said_db if o.said_db else ''}")
            continue
        same = f", argmax the same {o.same_argmax:.1%}" if o.same_argmax is not None else ""
        say(f"output {o.name}: {o.said_db}, largest error {o.max_error:.3g}, cosine {o.cosine:.6f}{same}")
    if report.score is not None:
        say(report.score)
    say(f"{counted(report.batches, 'batch')}; {report.times}")
    for remark in brief(report.remarks):
        tell(f"note: {remark}")


def brief(remarks: tuple[str, ...]) -> list[str]:
    """Each remark once. The steps of a decision are only counted; `lowbit quantize -v` prints them."""
    steps = [r for r in remarks if re.match(r"decided \d+: ", r)]
    kept = sum(r.endswith(", kept") for r in steps)
    told = f" ({counted(len(steps), 'step')}, {kept} kept: -o report.html has them)" if steps else ""
    return [r + told if r.startswith("decided: ") else r for r in dict.fromkeys(remarks) if r not in steps]
