"""From an integer (or float) graph without symbols to a folder of C."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.arguments import items, shown, text, whole
from lowbit.arguments import path as needed
from lowbit.codegen import boards, boundary, building, data, model, readme
from lowbit.codegen.copies import computes_in_floats, copies
from lowbit.codegen.fits import LONG, check_fits, check_possible
from lowbit.codegen.folder import MANIFEST, check_folder, write_folder
from lowbit.codegen.measure import IN_INTEGERS, Measured, measure
from lowbit.codegen.names import identifier, unusable
from lowbit.codegen.project import Project
from lowbit.codegen.targets import CTarget, target
from lowbit.errors import InputError, ShapeError, UnsupportedOp
from lowbit.ir.graph import Graph, Value
from lowbit.ir.interp import run as interpret
from lowbit.plan import Plan, build, physical, unsupported
from lowbit.plan.kernels.call import Calls
from lowbit.progress import progress
from lowbit.runtime.session import Session
from lowbit.types import Array

MOST_VECTORS = 1000  # they stand in the C file as numbers


@dataclass(frozen=True)
class EmittedC:
    """The written project. RAM is exact; flash and stack are measured, or None without a compiler for the target.

    least_bytes and live_bytes: no arena can be smaller than what is alive at the fullest step, with scratch memory and without
    weight_bytes: all constants; table_bytes: those of them that are tables of layers which read 16 bits
    exact: whether the outputs are the interpreter's bit for bit; layers in floating point may round otherwise
    macs and ref_macs: multiply-adds of the network, and those of them that kernels of portable C do
    """

    folder: Path | None
    target: str
    files: Mapping[str, str] = field(repr=False)  # all of the C: a notebook would print it
    arena_bytes: int
    least_bytes: int
    live_bytes: int
    io_bytes: int
    state_bytes: int
    weight_bytes: int
    table_bytes: int
    exact: bool
    flash_bytes: int | None
    stack_bytes: int | None
    compiler: str | None
    macs: int
    ref_macs: int

    @property
    def ram_bytes(self) -> int:
        """The arena, and the caller's memory for inputs and outputs, and for one state."""
        return self.arena_bytes + self.io_bytes + self.state_bytes

    def to_json(self) -> dict[str, Any]:
        names = (
            "arena_bytes",
            "least_bytes",
            "live_bytes",
            "io_bytes",
            "state_bytes",
            "weight_bytes",
            "table_bytes",
            "flash_bytes",
            "stack_bytes",
            "exact",
            "compiler",
            "target",
            "macs",
            "ref_macs",
        )
        return {"folder": str(self.folder) if self.folder else None, "ram_bytes": self.ram_bytes, "files": list(self.files)} | {
            n: getattr(self, n) for n in names
        }


