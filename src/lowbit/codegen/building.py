"""Makefile, CMakeLists.txt and README.md of a project."""

from __future__ import annotations

from lowbit.codegen.names import cell
from lowbit.codegen.project import Call, Project
from lowbit.codegen.targets import EXACT, WARNINGS, CTarget
from lowbit.plan import Place
from lowbit.runtime import sources


def isa_flags(p: Project) -> dict[str, tuple[str, ...]]:
    """Instruction set → flags, of the kernels that need some."""
    used = dict.fromkeys(k.rpartition("__")[2] for k in p.kernels)
    return {isa: sources.isas()[isa].flags for isa in used if isa in sources.isas() and sources.isas()[isa].flags}


def how_to_run(t: CTarget) -> str:
    """What `make test` needs on machines that do not start a program by themselves."""
    if t.bare:
        return "; it needs LDFLAGS=your board's startup code and linker script, RUN=what starts it there"
    return "" if not t.prefix else " (RUN=qemu-... where this machine does not run it)"


def flags_needed(p: Project) -> list[str]:
    """The compiler flags that are no choice, in sentences."""
    cpu = " ".join(p.target.cpu_flags(p.no_float))
    said = [f"The CPU's flags are `{cpu}`." if cpu else ""]
    said += [f"`kernels/*__{isa}.c` need `{' '.join(flags)}`." for isa, flags in isa_flags(p).items()]
    if p.target.bare:
        said.append(
            "The self test is a program with `main` and `printf`, whose exit code is 0 if every bit is right. On a chip it needs the"
            " startup code and the linker script of your board: `make test LDFLAGS=... RUN=...`."
        )
    return [s for s in said if s]


def makefile(p: Project) -> str:
    n, t = p.name, p.target
    kernels = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels))
    text = f"""\
# make: {n} as build/lib{n}.a. make test: runs the self test{how_to_run(t)}.
# make size: bytes of flash and RAM. make stack: bytes of stack of each function. For {t.name}.
ifeq ($(origin CC),default)
CC := {t.compiler}
endif
AR := {t.prefix}ar
SIZE := {t.prefix}size
CFLAGS ?= {t.optimize}
CPU := {" ".join(t.cpu_flags(p.no_float))}
FLAGS := {" ".join(WARNINGS)} {EXACT} -ffunction-sections -fdata-sections -fstack-usage
SOURCES := {n}.c weights.c {kernels}
OBJECTS := $(SOURCES:%.c=build/%.o)

.PHONY: all test size stack clean
all: build/lib{n}.a

test: build/selftest
\t$(RUN) build/selftest

size: build/lib{n}.a
\t$(SIZE) -t $<

stack: $(OBJECTS)
\t@cat $(OBJECTS:.o=.su)

build/lib{n}.a: $(OBJECTS)
\trm -f $@ && $(AR) rcs $@ $^

build/selftest: build/selftest.o build/lib{n}.a
\t$(CC) $(CPU) $(CFLAGS) $(LDFLAGS) $^ -Wl,--gc-sections -o $@

build/%.o: %.c
\t@mkdir -p $(dir $@)
\t$(CC) $(CPU) $(ISA) $(CFLAGS) $(FLAGS) -c $< -o $@

clean:
\trm -rf build
"""
    return text + "".join(f"\nbuild/kernels/%__{isa}.o: ISA := {' '.join(flags)}\n" for isa, flags in isa_flags(p).items())


def cmakelists(p: Project) -> str:
    kernels = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels))
    options = " ".join([EXACT, *(("-Wall", "-Wextra", "-Wconversion"))])
    lines = [
        "cmake_minimum_required(VERSION 3.13)", f"project({p.name} LANGUAGES C)", "",
        f"# add_subdirectory(this folder), then target_link_libraries(yours {p.name}). CPU flags come from your toolchain file.",
        f"add_library({p.name} STATIC {p.name}.c weights.c {kernels})",
        f"target_include_directories({p.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})",
        f"set_target_properties({p.name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)",
        f"target_compile_options({p.name} PRIVATE {options})",
    ]  # fmt: skip
    for isa, needed in isa_flags(p).items():
        files = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels) if k.endswith(f"__{isa}"))
        lines.append(f'set_source_files_properties({files} PROPERTIES COMPILE_OPTIONS "{";".join(needed)}")')
    lines += [
        "", "if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)", "  enable_testing()",
        f"  add_executable({p.name}_selftest selftest.c)", f"  target_link_libraries({p.name}_selftest PRIVATE {p.name})",
        f"  set_target_properties({p.name}_selftest PROPERTIES C_STANDARD 11)",
        f"  add_test(NAME {p.name}_selftest COMMAND {p.name}_selftest)", "endif()", "",
    ]  # fmt: skip
    return "\n".join(lines)


