"""Trains ResNet-9 on CIFAR-10: `python -m examples.resnet9_cifar10.train`. An hour on one core; it may be interrupted."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.common import data
from examples.common.training import Average, Progress, Training, one_cycle, save_weights
from examples.resnet9_cifar10.model import WEIGHTS, build, prepare

SEED, BATCH, RATE, DECAY, SMOOTHING = 0, 250, 0.25, 5e-4, 0.1
SIZES = [20] * 5 + [24] * 4 + [32] * 7  # pixels of an epoch's images: the first need few, and cost as few


def whiten(model: nn.Module, images: Tensor) -> None:
    """The first layer begins with the directions in which 3x3 patches vary most, each with both signs: training begins further on."""
    first = model.prep[0]
    patches = images[:2000].unfold(2, 3, 3).unfold(3, 3, 3).permute(0, 2, 3, 1, 4, 5).reshape(-1, 27)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    best = (vectors / (values + 1e-2).sqrt())[:, -(first.out_channels // 2) :].T.reshape(-1, 3, 3, 3)
    first.weight.data.copy_(torch.cat([best, -best]))


def augment(x: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Shifted by up to 4 pixels, mirrored every other time, with one hole of 8x8; then at the size asked for."""
    n = len(x)
    padded = F.pad(x, (4, 4, 4, 4), mode="reflect")
    dy, dx = torch.randint(0, 9, (2, n, 1), generator=generator)
    rows, columns = torch.arange(32) + dy, torch.arange(32) + dx
    columns = torch.where(torch.rand(n, 1, generator=generator) < 0.5, columns, columns.flip(1))
    x = padded[torch.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    cy, cx = torch.randint(-3, 28, (2, n, 1), generator=generator)
    at = torch.arange(32)
    hole = ((at >= cy) & (at < cy + 8))[:, None, :, None] & ((at >= cx) & (at < cx + 8))[:, None, None, :]
    x = x.masked_fill(hole, 0.0).contiguous(memory_format=torch.channels_last)
    return x if size == 32 else F.interpolate(x, size=(size, size), mode="bilinear", antialias=True)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    return sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(500), y.split(500))) / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(SEED)
    (images, labels), (test_images, test_labels) = data.cifar10()
    x, y, tx, ty = prepare(images), torch.from_numpy(labels), prepare(test_images), torch.from_numpy(test_labels)
    model = build().to(memory_format=torch.channels_last)
    whiten(model, x)
    flat = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": DECAY}, {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=RATE, momentum=0.9, nesterov=True)
    average = Average(model, 0.995)
    steps = len(x) // BATCH
    training = Training("resnet9_cifar10", SEED, model=model, optimizer=optimizer, average=average)
    for epoch in training.epochs(len(SIZES)):
        model.train()
        progress = Progress(epoch, len(SIZES), steps)
        for i, pick in enumerate(torch.randperm(len(x), generator=training.generator)[: steps * BATCH].split(BATCH)):
            for group in optimizer.param_groups:
                group["lr"] = RATE * one_cycle(epoch * steps + i, len(SIZES) * steps)
            loss = F.cross_entropy(model(augment(x[pick], SIZES[epoch], training.generator)), y[pick], label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(model)
            progress(loss.detach())
        print(f"epoch {epoch + 1}: test accuracy {accuracy(average.model, tx[:2000], ty[:2000]):.4f} on 2000 images", flush=True)
    score = accuracy(average.model, tx, ty)
    print(f"test accuracy {score:.4f}")
    save_weights(average.model, WEIGHTS, seed=str(SEED), epochs=str(len(SIZES)), test_accuracy=f"{score:.4f}")


if __name__ == "__main__":
    main()
