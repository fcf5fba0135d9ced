"""A language model's kernels strung together natively, in turns with llama.cpp on the same file: milliseconds of a token and of a prompt.

    python benchmarks/llm_kernels.py --llama ~/llamacpp/bin/python --threads 1,2
    python benchmarks/llm_kernels.py --random Q4_0,Q4_K --llama ~/llamacpp/bin/python

`--llama` is a Python that has llama-cpp-python, built for this machine (CMAKE_ARGS=-DGGML_NATIVE=ON); without it lowbit runs alone.
The file is SmolLM2-135M (Q4_1 and a Q8_0 head) and what llama.cpp makes of it (Q4_0, Q4_K_M); `--random` takes random weights of
TinyLlama's shapes. Times are the least of all rounds: engines take turns, so that they meet the same neighbours. `--cpu-time` counts the
time that a process has the CPU, for one thread on a busy machine. Bandwidth is of one thread that reads memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from llm_network import TINYLLAMA, Network, Weights

from lowbit.kernels import native
from lowbit.plan import Packed
from lowbit.plan.pages import HugePageArena, aligned

sys.path.insert(0, str(Path(__file__).parents[1]))
PEER = """
import ctypes, json, sys, time
import llama_cpp
from llama_cpp import Llama

def requantized(source, target, kind):
    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype, p.allow_requantize = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + kind), True
    return llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(p))

models = {}
for line in sys.stdin:
    name, *args = json.loads(line)
    if name == "requantize":
        answer = requantized(*args)
    else:
        path, threads, rows, begin, cpu = args
        key = path, threads
        if key not in models:
            models[key] = Llama(path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False)
        m = models[key]
        m.reset()
        if begin:
            m.eval([i % 4000 for i in range(begin)])
        clock = time.process_time if cpu else time.perf_counter
        start = clock()
        m.eval([i % 4000 for i in range(rows)])
        answer = clock() - start
    print(json.dumps(answer), flush=True)
"""


class Peer:
    """llama.cpp in a process of its own, which waits while lowbit runs."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-c", PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *what: object) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"llama.cpp ended at {what}")
        return json.loads(line)


@contextmanager
def peer_of(python: str | None) -> Iterator[Peer | None]:
    peer = None if python is None else Peer(python)
    yield peer
    if peer is not None:
        peer.process.terminate()


def seconds(work: Callable[[], object], cpu: bool = False) -> float:
    clock = time.process_time if cpu else time.perf_counter
    start = clock()
    work()
    return clock() - start


def bandwidth() -> float:
    """Bytes a second that one thread reads from memory, while it has the CPU."""
    x = aligned(1 << 28).view(np.uint64)
    x[:] = 1
    return x.nbytes / min(seconds(lambda: np.bitwise_or.reduce(x), True) for _ in range(8))


def measured(
    weights: Weights, packed: Packed, path: Path, threads: int, rounds: int, cpu: bool, peer: Peer | None
) -> dict[str, list[float]]:
    """Milliseconds of lowbit and llama.cpp, the least of all rounds: a token after 128, prompts of 128 and 512 with the last logits."""
    network, ids = Network(weights, threads, packed=packed), np.arange(512) % 4000

    def token() -> None:
        network.logits(network.step(ids[:1], 128))

    cases: dict[str, tuple[Callable[[], object], int, int, int]] = {
        "decode": (token, 1, 128, 4 * rounds),
        "prefill 128": (lambda: network.prefill(ids[:128]), 128, 0, rounds),
        "prefill 512": (lambda: network.prefill(ids), 512, 0, max(1, rounds // 2)),
    }
    network.prefill(ids)
    best: dict[str, list[float]] = {}
    for name, (work, rows, begin, repeats) in cases.items():
        times: list[list[float]] = [[], []]
        for _ in range(repeats):
            times[0].append(1e3 * min(seconds(work, cpu), seconds(work, cpu)))
            if peer is not None:
                times[1].append(1e3 * peer.ask("time", str(path), threads, rows, begin, cpu))
        best[name] = [min(t) for t in times if t]
    return best


def shown(name: str, weights: Weights, threads: int, best: dict[str, list[float]], read: float) -> None:
    for case, times in best.items():
        text = f"{name:8} {threads} threads  {case:12} lowbit {times[0]:9.2f} ms"
        if len(times) > 1:
            text += f"  llama.cpp {times[1]:9.2f} ms  ratio {times[0] / times[1]:.2f}"
        if case == "decode":
            text += f"  {weights.bytes_per_token / times[0] / 1e6:.1f} GB/s of {read / 1e9:.1f}"
        print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", help="a Python with llama-cpp-python")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--cpu-time", action="store_true", help="for one thread on a busy machine")
    parser.add_argument("--formats", default="Q4_1,Q4_0,Q4_K_M", help="of SmolLM2-135M")
    parser.add_argument("--random", default="", help="formats of random weights of 1.1 B shapes, instead of SmolLM2")
    options = parser.parse_args()
    read = bandwidth()
    print(f"block_linear_s8 by {native.best('block_linear_s8').isa}; one thread reads {read / 1e9:.1f} GB/s")
    with tempfile.TemporaryDirectory() as folder, peer_of(options.llama) as peer:
        for name in (options.random or options.formats).split(","):
            path = Path(folder) / f"{name}.gguf"
            if options.random:
                weights = Weights.random(TINYLLAMA, name)
                if peer is not None:
                    weights.write(path, name)
            else:
                from zoo import smollm2

                if name == "Q4_1":
                    path = smollm2.path()
                elif peer is None or peer.ask("requantize", str(smollm2.path()), str(path), name):
                    print(f"{name}: needs --llama, which makes the file")
                    continue
                weights = Weights.of_file(path)
            packed = Packed(None, HugePageArena())
            for threads in map(int, options.threads.split(",")):
                shown(name, weights, threads, measured(weights, packed, path, threads, options.rounds, options.cpu_time, peer), read)


if __name__ == "__main__":
    main()
