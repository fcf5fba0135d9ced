"""One network's story, step by step: float, dynamic, calibrated static, w4a8; its scores, times and bytes; the plots as SVG.

python -m examples.mlp_mnist [--out FOLDER] [--batches N]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lowbit
from examples.common.networks import Network, networks
from lowbit.ir.graph import Graph
from lowbit.progress import progress

WAYS = ("float", "int8-dynamic", "int8", "w4a8")
METHODS = ("minmax", "percentile", "entropy", "mse", "adaptive")


def graph_of(net: Network) -> Graph:
    return lowbit.load(net.model, inputs=(net.train()[0][0],), dynamic={net.argument: {0: "batch"}})


def made(graph: Graph, way: str, samples: list[dict[str, Any]], method: str = "minmax") -> Graph:
    """The network in one of the ways, without repairs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lowbit.LowbitWarning)
        if way == "float":
            return graph
        if way == "int8-dynamic":
            return lowbit.quantize(graph, recipe=way)
        return lowbit.quantize(graph, samples, recipe=way, method=method, guard=False)


def measured(net: Network, graph: Graph, batches: list[Any], what: str) -> tuple[float, float, int]:
    """Score, least milliseconds of a batch on one thread, bytes."""
    session = lowbit.compile(graph, threads=1)
    score = net.score(lambda t: torch.from_numpy(np.asarray(session(t.numpy()))), list(progress(batches, what)))
    one, times = batches[0][0][: net.timed].numpy(), []
    for _ in range(7):
        start = time.perf_counter()
        session(one)
        times.append(1e3 * (time.perf_counter() - start))
    return score, min(times), graph.parameter_bytes


def story(name: str, arguments: list[str] | None = None) -> dict[str, tuple[float, float, int]]:
    """Tells it, and writes the plots; what was measured, by way and by calibration method."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.{name}")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the plots (.)")
    parser.add_argument("--batches", type=int, default=4, metavar="N", help="test batches (4); 0: all")
    args = parser.parse_args(arguments)
    (net,) = networks([name])
    print(f"{net.name}: {net.metric}\n1. The float network, as a graph:")
    graph = graph_of(net)
    print(f"   {len(graph.nodes)} nodes, {graph.parameter_count:,} parameters, {graph.parameter_bytes:,} bytes")
    samples = [{graph.inputs[0].name: x.numpy()} for x, _ in net.train()[:6]]
    batches = net.test()[: args.batches or None]
    print("2. Quantized; dynamic: scales of activations at run time; int8 and w4a8: scales learned from six batches")
    found = {}
    for way in WAYS:
        found[way] = measured(net, made(graph, way, samples), batches, way)
        print("   {:13} {} {:8.2f}   {:8.3f} ms   {:6.2f} MB".format(way, net.metric, *found[way][:2], found[way][2] / 1e6))
    print("3. Ways to calibrate static int8:")
    for method in METHODS:
        found[method] = measured(net, made(graph, "int8", samples, method), batches, method)
        print(f"   {method:13} {net.metric} {found[method][0]:8.2f}")
    plots = plot(name, net, found, args.out)
    print(f"4. Plots: {', '.join(map(str, plots))}")
    return found


def plot(name: str, net: Network, found: dict[str, tuple[float, float, int]], out: Path) -> list[Path]:
    """Latency, memory and score of each way; the score by calibration method. Two SVG files."""
    try:
        import matplotlib
    except ImportError:
        print("   matplotlib is not installed: pip install 'lowbit[notebook]'", file=sys.stderr)
        return []
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.8))
    for ax, i, title in zip(axes, (1, 2, 0), ("ms, one thread", "bytes", net.metric), strict=True):
        ax.bar(WAYS, [found[w][i] for w in WAYS])
        ax.set_title(f"{net.name}: {title}", fontsize=8)
        ax.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(out / f"{name}.svg")
    figure, ax = plt.subplots(figsize=(5, 2.6))
    scores = [found[m][0] for m in METHODS]
    ax.bar(METHODS, scores)
    ax.set_ylim(min(scores) - 1, max(scores) + 1)
    ax.set_title(f"{net.name}: {net.metric} by calibration method", fontsize=8)
    ax.tick_params(labelsize=7)
    figure.savefig(out / f"{name}_calibration.svg")
    plt.close("all")
    return [out / f"{name}.svg", out / f"{name}_calibration.svg"]
