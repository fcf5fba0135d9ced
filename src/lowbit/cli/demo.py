"""lowbit demo: the main job on a small trained network and real images that come with lowbit."""

from __future__ import annotations

import argparse
import time
from importlib import resources

import numpy as np

from lowbit.cli.common import print_json
from lowbit.cli.inspect import show
from lowbit.pipeline import compile, load
from lowbit.progress import progress
from lowbit.report.inspection import inspect
from lowbit.types import Array

HELP = "inspect and run a small trained network (Fashion-MNIST) on 1,000 test images"
BATCH = 100


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--images", type=int, default=1000, help="how many of the 1,000 test images (default all)")


def main(args: argparse.Namespace) -> None:
    folder = resources.files("lowbit") / "demo"
    with resources.as_file(folder / "fashion_cnn.onnx") as path:
        graph = load(path)
    with resources.as_file(folder / "fashion_test_1000.npz") as path:
        data = np.load(path)
        images, labels = data["images"][: args.images], data["labels"][: args.images]
    x = graph.inputs[0]
    session = compile(graph)
    right, seconds = 0, 0.0
    for i in progress(range(0, len(images), BATCH), "running"):
        batch = prepare(images[i : i + BATCH])
        start = time.perf_counter()
        logits = next(iter(session.run({x.name: batch}).values()))
        seconds += time.perf_counter() - start
        right += int((logits.argmax(axis=1) == labels[i : i + BATCH]).sum())
    accuracy, found = right / len(images), inspect(graph)
    ms = 1000 * seconds / len(images)
    if args.json:
        print_json(
            {"images": len(images), "top1": accuracy, "ms_per_image": ms, "backend": session.backend, "parameters": found.parameters}
        )
        return
    show(found)
    print(f"\ntop-1  {accuracy:.1%} of {len(images)} test images, {ms:.2f} ms each ({session.backend})")
    print("next   lowbit inspect YOUR.onnx   ·   lowbit run YOUR.onnx --input x.npy   ·   lowbit doctor")


def prepare(images: Array) -> Array:
    """uint8 (N, 28, 28) to what the network was trained on: float32 (N, 1, 28, 28) in 0…1."""
    return (images.astype(np.float32) / np.float32(255)).reshape(len(images), 1, 28, 28)
