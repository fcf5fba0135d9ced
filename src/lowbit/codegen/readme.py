"""README.md of a project for firmware engineers, with figures."""

from __future__ import annotations

from collections.abc import Mapping

from lowbit.codegen.boards import BOARDS, FOLDER
from lowbit.codegen.building import isa_flags
from lowbit.codegen.measure import Measured
from lowbit.codegen.names import cell
from lowbit.codegen.project import NamedStep, Port, Project
from lowbit.codegen.targets import EXACT
from lowbit.plan import Place


def layer_bytes(p: Project, call: NamedStep) -> tuple[int, int]:
    """Flash of the layer's constants, counted where they are read first, and RAM of the arena that it reads and writes."""
    flash = sum(c.data.nbytes for c in {s.index: p.constant_at[s.index] for s in call.step.args if s.place is Place.CONSTANT}.values()
                if _first(p, c.name) is call)  # fmt: skip
    return flash + call.contract.layout.itemsize, sum(s.size for s in call.step.args if s.place is Place.ARENA)


def _first(p: Project, name: str) -> NamedStep:
    return next(c for c in p.calls if any(s.place is Place.CONSTANT and p.constant_at[s.index].name == name for s in c.step.args))


def flags_needed(p: Project) -> list[str]:
    """The compiler flags that are no choice, in sentences."""
    cpu = " ".join(p.target.cpu_flags(p.no_float))
    said = [f"The CPU's flags are `{cpu}`." if cpu else "", floating_point(p)]
    said += [f"`kernels/*__{isa}.c` need `{' '.join(flags)}`." for isa, flags in isa_flags(p).items()]
    return [s for s in said if s]


def floating_point(p: Project) -> str:
    """The floating-point unit that the code needs."""
    if p.no_float:
        other = " Calls pass no floats: with `-mfloat-abi=hard` for the rest of your program, compile it so too." if p.target.fpu else ""
        return f"No floating-point unit is used, nor a library of the compiler for floats: real numbers are computed in integers.{other}"
    if not p.target.bare:
        return ""
    if p.target.fpu:
        return (
            "The kernels use the floating-point unit in single precision, also to round integers: startup code must switch it on (CPACR)"
            " before the first call. `--no-float` gives the same bits without it."
        )
    return (
        "The chip has no floating-point unit: the compiler's library computes floats, also to round integers. `--no-float` gives the"
        " same bits in integers alone."
    )


def testing(p: Project, lacks: str | None) -> list[str]:
    """How the self test is run, here and on a board."""
    lines = [
        "## Testing",
        "",
        "`make test` runs `selftest.c`: a program with `main` and `printf`, whose exit code is 0 if every bit is right.",
    ]
    if not p.target.bare:
        return [*lines, ""]
    if lacks:
        lines.append(f"It needs a board of yours: {lacks}.")
    else:
        board = BOARDS[p.target.name]
        lines += [
            f"It runs in `{board.emulator}` on an emulated {board.machine}; startup code, linker script and command line",
            f"are in `{FOLDER}/`, for the emulator, and not part of the library. With CMake:",
            "`--toolchain board/toolchain.cmake`, then `ctest`.",
        ]
    return [
        *lines,
        "On a board of yours it wants a file like this, and `make test BOARD=../my_board/board.mk`:", "",
        "```make", "BOARD_SOURCES := ../my_board/startup.c ../my_board/uart.c   # main is called; what printf writes is seen",
        "BOARD_LDFLAGS := -T../my_board/flash.ld -nostartfiles        # where flash and RAM are; libc",
        "RUN := ../my_board/load_and_run.sh                           # gets the program; its exit code is that of main",
        "```", "",
    ]  # fmt: skip