def emit(
    graph: Graph,
    folder: str | PathLike[str] | None,
    *,
    target_name: str = "portable",
    name: str = "model",
    version: str = "",
    no_float: bool = False,
    float_io: bool = False,
    channels_last_io: bool = False,
    io_in_arena: bool = False,
    state: Mapping[str, str] | None = None,
    samples: Iterable[Mapping[str, Array]] | None = None,
    vectors: int = 2,
    fits: tuple[int, int] | None = None,
    measured: bool = True,
    force: bool = False,
) -> EmittedC:
    """Writes the graph as C; see pipeline.emit_c."""
    t = target(text("target", target_name))
    text("name", name, 'name="model"')
    whole("vectors", vectors, 1, MOST_VECTORS)
    if samples is not None:
        items("samples=", samples, "[{input name: array}, …]")
    if fits is not None:
        if not isinstance(fits, tuple | list) or len(fits) != 2:
            raise InputError(f"fits={shown(fits)}, bytes of RAM and of flash are needed", hint="fits=(65536, 262144)")
        for what, size in zip(("fits[0] (RAM)", "fits[1] (flash)"), fits, strict=True):
            whole(what, size, 0, 2**63)
    if folder is not None:
        folder = needed(folder, "the path of a folder")
        check_folder(folder)
    if name != identifier(name) or not name[0].isalpha():
        raise InputError(f"name {name!r} is no C identifier of letters, digits and single underscores", hint='name="model" (--name)')
    refuse_name(name, unusable(name))
    if graph.symbols:
        raise ShapeError(
            f"dimensions {', '.join(graph.symbols)} are not numbers",
            where=graph.name,
            hint=f'bind them when loading: shapes={{"{graph.symbols[0]}": 1}} (--shapes {graph.symbols[0]}=1)',
        )
    for kind, (end, v) in [*(("input", (v.name, v)) for v in graph.inputs), *(("output", o) for o in graph.outputs.items())]:
        if 0 in v.shape:
            raise ShapeError(
                f"{kind} {end!r} is {v.type}: it holds nothing", where=graph.name, hint="sizes from 1 on, for example --shapes batch=1"
            )
    states = dict(state or {})
    check_states(graph, states)
    graph, ins, outs = boundary.integer_ends(graph, float_io, states)
    ready = physical(graph)
    ready = boundary.channels_last_inputs(ready, frozenset(states)) if channels_last_io else ready
    zeros = {**boundary.zero_points(graph, states), **{n: ins[n].zero_point for n in states if n in ins}}
    project = Project(name, plan_for(ready, t, io_in_arena, no_float, states), t, version, no_float, ins, outs, states, zeros)
    check_possible(project, vectors)
    if fits is not None and vectors * project.macs > LONG:
        check_fits(project, channels_last_io, *fits)  # known by now, unlike stack and code
    known, exact = golden(ready, None if t.isas is None and not no_float else "ref", samples, vectors, states, zeros)
    files = print_project(project, known, exact)
    found = measure(project, files) if measured else None
    if found is not None:
        files["README.md"] = readme.readme(project, exact, no_board(project, known), found)
    emitted = EmittedC(
        Path(folder) if folder is not None else None, t.name, files, project.arena_bytes, project.plan.least_bytes,
        project.plan.live_bytes, project.io_bytes,
        project.state_bytes if states else 0, project.weight_bytes, sum(readme.tables(project).values()), exact, *_numbers(found),
        project.macs, project.ref_macs,
    )  # fmt: skip
    if fits is not None:
        check_fits(project, channels_last_io, *fits, stack_bytes=emitted.stack_bytes, flash_bytes=emitted.flash_bytes)
    if folder is not None:
        write_folder(folder, files, force=force)
    return emitted


def _numbers(found: Measured | None) -> tuple[int | None, int | None, str | None]:
    return (found.flash_bytes, found.stack_bytes, found.compiler) if found is not None else (None, None, None)


def plan_for(graph: Graph, t: CTarget, io_in_arena: bool, no_float: bool, states: Mapping[str, str] | None = None) -> Plan:
    """The plan, or an error that names the first layer that has no kernel."""
    where = t.plan_target(io_in_arena, no_float)
    calls: Calls = {}
    without = unsupported(graph, where, calls)
    if without:
        n = without[0]
        more = f" (and {len(without) - 1} more)" if len(without) > 1 else ""
        types = ", ".join(str(v.type) for v in n.inputs if v is not None)
        raise UnsupportedOp(
            f"there is no C kernel for it on {types}{more}",
            where=n.where,
            hint="another recipe or rule for this layer, or a kernel of your own: lowbit.load_kernels",
        )
    made = build(graph, where, states=states, calls=calls)
    floats = next((s for s in made.steps if no_float and computes_in_floats(s.kernel)), None)
    if floats is not None:
        raise UnsupportedOp(
            f"its kernel {floats.kernel} computes in floating point", where=f"{floats.op} '{floats.layer}'", hint=IN_INTEGERS
        )
    return made


def refuse_name(name: str, because: str | None) -> None:
    if because is not None:
        raise InputError(f"name {name!r} cannot be used: {because}", hint=f'name="{name}_net" (--name), if it shall be like it')


