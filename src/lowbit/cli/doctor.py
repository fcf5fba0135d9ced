"""lowbit doctor: the abilities of this machine and installation, recommendations with reasons, and problems."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from typing import Any

from lowbit import __version__
from lowbit.cli.common import environment_error, print_json, size, table
from lowbit.hardware import Hardware, Measurement
from lowbit.kernels import native

HELP = "show what this machine and this installation can do, and what to prefer on it"

OPTIONAL = {
    "torch": "loads PyTorch modules",
    "onnxruntime": "checks exported models",
    "openvino": "a peer in benchmarks",
    "ai_edge_litert": "a peer in benchmarks",
}


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--quick", action="store_true", help="facts only, no measurement")
    p.add_argument("--seconds", type=float, default=0.3, help="how long to measure (0.3)")
    p.add_argument("-v", "--verbose", action="store_true", help="show every measurement, and the reason of each hint")
    p.add_argument("--kernels", action="store_true", help="list every kernel, and the instruction set that runs it")
    p.add_argument("--gpu", action="store_true", help="import torch, which takes seconds, and ask it for GPUs")


def main(args: argparse.Namespace) -> None:
    hw = Hardware.detect(gpu=args.gpu)
    wrong = environment_error()
    barred = wrong.message if wrong else ""
    measured = None if barred or args.quick else hw.measure(args.seconds)
    if args.json:
        print_json(diagnose(hw, measured))
        return
    show({k: v for k, v in installation().items() if k != "core"})
    show(machine(hw))
    if args.kernels:
        show_kernels()
    if measured is not None and args.verbose:
        show_measurement(measured, args.seconds)
    elif measured is None:
        print(f"measurement   {f'not possible: {barred}' if barred else 'left out (--quick)'}")
    print("\nhints")
    for name, hint in hw.hints(measured):
        if hint.value not in (None, ()):
            value = ", ".join(hint.value) if isinstance(hint.value, tuple) else hint.value
            print(f"  {name.replace('_', ' '):18}  {value}" + (f"\n{'':22}because {hint.because}" if args.verbose else ""))
    problems = hw.problems()
    print("\nproblems" if problems else "\nproblems      none found")
    for problem in problems:
        print(f"  {problem.what}\n    Try: {problem.remedy}")
    print("\nmore   lowbit doctor -v (measurements, reasons)   ·   lowbit doctor --kernels")
    print("next   lowbit demo   ·   lowbit inspect YOUR.onnx")


def diagnose(hw: Hardware, measured: Measurement | None) -> dict[str, Any]:
    """All facts as one JSON-able value. Nothing is guessed: unknown facts are null."""
    return installation() | {
        "hardware": hw.to_dict(),
        "kernels": dispatch(),
        "isa_cap": os.environ.get("LOWBIT_ISA") or None,
        "measurement": None if measured is None else measured.to_dict(),
        "hints": hw.hints(measured).to_dict(),
        "problems": [{"what": p.what, "try": p.remedy} for p in hw.problems()],
        "recommendations": list(hw.recommend(measured)),
    }


def installation() -> dict[str, Any]:
    return {
        "lowbit": __version__,
        "python": f"{platform.python_version()} ({sys.platform}, {platform.machine()})",
        "core": {p: _version(p) for p in ("numpy", "onnx", "safetensors", "rich")},
        "optional": {p: f"{_version(p)} ({why})" for p, why in OPTIONAL.items()},
        "compilers": {c: shutil.which(c) or "not found" for c in ("gcc", "clang", "arm-none-eabi-gcc")},
    }


def machine(hw: Hardware) -> dict[str, Any]:
    """The facts of the hardware as a person reads them."""
    unknown = "the system does not say"
    caches = {
        f"L{c.level}{c.kind[0] if c.level == 1 else ''}": f"{c.bytes // 1024} KiB"
        + (f", lines of {c.line} bytes" if c.line else "")
        + (f", shared by {c.shared_by} CPUs" if (c.shared_by or 1) > 1 else "")
        for c in hw.caches
    }
    quota = "no limit" if hw.cpu_quota is None else f"{hw.cpu_quota:g} CPUs' worth of time"
    limit = "" if hw.memory_limit is None else f", limited to {size(hw.memory_limit)}"
    gpus = {g.name: f"{size(g.memory)}, {g.because}" for g in hw.gpus or ()}
    return {
        "cpu": hw.cpu or unknown,
        "features": ", ".join(hw.features) or "none of those lowbit uses",
        "int8 by": "portable C" if hw.instruction is None else f"{hw.instruction.title} ({hw.instruction.because})",
        "caches": caches or unknown,
        "cores": f"{hw.cores or '?'} physical, {hw.cpus} logical; usable {hw.usable_cores or '?'} and {hw.usable_cpus}; quota: {quota}",
        "memory": unknown if hw.memory is None else size(hw.memory) + limit,
        "gpus": gpus or hw.gpu_note,
    }


def dispatch() -> dict[str, Any]:
    """Contract → the instruction sets it is compiled for, and the one that runs (null if LOWBIT_ISA forbids all)."""
    cap = os.environ.get("LOWBIT_ISA") or None
    can_run = cap is None or cap in native.isas()
    return {
        name: {
            "isas": [k.isa for k in native.of(name)],
            "on_this_cpu": [k.isa for k in native.of(name) if k.available],
            "chosen": native.best(name).isa if can_run else None,
        }
        for name in native.contracts()
    }


def show(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            print(name)
            for k, v in value.items():
                print(f"  {k:18}  {v}")
        else:
            print(f"{name:12}  {value}")


def show_kernels() -> None:
    rows = [
        [name, row["chosen"] or "none", " ".join(isa if isa in row["on_this_cpu"] else f"({isa})" for isa in row["isas"])]
        for name, row in dispatch().items()
    ]
    print("\nkernels: which runs, and which this build has (in brackets: not on this CPU)")
    table("", {"contract": "left", "runs": "left", "built": "left"}, rows)


def show_measurement(m: Measurement, seconds: float) -> None:
    longer = f"  Try: lowbit doctor --seconds {max(2.0, 4 * seconds):g}, or again when the machine is idle"
    if not m.products:
        print(f"nothing was measured: the time of --seconds {seconds:g} was over before the first of {m.not_reached} products\n{longer}")
        return
    print(f"measured in {m.seconds:.1f} s; integer products by backend {m.backend!r}, which packs the weights at every call")
    for b in m.bandwidth:
        print(f"  read {b.level:7} {b.gb_per_s:6.1f} GB/s")
    rows = [
        [
            p.case.left if p.case.left == p.case.right == "float32" else f"{p.case.left} × {p.case.right}",
            f"{p.case.m}, {p.case.k}, {p.case.n}",
            "blocks of " + str(p.case.block) if p.case.block else "asymmetric" if p.case.asymmetric else "",
            f"{p.gmacs:.3g}",
            f"{p.threads:.1f}",
            f"{p.spread:.0%}",
            f"{p.waited:.0%}",
        ]
        for p in m.products
    ]
    columns = {
        "product": "left",
        "M, K, N": "left",
        "weights": "left",
        "GMAC/s": "right",
        "cores": "right",
        "spread": "right",
        "waited": "right",
    }
    table("", columns, rows)
    if m.not_reached:
        print(f"{m.not_reached} products were not reached in the time of --seconds {seconds:g}: the machine is slow or busy\n{longer}")


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "installed, version unknown"
