"""CIFAR-10 and a trained ResNet-9 as a user has them: an .onnx file, and folders of JPEGs with a folder for each class.

python -m examples.cifar10_files cifar [--photos 480] [--test 2000]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import lowbit
from examples.common.data import cifar10
from examples.common.networks import networks
from lowbit.progress import progress

CLASSES = ("0-airplane", "1-car", "2-bird", "3-cat", "4-deer", "5-dog", "6-frog", "7-horse", "8-ship", "9-truck")


def write(folder: Path, images: np.ndarray, labels: np.ndarray, said: str) -> None:
    for i, (pixels, label) in enumerate(progress(list(zip(images, labels, strict=True)), said)):
        place = folder / CLASSES[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.transpose(1, 2, 0)).save(place / f"{i:05}.jpg", quality=95)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", type=Path)
    p.add_argument("--photos", type=int, default=480, help="of the training set, to calibrate with")
    p.add_argument("--test", type=int, default=2000, help="of the test set")
    args = p.parse_args()
    (train, train_labels), (test, test_labels) = cifar10()
    write(args.folder / "photos", train[: args.photos], train_labels[: args.photos], "photos")
    write(args.folder / "test", test[: args.test], test_labels[: args.test], "test")
    (net,) = networks(["resnet9_cifar10"])
    graph = lowbit.load(net.model, inputs=(net.train()[0][0],), dynamic={net.argument: {0: "batch"}})
    lowbit.export_onnx(graph, args.folder / "net.onnx")
    print(f"written: {args.folder}/net.onnx, {args.folder}/photos, {args.folder}/test")


if __name__ == "__main__":
    main()
