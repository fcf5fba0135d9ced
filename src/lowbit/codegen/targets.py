"""The machines that C is written for, one row each: compiler, flags, which kernels it prefers, how buffers are aligned."""

from __future__ import annotations

from dataclasses import dataclass

from lowbit import plan
from lowbit.errors import InputError

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
NO_FLOAT = ("armdsp", "ref")  # instruction sets whose kernels round by base/numerics.h alone
EXACT = "-ffp-contract=off"  # the arithmetic contract: a multiplication and an addition are two roundings


@dataclass(frozen=True)
class CTarget:
    """A machine. `isas` are instruction sets of csrc/isas.txt, best first; None is what the machine that generates has.

    prefix     of the tools: gcc, size and objdump
    flags      that say which CPU it is
    hard       flags for a floating-point unit; left out with no_float, where `soft` stands instead
    alignment  of buffers and weights in bytes
    """

    name: str
    about: str
    prefix: str = ""
    flags: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    isas: tuple[str, ...] | None = ("ref",)
    alignment: int = 8
    optimize: str = "-O2"

    @property
    def compiler(self) -> str:
        return f"{self.prefix}gcc"

    @property
    def bare(self) -> bool:
        """Whether there is no operating system: a program needs the board's startup code and linker script to run."""
        return self.prefix.endswith(("-eabi-", "-elf-"))

    @property
    def machine(self) -> str:
        """The result of `uname -m`, for targets with an operating system of their own."""
        return self.prefix.partition("-")[0]

    @property
    def emulator(self) -> str | None:
        """The emulator for programs of another machine's Linux."""
        return None if self.bare or not self.prefix else f"qemu-{self.machine}"

    @property
    def fpu(self) -> bool:
        """Whether a chip has a floating-point unit."""
        return "-mfloat-abi=hard" in self.hard

    def cpu_flags(self, no_float: bool) -> tuple[str, ...]:
        return self.flags + (self.soft if no_float else self.hard)

    def plan_target(self, io_in_arena: bool, no_float: bool) -> plan.Target:
        isas = tuple(isa for isa in self.isas or () if isa in NO_FLOAT) or ("ref",) if no_float else self.isas
        return plan.Target(isas=isas, alignment=self.alignment, scratch_in_arena=True, io_in_arena=io_in_arena)


ARM = "arm-none-eabi-"
SOFT = ("-mfloat-abi=soft",)


def cortex_m(name: str, about: str, cpu: str, fpu: str | None, isas: tuple[str, ...], alignment: int = 8) -> CTarget:
    hard = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else SOFT
    return CTarget(name, about, ARM, (f"-mcpu={cpu}", "-mthumb"), hard, SOFT, isas, alignment)


def aarch64(name: str, about: str, flags: tuple[str, ...], isas: tuple[str, ...]) -> CTarget:
    return CTarget(name, about, "aarch64-linux-gnu-", flags, soft=("-mgeneral-regs-only",), isas=isas, alignment=64)


TARGETS = {
    t.name: t
    for t in [
        CTarget("host", "this machine, with its best instruction set", isas=None, alignment=64, optimize="-O3"),
        CTarget("portable", "any machine with a C11 compiler", soft=()),
        cortex_m("cortex-m0plus", "Cortex-M0+: no FPU, no long multiply", "cortex-m0plus", None, ("ref",)),
        cortex_m("cortex-m3", "Cortex-M3: no FPU", "cortex-m3", None, ("ref",)),
        cortex_m("cortex-m4", "Cortex-M4F: DSP instructions, FPU", "cortex-m4", "fpv4-sp-d16", ("armdsp", "ref")),
        cortex_m("cortex-m7", "Cortex-M7: DSP instructions, FPU", "cortex-m7", "fpv5-sp-d16", ("armdsp", "ref")),
        cortex_m("cortex-m33", "Cortex-M33: DSP instructions, FPU", "cortex-m33", "fpv5-sp-d16", ("armdsp", "ref")),
        cortex_m("cortex-m55", "Cortex-M55: vectors (MVE), FPU", "cortex-m55", "auto", ("mve", "armdsp", "ref"), 16),
        aarch64("aarch64", "64-bit Arm with NEON", (), ("neon", "ref")),
        aarch64("aarch64-dot", "64-bit Arm with NEON and dotprod", ("-march=armv8.2-a+dotprod",), ("neondot", "neon", "ref")),
        CTarget("riscv32", "RISC-V, RV32IMC, no FPU", "riscv64-unknown-elf-", ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs")),
    ]
}


def target(name: str) -> CTarget:
    """The target of that name."""
    if name not in TARGETS:
        raise InputError(f"there is no target {name!r}", hint="one of " + ", ".join(TARGETS))
    return TARGETS[name]
