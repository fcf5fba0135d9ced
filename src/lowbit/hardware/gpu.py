"""The GPUs that torch sees, and the integer instructions of their compute capability."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

Capability = tuple[int, int]


@dataclass(frozen=True)
class GpuFeature:
    """An integer instruction of NVIDIA GPUs: present from one compute capability on, and before another if it was taken out again."""

    name: str
    since: Capability
    until: Capability | None
    because: str


# The "target ISA notes" of each instruction in the PTX reference give `since`.
GPU_FEATURES = (
    GpuFeature("dp4a", (6, 1), None, "dp4a (four byte products added to an int32) needs sm_61"),
    GpuFeature("int8 tensor cores", (7, 2), None, "wmma of s8/u8 needs sm_72 (mma.sync sm_75)"),
    GpuFeature("int4 tensor cores", (7, 5), (9, 0), "mma of s4/u4 needs sm_75; tensor cores from sm_90 on have no int4 and emulate it"),
)

NOT_ASKED = "not asked: importing torch takes seconds (Hardware.detect(gpu=True), lowbit doctor --gpu)"


@dataclass(frozen=True)
class Gpu:
    """One GPU. `capability` is None for GPUs that are not NVIDIA's, of which lowbit claims nothing."""

    name: str
    capability: Capability | None
    memory: int

    @property
    def features(self) -> tuple[str, ...]:
        """The rows of GPU_FEATURES that this GPU has.

        >>> Gpu("T4", (7, 5), 16 << 30).features, Gpu("H100", (9, 0), 80 << 30).features
        (('dp4a', 'int8 tensor cores', 'int4 tensor cores'), ('dp4a', 'int8 tensor cores'))
        """
        c = self.capability
        return tuple(f.name for f in GPU_FEATURES if c is not None and f.since <= c and (f.until is None or c < f.until))

    @property
    def because(self) -> str:
        """Why it has those features and not the others."""
        if self.capability is None:
            return "not an NVIDIA GPU: no table of its integer instructions here"
        major, minor = self.capability
        rows = (f"{'has' if f.name in self.features else 'no'} {f.name}: {f.because}" for f in GPU_FEATURES)
        return f"compute capability {major}.{minor}: " + "; ".join(rows)


def find_gpus(ask: bool) -> tuple[tuple[Gpu, ...] | None, str]:
    """The GPUs and how they were found; None without a query. torch is imported only if `ask`, and used if it is imported already."""
    if not ask and "torch" not in sys.modules:
        return None, NOT_ASKED
    if importlib.util.find_spec("torch") is None:
        return (), "torch is not installed, and nobody else is asked"
    import torch

    if not torch.cuda.is_available():
        return (), f"torch {torch.__version__} sees none"
    found = []
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        found.append(Gpu(p.name, None if torch.version.hip else (p.major, p.minor), int(p.total_memory)))
    return tuple(found), f"torch {torch.__version__} sees {len(found)}"
