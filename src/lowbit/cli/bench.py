"""lowbit bench MODEL ...: times networks in turns in one process, layer by layer on request, also against ONNX Runtime."""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.cli.bench_llm import PEER, add_llm_arguments, main_llm
from lowbit.cli.bench_ops import add_ops_arguments, main_ops, need_no_ops
from lowbit.cli.bench_ort import OWN, Runs, conclusions, in_ort, own_int8, scorer
from lowbit.cli.common import UsageError, binding_arguments, load_beside, load_model, print_json, say, table, tell, whole
from lowbit.cli.data import add_data_arguments, data_from
from lowbit.cli.labels import add_score_arguments, need_one
from lowbit.cli.run import random_array, read_inputs
from lowbit.errors import ShapeError
from lowbit.hardware import Hardware
from lowbit.ir.graph import Graph
from lowbit.kernels import native
from lowbit.kernels import threads as threads_of
from lowbit.lower.integer import quantized_nodes
from lowbit.pipeline import compile
from lowbit.report.text import counted
from lowbit.runtime.profile import Profile, Row
from lowbit.runtime.session import Session
from lowbit.runtime.timing import BUSY, NOTICEABLE, Timing, in_turns, pinned
from lowbit.types import Array

HELP = "measure how long networks take here, one or several in turns; layer by layer, and beside ONNX Runtime"
ROUNDS = 10


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("models", nargs="*", metavar="MODEL", help=".onnx or .lowbit files: the float network and what was made of it, say")
    binding_arguments(p)
    p.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help=".npy or .npz; random numbers where none is given")
    p.add_argument("--seed", type=whole(0), default=0, help="of the random numbers (0)")
    p.add_argument("--threads", type=whole(1), default=None, metavar="N", help="how many may work at once (all CPUs of the process)")
    p.add_argument("--isa", choices=native.isas(), default=None, help="no better instruction set than this one")
    p.add_argument(
        "--against",
        choices=["ort", PEER],
        help="also in ONNX Runtime: the float network (ort-fp32), with --data the int8 networks that its own tools make of it "
        "(ort-int8-u8s8 and others), and what lowbit export writes of quantized ones (ort-export); a .gguf file in llama.cpp",
    )
    add_llm_arguments(p)
    add_data_arguments(p)
    p.add_argument("--test", nargs="+", default=[], metavar="PATH", help="samples of the score, other than --data")
    add_score_arguments(p, "--test (or of --data)")
    p.add_argument("--rounds", type=whole(1), default=ROUNDS, metavar="N", help=f"in which each network runs for a while ({ROUNDS})")
    p.add_argument("--layers", action="store_true", help="the time of every layer; for several networks, beside the first one's")
    add_ops_arguments(p)
    p.set_defaults(no_simplify=False)


@dataclass(frozen=True)
class Subject:
    """One network with its inputs, in lowbit and on request in other engines, by name."""

    name: str
    graph: Graph
    session: Session
    feeds: dict[str, Array]
    random: tuple[str, ...]  # inputs that are
    peers: Mapping[str, Runs] = field(default_factory=dict)

    @property
    def quantized(self) -> bool:
        return bool(quantized_nodes(self.graph))

    @property
    def engines(self) -> dict[str, Runs]:
        return {"lowbit": self.session, **self.peers}

    def ways(self) -> dict[str, Callable[[], object]]:
        """How to run it, by engine and name."""
        return {f"{engine} {self.name}": partial(session.run, self.feeds) for engine, session in self.engines.items()}


