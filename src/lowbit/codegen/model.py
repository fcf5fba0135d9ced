"""model.h and model.c: the network as one call for each layer."""

from __future__ import annotations

from lowbit.codegen.literals import WIDTH, c_type, decimal, number, ratio, real, rows
from lowbit.codegen.names import comment
from lowbit.codegen.project import NamedStep, Port, Project
from lowbit.ir.graph import Value
from lowbit.kernels import native
from lowbit.plan import Place, Slot


def shown(value: Value) -> str:
    return str(value.type)


def arguments(p: Project) -> str:
    """The parameters of model_run, without the arena."""
    state = [f"{p.name}_state *state"] if p.kept else []
    if p.plan.input_slots:
        return ", ".join(state)
    ins = [f"const {p.type_of(i.value)} *{i.argument}" for i in p.given]
    return ", ".join(state + ins + [f"{p.type_of(o.value)} *{o.argument}" for o in p.taken])


def argument_names(p: Project) -> list[str]:
    ports = [] if p.plan.input_slots else [port.argument for port in (*p.given, *p.taken)]
    return ["state", *ports] if p.kept else ports


def state_lines(p: Project) -> list[str]:
    """The struct that is kept from call to call, and its reset."""
    n, m = p.name, p.macro
    untold = [str(port.field) for port in p.kept if port.value.type.dtype.is_integer and port.name not in p.zeros]
    lines = ["/* What the network remembers from one call to the next: one for each stream. */", "typedef struct {"]
    for port in p.kept:
        lines.append(f"    {p.type_of(port.value)} {port.field}[{max(1, port.count)}]; /* {comment(port.name)}: {shown(port.value)} */")
    return [
        *lines, f"}} {n}_state;", "", f"#define {m}_STATE_BYTES {p.state_bytes}",
        f'LB_STATIC_ASSERT(sizeof({n}_state) == {m}_STATE_BYTES, "RAM is what README.md says");', "",
        "/* Forgets everything: the real number 0 everywhere. To be called before the first run of a stream."
        + (f"\n * The network does not tell what integers mean in {', '.join(untold)}: they become 0." if untold else "") + " */",
        f"void {n}_reset({n}_state *state);", "",
    ]  # fmt: skip


def reset_lines(p: Project) -> list[str]:
    lines = ["", f"void {p.name}_reset({p.name}_state *state) {{"]
    for port in p.kept:
        value = "(lb_f32){0}" if p.type_of(port.value) == "lb_f32" else str(p.zeros.get(port.name, 0))
        lines += [f"    for (int32_t i = 0; i < {max(1, port.count)}; i++)", f"        state->{port.field}[i] = {value};"]
    return [*lines, "}"]


