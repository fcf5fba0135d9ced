"""weights.h, weights.c and selftest.c: the arrays of a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowbit.codegen.literals import c_type, elements, rows
from lowbit.codegen.names import comment
from lowbit.codegen.project import Constant, Port, Project
from lowbit.types import Array


def _declaration(p: Project, c: Constant) -> str:
    return f"const {c_type(c.data.dtype, p.no_float)} {c.name}[{max(1, c.data.size)}]"


def weights_header(p: Project) -> str:
    """weights.h."""
    m = p.macro
    lines = [
        "/* Constants of the network, packed as the kernels want them. They stand in flash: to put them elsewhere define",
        f' * {m}_WEIGHTS_SECTION, for instance -D\'{m}_WEIGHTS_SECTION=__attribute__((section(".qspi")))\'. */',
        f"#ifndef {m}_WEIGHTS_H", f"#define {m}_WEIGHTS_H", "", "#include <stdint.h>", "",
        *(['#include "kernels/lb_numerics.h"', ""] if p.no_float else []),
        f"#ifndef {m}_WEIGHTS_SECTION", f"#define {m}_WEIGHTS_SECTION", "#endif", "",
    ]  # fmt: skip
    lines += [f"extern {_declaration(p, c)}; /* {comment(c.layer)} */" for c in p.constants]
    return "\n".join([*lines, "", "#endif", ""])


def weights_source(p: Project, outline: bool = False) -> str:
    """weights.c; as an outline its arrays have their sizes and places, and hold zeros: it compiles in no time."""
    lines = ['#include "weights.h"']
    floats = [c.data for c in p.constants if c.data.dtype.kind == "f" and not outline]
    if not p.no_float and not all(np.isfinite(d).all() for d in floats if d.dtype.itemsize >= 4):
        lines += ["", "#include <math.h> /* INFINITY and NAN */"]
    for c in p.constants:
        shape = f"{c.data.dtype}[{', '.join(map(str, c.data.shape))}]"
        lines += ["", f"/* {comment(c.layer)}: {c.role}, {shape} */"]
        body = rows(elements(c.data, p.no_float)) if c.data.size and not outline else "    0"
        lines.append(f"{p.macro}_WEIGHTS_SECTION _Alignas({p.target.alignment}) {_declaration(p, c)} = {{\n{body}}};")
    return "\n".join([*lines, ""])


Vectors = Sequence[tuple[Mapping[str, Array], Mapping[str, Array]]]


def selftest(p: Project, vectors: Vectors) -> str:
    """selftest.c: runs the network on known inputs and compares every bit of the outputs."""
    m, n, inside = p.macro, p.name, bool(p.plan.input_slots)
    lines = [
        "/* Runs the network on inputs whose outputs are known, each twice, and compares every bit. Exit code 0: all are equal. */",
        *(["/* They are frames of one stream: the state is known after each of them too. */"] if p.kept else []),
        f'#include "{n}.h"', "", "#include <stdio.h>", "#include <string.h>", "", f"enum {{ VECTORS = {len(vectors)} }};",
    ]  # fmt: skip
    arrays = [a for ins, outs in vectors for a in (*ins.values(), *outs.values()) if a.dtype.kind == "f"]
    if not p.no_float and not all(np.isfinite(a).all() for a in arrays):
        lines.insert(3, "#include <math.h> /* INFINITY and NAN */")
    for i, ports in enumerate((p.given, p.outputs)):
        for port in ports:
            kind, known = p.type_of(port.value), known_name(port)
            given = [rows(elements(v[i][port.name], p.no_float)) for v in vectors]
            body = ",\n".join(f"    {{\n{g}}}" for g in given)
            lines += ["", f"static const {kind} {known}[VECTORS][{max(1, port.count)}] = {{\n{body}}};"]
    lines += [""] + [f"static {p.type_of(o.value)} got_{o.argument}[{max(1, o.count)}];" for o in p.taken] if not inside else []
    lines += ["", f"static {n}_state state;"] if p.kept else []
    lines += [
        "",
        "int main(void) {",
        "    int wrong = 0;",
        "    for (int i = 0; i < 2 * VECTORS; i++) {",
        "        const int v = i % VECTORS;",
    ]
    lines += ["        if (v == 0)", f"            {n}_reset(&state);"] if p.kept else []
    first = ["&state"] if p.kept else []
    if inside:
        lines += [f"        memcpy({i.macro}({n}_arena()), known_{i.argument}[v], {i.macro}_BYTES);" for i in p.given]
        lines.append(f"        {n}_run({', '.join(first)});")
        got = {o.argument: f"{o.macro}({n}_arena())" for o in p.taken}
    else:
        lines += [f"        memset(got_{o.argument}, 0, sizeof got_{o.argument});" for o in p.taken]
        ins = [f"known_{i.argument}[v]" for i in p.given]
        lines.append(f"        {n}_run({', '.join(first + ins + [f'got_{o.argument}' for o in p.taken])});")
        got = {o.argument: f"got_{o.argument}" for o in p.taken}
    got |= {o.argument: f"state.{o.field}" for o in p.outputs if o.field is not None}
    for o in p.outputs:
        lines.append(f"        wrong += memcmp({got[o.argument]}, {known_name(o)}[v], {o.macro}_BYTES) != 0;")
    lines += [
        "    }", f'    printf("{n}: %d of %d outputs differ; arena %d bytes\\n", wrong, 2 * VECTORS * {len(p.outputs)}, {m}_ARENA_BYTES);',
        "    return wrong != 0;", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def selftest_bytes(p: Project, vectors: int) -> tuple[int, int]:
    """Constants and RAM of the self test, with the network's."""
    known = vectors * sum(port.nbytes for port in (*p.given, *p.outputs))
    return p.weight_bytes + known, p.arena_bytes + p.io_bytes + p.state_bytes


def known_name(port: Port) -> str:
    """The array of known values: of inputs, outputs, and of the state after each call."""
    return f"known_state_{port.field}" if port.field is not None else f"known_{port.argument}"
