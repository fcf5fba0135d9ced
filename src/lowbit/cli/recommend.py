"""lowbit recommend MODEL: which dtype, scheme, granularity, block size and threads, each with the measurement behind it."""

from __future__ import annotations

import argparse
import math

from lowbit.cli.common import add_model_arguments, load_model, memory, number, print_json, say, size, table
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.codegen.targets import TARGETS
from lowbit.recommend.tune import Candidate, Tuning, auto_tune
from lowbit.recommend.workload import Workload

HELP = "recommend dtype, scheme, granularity, block size and threads for a network, each with the measurement behind it"


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    add_data_arguments(p)
    p.add_argument("--target", choices=list(TARGETS), default="host", help="this machine (host), or a chip: then flash and RAM decide")
    p.add_argument("--max-ms", type=number, metavar="MS", help="milliseconds that a call may take on one thread")
    p.add_argument("--max-bytes", type=memory, metavar="SIZE", help="bytes of the parameters, as 64k or 1.5M; of a chip, of flash")
    p.add_argument("--max-ram", type=memory, metavar="SIZE", help="bytes beside the parameters, as 64k")
    p.add_argument("--max-drop", type=number, metavar="SHARE", help="share of answers (the largest output of a row) that may change")
    p.add_argument("--least-db", type=number, default=20.0, metavar="DB", help="least signal to noise ratio of the outputs (20)")


def main(args: argparse.Namespace) -> None:
    graph = load_model(args)
    work = Workload.of(
        graph, batch=args.batch, target=args.target, max_ms=args.max_ms, max_bytes=args.max_bytes, max_ram=args.max_ram,
        max_drop=args.max_drop, least_db=args.least_db,
    )  # fmt: skip
    made = auto_tune(work, data_from(args, graph) if args.data else None)
    if args.json:
        print_json(made.to_dict())
        return
    show(made)
    chosen = made.chosen.choice
    if chosen.recipe:
        say(f"next   lowbit quantize {args.model} --recipe {chosen.recipe} --data SAMPLES.npz -o out.lowbit   (which also repairs layers)")
    elif chosen.rules:
        rule = chosen.rules[0]
        block = f", granularity={rule.granularity!r}" if rule.granularity != "channel" else ""
        say(f"next   rules=[lowbit.{type(rule).__name__}({rule.pattern!r}, {rule.dtype!r}, scheme={rule.scheme!r}{block})]")
    else:
        say("next   lowbit run: the float network is the best that was found")


def show(made: Tuning) -> None:
    columns = {"tried": "left", "scheme": "left", "granularity": "left", "ms": "right", "bytes": "right", "RAM": "right"}
    table("", {**columns, "dB": "right", "answers changed": "right", "": "left"}, [cells(c, made.chosen) for c in made.tried])
    for r in made.recommendations():
        say(f"{r.what + ':':13}{r.value}   {r.because}")
    if made.random:
        say("inputs were random numbers: --data SAMPLES.npz measures accuracy on yours")
    if not made.met:
        say(f"NOT MET: {'; '.join(made.chosen.unmet)}")


def cells(c: Candidate, chosen: Candidate) -> list[str]:
    block = f" of {c.choice.block_size}" if c.choice.block_size else ""
    said = "chosen" if c is chosen else c.refused or "; ".join(c.unmet)
    return [
        c.choice.dtype, c.choice.scheme, f"{c.choice.granularity}{block}", "" if c.ms is None else f"{c.ms:.4g}",
        "" if c.nbytes is None else size(c.nbytes), "" if c.ram is None else size(c.ram),
        "" if c.db is None else "float's" if math.isinf(c.db) else f"{c.db:.1f}",
        "" if c.changed is None else f"{100 * c.changed:.2g} %", said,
    ]  # fmt: skip