def header(p: Project) -> str:
    """model.h."""
    m, n = p.macro, p.name
    inside = bool(p.plan.input_slots)
    args = arguments(p)
    lines = [
        f"/* {comment(n)}: a network as C, written by lowbit {p.version} for {p.target.name}. README.md tells its sizes.",
        " *",
        " * real = SCALE * (q - ZERO_POINT) for inputs and outputs that have them. Tensors are dense, C order.",
    ]
    if p.no_float:
        lines += [
            " * Without floats: the _Q16 macros take and give fixed point, an int32_t in units of 1/65536 (Q15.16). Real numbers",
            " * are lb_f32, which holds the bits of an IEEE single; lb_f32_less(a, b) compares two.",
        ]
    if inside:
        lines.append(" * Inputs and outputs live in the arena: write the inputs, run, read the outputs. Running overwrites the inputs.")
    lines += [
        f" * {n}_run uses a static arena: one call at a time. {n}_run_in uses the caller's: as many at once as there are arenas. */",
        f"#ifndef {m}_H", f"#define {m}_H", "", "#include <stddef.h>", "#include <stdint.h>", "",
        f'#include "kernels/{"lb_fixed.h" if p.no_float else "lb_numerics.h"}"', "",
        f"#define {m}_ARENA_BYTES {p.arena_bytes} /* RAM that the network needs while it runs */",
        f"#define {m}_ARENA_ALIGNMENT {p.target.alignment}",
        f"#define {m}_WEIGHT_BYTES {p.weight_bytes}", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
    ]  # fmt: skip
    for what, ports in (("Input", p.given), ("Output", p.taken), ("State", p.kept)):
        for port in ports:
            lines += port_lines(p, what, port) + [""]
    lines += state_lines(p) if p.kept else []
    if inside:
        lines += [f"/* Computes the outputs in the arena from the inputs there; {m}_ARENA_BYTES, aligned to {m}_ARENA_ALIGNMENT. */"]
        lines += [f"void {n}_run_in(void *arena{', ' + args if args else ''});", ""]
        lines += [
            f"#ifndef {m}_NO_STATIC_ARENA", "/* The same with an arena of its own, and where that is. */",
            f"void {n}_run({args or 'void'});", f"void *{n}_arena(void);", "#endif",
        ]  # fmt: skip
    else:
        lines += [
            f"/* Computes the outputs from the inputs. arena: {m}_ARENA_BYTES, aligned to {m}_ARENA_ALIGNMENT; nothing is kept in it. */"
        ]
        lines += [f"void {n}_run_in(void *arena, {args});", ""]
        lines += [f"#ifndef {m}_NO_STATIC_ARENA", "/* The same with an arena of its own. */", f"void {n}_run({args});", "#endif"]
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def port_lines(p: Project, what: str, port: Port) -> list[str]:
    """The macros of an input or an output."""
    d = port.value.type.dtype
    lines = [
        f"/* {what} {comment(port.name)}: {shown(port.value)}. */",
        f"#define {port.macro}_COUNT {port.count}",
        f"#define {port.macro}_BYTES {port.nbytes}",
    ]
    q, m, kind = port.quantized, port.macro, p.type_of(port.value)
    if q is not None:
        floats = "; for programs that have floats" if p.no_float else ""
        lines += [f"#define {m}_SCALE {decimal(q.scale)} /* {real(q.scale)}{floats} */", f"#define {m}_ZERO_POINT ({q.zero_point})"]
        narrow = d.bits <= 16  # wider ones are sums of integers: nobody makes them of reals
        if p.no_float:
            multiplier, shift = ratio(q.scale)
            scale = f"{m}_SCALE_MULTIPLIER, {m}_SCALE_SHIFT, {m}_ZERO_POINT"
            lines += [
                f"#define {m}_SCALE_MULTIPLIER {multiplier}u /* {m}_SCALE is MULTIPLIER / 2^SHIFT */",
                f"#define {m}_SCALE_SHIFT ({shift})",
            ]
            lines += [f"#define {m}_QUANTIZE_Q16(x) (({kind})lb_fixed_quantize((x), {scale}, {d.min}, {d.max}))"] if narrow else []
            lines.append(f"#define {m}_DEQUANTIZE_Q16(q) lb_fixed_dequantize((q), {scale})")
        else:
            scale = f"{m}_SCALE, {m}_ZERO_POINT"
            lines += [f"#define {m}_QUANTIZE(x) (({kind})lb_quantize((x), {scale}, {d.min}, {d.max}))"] if narrow else []
            lines.append(f"#define {m}_DEQUANTIZE(q) lb_dequantize((q), {scale})")
    elif kind == "lb_f32":
        lines += [f"#define {m}_FROM_Q16(x) lb_fixed_to_f32(x)", f"#define {m}_TO_Q16(v) lb_fixed_from_f32(v)"]
    if port.slot is not None:
        const = "const " if what == "Output" else ""
        way = f"({const}{p.type_of(port.value)} *)({const}void *)(({const}uint8_t *)(arena) + {port.slot.offset})"
        lines.append(f"#define {port.macro}(arena) ({way})")
    return lines


