"""Makefile and CMakeLists.txt of a project."""

from __future__ import annotations

from lowbit.codegen.boards import BOARDS, FOLDER
from lowbit.codegen.project import Project
from lowbit.codegen.targets import EXACT, WARNINGS
from lowbit.kernels import sources


def isa_flags(p: Project) -> dict[str, tuple[str, ...]]:
    """Instruction set → flags, of the kernels that need some."""
    used = dict.fromkeys(k.rpartition("__")[2] for k in p.kernels)
    return {isa: sources.isas()[isa].flags for isa in used if isa in sources.isas() and sources.isas()[isa].flags}


def how_to_run(p: Project, lacks: str | None) -> str:
    """Makefile lines that say on what the self test runs, and in one line what is not there for it; the library needs none of them.

    lacks  why the emulated board does not do
    """
    t = p.target
    lines = ["# What the self test runs on."]
    hint = ""
    if t.bare:
        hint = ". A board of yours: README.md"
        lines += [f"BOARD ?= {'' if lacks else f'{FOLDER}/board.mk'}", "-include $(BOARD)"]
    elif t.emulator is not None:
        lines += [f"ifneq ($(shell uname -m),{t.machine})", f"RUN ?= {t.emulator}", "LDFLAGS ?= -static", "endif"]
    lines += [
        "ifneq ($(filter test,$(MAKECMDGOALS)),)",
        "NEEDED := $(firstword $(CC)) $(firstword $(RUN))",
        "MISSING := $(strip $(foreach p,$(NEEDED),$(if $(shell command -v $(p) 2>/dev/null),,$(p))))",
    ]
    if t.bare:  # asked only of a compiler that is there
        lines += [
            "ifeq ($(MISSING),)",
            "MISSING := $(if $(BOARD_SPECS),$(if $(findstring /,$(shell $(CC) -print-file-name=$(BOARD_SPECS))),,$(BOARD_SPECS)))",
            "endif",
        ]
    packages = " (Debian: $(BOARD_PACKAGES))" if t.bare else ""
    lines += ["ifneq ($(MISSING),)", f"$(error make test needs $(MISSING), not found here{packages}{hint})", "endif"]
    if t.bare:
        why = lacks or "$(BOARD) does not set RUN"
        lines += ["ifeq ($(RUN),)", f"$(error make test has nothing to run on: {why}{hint})", "endif"]
    return "\n".join([*lines, "endif", ""])


def makefile(p: Project, lacks: str | None) -> str:
    n, t = p.name, p.target
    where = ""
    if t.bare:
        where = (
            " on a board of yours, BOARD=board.mk of it: README.md"
            if lacks
            else f" on an emulated board ({FOLDER}/); BOARD=../mine/board.mk: on yours"
        )
    kernels = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels))
    text = f"""\
# For {t.name}.
# make        {n} as build/lib{n}.a
# make test   runs the self test{where}
# make size   bytes of flash and RAM of each file
# make stack  bytes of stack of each function
# make clean  takes build/ away
ifeq ($(origin CC),default)
CC := {t.compiler}
endif
AR := {t.prefix}ar
SIZE := {t.prefix}size
CFLAGS ?= {t.optimize}
CPU := {" ".join(t.cpu_flags(p.no_float))}
FLAGS := {" ".join(WARNINGS)} {EXACT} -ffunction-sections -fdata-sections -fstack-usage -MMD -MP
SOURCES := {n}.c weights.c {kernels}
OBJECTS := $(SOURCES:%.c=build/%.o)

.PHONY: all test size stack clean help
all: build/lib{n}.a

help:
\t@sed -n '/^#/!q; s/^# //p' Makefile

{how_to_run(p, lacks)}
test: build/selftest
\t$(RUN) build/selftest

size: build/lib{n}.a
\t$(SIZE) -t $<

stack: $(OBJECTS)
\t@cat $(OBJECTS:.o=.su)

build/lib{n}.a: $(OBJECTS)
\trm -f $@ && $(AR) rcs $@ $^

build/selftest: {"$(BOARD_SOURCES) " if t.bare else ""}build/selftest.o build/lib{n}.a
\t$(CC) $(CPU) $(CFLAGS) {"$(BOARD_LDFLAGS) " if t.bare else ""}$(LDFLAGS) $^ -Wl,--gc-sections -o $@

build/%.o: %.c
\t@mkdir -p $(dir $@)
\t$(CC) $(CPU) $(ISA) $(CFLAGS) $(FLAGS) -c $< -o $@

clean:
\trm -rf build

-include $(OBJECTS:.o=.d) build/selftest.d
"""
    return text + "".join(f"\nbuild/kernels/%__{isa}.o: ISA := {' '.join(flags)}\n" for isa, flags in isa_flags(p).items())


def cmakelists(p: Project, lacks: str | None) -> str:
    kernels = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels))
    options = " ".join([EXACT, *(("-Wall", "-Wextra", "-Wconversion"))])
    lines = [
        "cmake_minimum_required(VERSION 3.13)", f"project({p.name} LANGUAGES C)", "",
        f"# add_subdirectory(this folder), then target_link_libraries(yours {p.name}). CPU flags come from your toolchain file.",
        f"add_library({p.name} STATIC {p.name}.c weights.c {kernels})",
        f"target_include_directories({p.name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})",
        f"set_target_properties({p.name} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)",
        f"target_compile_options({p.name} PRIVATE {options})",
        'if(NOT CMAKE_C_FLAGS MATCHES "(^| )-O") # a build without a type is optimized too',
        f"  target_compile_options({p.name} PRIVATE $<$<CONFIG:>:{p.target.optimize}>)",
        "endif()",
    ]  # fmt: skip
    for isa, needed in isa_flags(p).items():
        files = " ".join(f"kernels/{k}.c" for k in sorted(p.kernels) if k.endswith(f"__{isa}"))
        lines.append(f'set_source_files_properties({files} PROPERTIES COMPILE_OPTIONS "{";".join(needed)}")')
    lines += [
        "", "if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)", "  enable_testing()",
        f"  add_executable({p.name}_selftest selftest.c)", f"  target_link_libraries({p.name}_selftest PRIVATE {p.name})",
        f"  set_target_properties({p.name}_selftest PROPERTIES C_STANDARD 11)",
        *(cmake_board(p) if p.target.bare and not lacks else []),
        f"  add_test(NAME {p.name}_selftest COMMAND {p.name}_selftest)", "endif()", "",
    ]  # fmt: skip
    return "\n".join(lines)


def cmake_board(p: Project) -> list[str]:
    """The self test on the emulated board, where CMake compiles for a chip."""
    board, test = BOARDS[p.target.name], f"{p.name}_selftest"
    here = "${CMAKE_CURRENT_SOURCE_DIR}"
    sources = [f"{FOLDER}/{name}" for name in board.files if name.endswith(".c")]
    return [
        "  if(CMAKE_CROSSCOMPILING) # the emulated board; toolchain file: board/toolchain.cmake",
        *([f"    target_sources({test} PRIVATE {' '.join(sources)})"] if sources else []),
        f"    target_link_options({test} PRIVATE {' '.join(board.link_flags(f'{here}/{FOLDER}'))} -Wl,--gc-sections)",
        f'    set_target_properties({test} PROPERTIES CROSSCOMPILING_EMULATOR "{";".join(board.run_command())}")',
        "  endif()",
    ]
