"""A training that may be interrupted: after each epoch its state is saved, the next start goes on from there with the same numbers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from zoo import fetch


class Training:
    """`for epoch in training.epochs(n): …` with everything that has a state_dict under a name; the file lies in the cache folder."""

    def __init__(self, name: str, seed: int, **parts: Any) -> None:
        self.file = fetch.cache() / "training" / f"{name}.pt"
        self.parts, self.generator = parts, torch.Generator().manual_seed(seed)

    def epochs(self, total: int) -> Iterator[int]:
        first = self._restore()
        for epoch in range(first, total):
            try:
                yield epoch
            except KeyboardInterrupt:
                sys.exit(f"interrupted in epoch {epoch + 1}; the same command goes on from its beginning")
            self._save(epoch + 1)

    def _restore(self) -> int:
        if not self.file.exists():
            return 0
        saved = torch.load(self.file, weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])
        self.generator.set_state(saved["generator"])
        torch.set_rng_state(saved["dropout"])
        print(f"going on after epoch {saved['epoch']} of {self.file}", file=sys.stderr)
        return int(saved["epoch"])

    def _save(self, epoch: int) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in self.parts.items()}
        state |= {"generator": self.generator.get_state(), "dropout": torch.get_rng_state(), "epoch": epoch}
        torch.save(state, self.file.with_suffix(".part"))
        os.replace(self.file.with_suffix(".part"), self.file)  # whole or not at all


class Progress:
    """One line on stderr every ten seconds and one at the end of an epoch: mean loss and speed."""

    def __init__(self, epoch: int, epochs: int, steps: int) -> None:
        self.label, self.steps, self.step, self.loss = f"epoch {epoch + 1}/{epochs}", steps, 0, 0.0
        self.begin = self.said = time.perf_counter()

    def __call__(self, loss: torch.Tensor) -> None:
        self.step += 1
        self.loss += float(loss)
        now = time.perf_counter()
        if now - self.said > 10 or self.step == self.steps:
            self.said = now
            print(
                f"{self.label}  step {self.step}/{self.steps}  loss {self.loss / self.step:.4f}  {now - self.begin:.0f} s", file=sys.stderr
            )


def save_weights(model: nn.Module, file: Path, **about: str) -> None:
    """The parameters as float16 (integers as they are), tied ones once; `about` goes into the file's metadata."""
    seen: set[int] = set()
    tensors = {}
    for name, t in model.state_dict().items():
        if t.data_ptr() not in seen:
            seen.add(t.data_ptr())
            tensors[name] = t.detach().to(torch.float16 if t.is_floating_point() else t.dtype).contiguous()
    save_file(tensors, file, metadata=about)


def load_weights(model: nn.Module, file: Path) -> nn.Module:
    """The model with the file's numbers in float32, in eval mode; refused unless every parameter that is not tied is there."""
    stored = load_file(file)
    own = {t.data_ptr(): name for name, t in reversed(model.state_dict().items())}
    if missing := set(own.values()) - stored.keys():
        raise ValueError(f"{file} lacks {sorted(missing)}")
    model.load_state_dict({n: t.float() if t.is_floating_point() else t for n, t in stored.items()}, strict=False)
    return model.eval()


class Average(nn.Module):
    """Exponential moving average of a model's state; the first updates follow it closely."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        import copy

        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay
        self.register_buffer("count", torch.tensor(0))

    def update(self, model: nn.Module) -> None:
        self.count += 1
        rate = 1 - min(self.decay, (1 + int(self.count)) / (10 + int(self.count)))
        for mine, new in zip(self.model.state_dict().values(), model.state_dict().values()):
            if mine.is_floating_point():
                mine.lerp_(new.detach(), rate)
            else:
                mine.copy_(new)


def one_cycle(step: int, steps: int, warm: float = 0.2, end: float = 0.01) -> float:
    """The factor of the learning rate: from 0.1 up to 1 at `warm` of all steps, then in a straight line down to `end`."""
    at = step / steps
    return float(np.interp(at, [0, warm, 1], [0.1, 1, end]))
