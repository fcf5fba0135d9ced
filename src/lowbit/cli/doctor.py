"""lowbit doctor: what this machine and this installation can do."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from typing import Any

from lowbit import __version__
from lowbit.cli.common import print_json

HELP = "show what this machine and this installation can do"

OPTIONAL = {
    "torch": "loads PyTorch modules",
    "onnxruntime": "checks exported models",
    "openvino": "a peer in benchmarks",
    "ai_edge_litert": "a peer in benchmarks",
}


def add_arguments(p: argparse.ArgumentParser) -> None:
    pass


def main(args: argparse.Namespace) -> None:
    facts = diagnose()
    if args.json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if isinstance(value, dict):
            print(name)
            for k, v in value.items():
                print(f"  {k:{width}}  {v}")
        else:
            print(f"{name:{width}}    {value}")


def diagnose() -> dict[str, Any]:
    """Facts, none guessed: versions as installed, features as the CPU and the operating system report them."""
    facts: dict[str, Any] = {
        "lowbit": __version__,
        "python": f"{platform.python_version()} ({sys.platform}, {platform.machine()})",
        "core": {p: _version(p) for p in ("numpy", "onnx", "safetensors", "rich")},
        "optional": {p: f"{_version(p)} ({why})" for p, why in OPTIONAL.items()},
        "compilers": {c: shutil.which(c) or "not found" for c in ("gcc", "clang", "arm-none-eabi-gcc")},
    }
    return facts | native()


def native() -> dict[str, Any]:
    from lowbit.runtime import native as n

    by_isa: dict[str, list[str]] = {}
    for k in n.kernels():
        by_isa.setdefault(k.isa + ("" if k.available else " (not on this CPU)"), []).append(k.contract.name)
    return {
        "cpu features": ", ".join(n.cpu_features()) or "none of those lowbit uses",
        "kernels": {isa: ", ".join(names) for isa, names in by_isa.items()},
    }


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "installed, version unknown"
