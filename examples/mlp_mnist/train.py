"""Trains the MLP on MNIST: `python -m examples.mlp_mnist.train`. A minute; interrupt it and start again as you like."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

from examples.common import data
from examples.common.training import Progress, Training, one_cycle, save_weights
from examples.mlp_mnist.model import WEIGHTS, build, prepare

SEED, EPOCHS, BATCH, RATE = 0, 12, 250, 3e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(SEED)
    (images, labels), (test_images, test_labels) = data.mnist()
    x, y = prepare(images), torch.from_numpy(labels)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-2)
    steps = len(x) // BATCH
    training = Training("mlp_mnist", SEED, model=model, optimizer=optimizer)
    for epoch in training.epochs(EPOCHS):
        model.train()
        progress = Progress(epoch, EPOCHS, steps)
        for i, pick in enumerate(torch.randperm(len(x), generator=training.generator).split(BATCH)):
            for group in optimizer.param_groups:
                group["lr"] = RATE * one_cycle(epoch * steps + i, EPOCHS * steps)
            loss = F.cross_entropy(model(x[pick]), y[pick])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress(loss.detach())
    model.eval()
    with torch.no_grad():
        score = float((model(prepare(test_images)).argmax(1) == torch.from_numpy(test_labels)).float().mean())
    print(f"test accuracy {score:.4f}")
    save_weights(model, WEIGHTS, seed=str(SEED), epochs=str(EPOCHS), test_accuracy=f"{score:.4f}")


if __name__ == "__main__":
    main()
