"""lowbit demo: the main job on a small trained network and real images that come with lowbit."""

from __future__ import annotations

import argparse
import gzip
import io
import shlex
import time
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.arguments import path
from lowbit.cli.common import UsageError, print_json, say, size, table, whole
from lowbit.errors import FormatError
from lowbit.files import write_whole
from lowbit.ir.graph import Graph
from lowbit.pipeline import compile, load, quantize
from lowbit.progress import progress
from lowbit.report.coverage import coverage
from lowbit.types import Array

HELP = "quantize a small trained network (Fashion-MNIST) and compare its answers on real images"
BATCH = 50
SHIPPED = 1000  # test images that come with lowbit
SEEN = 64  # images to calibrate and to measure with: enough for this network, and quick
UNSEEN = 128  # images to compare with
RECIPES = ("int8", "w4a8")
ROAD = (  # docs/cli.md has the same lines
    "lowbit calibrate {0}/cnn.onnx --data {0}/seen.npz -o {0}/record.json",
    "lowbit quantize {0}/cnn.onnx --data {0}/seen.npz -o {0}/small.lowbit",
    "lowbit compare {0}/cnn.onnx {0}/small.lowbit --data {0}/unseen.npz -o {0}/report.html",
    "lowbit eval {0}/small.lowbit --data {0}/test.npz --labels {0}/labels.npy",
    "lowbit verify {0}/small.lowbit --data {0}/unseen.npz",
    "lowbit bench {0}/cnn.onnx {0}/small.lowbit --shapes batch=1 --layers",
    "lowbit export {0}/small.lowbit -o {0}/small.onnx",
    "lowbit emit-c {0}/small.lowbit -o {0}/c --shapes batch=1",
    "lowbit search {0}/cnn.onnx --data {0}/seen.npz --test {0}/test.npz --labels {0}/labels.npy -o {0}/best.lowbit",
)


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--images", type=whole(1), metavar="N", help=f"how many of the {SHIPPED:,} test images that come with it (all)")
    p.add_argument(
        "--files", metavar="FOLDER", help="write the network and its images there, as the other verbs read them, and say what to type"
    )
    p.add_argument("--test-set", metavar="FOLDER", help="all 10,000 images, from the files of Fashion-MNIST (t10k-images-idx3-ubyte.gz …)")


def main(args: argparse.Namespace) -> None:
    if args.files:
        write_files(args)
        return
    images, labels = idx_files(Path(args.test_set)) if args.test_set else arrays("fashion_test_1000.npz", "images", "labels")
    there = len(images)
    if args.images is not None and args.images > there:
        raise UsageError(f"--images {args.images}, 1 to {there} are there", hint="--test-set FOLDER takes all 10,000 of Fashion-MNIST")
    images, labels = images[: args.images], labels[: args.images]
    with resources.as_file(resources.files("lowbit") / "demo" / "fashion_cnn.onnx") as file:
        graph = load(file)
    (seen,) = arrays("fashion_calibration_256.npz", "images")
    data = [prepare(seen[i : i + 16]) for i in range(0, SEEN, 16)]
    networks = {"float32": graph} | {name: quantize(graph, data, recipe=name) for name in RECIPES}
    rows = [measure(name, g, images, labels) for name, g in networks.items()]
    told = {name: str(coverage(graph, networks[name])) for name in RECIPES}
    if args.json:
        print_json({"images": len(images), "calibrated_on": SEEN, "rows": rows, "coverage": told})
        return
    columns = {"network": "left", "top-1": "right", "bytes": "right", "ms per image": "right", "backend": "left"}
    cells = [[r["network"], f"{r['top1']:.2%}", size(r["bytes"]), f"{r['ms_per_image']:.3f}", r["backend"]] for r in rows]
    table(f"Fashion-MNIST, {len(images):,} test images; quantized and measured with {SEEN} others", columns, cells)
    for name, text in told.items():
        say(f"{name}: {text}")
    say("next   lowbit demo --files fashion   (the same by hand)")
    say("next   lowbit quantize YOUR.onnx --data samples.npz -o small.lowbit   ·   lowbit inspect YOUR.onnx   ·   lowbit doctor")