def layer_bytes(p: Project, call: Call) -> tuple[int, int]:
    """Flash of the layer's constants, counted where they are read first, and RAM of the arena that it reads and writes."""
    flash = sum(c.data.nbytes for c in {s.index: p.constant_at[s.index] for s in call.step.args if s.place is Place.CONSTANT}.values()
                if _first(p, c.name) is call)  # fmt: skip
    return flash + call.contract.layout.itemsize, sum(s.size for s in call.step.args if s.place is Place.ARENA)


def _first(p: Project, name: str) -> Call:
    return next(c for c in p.calls if any(s.place is Place.CONSTANT and p.constant_at[s.index].name == name for s in c.step.args))


def readme(p: Project, exact: bool) -> str:
    n, m = p.name, p.macro
    ports = [("in", i) for i in p.given] + [("out", o) for o in p.taken] + [("state", s) for s in p.kept]
    begin = [f"static {n}_state state;", f"{n}_reset(&state); /* before the first frame of a stream */"] if p.kept else []
    run = ", ".join(["&state"] * bool(p.kept) + ([port.argument for port in (*p.given, *p.taken)] if not p.plan.input_slots else []))
    bits = (
        "Every integer is that of lowbit's interpreter, bit for bit; the self test checks it on the machine itself."
        if exact
        else "Layers in floating point may round otherwise than lowbit's interpreter; the self test checks the bits of these kernels."
    )
    lines = [
        f"# {n}", "", f"A network as C11, written by lowbit {p.version} for {p.target.name} ({p.target.about}). {bits}", "",
        "```c", f'#include "{n}.h"', *begin, f"{n}_run({run});", "```", "",
        "| | type | bytes | scale | zero point |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for kind, port in ports:
        q = port.quantized
        params = f"{q.scale:.9g} | {q.zero_point}" if q is not None else " | "
        where = f", in the arena at {port.slot.offset}" if port.slot is not None else ""
        lines.append(f"| {kind} {cell(port.name)} | {cell(str(port.value.type))}{where} | {port.nbytes:,} | {params} |")
    lines += [
        "", "## Memory", "",
        f"- **RAM: {p.arena_bytes:,} bytes** of arena (`{m}_ARENA_BYTES`), asserted when compiling. No arena can be smaller than "
        f"{p.plan.least_bytes:,} bytes, which are alive at the fullest step."
        + (f" The caller's inputs and outputs take {p.io_bytes:,} more." if p.io_bytes else "")
        + (f" Each stream has a state of {p.state_bytes:,} bytes." if p.kept else ""),
        f"- **Flash: {p.weight_bytes:,} bytes** of weights, and the code: `make size`. Stack: `make stack`.",
        "- No allocation, no recursion, no variable-length arrays, nothing of libc but memcpy and memset.", "",
        "| layer | kernel | output | MACs | flash: weights and parameters | RAM: what it reads and writes |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for call in p.calls:
        flash, ram = layer_bytes(p, call)
        out = call.step.outputs[0].type if call.step.outputs else ""
        name = cell(call.step.layer)
        lines.append(f"| {name} | {call.step.kernel} | {cell(str(out))} | {call.step.macs:,} | {flash:,} | {ram:,} |")
    lines += [
        "", "## Building", "",
        f"`make` or CMake; or add `{n}.c`, `weights.c` and `kernels/*.c` to your project with `{EXACT}`: without it a compiler may fuse a",
        "multiplication and an addition, which rounds once where the arithmetic rounds twice. No include path is needed. The kernels are",
        "lowbit's, under the Apache License 2.0. Two networks in one program share the kernels that both have: compile them once.",
        *flags_needed(p), "",
    ]  # fmt: skip
    return "\n".join(lines)
