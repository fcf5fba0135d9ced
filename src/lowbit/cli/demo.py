"""lowbit demo: the main job on a small trained network and real images that come with lowbit."""

from __future__ import annotations

import argparse
import time
from importlib import resources
from typing import Any

import numpy as np

from lowbit.cli.common import print_json, size, table
from lowbit.errors import InputError
from lowbit.ir.graph import Graph
from lowbit.pipeline import calibrate, compile, load, quantize
from lowbit.progress import progress
from lowbit.report.coverage import coverage
from lowbit.types import Array

HELP = "quantize a small trained network (Fashion-MNIST) and compare its answers on real images"
BATCH = 50
RECIPES = ("int8", "w4a8")


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--images", type=int, default=300, help="how many of the 1,000 test images (300; the interpreter is slow)")


def main(args: argparse.Namespace) -> None:
    if not 1 <= args.images <= 1000:
        raise InputError(f"--images {args.images}, 1 to 1000 are there")
    folder = resources.files("lowbit") / "demo"
    with resources.as_file(folder / "fashion_cnn.onnx") as path:
        graph = load(path)
    images, labels = arrays("fashion_test_1000.npz", "images", "labels")
    (seen,) = arrays("fashion_calibration_256.npz", "images")
    images, labels = images[: args.images], labels[: args.images]
    record = calibrate(graph, [prepare(seen[i : i + BATCH]) for i in range(0, len(seen), BATCH)])
    networks = {"float32": graph} | {name: quantize(graph, record, recipe=name) for name in RECIPES}
    rows = [measure(name, g, images, labels) for name, g in networks.items()]
    told = {name: str(coverage(graph, networks[name])) for name in RECIPES}
    if args.json:
        print_json({"images": len(images), "calibrated_on": len(seen), "rows": rows, "coverage": told})
        return
    columns = {"network": "left", "top-1": "right", "bytes": "right", "ms per image": "right", "backend": "left"}
    cells = [[r["network"], f"{r['top1']:.1%}", size(r["bytes"]), f"{r['ms_per_image']:.2f}", r["backend"]] for r in rows]
    table(f"Fashion-MNIST, {len(images)} of 1,000 test images, calibrated on {len(seen)} others", columns, cells)
    for name, text in told.items():
        print(f"{name}: {text}")
    print("the recipes as they are; lowbit quantize also measures, and mends the layers that lose too much")
    print("next   lowbit quantize YOUR.onnx --data samples.npz -o small.lowbit   ·   lowbit inspect YOUR.onnx   ·   lowbit doctor")


def arrays(file: str, *names: str) -> list[Array]:
    with resources.as_file(resources.files("lowbit") / "demo" / file) as path, np.load(path) as data:
        return [data[n] for n in names]


def measure(name: str, graph: Graph, images: Array, labels: Array) -> dict[str, Any]:
    """How often the network is right, its size, and its time."""
    session = compile(graph)
    right, seconds = 0, 0.0
    for i in progress(range(0, len(images), BATCH), f"running {name}"):
        batch = prepare(images[i : i + BATCH])
        start = time.perf_counter()
        logits = next(iter(session.run({graph.inputs[0].name: batch}).values()))
        seconds += time.perf_counter() - start
        right += int((logits.argmax(axis=1) == labels[i : i + BATCH]).sum())
    return {
        "network": name,
        "top1": right / len(images),
        "bytes": graph.parameter_bytes,
        "ms_per_image": 1000 * seconds / len(images),
        "backend": session.backend,
    }


def prepare(images: Array) -> Array:
    """uint8 (N, 28, 28) to what the network was trained on: float32 (N, 1, 28, 28) in 0…1."""
    return (images.astype(np.float32) / np.float32(255)).reshape(len(images), 1, 28, 28)