def write_files(args: argparse.Namespace) -> None:
    """The shipped network, and the shipped images as its input wants them: a road through all the other verbs, to be typed as it stands."""
    if args.images is not None or args.test_set:
        raise UsageError("--files takes neither --images nor --test-set", hint="lowbit demo --files fashion")
    folder = path(args.files, "the path of a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FormatError("it is a file (or in one), a folder is needed", where=args.files, hint="lowbit demo --files fashion") from None
    except OSError as e:
        raise FormatError(f"cannot be written ({e.strerror or e})", where=args.files, hint="a folder that is yours to write to") from e
    network = (resources.files("lowbit") / "demo" / "fashion_cnn.onnx").read_bytes()
    source = load(network).inputs[0].name
    (seen,), (test, labels) = arrays("fashion_calibration_256.npz", "images"), arrays("fashion_test_1000.npz", "images", "labels")
    made = {"cnn.onnx": network, "seen.npz": npz(source, seen[:SEEN]), "unseen.npz": npz(source, test[:UNSEEN])}
    made |= {"test.npz": npz(source, test), "labels.npy": npy(labels)}
    for name, data in made.items():
        write_whole(folder / name, data)
    if args.json:
        print_json({"written": [str(folder / name) for name in made]})
        return
    say(f"written: {folder}: cnn.onnx, its input {source!r} as seen.npz ({SEEN} images) and unseen.npz ({UNSEEN} others)")
    say(f"written: {folder}: test.npz ({SHIPPED:,} images, the {UNSEEN} among them), and what they show as labels.npy")
    for line in ROAD:
        say(f"next   {line.format(shlex.quote(str(folder)))}")


def npz(name: str, images: Array) -> bytes:
    """An .npz file with one array; the same images give the same bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: prepare(images)})  # type: ignore[arg-type]  # the stub takes the name for its own keyword
    return buffer.getvalue()


def npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def arrays(file: str, *names: str) -> list[Array]:
    with resources.as_file(resources.files("lowbit") / "demo" / file) as found, np.load(found) as data:
        return [data[n] for n in names]


def idx_files(folder: Path) -> tuple[Array, Array]:
    """Images and labels of the test set, from the files in which it is published."""
    images, labels = (idx_file(folder / f"t10k-{what}-ubyte.gz", rank) for what, rank in (("images-idx3", 3), ("labels-idx1", 1)))
    if images.shape[1:] != (28, 28) or len(images) != len(labels) or not len(images):
        raise FormatError(f"images {images.shape} and labels {labels.shape}, (N, 28, 28) and (N,) are needed", where=str(folder))
    return images, labels


def idx_file(file: Path, rank: int) -> Array:
    """An array of bytes: 0, 0, 8 (bytes), the rank, the sizes as big-endian words, the elements."""
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as e:
        raise FormatError(f"not a readable file of Fashion-MNIST ({e})", where=str(file), hint="t10k-images-idx3-ubyte.gz in it") from e
    shape = tuple(int(n) for n in np.frombuffer(data[4 : 4 + 4 * rank].ljust(4 * rank, b"\0"), ">u4"))
    if data[:4] != bytes((0, 0, 8, rank)) or len(data) != 4 + 4 * rank + int(np.prod(shape)):
        raise FormatError("not a file of Fashion-MNIST", where=str(file), hint="t10k-images-idx3-ubyte.gz as it is published")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def measure(name: str, graph: Graph, images: Array, labels: Array) -> dict[str, Any]:
    """How often the network is right, its size, and its time."""
    session = compile(graph)
    source = graph.inputs[0].name
    session.run({source: prepare(images[:BATCH])})  # compiled for this batch, and warm
    right, seconds = 0, 0.0
    for i in progress(range(0, len(images), BATCH), f"running {name}"):
        batch = prepare(images[i : i + BATCH])
        start = time.perf_counter()
        logits = next(iter(session.run({source: batch}).values()))
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
