"""Trains the transformer language model: `python -m examples.transformer_ptb.train`. Half an hour on one core; interrupt it as you like."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.common import data
from examples.common.language import SampledSoftmax, perplexity, streams
from examples.common.training import Average, Progress, Training, one_cycle, save_weights
from examples.transformer_ptb.model import LENGTH, WEIGHTS, build

SEED, BATCH, RATE, DROP, EPOCHS = 0, 4, 1.5e-3, 0.2, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    epochs = args.epochs
    torch.manual_seed(SEED)
    text = {split: torch.from_numpy(ids) for split, ids in data.treebank().items()}
    model = build()
    for name, p in model.named_parameters():
        if p.ndim == 2:
            nn.init.normal_(p, std=0.05 if "blocks" not in name or "qkv" in name or "mlp.0" in name else 0.02)

    def drop(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        return F.dropout(output, DROP, module.training)

    for module in [model.tok, model.norm, *(m for b in model.blocks for m in (b.attn, b.mlp))]:
        module.register_forward_hook(drop)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98))
    counts = text["train"].bincount(minlength=10000).float()
    steps = (len(text["train"]) - LENGTH) // BATCH // LENGTH
    places = torch.arange(LENGTH)
    average = Average(model, 0.9995)
    training = Training("transformer_ptb", SEED, model=model, optimizer=optimizer, average=average)
    for epoch in training.epochs(epochs):
        model.train()
        sampled = SampledSoftmax(counts, 1200 if epoch < epochs - 1 else 3000)  # the last epoch sees more of the words
        progress = Progress(epoch, epochs, steps)
        skip = int(torch.randint(0, LENGTH, (), generator=training.generator))
        for i, (x, y) in enumerate(streams(text["train"], BATCH, LENGTH, skip)):
            for group in optimizer.param_groups:
                group["lr"] = RATE * one_cycle(epoch * steps + i, epochs * steps, 0.1)
            h = model.norm(model.blocks(model.tok(x) + model.pos(places))).flatten(0, 1)
            loss = sampled(h, model.head.weight, None, y.flatten(), training.generator)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            average.update(model)
            progress(loss.detach())
        score = perplexity(average.model.eval(), text["valid"][:20000], length=LENGTH)
        print(f"epoch {epoch + 1}: perplexity {score:.2f} of 20,000 words for validation", flush=True)
    score = perplexity(average.model.eval(), text["test"], length=LENGTH)
    print(f"test perplexity {score:.2f}")
    save_weights(average.model, WEIGHTS, seed=str(SEED), epochs=str(epochs), test_perplexity=f"{score:.2f}")


if __name__ == "__main__":
    main()