def example(p: Project) -> list[str]:
    """A C file that gives the network something and takes the first number of what it makes; a test compiles it."""
    n, inside = p.name, bool(p.plan.input_slots)
    arena = f"{n}_arena()"

    def held(port: Port) -> str:
        return f"static {p.type_of(port.value)} {port.argument}[{port.macro}_COUNT];"

    def something(port: Port) -> str:
        kind = p.type_of(port.value)
        if port.quantized is not None and port.value.type.dtype.bits <= 16:
            return f"{port.macro}_QUANTIZE_Q16(32768)" if p.no_float else f"{port.macro}_QUANTIZE(0.5f)"
        return f"{port.macro}_FROM_Q16(32768)" if kind == "lb_f32" else "0.5f" if kind == "float" else "0"

    lines = [f'#include "{n}.h"', ""]
    lines += [held(port) for port in (*p.given, *p.taken)] if not inside else []
    lines += [f"static {n}_state state; /* one for each stream; before its first frame: {n}_reset(&state) */"] if p.kept else []
    result, kind = "", "void"
    if p.taken:
        first = p.taken[0]
        element = f"{first.macro}({arena})[0]" if inside else f"{first.argument}[0]"
        kind = p.type_of(first.value)
        if first.quantized is not None:
            kind = "int32_t" if p.no_float else "float"
            element = f"{first.macro}_DEQUANTIZE{'_Q16' if p.no_float else ''}({element})"
        elif kind == "lb_f32":
            kind, element = "int32_t", f"{first.macro}_TO_Q16({element})"
        fixed = " /* in units of 1/65536 */" if p.no_float and kind == "int32_t" and "_Q16" in element else ""
        result = f"    return {element};{fixed}"
    lines += [*([""] if len(lines) > 2 else []), f"{kind} first_output(void) {{"]
    for port in p.given:
        lines += [f"    {p.type_of(port.value)} *{port.argument} = {port.macro}({arena});"] if inside else []
    for port in p.given:
        fixed = " /* 0.5 */" if "Q16" in something(port) else ""
        lines += [f"    for (int32_t i = 0; i < {port.macro}_COUNT; i++)", f"        {port.argument}[i] = {something(port)};{fixed}"]
    ports = [] if inside else [port.argument for port in (*p.given, *p.taken)]
    lines += [f"    {n}_run({', '.join(['&state'] * bool(p.kept) + ports)});", *([result] if result else []), "}"]
    return lines


def tables(p: Project) -> dict[str, int]:
    """Bytes of the tables by which layers look up numbers of 16 bits, 65,536 entries each, by layer."""
    return {c.step.layer: layer_bytes(p, c)[0] for c in p.calls if c.contract.name == "table_s16"}


def tables_told(tables: Mapping[str, int]) -> str:
    """Tables of 16 bits in words: of which layers, and how many bytes they take together."""
    named = ", ".join(list(tables)[:4]) + (f" and {len(tables) - 4} more" if len(tables) > 4 else "")
    return f"{sum(tables.values()):,} bytes are tables of layers that read 16 bits, 65,536 entries each ({named})"


def measured_lines(p: Project, found: Measured | None) -> list[str]:
    """Flash and stack, if a compiler was there."""
    if found is None:
        return [f"- **Flash: {p.weight_bytes:,} bytes** of weights, and the code: `make size`. Stack: `make stack`."]
    code = found.flash_bytes - p.weight_bytes - (found.library_bytes or 0)
    theirs = f", {found.library_bytes:,} of the compiler's library (libgcc)" if found.library_bytes else ""
    without = "" if found.library_bytes is not None else " What libgcc adds is not counted: it cannot be linked here."
    return [
        f"- **Flash: {found.flash_bytes:,} bytes**: {p.weight_bytes:,} of weights, {code:,} of code and parameters{theirs}.{without}",
        f"- **Stack: {found.stack_bytes:,} bytes** at most, without what libc's and the compiler's own functions take.",
        f"- Flash and stack were measured with {p.target.compiler} {found.version} {p.target.optimize}; `make size` and `make stack` do it"
        " with yours.",
    ]


