"""Speed and peak memory of quantized PyTorch layers and networks on an NVIDIA GPU: float, dynamic and static.

    python benchmarks/gpu.py [--json FILE]

Without a GPU it says so and measures nothing. Times are medians of runs between two events of the device, each after a warm-up.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lowbit.torch import calibrate, quantize_

REPEATS, WARM_UP = 50, 10
NONE = "no GPU was there: torch.cuda.is_available() is False. Nothing was measured."


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Networks by name, with an input of each."""
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
    cnn = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100),
    )  # fmt: skip
    return {
        "linear 4096×4096, 1 row": (nn.Linear(4096, 4096), torch.randn(1, 4096)),
        "linear 4096×4096, 256 rows": (nn.Linear(4096, 4096), torch.randn(256, 4096)),
        "conv 128→128 3×3, 32 images of 28×28": (nn.Conv2d(128, 128, 3, padding=1), torch.randn(32, 128, 28, 28)),
        "MLP, 64 rows": (mlp, torch.randn(64, 1024)),
        "CNN, 32 images of 64×64": (cnn, torch.randn(32, 3, 64, 64)),
    }


def ways(model: nn.Module, x: torch.Tensor) -> dict[str, nn.Module]:
    """The network as it is, with activations quantized at run time, and calibrated."""
    dynamic = quantize_(copy.deepcopy(model).eval(), "int8-dynamic")
    static = quantize_(copy.deepcopy(model).eval(), "int8")
    calibrate(static, [x])
    return {"float": model.eval(), "dynamic": dynamic, "static": static}


def measured(run: Callable[[], Any]) -> tuple[float, int]:
    """Milliseconds of a run, and the most bytes that the device held beside what it held before."""
    for _ in range(WARM_UP):
        run()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times), torch.cuda.max_memory_allocated() - before


def rows() -> list[dict[str, Any]]:
    found = []
    for name, (model, x) in networks().items():
        want = None
        for way, made in ways(model, x).items():
            data, before = x.cuda(), torch.cuda.memory_allocated()
            there = made.cuda()
            parameters = torch.cuda.memory_allocated() - before
            with torch.no_grad():
                ms, peak = measured(lambda there=there, data=data: there(data))  # type: ignore[misc]
                y = there(data).float().cpu()
            want = y if want is None else want
            noise = float(((y - want) ** 2).sum())
            db = None if not noise else 10 * float(torch.log10((want**2).sum() / noise))
            found.append({"network": name, "way": way, "ms": ms, "peak_bytes": peak, "parameter_bytes": parameters, "db": db})
            made.cpu()
    return found


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--json", metavar="FILE", help="writes what was found, or that nothing was there")
    args = p.parse_args(arguments)
    there = torch.cuda.is_available()
    result: dict[str, Any] = {"gpu": torch.cuda.get_device_name() if there else None, "torch": torch.__version__, "rows": []}
    if not there:
        print(NONE)
    else:
        result["rows"] = rows()
        print(f"{result['gpu']}, torch {torch.__version__}; medians of {REPEATS} runs")
        print(f"{'network':40} {'way':8} {'ms':>9} {'peak MB':>9} {'parameters MB':>14} {'dB':>6}")
        for r in result["rows"]:
            db = "" if r["db"] is None else f"{r['db']:.1f}"
            print(f"{r['network']:40} {r['way']:8} {r['ms']:9.3f} {r['peak_bytes'] / 1e6:9.1f} {r['parameter_bytes'] / 1e6:14.2f} {db:>6}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
