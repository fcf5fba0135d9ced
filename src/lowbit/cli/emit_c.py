"""lowbit emit-c MODEL -o out/ --target cortex-m4: the network as self-contained C."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from lowbit.arguments import path
from lowbit.cli.common import UsageError, add_model_arguments, load_model, memory, print_json, say, size, whole
from lowbit.codegen import TARGETS
from lowbit.codegen.boards import FOLDER
from lowbit.codegen.folder import MANIFEST, check_folder
from lowbit.codegen.names import reserved
from lowbit.codegen.readme import portable_share
from lowbit.frames import streaming
from lowbit.ir.graph import Graph
from lowbit.pipeline import emit_c

HELP = "write a network as a folder of self-contained C11: no allocation, RAM known exactly, the bits of lowbit run"


def pair(text: str) -> str:
    """An argparse type: an input and the output that it is in the next call, with = or : between them. Names may hold both."""
    if not re.search(r"(?s).[:=].", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no pair; INPUT=OUTPUT is")
    return text


def states(texts: list[str], graph: Graph) -> dict[str, str]:
    """Input → output: of all places where a text may be cut, the one with an input before it and an output after it."""
    found: dict[str, str] = {}
    inputs = [v.name for v in graph.inputs]
    for text in texts:
        cuts = [(text[: m.start()], text[m.end() :]) for m in re.finditer("[:=]", text)]
        fit = [(name, out) for name, out in cuts if name in inputs and out in graph.outputs]
        if len(fit) != 1:
            why = f"is both {' and '.join(f'{a!r}, {b!r}' for a, b in fit)}" if fit else "is no input and output of the network"
            hint = "state= of lowbit.emit_c" if fit else f"an input of {', '.join(inputs)}, =, an output of {', '.join(graph.outputs)}"
            raise UsageError(f"--state {text!r} {why}", hint=hint)
        if fit[0][0] in found:
            raise UsageError(f"--state names {fit[0][0]!r} twice")
        found.update(fit)
    return found


def streamed(args: argparse.Namespace) -> tuple[Graph, dict[str, str]]:
    """The network, on frames if they are asked for, and all its states."""
    graph = load_model(args)
    given = states(args.state, graph)
    if args.streaming is None:
        if args.time_axis is not None:
            raise UsageError("--time-axis is for --streaming", hint="--streaming 16 --time-axis 1")
        return graph, given
    over = [v.name for v in graph.inputs if v.name not in given]
    made = streaming(graph, frame=args.streaming, axis=-1 if args.time_axis is None else args.time_axis, inputs=over)
    return made.graph, {**given, **made.state}


def add_arguments(p: argparse.ArgumentParser) -> None:
    add_model_arguments(p)
    p.add_argument("-o", "--out", required=True, metavar="FOLDER", help="written whole or not at all; files of yours in it are kept")
    p.add_argument(
        "--target", default="portable", choices=list(TARGETS), metavar="NAME", help="one of " + ", ".join(TARGETS) + " (portable)"
    )
    p.add_argument("--name", default="model", help="what every symbol begins with (model)")
    p.add_argument("--no-float", action="store_true", help="compute real numbers in integers, the same bits: for chips without an FPU")
    p.add_argument("--float-io", action="store_true", help="inputs and outputs stay reals, also where the network quantizes them")
    p.add_argument("--channels-last", action="store_true", help="images are given as (N, H, W, C): saves a copy")
    p.add_argument("--io-in-arena", action="store_true", help="inputs and outputs share the arena with everything else")
    p.add_argument(
        "--state",
        action="append",
        type=pair,
        default=[],
        metavar="IN=OUT",
        help="input IN is output OUT of the call before",
    )
    p.add_argument("--streaming", type=whole(1), metavar="FRAME", help="run frames of a sequence, each of FRAME times; states are kept")
    p.add_argument("--time-axis", type=whole(-64), metavar="AXIS", help="the axis of the inputs that is time (-1: the last)")
    p.add_argument("--vectors", type=whole(1), default=2, metavar="N", help="known answers in the self test (2)")
    p.add_argument("--fits", nargs=2, type=memory, metavar=("RAM", "FLASH"), help="exit code 1 if it needs more: --fits 64k 256k")
    p.add_argument("--force", action="store_true", help="write into a folder of other files, also over those that lowbit did not write")


def need_own_folder(out: Path, args: argparse.Namespace) -> None:
    """Raises if the folder holds files and lowbit wrote none of them: some thirty more would stand among them."""
    there = sorted(p.name for p in out.iterdir()) if out.is_dir() else []
    if there and MANIFEST not in there and not args.force:
        raise UsageError(
            f"it holds {len(there):,} files or folders that lowbit did not write ({there[0]} …)",
            where=args.out,
            hint=f"-o {Path(args.out) / 'c'}, a folder of its own; --force writes beside them",
        )


def main(args: argparse.Namespace) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", args.name):
        raise UsageError(f"--name {args.name!r} is no C identifier of letters, digits and single underscores", hint="--name model")
    kept_by_c = reserved(args.name)
    if kept_by_c is not None:
        raise UsageError(f"--name {args.name!r} cannot be used: {kept_by_c}", hint=f"--name {args.name}_net")
    need_own_folder(check_folder(path(args.out, "the path of a folder")), args)
    graph, kept = streamed(args)
    done = emit_c(
        graph, args.out, target=args.target, name=args.name, no_float=args.no_float, float_io=args.float_io,
        channels_last=args.channels_last, io_in_arena=args.io_in_arena, state=kept, vectors=args.vectors,
        fits=tuple(args.fits) if args.fits else None,
        force=args.force,
    )  # fmt: skip
    if args.json:
        print_json(done.to_json())
        return
    say(f"written  {args.out}: {len(done.files)} files for {done.target}")
    io = f", and {size(done.io_bytes)} of the caller's for inputs and outputs" if done.io_bytes else ", inputs and outputs included"
    say(f"RAM      {done.arena_bytes:,} bytes of arena{io}; no arena can be smaller than {done.least_bytes:,}")
    if done.state_bytes:
        say(f"state    {done.state_bytes:,} bytes for each stream")
    if done.flash_bytes is not None:
        say(f"flash    {done.flash_bytes:,} bytes, weights {done.weight_bytes:,} ({done.compiler})")
        say(f"stack    {done.stack_bytes:,} bytes")
    else:
        say(f"flash    {done.weight_bytes:,} bytes of weights; the code was not measured: no compiler for {done.target} is there")
        say(f"stack    not measured{', and not counted by --fits; nor is the code' if args.fits else ''}")
    if done.table_bytes:
        say(f"tables   {done.table_bytes:,} bytes of the weights, to read 16 bits by; lowbit quantize --no-wide does without them")
    share = portable_share(TARGETS[args.target].isas, done.macs, done.ref_macs)
    if share:
        say(f"kernels  {share}")
    say(
        "bits     "
        + ("those of the interpreter" if done.exact else "float layers round in the order of the kernels, not the interpreter's")
    )
    alone = TARGETS[args.target].bare and f"{FOLDER}/board.mk" not in done.files  # no emulated board is as large
    say(f"next     make -C {args.out}{'' if alone else ' test'}   ·   {args.out}/README.md")
