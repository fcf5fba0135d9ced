"""The demo network at 4 bits: weights and activations int4, quantized as it is (PTQ) and after training with rounding in the loop (QAT).

    python examples/qat_demo.py              # two minutes of one core's time; the Debian package dataset-fashion-mnist holds the data

Top-1 on the 10,000 test images, by the native session of each graph. Training ends with `lowbit.load(qat)`: what is measured is what
ships.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import lowbit
from lowbit.torch.qat import QatModel, prepare_qat

HERE = Path(__file__).resolve().parent
DEMO = Path(lowbit.__file__).parent / "demo"
RECIPE = "w4a4"


def trainer() -> Any:
    """examples/demo/train.py as a module: the network, its data and how its images are moved."""
    spec = importlib.util.spec_from_file_location("demo_train", HERE / "demo" / "train.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def network(train: Any) -> nn.Module:
    """The demo network with the weights that ship; their batch norms are folded, so it has biases in their place."""
    net = train.FashionCnn()
    constants = lowbit.load(DEMO / "fashion_cnn.onnx", simplify=False).constants
    for name, block in net.named_modules():
        if isinstance(block, train.ConvBnRelu):
            c = block.conv
            block.conv = nn.Conv2d(c.in_channels, c.out_channels, c.kernel_size, c.stride, c.padding, groups=c.groups)
            block.conv.bias.data = torch.from_numpy(constants[f"{name}.conv.weight_bias"].data.copy())
            block.bn = nn.Identity()
    for name, parameter in net.named_parameters():
        if name in constants:
            parameter.data = torch.from_numpy(constants[name].data.copy())
    return net.eval()


def top1(graph: lowbit.Graph, images: Tensor, labels: Any, batch: int = 200) -> float:
    session = lowbit.compile(graph)
    hits = [session(images[i : i + batch].numpy()).argmax(1) == labels[i : i + batch] for i in range(0, len(images), batch)]
    return float(np.concatenate(hits).mean())


def fit(qat: QatModel, train: Any, x: Tensor, y: Tensor, epochs: int, batch: int = 128) -> None:
    """AdamW on a cosine schedule; the learned steps have no weight decay."""
    rng = torch.Generator().manual_seed(0)
    steps = len(x) // batch
    sizes = list(qat.step_sizes())
    weights = [p for p in qat.parameters() if not any(p is s for s in sizes) and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": weights, "weight_decay": 1e-4}, {"params": sizes, "weight_decay": 0.0}], lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps * epochs, pct_start=0.1)
    qat.train()
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        order = torch.randperm(len(x), generator=rng)
        for i in range(steps):
            pick = order[i * batch : (i + 1) * batch]
            loss = nn.functional.cross_entropy(qat(train.augment(x[pick], rng)), y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / steps:.4f}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    train = trainer()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=train.DATA, help="folder with the four idx.gz files of Fashion-MNIST")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where to write the trained graph (.lowbit)")
    args = parser.parse_args()

    torch.manual_seed(0)
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    train_x, train_y, test_x, test_y = (train.read_idx(args.data / f"{part}-ubyte.gz") for part in parts)
    x, test = train.to_input(train_x), train.to_input(test_x)
    y = torch.from_numpy(train_y.astype(np.int64))

    net = network(train)
    shape = {"inputs": (test[:2],), "dynamic": {"image": {0: "batch"}}}
    graph = lowbit.load(net, **shape)
    seen = [{"image": x[i : i + 64].numpy()} for i in range(0, 256, 64)]
    scores = {"float": top1(graph, test, test_y)}
    for method in ("minmax", "mse"):
        record = lowbit.calibrate(graph, seen, recipe=RECIPE, method=method)
        scores[f"ptq {method}"] = top1(lowbit.quantize(graph, record, recipe=RECIPE), test, test_y)
    qat = prepare_qat(net, RECIPE, calibration=seen, method="mse", **shape)
    start, busy = time.perf_counter(), time.process_time()
    fit(qat, train, x, y, args.epochs)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    trained = lowbit.load(qat.eval())
    scores["qat"] = top1(trained, test, test_y)
    with torch.no_grad():
        hits = [(qat(test[i : i + 200]).argmax(1).numpy() == test_y[i : i + 200]) for i in range(0, len(test), 200)]
    scores["qat in torch"] = float(np.concatenate(hits).mean())
    best = max(scores["ptq minmax"], scores["ptq mse"])
    recovered = (scores["qat"] - best) / (scores["float"] - best)
    times = {"epochs": args.epochs, "training seconds": round(seconds), "CPU seconds": round(busy)}
    report = {"top1": scores, "recovered": round(recovered, 4), **times}
    print(json.dumps(report, indent=1))
    if args.out is not None:
        trained.save(args.out)


if __name__ == "__main__":
    main()
