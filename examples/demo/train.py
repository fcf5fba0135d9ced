"""Trains the demo network: a 43k-parameter CNN on Fashion-MNIST, and writes it with the images that ship in `lowbit/demo/`.

    python examples/demo/train.py            # seven minutes on one core; the Debian package dataset-fashion-mnist holds the data

The run is deterministic: one thread, one seed. The first 1,000 test images and the first 256 training images are kept as they
come, so that nobody chose them.
"""

from __future__ import annotations

import argparse
import gzip
import struct
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

DATA = Path("/usr/share/datasets/fashion-mnist")
OUT = Path(__file__).resolve().parents[2] / "src" / "lowbit" / "demo"
Bytes = npt.NDArray[np.uint8]


def read_idx(path: Path) -> Bytes:
    """The uint8 array of a gzipped idx file: magic 0, 0, type 8, rank; then the dims as big-endian int32; then the bytes."""
    raw = gzip.decompress(path.read_bytes())
    rank = raw[3]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(struct.unpack(f">{rank}i", raw[4 : 4 + 4 * rank]))


def to_input(images: Bytes) -> Tensor:
    """What the network eats: float32 (N, 1, 28, 28) in 0…1."""
    return torch.from_numpy(images.astype(np.float32) / np.float32(255)).unsqueeze(1)


class ConvBnRelu(nn.Module):
    def __init__(self, cin: int, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)))


class Separable(nn.Module):
    """Depthwise 3x3, then pointwise; with a shortcut where the shapes allow one."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.depthwise = ConvBnRelu(cin, cin, 3, stride, groups=cin)
        self.pointwise = ConvBnRelu(cin, cout, 1)
        self.shortcut = cin == cout and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.pointwise(self.depthwise(x))
        return x + y if self.shortcut else y


class FashionCnn(nn.Module):
    """(N, 1, 28, 28) → (N, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBnRelu(1, 24)  # 28²
        self.block1 = Separable(24, 48, stride=2)  # 14²
        self.block2 = Separable(48, 48)
        self.block3 = ConvBnRelu(48, 64, stride=2)  # 7²
        self.block4 = Separable(64, 128)
        self.head = nn.Linear(128, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.block4(self.block3(self.block2(self.block1(self.stem(image)))))
        y: Tensor = self.head(x.mean((2, 3)))
        return y


def augment(x: Tensor, rng: torch.Generator) -> Tensor:
    """The batch, half of it mirrored, each moved by up to one pixel (one shift for the whole batch: cheap, and enough)."""
    mirror = torch.rand(len(x), generator=rng) < 0.5
    x = torch.where(mirror[:, None, None, None], x.flip(3), x)
    dy, dx = (int(d) for d in torch.randint(-1, 2, (2,), generator=rng))
    return torch.roll(x, (dy, dx), (2, 3))  # the images' borders are black, so rolling is shifting


def train(x: Tensor, y: Tensor, epochs: int, batch: int = 128) -> FashionCnn:
    """A network trained with AdamW on a one-cycle schedule."""
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(0)
    net = FashionCnn().to(memory_format=torch.channels_last)
    steps = len(x) // batch
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps * epochs)
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        order = torch.randperm(len(x), generator=rng)
        for i in range(steps):
            pick = order[i * batch : (i + 1) * batch]
            images = augment(x[pick], rng).contiguous(memory_format=torch.channels_last)
            loss = nn.functional.cross_entropy(net(images), y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / steps:.4f}, {time.perf_counter() - start:.0f} s", flush=True)
    return net.eval().to(memory_format=torch.contiguous_format)


def export(net: nn.Module, path: Path) -> None:
    """Writes the network as ONNX, opset 18, batch dim `batch`; without the exporter's stack traces, which name the trainer's folders."""
    import onnx

    batch = torch.export.Dim("batch")
    torch.onnx.export(
        net, (torch.zeros(2, 1, 28, 28),), str(path), input_names=["image"], output_names=["logits"], opset_version=18,
        dynamic_shapes={"image": {0: batch}}, dynamo=True, external_data=False,
    )  # fmt: skip
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [(m.key, m.value) for m in node.metadata_props if m.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
    del model.graph.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def accuracy(path: Path, images: Bytes, labels: Bytes) -> tuple[float, float]:
    """Top-1 of the written file in ONNX Runtime: on all images, and on the first 1,000."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    hit = np.concatenate([
        session.run(None, {"image": to_input(images[i : i + 500]).numpy()})[0].argmax(1) == labels[i : i + 500]
        for i in range(0, len(images), 500)
    ])  # fmt: skip
    return float(hit.mean()), float(hit[:1000].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the four idx.gz files of Fashion-MNIST")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()

    torch.set_num_threads(1)  # the order of float sums follows the thread count
    torch.use_deterministic_algorithms(True)
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    train_x, train_y, test_x, test_y = (read_idx(args.data / f"{part}-ubyte.gz") for part in parts)

    net = train(to_input(train_x), torch.from_numpy(train_y.astype(np.int64)), args.epochs)
    args.out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out / "fashion_test_1000.npz", images=test_x[:1000], labels=test_y[:1000])
    np.savez_compressed(args.out / "fashion_calibration_256.npz", images=train_x[:256], labels=train_y[:256])
    export(net, args.out / "fashion_cnn.onnx")
    on_all, on_1000 = accuracy(args.out / "fashion_cnn.onnx", test_x, test_y)
    print(f"{sum(p.numel() for p in net.parameters())} parameters; top-1 {on_all:.4f} on 10,000, {on_1000:.4f} on the first 1,000")


if __name__ == "__main__":
    main()
