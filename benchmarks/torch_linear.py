"""Dynamic int8 Linear 1024x1024 in PyTorch: lowbit.torch beside torch.ao's dynamic quantized Linear and fp32, interleaved in one run.

    python benchmarks/torch_linear.py [--threads 1] [--weights uniform] [--json out.json]

Each time is the least over repeats of the mean of a few calls, after one call that brings the weights into the cache.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lowbit.kernels import native
from lowbit.torch import quantize_

SIZE = 1024
# Which method is exact and fast depends on the weights: few large ones among many small (as training leaves them) are faster.
WEIGHTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "uniform": lambda w: None,
    "normal": lambda w: w.normal_(0, 0.02),
    "laplace": lambda w: w.copy_(torch.distributions.Laplace(0.0, 0.02).sample(w.shape)),
}
ROWS = {1: 100, 16: 20, 128: 4}  # rows of x, and calls that are timed at once


def measured(calls: dict[str, Callable[[], Any]], count: int, repeats: int) -> dict[str, float]:
    """Microseconds of each call."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e6)
    return best


def peers(linear: nn.Linear) -> dict[str, nn.Module]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.ao.quantization.quantize_dynamic(nn.Sequential(copy.deepcopy(linear)), {nn.Linear}, dtype=torch.qint8)[0]
    return {"lowbit": quantize_(copy.deepcopy(linear), "int8-dynamic"), "torch.ao": theirs, "fp32": linear}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--weights", choices=WEIGHTS, default="uniform", help="how they are distributed: uniform is nn.Linear's beginning")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    linear = nn.Linear(SIZE, SIZE).eval()
    WEIGHTS[options.weights](linear.weight.data)
    modules = peers(linear)
    rows = {}
    with torch.inference_mode():
        for m, count in ROWS.items():
            x = torch.randn(m, SIZE)
            rows[m] = measured({name: (lambda f=f, x=x: f(x)) for name, f in modules.items()}, count, options.repeats)
            mine = rows[m]["lowbit"]
            said = ", ".join(f"{name} {us:.1f} µs" + (f" ({us / mine:.2f}×)" if name != "lowbit" else "") for name, us in rows[m].items())
            print(f"M = {m:3}: {said}")
    if options.json:
        machine = {
            "cpu": platform.processor(),
            "isa": native.isas()[-1],
            "threads": options.threads,
            "weights": options.weights,
            "torch": torch.__version__,
        }
        with open(options.json, "w") as f:
            json.dump({"machine": machine, "repeats": options.repeats, "microseconds": rows}, f, indent=1)


if __name__ == "__main__":
    main()