def code_table(found: Measured | None) -> list[str]:
    """Flash and stack of each file of code."""
    if found is None:
        return []
    rows = [f"| {cell(path)} | {flash:,} | {stack:,} |" for path, (flash, stack) in sorted(found.files.items()) if path != "weights.c"]
    return ["", "| code | flash | stack |", "|---|---|---|", *rows]


def portable_share(isas: tuple[str, ...] | None, macs: int, ref_macs: int) -> str | None:
    """How much of the work is done in portable C on a machine with kernels of its own; None on others, and if nothing is multiplied."""
    if isas == ("ref",) or not macs:
        return None
    return f"{100 * ref_macs / macs:.3g} % of the multiply-adds run in portable C (__ref)"


def choices(p: Project) -> list[str]:
    """Where weights and arena are put, by macros."""
    n, m = p.name, p.macro
    args = "".join(
        f", {a}" for a in (["&state"] * bool(p.kept) + ([] if p.plan.input_slots else [q.argument for q in (*p.given, *p.taken)]))
    )
    return [
        "", f"- `{n}_run` has a static arena: one call at a time. `{n}_run_in` works in memory of yours:", "",
        "```c", f"static _Alignas({m}_ARENA_ALIGNMENT) uint8_t memory[{m}_ARENA_BYTES];", f"{n}_run_in(memory{args});", "```", "",
        f"  `-D{m}_NO_STATIC_ARENA` leaves `{n}_run` and its arena out (the self test needs them).",
        "- Weights are `const`, and so in flash. They go into a section of yours, external flash for example, with",
        f"  `-D'{m}_WEIGHTS_SECTION=__attribute__((section(\".qspi\")))'` for `weights.c`; your linker script places it.",
    ]  # fmt: skip


def readme(p: Project, exact: bool, lacks: str | None, found: Measured | None = None) -> str:
    n, m = p.name, p.macro
    ports = [("in", i) for i in p.given] + [("out", o) for o in p.taken] + [("state", s) for s in p.kept]
    bits = (
        "Every integer is that of lowbit's interpreter, bit for bit; the self test checks it on the machine itself."
        if exact
        else "Layers in floating point may round otherwise than lowbit's interpreter; the self test checks the bits of these kernels."
    )
    wide = tables(p)
    unit = ", which is not used" if p.no_float and p.target.fpu else ""
    lines = [
        f"# {n}", "", f"A network as C11, written by lowbit {p.version} for {p.target.name} ({p.target.about}{unit}). {bits}", "",
        "```c", *example(p), "```", "",
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
        *measured_lines(p, found),
        *([f"- Of the weights, {tables_told(wide)}: `lowbit quantize --no-wide` does without them."] if wide else []),
        "- No allocation, no recursion, no variable-length arrays, nothing of libc but memcpy and memset.", *choices(p), "",
        "| layer | kernel | output | MACs | flash: weights and parameters | RAM: what it reads and writes |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for call in p.calls:
        flash, ram = layer_bytes(p, call)
        out = call.step.outputs[0].type if call.step.outputs else ""
        name = cell(call.step.layer)
        lines.append(f"| {name} | {call.step.kernel} | {cell(str(out))} | {call.step.macs:,} | {flash:,} | {ram:,} |")
    share = portable_share(p.target.isas, p.macs, p.ref_macs)
    lines += [
        *(["", f"{share}; docs/output-format.md of lowbit lists which kernels this machine has of its own."] if share else []),
        *code_table(found), "", "## Building", "",
        f"`make` or CMake; or add `{n}.c`, `weights.c` and `kernels/*.c` to your project with `{EXACT}`: without it a compiler may fuse a",
        "multiplication and an addition, which rounds once where the arithmetic rounds twice. No include path is needed. The kernels are",
        "lowbit's, under the Apache License 2.0. Two networks in one program share the kernels that both have: compile them once.",
        *flags_needed(p), "", *testing(p, lacks),
    ]  # fmt: skip
    return "\n".join(lines)