def source(p: Project) -> str:
    """model.c."""
    m, n = p.macro, p.name
    args = arguments(p)
    names = argument_names(p)
    lines = [
        f"/* One call for each layer, in order. Written by lowbit {p.version}. */", f'#include "{n}.h"', "",
        '#include "kernels/lb.h"', '#include "weights.h"', "",
        *(["#include <math.h> /* INFINITY and NAN */", ""] if _not_finite(p) else []),
        *(f"lb_{kernel.partition('__')[0]}_fn lb_{kernel};" for kernel in p.kernels), "",
        f'_Static_assert({m}_ARENA_BYTES >= {p.plan.arena_bytes}, "the arena holds every buffer");',
    ]  # fmt: skip
    for call in p.calls:
        ends = [s.offset + s.size for s in call.step.args if s.place is Place.ARENA]
        assert all(end <= p.plan.arena_bytes for end in ends), call.step.layer
    for call in p.calls:
        lines += [
            "",
            *titled(call, ""),
            *wrapped(f"static const lb_{call.contract.name}_params {call.name} = {{", fields(p, call), "};", "    "),
        ]
    signature = f"void {n}_run_in(void *arena{', ' + args if args else ''})"
    lines += ["", f"{signature} {{", "    uint8_t *const a = arena;"]
    lines += [] if _uses(p, Place.ARENA) else ["    (void)a;"]
    for place, ports in ((Place.INPUT, p.inputs), (Place.OUTPUT, p.outputs)):
        idle = (port for i, port in enumerate(ports) if port.argument in names and not _uses(p, place, i))
        lines += [f"    (void){port.argument};" for port in idle]
    lines += [] if not p.kept or any(_uses(p, Place.INPUT, i) for i, port in enumerate(p.inputs) if port.field) else ["    (void)state;"]
    for call in p.calls:
        lines += [*titled(call, "    "), *wrapped(f"    lb_{call.step.kernel}(", kernel_arguments(p, call), ");", " " * 8)]
    lines += ["}", "", f"#ifndef {m}_NO_STATIC_ARENA", f"static _Alignas({m}_ARENA_ALIGNMENT) uint8_t arena[{m}_ARENA_BYTES];", ""]
    lines += [f'_Static_assert(sizeof arena == {p.arena_bytes}, "RAM is what README.md says");', ""]
    lines += [f"void {n}_run({args or 'void'}) {{", f"    {n}_run_in({', '.join(['arena', *names])});", "}"]
    if p.plan.input_slots:
        lines += ["", f"void *{n}_arena(void) {{", "    return arena;", "}"]
    return "\n".join([*lines, "#endif", *(reset_lines(p) if p.kept else []), ""])


def _uses(p: Project, place: Place, index: int = 0) -> bool:
    return any(s.place is place and s.index == index for call in p.calls for s in call.step.args)


def _not_finite(p: Project) -> bool:
    values = (v for call in p.calls for v in call.step.params.values())
    return not p.no_float and any(isinstance(v, float) and (v != v or abs(v) == float("inf")) for v in values)


def wrapped(head: str, items: list[str], tail: str, indent: str) -> list[str]:
    """head item, item ... tail in one line, or the items in lines of their own that are not too long."""
    whole = head + ", ".join(items) + tail
    return [whole] if len(whole) <= WIDTH else [head, *rows(items, indent).split("\n")[:-1], rows(items, indent).split("\n")[-1] + tail]


def titled(call: NamedStep, indent: str) -> list[str]:
    """The call's title as a comment of lines that are not too long."""
    words, lines, line = comment(call.title).split(" "), [], f"{indent}/*"
    for word in words:
        if len(line) + len(word) + 4 > WIDTH and line.strip() not in ("/*", "*"):
            lines.append(line)
            line = f"{indent} *"
        line += f" {word}"
    return [*lines, f"{line} */"]


def fields(p: Project, call: NamedStep) -> list[str]:
    """The params of a call, field by field."""
    layout, out = call.contract.layout, []
    for name in layout.names or ():
        value, base = call.step.params[name], layout[name].base
        text = (
            "{" + ", ".join(number(v, base, p.no_float) for v in value) + "}"
            if isinstance(value, tuple)
            else number(value, base, p.no_float)
        )
        out.append(f".{name} = {text}")
    return out


def kernel_arguments(p: Project, call: NamedStep) -> list[str]:
    step = call.step
    given = [f"&{call.name}", *(argument(p, a, s) for a, s in zip(call.contract.args, step.args, strict=True))]
    return given + (["0", str(step.items)] if call.contract.ranged else [])


def argument(p: Project, arg: native.Arg, slot: Slot) -> str:
    """An argument as the contract's pointer."""
    const = "const " if arg.is_input else ""
    element = c_type(arg.dtype, p.no_float) if arg.dtype is not None else "void"
    if slot.place is Place.ARENA and slot.size == 0 and element == "void":
        return "a /* scratch: none */"
    if slot.place is Place.ARENA:
        return f"(void *)(a + {slot.offset})" if element == "void" else f"({const}{element} *)({const}void *)(a + {slot.offset})"
    if slot.place is Place.CONSTANT:
        found = p.constant_at[slot.index]
        name, held = found.name, c_type(found.data.dtype, p.no_float)
    else:
        port = (p.inputs if slot.place is Place.INPUT else p.outputs)[slot.index]
        name, held = port.argument, p.type_of(port.value)
    bytes_ = "const uint8_t" if arg.is_input else "uint8_t"
    if slot.offset:
        name = f"(({bytes_} *){name} + {slot.offset})"
        held = "uint8_t"
    return name if held == element or element == "void" else f"({const}{element} *)({const}void *){name}"