def print_project(p: Project, known: data.Vectors, exact: bool) -> dict[str, str]:
    """Path → text of every file but the manifest, which is made from them. Headers of kernels have other guards than the project's."""
    copied = copies(p.kernels, p.no_float)
    lacks = no_board(p, known)
    guards = {guard: path for path, text in copied.items() for guard in re.findall(r"^ *# *ifndef +(\w+)", text, re.M)}
    for guard in (f"{p.macro}_H", f"{p.macro}_WEIGHTS_H"):
        refuse_name(p.name, f"{guards[guard]} has the header guard {guard} too" if guard in guards else None)
    files = {
        f"{p.name}.h": model.header(p),
        f"{p.name}.c": model.source(p),
        "weights.h": data.weights_header(p),
        "weights.c": data.weights_source(p),
        "selftest.c": data.selftest(p, known),
        "Makefile": building.makefile(p, lacks),
        "CMakeLists.txt": building.cmakelists(p, lacks),
        "README.md": readme.readme(p, exact, lacks),
        **(boards.board_files(p.target, p.no_float) if p.target.bare and lacks is None else {}),
        **copied,
    }
    assert MANIFEST not in files
    return files


def no_board(p: Project, known: data.Vectors) -> str | None:
    """Why the self test of a chip has no emulated board; None if it has one."""
    return boards.too_large(boards.BOARDS[p.target.name], *data.selftest_bytes(p, len(known))) if p.target.bare else None


def sample(v: Value, rng: np.random.Generator) -> Array:
    """Something that the input may hold: every integer of a narrow type, few of those that may be indices, reals about 0."""
    d, shape = v.type.dtype, [int(n) for n in v.shape]
    if d.is_float:
        return rng.normal(size=shape).astype(d.numpy)
    if d.bits > 16 or d.min is None or d.max is None:
        return rng.integers(0, 2, shape).astype(d.numpy)
    return rng.integers(d.min, d.max, shape, endpoint=True).astype(d.numpy)


def check_states(graph: Graph, states: Mapping[str, str]) -> None:
    """Each state is an input and an output of one type, and each of them belongs to one state."""
    inputs = {v.name: v.type for v in graph.inputs}
    for name, out in states.items():
        if name not in inputs:
            raise InputError(f"state {name!r} is no input", where=graph.name, hint="one of " + ", ".join(inputs))
        if out not in graph.outputs:
            raise InputError(
                f"state {name!r} becomes {out!r}, which is no output", where=graph.name, hint="one of " + ", ".join(graph.outputs)
            )
        if inputs[name] != graph.outputs[out].type:
            raise ShapeError(
                f"state {name!r} is {inputs[name]}, but {out!r}, which it becomes, is {graph.outputs[out].type}",
                where=graph.name,
                hint="both sides of a state have one type",
            )
    if len(set(states.values())) != len(states):
        raise InputError("two states become one output", where=graph.name, hint="an output of its own for each")


def golden(
    graph: Graph,
    isa: str | None,
    samples: Iterable[Mapping[str, Array]] | None,
    count: int,
    states: Mapping[str, str],
    zeros: Mapping[str, int],
) -> tuple[data.Vectors, bool]:
    """Inputs and outputs for the self test, by the kernels themselves; and whether the interpreter gives the same bits.

    With states they are frames of one stream, from the real number 0 on.
    """
    rng = np.random.default_rng(0)
    given = [v for v in graph.inputs if v.name not in states]
    feeds = list(samples)[:count] if samples is not None else [{v.name: sample(v, rng) for v in given} for _ in range(count)]
    if not feeds:
        raise InputError("samples= is empty, the self test needs one at least", hint="without samples= inputs are made: vectors=2")
    if (wrong := next((f for f in feeds if not isinstance(f, Mapping)), None)) is not None:
        raise InputError(f"samples= holds {shown(wrong)}, {{input name: array}} is needed", hint="samples=[{'x': array}]")
    held = {v.name: np.full([int(d) for d in v.shape], zeros.get(v.name, 0), v.type.dtype.numpy)
            for v in graph.inputs if v.name in states}  # fmt: skip
    session = Session(graph, threads=1, isa=isa, stored=True)
    found, exact = [], True
    for feed in progress(feeds, "known answers"):
        got = session.run({**feed, **held})
        want = interpret(graph, {**feed, **held})
        exact = exact and all(got[k].tobytes() == want[k].tobytes() for k in want)
        found.append((feed, got))
        held = {name: got[out] for name, out in states.items()}
    return found, exact
