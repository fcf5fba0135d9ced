"""Time and memory of calibrating and of a guarded quantize on a network of BERT-base's size, beside the network's own bytes.

    python benchmarks/guard_memory.py [--layers 12] [--samples 8] [--length 32] [--json F]

Weights are seeded (109 million of them, 434 MB), sentences are random ids. Each stage has a process of its own, which loads the network
from a file. Seconds are of all its threads together; "peak" is the most resident memory of the process less what it held before it loaded
anything (Linux). Goal: below twice the network for every stage, the network itself included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

VOCABULARY, POSITIONS, WIDTH, HEADS = 30522, 512, 768, 12
STAGES = ("load", "calibrate", "quantize, plain rules", "quantize, guarded")


def write(path: Path, layers: int, length: int) -> None:
    import torch

    import lowbit
    from zoo.bert import SentenceEncoder

    torch.manual_seed(0)
    model = SentenceEncoder(VOCABULARY, POSITIONS, WIDTH, HEADS, 4 * WIDTH, layers).eval()
    example = {"ids": torch.zeros(1, length, dtype=torch.int64), "mask": torch.ones(1, length, dtype=torch.int64)}
    lowbit.load(model, inputs=example).save(path)


def peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(path: str, stage: str, samples: int) -> dict[str, Any]:
    import lowbit

    np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)  # what BLAS keeps for itself is not the network's
    before, start = peak(), time.process_time()
    graph = lowbit.load(path)
    length = int(graph.inputs[0].shape[1])
    rng = np.random.default_rng(0)
    data = [
        {"ids": rng.integers(0, VOCABULARY, (1, length)), "mask": (np.arange(length) < rng.integers(length // 2, length + 1))[None] * 1}
        for _ in range(samples)
    ]
    if stage == "calibrate":
        lowbit.calibrate(graph, data)
    elif stage != "load":
        lowbit.quantize(graph, data, guard=stage == "quantize, guarded")
    return {"seconds": time.process_time() - start, "peak": peak() - before, "network": graph.parameter_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", nargs=2, metavar=("FILE", "STAGE"), help=argparse.SUPPRESS)  # in the process of its own
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measured(*given.here, given.samples)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "bert.lowbit"
        write(file, given.layers, given.length)
        for stage in STAGES:
            command = [sys.executable, __file__, "--samples", str(given.samples), "--here", str(file), stage]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
            rows.append({"stage": stage, **found})
            times = f"{found['peak'] / found['network']:.2f} × the network's {found['network'] / 1e6:.1f} MB"
            print(f"{stage:22} {found['seconds']:6.1f} s of CPU, peak {found['peak'] / 1e6:7.1f} MB, {times}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
