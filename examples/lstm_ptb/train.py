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

SEED, DROP = 0, 0.2
EPOCHS = [(32, 35, 1200)] * 6 + [(20, 20, 1200)] * 3 + [(20, 20, 3000)]  # streams, tokens of a step, words in the softmax
RATE = ([0, 0.7, 6, 6.001, 10], [4e-4, 4e-3, 6.7e-4, 1.5e-3, 2e-5])  # learning rate at these epochs, straight lines between


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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.02)
    counts = text["train"].bincount(minlength=10000).float()
    average = Average(model, 0.9995)
    training = Training("lstm_ptb", SEED, model=model, optimizer=optimizer, average=average)
    for epoch in training.epochs(len(EPOCHS)):
        model.train()
        batch, length, words = EPOCHS[epoch]
        sampled = SampledSoftmax(counts, words)
        steps = (len(text["train"]) - length) // batch // length
        progress, state = Progress(epoch, len(EPOCHS), steps), None
        skip = int(torch.randint(0, length, (), generator=training.generator))
        for i, (x, y) in enumerate(streams(text["train"], batch, length, skip)):
            for group in optimizer.param_groups:
                group["lr"] = float(np.interp(epoch + i / steps, *RATE))
            h, state = model.rnn(F.dropout(model.embed(x), DROP), state)
            state = (state[0].detach(), state[1].detach())
            h = F.dropout(h, DROP).flatten(0, 1)
            loss = sampled(h, model.head.weight, model.head.bias, y.flatten(), training.generator)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            average.update(model)
            progress(loss.detach())
        score = perplexity(average.model.eval(), text["valid"][:20000])
        print(f"epoch {epoch + 1}: perplexity {score:.2f} of 20,000 words for validation", flush=True)
    score = perplexity(average.model.eval(), text["test"])
    print(f"test perplexity {score:.2f}")
    save_weights(average.model, WEIGHTS, seed=str(SEED), epochs=str(len(EPOCHS)), test_perplexity=f"{score:.2f}")


if __name__ == "__main__":
    main()
