"""`Hardware`: this machine as a value. It holds facts only; `hints` and `problems` follow from them."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lowbit.hardware import system
from lowbit.hardware.gpu import NOT_ASKED, Gpu, find_gpus
from lowbit.hardware.hints import Hints, derive_hints, recommendations
from lowbit.hardware.instructions import Instruction, best_instruction
from lowbit.hardware.measure import Measurement, measure
from lowbit.hardware.problems import Problem, find_problems
from lowbit.hardware.system import Cache
from lowbit.kernels import native


@dataclass(frozen=True)
class Hardware:
    """Facts from the CPU, the operating system and torch; None if unknown.

    >>> hw = Hardware("x86_64", features=("avx2", "fma", "avxvnni"), isas=("ref", "avx2", "avxvnni"), cpus=8, usable_cpus=8)
    >>> hw.instruction.title, hw.hints().activation_dtype.value, hw.threads
    ('AVX-VNNI', 'int8', 8)
    """

    arch: str
    features: tuple[str, ...]  # from CPUID (or HWCAP), enabled by the operating system: code may use these
    isas: tuple[str, ...]  # instruction sets that this build has kernels for
    cpus: int  # logical CPUs of the machine
    usable_cpus: int  # of them, those that the process may run on
    cpu: str | None = None
    caches: tuple[Cache, ...] = ()
    cores: int | None = None  # physical cores of the machine
    usable_cores: int | None = None  # physical cores of the usable CPUs
    cpu_quota: float | None = None  # CPUs' worth of time that control groups allow; None is no limit
    memory: int | None = None
    memory_limit: int | None = None
    load: float | None = None  # processes that wanted to run in the last minute, on average
    governor: str | None = None
    governor_driver: str | None = None
    gpus: tuple[Gpu, ...] | None = None  # None: not queried
    gpu_note: str = NOT_ASKED
    isas_on_this_cpu: tuple[str, ...] = ("ref",)  # of `isas`, those that it runs

    @staticmethod
    def detect(*, gpu: bool = False, root: str | Path = "/") -> Hardware:
        """This machine. `gpu=True` imports torch to ask it for GPUs; without it torch is asked only if it is imported already.

        `root` is where proc and sys are found.
        """
        r = Path(root)
        usable = _affinity()
        first = min(usable)
        governor, driver = system.governor(r, first)
        gpus, note = find_gpus(gpu)
        return Hardware(
            arch=platform.machine(),
            features=native.cpu_features(),
            isas=native.isas(),
            cpus=os.cpu_count() or len(usable),
            usable_cpus=len(usable),
            cpu=system.cpu_name(r),
            caches=system.caches(r, first),
            cores=system.physical_cores(r),
            usable_cores=system.physical_cores(r, usable),
            cpu_quota=system.cpu_quota(r),
            memory=system.memory(r),
            memory_limit=system.memory_limit(r),
            load=system.load(r),
            governor=governor,
            governor_driver=driver,
            gpus=gpus,
            gpu_note=note,
            isas_on_this_cpu=native.isas_on_this_cpu(),
        )

    def cache(self, level: int) -> Cache | None:
        """The data (or unified) cache of a level."""
        return next((c for c in self.caches if c.level == level and c.kind != "instruction"), None)

    @property
    def threads(self) -> int:
        """Threads that can multiply at the same time: usable physical cores, and no more than the quota pays for."""
        cores = self.usable_cores or self.usable_cpus
        return cores if self.cpu_quota is None else max(1, min(cores, int(self.cpu_quota)))

    @property
    def instruction(self) -> Instruction | None:
        """The best way of this CPU to multiply bytes."""
        return best_instruction(self.features)

    def measure(self, seconds: float = 0.3) -> Measurement:
        """A short measurement: read bandwidth, float32 and integer matrix products."""
        return measure(self.caches, seconds)

    def hints(self, measured: Measurement | None = None) -> Hints:
        """Recommendations, each with its reason. Without a measurement they follow from the facts alone, and say so."""
        return derive_hints(self, measured)

    def problems(self) -> tuple[Problem, ...]:
        """Causes that make this machine or process slower than it could be, with hints."""
        return find_problems(self, os.environ.get("LOWBIT_ISA") or None)

    def recommend(self, measured: Measurement | None = None) -> tuple[str, ...]:
        """Hints and problems as plain sentences."""
        return (*recommendations(self, self.hints(measured)), *(f"{p.what}. Try: {p.remedy}." for p in self.problems()))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, with the facts that are derived."""
        i = self.instruction
        gpus = None if self.gpus is None else [asdict(g) | {"features": list(g.features), "because": g.because} for g in self.gpus]
        facts = {"isas_built" if name == "isas" else name: value for name, value in asdict(self).items()}
        return facts | {"gpus": gpus, "threads": self.threads, "instruction": None if i is None else i.title}


def _affinity() -> frozenset[int]:
    """The CPUs that this process may run on; all of them where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
