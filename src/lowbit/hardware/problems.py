"""Causes that make a machine or process slower than it could be. Each problem has a hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowbit.errors import InputError
from lowbit.kernels import threads

if TYPE_CHECKING:
    from lowbit.hardware.machine import Hardware


@dataclass(frozen=True)
class Problem:
    """A cause and a hint."""

    what: str
    remedy: str


# Drivers whose "powersave" is not a fixed low clock: the hardware raises it under load.
_ADAPTIVE = frozenset({"intel_pstate", "amd-pstate", "amd-pstate-epp"})


def find_problems(hw: Hardware, isa_cap: str | None) -> tuple[Problem, ...]:
    """The problems of a machine on which LOWBIT_ISA is `isa_cap`."""
    return tuple([*_kernels(hw, isa_cap), *_threads(), *_share(hw)])


def _threads() -> list[Problem]:
    try:
        cap = threads.cap()
    except InputError as e:
        return [Problem(f"{e.message}: nothing that uses threads runs", e.hint or "unset LOWBIT_THREADS")]
    return [] if cap is None else [Problem(f"LOWBIT_THREADS={cap} is set: no session has more threads", "unset LOWBIT_THREADS")]


def _kernels(hw: Hardware, isa_cap: str | None) -> list[Problem]:
    found = []
    if isa_cap is not None and isa_cap not in hw.isas:
        known = ", ".join(hw.isas)
        found.append(
            Problem(f"LOWBIT_ISA={isa_cap} is not an instruction set of this build: every kernel refuses to run", f"one of {known}")
        )
    elif isa_cap is not None:
        found.append(Problem(f"LOWBIT_ISA={isa_cap} is set: no kernel better than {isa_cap} runs", "unset LOWBIT_ISA"))
    i = hw.instruction
    if i is None and hw.arch in ("x86_64", "AMD64"):
        what = "the CPU has no AVX2, or the operating system does not enable it: ref kernels only, in portable C"
        found.append(Problem(what, "another machine; in a virtual machine, a CPU model that passes AVX2 on"))
    elif i is not None and hw.isas == ("ref",):
        found.append(
            Problem(
                f"this build has ref kernels only, the CPU has {i.title}", "a wheel of lowbit for this processor, or a build from source"
            )
        )
    elif i is not None and i.isa not in hw.isas:
        found.append(Problem(f"the CPU has {i.title}, this build has no kernel that uses it (only {', '.join(hw.isas)})", "a newer lowbit"))
    return found


def _share(hw: Hardware) -> list[Problem]:
    found = []
    cores = hw.usable_cores or hw.usable_cpus
    if hw.cpu_quota is not None and hw.cpu_quota < cores:
        what = f"a control group allows {hw.cpu_quota:g} CPUs' worth of time, {cores} cores are visible: more threads are stopped midway"
        found.append(Problem(what, f"threads={hw.threads}, or a larger CPU limit of the container"))
    if hw.usable_cpus < hw.cpus:
        what = f"the process may run on {hw.usable_cpus} of {hw.cpus} CPUs"
        found.append(Problem(what, "taskset, or the container's cpuset, if that was not on purpose"))
    if hw.memory is not None and hw.memory_limit is not None and hw.memory_limit < hw.memory:
        what = f"a control group allows {hw.memory_limit / 1e9:.1f} of {hw.memory / 1e9:.1f} GB of memory"
        found.append(Problem(what, "a larger memory limit of the container, if models do not fit"))
    if hw.governor == "powersave" and hw.governor_driver not in _ADAPTIVE:
        found.append(Problem("the frequency governor is powersave: the clock stays low", "cpupower frequency-set -g performance"))
    if hw.load is not None and hw.load > hw.usable_cpus:
        what = f"{hw.load:.1f} processes wanted to run in the last minute, on {hw.usable_cpus} CPUs: measurements are too low and noisy"
        found.append(Problem(what, "again when the machine is idle"))
    return found
