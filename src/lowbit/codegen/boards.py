"""Emulated boards, one row for each chip: the self test of a generated folder runs on them.

The folder's board/ is made here, and tests and benchmarks build their programs with the same startup code, memory map and command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lowbit.codegen.targets import CTarget

DATA = Path(__file__).parent / "board"
FOLDER = "board"  # in a generated folder
NOTE = "For the emulator; replace by your board's own"
MARGIN = 256 << 10  # of each memory, for other parts of a program: libc, its heap, the stack
QEMU = ("-nographic", "-monitor", "none", "-serial", "none")
NATIVE = "enable=on,target=native"


@dataclass(frozen=True)
class Memory:
    """A part of the address space."""

    at: int
    nbytes: int

    def __str__(self) -> str:
        return f"0x{self.at:08x}, LENGTH = {self.nbytes >> 10}K"


@dataclass(frozen=True)
class Board:
    """A machine of QEMU, and where its memory is. QEMU loads a program into all of it: `constants` are the flash of a real board.

    packages  Debian packages with the compiler, its libc and the emulator
    specs     the libc that prints by semihosting
    """

    machine: str
    code: Memory
    constants: Memory
    ram: Memory
    emulator: str = "qemu-system-arm"
    packages: str = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
    specs: str = "rdimon.specs"

    @property
    def files(self) -> dict[str, str]:
        """Startup code and linker script; picolibc has both for `virt`."""
        if self.machine == "virt":
            return {}
        script = (DATA / "board.ld").read_text()
        for name in ("machine", "code", "constants", "ram"):
            script = script.replace(f"@{name}@", str(getattr(self, name)))
        return {"startup.c": (DATA / "startup.c").read_text(), "board.ld": script}

    def link_flags(self, folder: str) -> list[str]:
        """Of a program whose sources are not all: startup.c is one of them."""
        if self.machine == "virt":
            places = {
                "__flash": self.constants.at,
                "__flash_size": self.constants.nbytes,
                "__ram": self.ram.at,
                "__ram_size": self.ram.nbytes,
            }
            return ["--oslib=semihost", "--crt0=semihost", "-Wl," + ",".join(f"--defsym={k}=0x{v:x}" for k, v in places.items())]
        return [f"--specs={self.specs}", "-nostartfiles", f"-T{folder}/board.ld"]

    def run_command(self, *options: str) -> list[str]:
        """The command line; the program's path comes after it."""
        if self.machine == "virt":  # it would print to the standard error
            options = ("-bios", "none", "-chardev", "stdio,id=out", "-semihosting-config", f"{NATIVE},chardev=out", *options)
        else:
            options = ("-semihosting-config", NATIVE, *options)
        return [self.emulator, "-M", self.machine, *QEMU, *options, "-kernel"]


K, M = 1 << 10, 1 << 20
FAST, SLOW = Memory(0, 4 * M), Memory(0x20000000, 4 * M)  # of the MPS2 boards
BOARDS = {
    "cortex-m0plus": Board("mps2-an385", FAST, Memory(0x21000000, 16 * M), SLOW),  # an M3 runs all that an M0+ has
    "cortex-m3": Board("mps2-an385", FAST, Memory(0x21000000, 16 * M), SLOW),
    "cortex-m4": Board("mps2-an386", FAST, Memory(0x21000000, 16 * M), SLOW),
    "cortex-m7": Board("mps2-an500", FAST, Memory(0x60000000, 16 * M), SLOW),
    "cortex-m33": Board("mps2-an505", Memory(0x10000000, 4 * M), Memory(0x80000000, 16 * M), Memory(0x38000000, 4 * M)),
    "cortex-m55": Board("mps3-an547", Memory(0, 512 * K), Memory(0x60000000, 64 * M), Memory(0x64000000, 64 * M)),
    "riscv32": Board(
        "virt", Memory(0x80000000, 64 * M), Memory(0x80000000, 64 * M), Memory(0x84000000, 63 * M), "qemu-system-riscv32",
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc", "picolibc.specs",
    ),
}  # fmt: skip


def too_large(board: Board, constants: int, ram: int) -> str | None:
    """Why the self test does not fit in the board; None if it does."""
    for memory, needed, what in ((board.constants, constants, "constants"), (board.ram, ram, "RAM")):
        if needed + MARGIN > memory.nbytes:
            return f"it needs {needed:,} bytes for {what}, and the emulated board ({board.machine}) has {memory.nbytes - MARGIN:,}"
    return None


def board_files(t: CTarget, no_float: bool) -> dict[str, str]:
    """Path in the project → text, of all that the self test of a chip needs and the library does not."""
    board = BOARDS[t.name]
    run, flags = board.run_command(), board.link_flags(FOLDER)
    sources = [f"{FOLDER}/{name}" for name in board.files if name.endswith(".c")]
    make = f"""\
# {NOTE}: QEMU's {board.machine}. `make test` reads it, `make` does not need it.
# Yours has the same names, in a file elsewhere: make test BOARD=../my_board/board.mk
# BOARD_SOURCES: startup code, and what printf needs to be seen. BOARD_LDFLAGS: linker script and libc.
# RUN: loads the program that is named after it, shows its output, and ends with its exit code.
{" ".join(["BOARD_SOURCES :=", *sources])}
BOARD_LDFLAGS := {" ".join(flags)}
RUN := {" ".join(run)}
# What must be there, and the packages of Debian that have it.
BOARD_SPECS := {board.specs}
BOARD_PACKAGES := {board.packages}
"""
    cmake = f"""\
# {NOTE}. cmake -B build-cmake --toolchain board/toolchain.cmake && cmake --build build-cmake && ctest --test-dir build-cmake
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER {t.compiler})
set(CMAKE_C_FLAGS_INIT "{" ".join(t.cpu_flags(no_float))} {t.optimize} -ffunction-sections -fdata-sections")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # programs need a board, and get it in CMakeLists.txt
"""
    return {f"{FOLDER}/{name}": text for name, text in {**board.files, "board.mk": make, "toolchain.cmake": cmake}.items()}
