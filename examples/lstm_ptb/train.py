"""Trains the LSTM language model: `python -m examples.lstm_ptb.train`. Half an hour on one core; it may be interrupted."""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from examples.common import data
from examples.common.language import SampledSoftmax, perplexity, streams
from examples.common.training import Average, Progress, Training, save_weights
from examples.lstm_ptb.model import WEIGHTS, build

SEED, BATCH, LENGTH, DROP, WORDS, EPOCHS = 0, 20, 20, 0.1, 2000, 5
# Plain SGD with steps as large as the clipped gradient allows, then smaller by half and half: Adam's steps on rare words do not generalize.
RATE = ([0, 2.5, EPOCHS], [20.0, 20.0, 0.3])  # at these epochs; its logarithm runs straight between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(SEED)
    text = {split: torch.from_numpy(ids) for split, ids in data.treebank().items()}
    model = build()
    nn.init.uniform_(model.embed.weight, -0.1, 0.1)
    nn.init.zeros_(model.head.bias)
    model.rnn.dropout = DROP
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE[1][0])
    sampled = SampledSoftmax(text["train"].bincount(minlength=10000).float(), WORDS)
    steps = (len(text["train"]) - LENGTH) // BATCH // LENGTH
    average = Average(model, 0.999)
    training = Training("lstm_ptb", SEED, model=model, optimizer=optimizer, average=average)
    for epoch in training.epochs(EPOCHS):
        model.train()
        progress, state = Progress(epoch, EPOCHS, steps), None
        skip = int(torch.randint(0, LENGTH, (), generator=training.generator))
        for i, (x, y) in enumerate(streams(text["train"], BATCH, LENGTH, skip)):
            for group in optimizer.param_groups:
                group["lr"] = float(np.exp(np.interp(epoch + i / steps, RATE[0], np.log(RATE[1]))))
            h, state = model.rnn(F.dropout(model.embed(x), DROP), state)
            state = (state[0].detach(), state[1].detach())
            h = F.dropout(h, DROP).flatten(0, 1)
            loss = sampled(h, model.head.weight, model.head.bias, y.flatten(), training.generator)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            average.update(model)
            progress(loss.detach())
        score = perplexity(average.model.eval(), text["valid"][:20000])
        print(f"epoch {epoch + 1}: perplexity {score:.2f} of 20,000 words for validation", flush=True)
    score = perplexity(average.model.eval(), text["test"])
    print(f"test perplexity {score:.2f}")
    save_weights(average.model, WEIGHTS, seed=str(SEED), epochs=str(EPOCHS), test_perplexity=f"{score:.2f}")


if __name__ == "__main__":
    main()
