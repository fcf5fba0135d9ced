"""lowbit eval MODEL --data X --labels Y: the task score of a network, and how long a row takes."""

from __future__ import annotations

import argparse

from lowbit.cli.common import UsageError, add_model_arguments, load_model, print_json, say, whole
from lowbit.cli.data import add_data_arguments, data_from, has_data, labels_in
from lowbit.cli.labels import add_score_arguments, labels_from, metric_from, need_one
from lowbit.report.evaluate import evaluate

HELP = "score a network, float or quantized: top-1 and top-5 by labels, or a metric of your own"

NOTHING = "neither --labels nor --metric is given, and the data bring no labels"
NEEDED = "--labels y.npy, or a folder for each class; lowbit run MODEL shows outputs without a score"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    add_data_arguments(p)
    add_score_arguments(p, "--data")
    p.add_argument("--threads", type=whole(1), metavar="N", help="threads that the network runs on (all CPUs)")


def main(args: argparse.Namespace) -> None:
    need_one(args)
    if args.labels and not args.data:
        raise UsageError("--labels are given without --data", hint="--data samples.npz --labels y.npy")
    if not args.labels and not args.metric and not args.data:
        raise UsageError(NOTHING, hint=NEEDED)
    metric = metric_from(args.metric) if args.metric else None
    graph = load_model(args)
    data = data_from(args, graph) if has_data(args) else None
    if not args.labels and not args.metric and not labels_in(args, data):
        raise UsageError(NOTHING, hint=NEEDED)
    labels = labels_from(args, data) if args.labels and data is not None else None
    found = evaluate(graph, data, labels, output=args.output, metric=metric, threads=args.threads)
    if args.json:
        print_json({"model": args.model, **found.to_dict()})
        return
    say(f"{args.model}: {found}")
