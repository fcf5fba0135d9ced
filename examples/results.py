"""What quantization costs and gains on four trained networks: docs/results.md is made by this.

    python -m examples.results                             everything, into docs/results.md
    python -m examples.results --only mlp_mnist --stage scores
    python -m examples.results --stage time                milliseconds anew, of what was quantized before

Networks are quantized with a few training samples and scored on the whole test set: by a compiled session and by the PyTorch module that
`lowbit.torch.quantize_` makes. Graphs and numbers are kept in the cache folder, so that it may be interrupted.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import lowbit
from examples.common.networks import NAMES, WEIGHTS, Network, networks
from lowbit.ir.graph import Graph
from lowbit.quantization.recipes import recipe as recipe_rules
from lowbit.torch import quantize_
from lowbit.torch.qat import prepare_qat
from zoo import fetch

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
METHODS = ("minmax", "percentile", "entropy", "mse")
CALIBRATION, TIMED_ROUNDS = 6, 8  # batches to calibrate with; blocks of runs that are timed
STEPS, RATE, SEED = 120, 1e-4, 0  # of the training with quantization
# variant -> recipe, method, guard
VARIANTS: dict[str, tuple[str, str, bool]] = {
    "int8 dynamic": ("int8-dynamic", "minmax", False),
    **{f"int8 {m}": ("int8", m, False) for m in METHODS},
    "int8 guarded": ("int8", "minmax", True),
    "w4a8": ("w4a8", "minmax", False),
}
ONCE, HEAD = "w4a8, table once", "^head$"  # the head in the eight bits of the table that is its weight
HEAD_RULE = f'CalibratedQuantRule("{HEAD}", "int8")'
TIED = ("lstm_ptb", "transformer_ptb")
TRAINED = "w4a8 trained"  # with quantization in the loop: what rounding to four bits lost is learned again
ALL = ("float", *VARIANTS, ONCE, TRAINED)


def float_graph(net: Network) -> Graph:
    return lowbit.load(net.model, inputs=(net.train()[0][0],), dynamic={net.argument: {0: "batch"}})


def quantized(net: Network, variant: str) -> tuple[Graph, nn.Module]:
    """The variant as a graph and as a module; each is made by its own road."""
    graph, model = float_graph(net), copy.deepcopy(net.model)
    if variant == "float":
        return graph, model
    if variant == TRAINED:
        return trained(net)
    recipe, method, guard = VARIANTS["w4a8" if variant == ONCE else variant]
    first = [lowbit.CalibratedQuantRule(HEAD, "int8")] if variant == ONCE else []
    inputs = [x for x, _ in net.train()[:CALIBRATION]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lowbit.LowbitWarning)
        if recipe == "int8-dynamic":
            return lowbit.quantize(graph, recipe=recipe), quantize_(model, recipe)
        samples = [{graph.inputs[0].name: x.numpy()} for x in inputs]
        dynamic = {net.argument: {0: "batch"}}
        module = quantize_(model, [*first, *recipe_rules(recipe)], data=inputs, method=method, guard=guard, dynamic=dynamic)
        return lowbit.quantize(graph, samples, recipe=recipe, rules=first or None, method=method, guard=guard), module


def trained(net: Network) -> tuple[Graph, nn.Module]:
    """w4a8 after some training steps with fake quantization; the module is the one that was trained, its fakes in place."""
    torch.manual_seed(SEED)
    batches = net.train()
    data = [(x,) for x, _ in batches[:CALIBRATION]]
    model = prepare_qat(net.model, "w4a8", inputs=data[0], dynamic={net.argument: {0: "batch"}}, calibration=data, freeze_bn=0)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    model.train()
    for step in range(STEPS):
        x, y = batches[step % len(batches)]
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        optimizer.step()
    return lowbit.load(model.eval()), model


def weight_bytes(graph: Graph) -> int:
    """Bytes of weights: matrices and kernels, and the scales and zero points of those in few bits. Biases and norms are no part of it."""
    total = 0
    held = {v.name: n for n in graph.nodes if n.op == "dequantize_linear" for v in n.inputs if v is not None}
    for name, c in graph.constants.items():
        node = held.get(name)
        weight = node.inputs[0] if node is not None else c.value
        if weight is not None and weight.name in graph.constants and len(weight.type.shape) > 1:
            total += c.value.type.nbytes
    return total


def runner(graph: Graph) -> tuple[lowbit.Session, Callable[[Tensor], Tensor]]:
    session = lowbit.compile(graph, threads=1)
    return session, lambda x: torch.from_numpy(np.asarray(session(x.numpy())))


def scored(net: Network, variant: str, limit: int | None) -> tuple[dict[str, Any], Graph]:
    """Scores of both roads, bytes, and whether the two agree bit for bit on the first batch: then they are scored once."""
    graph, module = quantized(net, variant)
    session, compiled = runner(graph)
    batches = net.test()[:limit]
    with torch.no_grad():
        same = torch.equal(module(batches[0][0]), compiled(batches[0][0]))
    score = net.score(compiled, batches)
    row: dict[str, Any] = {
        "compiled": score,
        "torch": score if same else net.score(module, batches),
        "same": same,
        "weights": weight_bytes(graph),
        "backend": session.backend,
        "tests": sum(y.numel() for _, y in batches),
    }
    compiled(timed_input(net))
    row["activations"] = session.arena_bytes(timed_input(net).numpy())
    return row, graph


def timed_input(net: Network) -> Tensor:
    return net.test()[0][0][: net.timed]


def milliseconds(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least milliseconds of each, measured in turns."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(TIMED_ROUNDS):
        for name, way in ways.items():
            way()
            for _ in range(3):
                begin = time.perf_counter()
                way()
                least[name] = min(least[name], 1e3 * (time.perf_counter() - begin))
    return least


def timed(net: Network, graphs: dict[str, Graph]) -> dict[str, float]:
    x = timed_input(net)

    def torch_float() -> Tensor:
        with torch.no_grad():
            return net.model(x)

    array = x.numpy()
    ways: dict[str, Callable[[], object]] = {"torch": torch_float}
    for variant, graph in graphs.items():
        session = lowbit.compile(graph, threads=1)
        ways[variant] = lambda session=session: session(array)  # type: ignore[misc]
    return milliseconds(ways)


def page(found: dict[str, dict[str, Any]], note: str = "") -> str:
    """The table, with the goals beside it."""
    lines = [
        "# Results on four trained networks",
        "",
        "Made by `python -m examples.results`. Networks, training scripts and weights: `examples/`. Scores are over the whole test set;",
        "*compiled* is a native session with one thread, *PyTorch* the module in eager mode. *Same bits*: the two give equal outputs on",
        "the first test batch, and one score stands for both.",
        "Milliseconds are the least of runs in turns, PyTorch's float module among them; *weights* are matrices and kernels with their",
        "scales as files store them, *activations* the arena at that batch. `--stage time` measures anew.",
        "",
        "The language models' table of words is also their head's weight. Rows that are looked up have eight bits, so `w4a8` stores it",
        "twice, eight bits for the rows and four for the head: the fastest, and larger than `int8`. *Table once* has a rule before the",
        f"recipe, `{HEAD_RULE}`. The report says where a weight is stored more than once.",
        *([note] if note else []),
        "",
    ]
    for name, part in found.items():
        rows, ms = part["rows"], part.get("ms", {})
        lines += [f"## {name}", "", f"{part['about']} PyTorch float takes {ms.get('torch', float('nan')):.2f} ms.", ""]
        lines += [
            f"| variant | {part['metric']}, compiled | PyTorch | same bits | ms a batch | weights | smaller | activations |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for variant, r in rows.items():
            time_ = f"{ms[variant]:.3f}" if variant in ms else ""
            ratio = rows["float"]["weights"] / r["weights"]
            same = "" if variant == "float" else "yes" if r["same"] else "no"
            scores = f"{r['compiled']:.2f} | {r['torch']:.2f} | {same}"
            lines.append(f"| {variant} | {scores} | {time_} | {r['weights']:,} | {ratio:.2f}× | {r['activations']:,} |")
        lines.append("")
    if missing := [name for name, file in WEIGHTS.items() if not file.exists()]:
        lines += [f"Not trained yet, and so not here: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def stored(folder: Path, name: str, variant: str) -> Path:
    """Where a variant's graph is kept between stages."""
    return folder / f"{name}-{variant.replace(',', '').replace(' ', '-')}.lowbit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NETWORK")
    parser.add_argument("--variants", nargs="+", choices=ALL, default=ALL, metavar="VARIANT")
    parser.add_argument("--stage", choices=("scores", "time", "page", "all"), default="all")
    parser.add_argument("--note", default="", help="a sentence for the page about how these milliseconds were taken")
    parser.add_argument("--limit", type=int, help="test batches (default: all); such numbers are not written to the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    folder = fetch.cache() / "results"
    folder.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        if not WEIGHTS[name].exists():
            print(f"{name} has no weights yet: python -m examples.{name}.train", file=sys.stderr)
            continue
        store = folder / f"{name}.json"
        part = json.loads(store.read_text()) if store.exists() else {"rows": {}}
        (net,) = networks([name])
        x = timed_input(net)
        part |= {"name": net.name, "metric": net.metric, "about": f"A batch is {' × '.join(map(str, x.shape))}."}
        if args.stage in ("scores", "all"):
            for variant in (v for v in args.variants if v != ONCE or name in TIED):
                begin = time.perf_counter()
                row, graph = scored(net, variant, args.limit)
                print(f"{name}: {variant}: {row} ({time.perf_counter() - begin:.0f} s)", file=sys.stderr, flush=True)
                if args.limit is None:
                    part["rows"][variant] = row
                    graph.save(stored(folder, name, variant))
                    store.write_text(json.dumps(part, indent=1))
        if args.stage in ("time", "all") and args.limit is None:
            graphs = {v: lowbit.load(stored(folder, name, v)) for v in ALL if v in part["rows"]}
            part["ms"] = timed(net, graphs)
            print(f"{name}: {part['ms']}", file=sys.stderr, flush=True)
        store.write_text(json.dumps(part, indent=1))
    if args.limit is None:
        parts = [json.loads((folder / f"{n}.json").read_text()) for n in NAMES if (folder / f"{n}.json").exists()]
        PAGE.write_text(page({p["name"]: {**p, "rows": {v: p["rows"][v] for v in ALL if v in p["rows"]}} for p in parts}, args.note))
        print(f"wrote {PAGE}", file=sys.stderr)


if __name__ == "__main__":
    main()