def distance(reference: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    """The largest difference of two networks' outputs, as a share of the largest output."""
    pairs = [(reference[name].astype(np.float64), got[name]) for name in reference if reference[name].size]
    far = max((float(np.max(np.abs(a - b))) for a, b in pairs), default=0.0)
    return far / (max((float(np.max(np.abs(a))) for a, _ in pairs), default=0.0) or 1.0)


def main(args: argparse.Namespace) -> None:
    if args.ops is not None:
        main_ops(args)
        return
    if not args.models:
        raise UsageError("no network is named", where="lowbit bench", hint="lowbit bench MODEL.onnx, or lowbit bench --ops")
    need_no_ops(args)
    if args.against == PEER:
        main_llm(args)
        return
    if args.peer_python is not None:
        raise UsageError("--peer-python is for --against llama.cpp")
    if args.against and importlib.util.find_spec("onnxruntime") is None:
        raise UsageError("ONNX Runtime is not installed", where="--against ort", hint="pip install onnxruntime")
    need_different(args.models)
    threads, cpus = threads_of.count(args.threads), Hardware.detect().usable_cpus
    if threads > cpus:
        raise UsageError(
            f"--threads {threads}, and this process may use {cpus} CPUs", hint=f"{cpus} or fewer: more only wait for each other"
        )
    need_one(args)
    if args.labels and not (args.test or args.data):
        raise UsageError("--labels are those of the rows of --test or --data", hint="--data samples.npz --test test.npz --labels y.npy")
    graphs = load_all(args)
    failed: dict[str, str] = {}
    with pinned(threads), tempfile.TemporaryDirectory() as work:
        subjects = [subject(name, graph, args, threads, Path(work)) for name, graph in graphs.items()]
        real = next((i for i, s in enumerate(subjects) if not s.quantized), None)
        if args.against and args.data and real is not None:
            mine = subjects[real]
            found, failed = own_int8(mine.name, mine.graph, mine.feeds, data_from(args, mine.graph), threads, Path(work))
            subjects[real] = replace(mine, peers={**mine.peers, **found})
        times = in_turns({name: run for s in subjects for name, run in s.ways().items()}, args.rounds)
        profiles = {s.name: s.session.profile(*(s.feeds[v.name] for v in s.session.graph.inputs)) for s in subjects} if args.layers else {}
    rows = table_rows(args, subjects, times, threads)
    if args.json:
        layers = {name: [layer_json(r) for r in p.rows] for name, p in profiles.items()}
        print_json({"machine": machine(), "rows": rows, "failed": failed} | ({"layers": layers} if args.layers else {}))
        return
    show(rows)
    for text in conclusions(rows, failed, bool(args.data)) if args.against else ():
        tell(text)
    if profiles:
        show_layers(profiles)


def need_different(models: Sequence[str]) -> None:
    """Raises if one file is named twice, by whatever paths."""
    for i, name in enumerate(models):
        for before in models[:i]:
            if name == before or (os.path.exists(name) and os.path.exists(before) and os.path.samefile(name, before)):
                hint = "it once; or a copy of it, to see how far two times of one network lie apart"
                raise UsageError(f"this file is named twice, as {before} before", where=name, hint=hint)


def labels(models: Sequence[str]) -> dict[str, str]:
    """Short names: the file's name, with as many folders as make it unique.

    >>> labels(["m/a.onnx", "m/int8/b.onnx", "m/int4/b.onnx"])
    {'m/a.onnx': 'a.onnx', 'm/int8/b.onnx': 'int8/b.onnx', 'm/int4/b.onnx': 'int4/b.onnx'}
    """

    def tail(name: str, count: int) -> str:
        return "/".join(Path(name).parts[-count:])

    found = {}
    for name in models:
        counts = range(1, len(Path(name).parts) + 1)
        found[name] = next((tail(name, n) for n in counts if [tail(m, n) for m in models].count(tail(name, n)) == 1), name)
    return found


def load_all(args: argparse.Namespace) -> dict[str, Graph]:
    """The networks by file name. --shapes applies to networks with the symbol: one quantized for a fixed batch has no `batch`."""

    def load(name: str, shapes: list[str]) -> Graph:
        own = argparse.Namespace(**vars(args) | {"model": name, "shapes": shapes})
        return load_model(own) if name == args.models[0] else load_beside(own, name)

    if len(args.models) == 1:
        return {args.models[0]: load(args.models[0], args.shapes)}
    sizes = {text.rpartition("=")[0]: text for text in args.shapes}
    graphs, used = {}, set()
    for name in args.models:
        plain = load(name, [])
        fit = [n for n in sizes if n in plain.symbols or n in (v.name for v in plain.inputs)]
        used |= set(fit)
        graphs[name] = load(name, [sizes[n] for n in fit]) if fit else plain
    stray = [n for n in sizes if n not in used]
    if stray:
        raise UsageError(f"--shapes names {stray[0]}, which is no input and no open dimension of any network")
    return graphs


def subject(name: str, graph: Graph, args: argparse.Namespace, threads: int, work: Path) -> Subject:
    feeds = read_inputs(graph, args.input)
    if args.data or args.test:
        given = argparse.Namespace(**vars(args) | {"data": args.test or args.data})
        feeds = next(iter(data_from(given, graph))) | feeds
    rng = np.random.default_rng(args.seed)
    random = tuple(v.name for v in graph.inputs if v.name not in feeds)
    feeds |= {v.name: random_array(v.name, v.type, rng) for v in graph.inputs if v.name in random}
    session = compile(graph, threads=threads, isa=args.isa)
    try:
        made = session.run(feeds)  # compiles for these shapes; what is wrong with the inputs is said here
    except ShapeError as e:
        if e.hint is None and args.shapes:
            e.hint = f"arrays of the sizes that {' '.join(f'--shapes {s}' for s in args.shapes)} binds, or without --shapes"
        raise
    need_outputs(name, made)
    return Subject(name, graph, session, feeds, random, in_ort(name, graph, feeds, threads, work) if args.against else {})


def need_outputs(name: str, made: Mapping[str, Array]) -> None:
    """Raises if nothing is computed: a batch without samples has no meaningful time."""
    if any(y.size for y in made.values()):
        return
    empty = ", ".join(f"{n}: {y.dtype}{list(y.shape)}" for n, y in made.items())
    what = "the output is" if len(made) == 1 else "all outputs are"
    hint = "arrays that hold samples, or --shapes with sizes from 1 on, as in --shapes batch=1"
    raise UsageError(f"nothing is computed: {what} empty ({empty})", where=name, hint=hint)


def table_rows(args: argparse.Namespace, subjects: Sequence[Subject], times: dict[str, Timing], threads: int) -> list[dict[str, Any]]:
    """A row for each network and engine.

    away   the largest difference of the outputs as a share of the largest: of int8 networks from the float one, if both run on the same
           samples (random numbers may lie outside their ranges); of ONNX Runtime's float network and of exports from lowbit's
    score  by labels or metric, where given
    """
    first, rows = next(iter(times.values())), []
    real = next((s for s in subjects if not s.quantized), None)
    in_float = None if real is None else real.session.run(real.feeds)
    for s in subjects:
        mine, judge = s.session.run(s.feeds), scorer(args, s.graph)
        for engine, session in s.engines.items():
            t = times[f"{engine} {s.name}"]
            r: dict[str, Any] = {"model": s.name, "engine": engine, "quantized": s.quantized or engine.startswith(OWN), "threads": threads}
            r |= {"ms_min": t.least, "ms_median": t.median, "runs": len(t.ms), "of_first": t.least / first.least}
            r |= {"random_inputs": list(s.random)} | ({"backend": s.session.backend} if engine == "lowbit" else {})
            reference = mine if engine != "lowbit" else in_float if s is not real and not s.random else None
            if reference is not None and all(n in reference and reference[n].shape == x.shape for n, x in mine.items()):
                r["away"] = distance(reference, session.run(s.feeds))
            if judge is not None:
                r |= {"score_name": judge.name, "score": judge.of(session)}
            rows.append(r)
    return rows


def layer_json(r: Row) -> dict[str, Any]:
    return {k: getattr(r, k) for k in ("layer", "op", "kernel", "ms", "macs", "gmacs", "share", "proof")}


def machine() -> dict[str, Any]:
    hw = Hardware.detect()
    return {
        "cpu": hw.cpu,
        "cpus": hw.usable_cpus,
        "isas_built": list(hw.isas),
        "isas_on_this_cpu": list(hw.isas_on_this_cpu),
        "load": hw.load,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """The table, and what it does not say: how often, how busy, on which inputs."""
    named = next((r["score_name"] for r in rows if "score" in r), None)
    differ, partly = any("away" in r for r in rows), [r for r in rows if r.get("backend", "native") != "native"]
    short = labels(list(dict.fromkeys(r["model"] for r in rows)))
    columns = {"network": "left", "engine": "left", "least ms": "right", "median": "right", "÷ first": "right"}
    columns |= ({"off": "right"} if differ else {}) | ({named: "right"} if named else {})

    def cells(r: dict[str, Any]) -> list[str]:
        score = r.get("score")
        shown = "–" if score is None else f"{score:.2%}" if named == "top-1" else f"{score:.6g}"
        away = "" if "away" not in r else "< 0.01 %" if r["away"] < 1e-4 else f"{100 * r['away']:.2g} %"
        first = [short[r["model"]], r["engine"], f"{r['ms_min']:.4g}", f"{r['ms_median']:.4g}", f"{r['of_first']:.2f}"]
        return [*first, *([away] if differ else []), *([shown] if named else [])]

    table("", columns, [cells(r) for r in rows])
    runs, threads = min(r["runs"] for r in rows), rows[0]["threads"]
    say(f"{counted(threads, 'thread')}, in turns, {counted(runs, 'run')} or more of each; the least time counts")
    for r in partly:
        say(f"{r['model']}: {r['backend']}")
    if differ:
        tell("off: the largest difference of an output, in % of the largest: of int8 from float, of ONNX Runtime from lowbit")
    busy = max(r["ms_median"] / r["ms_min"] for r in rows)
    if busy > BUSY:
        tell(f"the machine was busy: a median is {busy:.1f} times its least time, so ratios are rough; try when it is idle, or --rounds 30")
    random = dict.fromkeys(n for r in rows for n in r["random_inputs"])
    if random:
        tell(f"random numbers for {', '.join(random)}: on samples like those of calibration (--data) some kernels need fewer steps")


def show_layers(profiles: dict[str, Profile]) -> None:
    """One table of a single network's layers; for several, each layer's time beside the first network's."""
    (name, first), *others = profiles.items()
    short = labels(list(profiles))
    if not others:
        say(f"\n{first}")
    before = by_layer(first)
    for other, profile in others:
        mine = by_layer(profile)
        columns = {"layer": "left", "kernels": "left", "ms": "right", f"in {short[name]}": "right", "ratio": "right", "": "left"}
        cells = [compared(layer, ms, before.get(layer), profile) for layer, ms in mine.items()]
        say("")
        table(f"{other}: {profile.ms:.4g} ms", columns, cells)
        gone = [layer for layer in before if layer not in mine]
        if gone:
            say(f"only in {name}: {', '.join(gone)}")


def by_layer(profile: Profile) -> dict[str, float]:
    """Milliseconds by layer, in the order in which they begin."""
    found: dict[str, float] = {}
    for r in profile.rows:
        found[r.layer] = found.get(r.layer, 0.0) + r.ms
    return found


def compared(layer: str, ms: float, before: float | None, profile: Profile) -> list[str]:
    """The cells of a layer that took `before` in the first network."""
    kernels = ", ".join(dict.fromkeys(r.kernel for r in profile.rows if r.layer == layer))
    if before is None:
        return [layer, kernels, f"{ms:.4f}", "", "", "only here"]
    ratio = ms / before if before else 1.0
    return [layer, kernels, f"{ms:.4f}", f"{before:.4f}", f"{ratio:.2f}", "slower" if ratio > NOTICEABLE else ""]
