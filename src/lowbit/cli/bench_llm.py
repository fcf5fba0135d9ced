"""lowbit bench model.gguf --against llama.cpp: a language model's tokens, prompts, memory and load, in turns with llama.cpp."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lowbit.cli.common import UsageError, print_json, say, size, table
from lowbit.hardware import Hardware

PEER = "llama.cpp"
CONTEXT = 1024  # tokens, or what the network was trained for
# Options of networks that run as graphs, with the values that they have where they are not given.
OTHERS: dict[str, Any] = {
    "shapes": [],
    "constant": [],
    "input": [],
    "isa": None,
    "layers": False,
    "seed": 0,
    "data": [],
    "test": [],
    "labels": None,
}


def add_llm_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--peer-python", metavar="PATH", help="with --against llama.cpp: a Python that has llama-cpp-python (this one)")


def main_llm(args: argparse.Namespace) -> None:
    from lowbit.llm.architectures import config_of
    from lowbit.llm.bench.turns import measured
    from lowbit.llm.weights import open_weights

    if len(args.models) != 1 or Path(args.models[0]).is_dir() or not args.models[0].endswith(".gguf"):
        raise UsageError("--against llama.cpp measures one .gguf file", hint="lowbit quantize FOLDER -o model.gguf makes one")
    wrong = next((name for name, value in OTHERS.items() if getattr(args, name) != value), None)
    if wrong is not None:
        raise UsageError(f"--{wrong} means nothing for a language model", hint="--threads, --rounds, --json")
    cpus = Hardware.detect().usable_cpus
    if args.threads is not None and args.threads > cpus:
        raise UsageError(f"--threads {args.threads}, and this process may use {cpus} CPUs", hint=f"{cpus} or fewer")
    threads = [args.threads] if args.threads is not None else [n for n in (1, 2) if n <= cpus]
    path = args.models[0]
    context = min(CONTEXT, config_of(open_weights(path)).context)
    found = [measured(path, n, args.rounds, context, args.peer_python) for n in threads]
    if args.json:
        print_json({"model": path, "cpu": Hardware.detect().cpu, "rounds": args.rounds, "runs": found})
        return
    for f in found:
        show(path, f)
    say(f"in turns, the least of {args.rounds} rounds (of 3 processes for the load); imports of the engines are not counted")


def show(path: str, found: dict[str, Any]) -> None:
    rows = [[r["what"], f"{r['ms']['lowbit']:.4g} ms", f"{r['ms'][PEER]:.4g} ms", f"{r['ratio']:.2f}"] for r in found["rows"]]
    peaks = found["peak_bytes"]
    ratio = "" if found["peak_ratio"] is None else f"{found['peak_ratio']:.2f}"
    rows.append(["peak memory", size(peaks["lowbit"]), size(peaks[PEER]), ratio])
    versions = found["versions"]
    columns = {"": "left", f"lowbit {versions['lowbit']}": "right", f"llama-cpp-python {versions[PEER]}": "right", "ratio": "right"}
    table(f"{Path(path).name}, {found['threads']} thread(s)", columns, rows)
