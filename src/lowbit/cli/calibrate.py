"""lowbit calibrate MODEL --data …: learns the ranges of the values that rules will quantize, and writes them as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from lowbit.calibration.observers import BUILT_IN
from lowbit.cli.common import add_model_arguments, check_out, load_model, print_json, say, whole
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.cli.processes import process_pool
from lowbit.pipeline import calibrate
from lowbit.quantization.recipes import MIXED, RECIPES
from lowbit.quantization.rules import QuantRule
from lowbit.quantization.rules_file import load_rules
from lowbit.report.text import counted

HELP = "learn the ranges of a network's values from data"
DEFAULT = "int8"
SHOWN = 4  # values that are named where numbers were left out of them


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    add_data_arguments(p)
    add_rule_arguments(p)
    p.add_argument("--ignore-nonfinite", action="store_true", help="leave NaN and infinities out instead of refusing them")
    p.add_argument("-o", "--out", required=True, metavar="RECORD.json", help="the record to write")


def add_rule_arguments(p: argparse.ArgumentParser, *more: str) -> None:
    """--recipe and --rules; `more` are recipes that only this verb knows."""
    p.add_argument(
        "--recipe",
        type=recipe_name,
        choices=sorted({*RECIPES, *more}),
        help="a named list of rules: docs/quantize.md (int8, if there are no --rules)",
    )
    p.add_argument(
        "--rules", metavar="FILE.toml", help="rules of your own, see examples/rules.toml; with --recipe they match before its rules"
    )
    add_calibration_arguments(p)


def recipe_name(text: str) -> str:
    """An argparse type: `mixed` is the name of what a search finds, and no recipe."""
    if text == MIXED:
        raise argparse.ArgumentTypeError("mixed has no rules beforehand: lowbit search finds them, and --rules takes them")
    return text


def add_calibration_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--method", choices=sorted(BUILT_IN), default="minmax", help="how ranges are chosen (minmax)")
    p.add_argument("--workers", type=whole(1), default=1, metavar="N", help="processes to calibrate with (1); the result is the same")


def rules_from(args: argparse.Namespace) -> list[QuantRule] | None:
    return load_rules(args.rules) if args.rules else None


@contextmanager
def workers(count: int) -> Iterator[Executor | None]:
    """Processes to work with, or None for this one."""
    if count <= 1:
        yield None
        return
    with process_pool(count) as pool:
        yield pool


def main(args: argparse.Namespace) -> None:
    check_out(args.out, "a calibration record", (".json",), args.model)
    graph = load_model(args)
    data = data_from(args, graph)
    with workers(args.workers) as executor:
        record = calibrate(
            graph,
            data,
            method=args.method,
            recipe=args.recipe,
            rules=rules_from(args),
            executor=executor,
            ignore_nonfinite=args.ignore_nonfinite,
        )
    record.save(args.out)
    if args.json:
        found = {"written": args.out, "taps": len(record), "batches": len(data), "rows": data.rows, "method": args.method}
        print_json(found | ({"ignored": record.ignored} if args.ignore_nonfinite else {}))
        return
    if args.ignore_nonfinite:
        named = [f"{n:,} in {name}" for name, n in record.ignored.items()]
        more = f" and {len(named) - SHOWN} more values" if len(named) > SHOWN else ""
        say(f"left out: {', '.join(named[:SHOWN]) + more if named else 'nothing'} (NaN and infinities)")
    say(f"written: {args.out}, the ranges of {counted(len(record), 'value')} over {data} ({args.method})")
    named = [f"--rules {args.rules}"] if args.rules else []
    same = " ".join([*named, f"--recipe {args.recipe or DEFAULT}"] if args.recipe or not named else named)
    say(f"next   lowbit quantize {args.model} --record {args.out} {same} -o model.lowbit")
