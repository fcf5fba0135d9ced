"""Checks whether a network fits the memory of its machine and the limits of a C project, before anything long is done."""

from __future__ import annotations

from lowbit.codegen import readme
from lowbit.codegen.project import Project
from lowbit.errors import LowbitError

MOST_NUMBERS = 20_000_000  # of the self test, in selftest.c: a file of a hundred megabytes, which compilers take minutes for
MOST_BYTES = 2**31 - 1  # of the arena, and of an input or output: linkers place no more for code that is not told otherwise
LONG = 10**9  # multiply-adds for the known answers, from which on it is worth a look at the sizes before


class DoesNotFit(LowbitError):
    """A network that needs more memory than its machine has."""


def check_possible(p: Project, vectors: int) -> None:
    """Raises if no compiler would take the project: a wrong batch gives such sizes. Runs before answers are computed for minutes."""
    for kind, port in [*(("input", i) for i in p.inputs), *(("output", o) for o in p.outputs)]:
        if port.nbytes > MOST_BYTES:
            raise DoesNotFit(
                f"{kind} {port.name!r} is {port.value.type}: {port.nbytes:,} bytes, more than the {MOST_BYTES:,} that C can place",
                hint="a smaller batch: --shapes batch=1, or shapes= when loading",
            )
    if p.arena_bytes > MOST_BYTES:
        where = p.calls[p.plan.fullest].where if p.calls else None
        raise DoesNotFit(
            f"the arena would have {p.arena_bytes:,} bytes, more than the {MOST_BYTES:,} that C can place; here it is fullest",
            where=where,
            hint="a smaller batch: --shapes batch=1, or shapes= when loading",
        )
    numbers = vectors * sum(port.count for port in (*p.given, *p.taken))
    if numbers > MOST_NUMBERS:
        raise DoesNotFit(
            f"the self test would hold {numbers:,} numbers ({vectors} known answers of this size), {MOST_NUMBERS:,} at most are written",
            hint="a smaller batch (--shapes batch=1), or fewer known answers (--vectors 1)",
        )


def check_fits(
    p: Project, channels_last_io: bool, ram: int, flash: int, *, stack_bytes: int | None = None, flash_bytes: int | None = None
) -> None:
    """A DoesNotFit when the network needs more than there is, with the layer to begin with and what has not been done yet.

    Stack and flash are as measured; None: they are not counted, but the weights.
    """
    found = (short_of_ram(p, channels_last_io, ram, stack_bytes), short_of_flash(p, flash, flash_bytes))
    short = [f for f in found if f is not None]
    if len(short) == 1:
        raise short[0]
    if short:
        both = [f"{f.where}: {f.message}" if f.where else f.message for f in short]
        raise DoesNotFit("; and ".join(both), hint="; for the flash: ".join(f.hint or "" for f in short))


def short_of_ram(p: Project, channels_last_io: bool, ram: int, stack_bytes: int | None) -> DoesNotFit | None:
    state = p.state_bytes if p.states else 0
    needed = p.arena_bytes + p.io_bytes + state + (stack_bytes or 0)
    if needed <= ram:
        return None
    full = p.calls[p.plan.fullest] if p.calls else None
    open_options = [
        *([] if p.plan.input_slots else ["io_in_arena (--io-in-arena)"]),
        *([] if channels_last_io else ["channels_last (--channels-last)"]),
    ]
    return DoesNotFit(
        f"{needed:,} bytes of RAM are needed (arena {p.arena_bytes:,}, inputs and outputs {p.io_bytes:,}, "
        f"{f'state {state:,}, ' if state else ''}"
        f"{f'stack {stack_bytes:,}' if stack_bytes is not None else 'stack not measured and not counted'}), "
        f"{ram:,} are there{'; here the arena is fullest' if full is not None else ''}",
        where=full.where if full is not None else None,
        hint=", ".join([*open_options, "a smaller input or a narrower network"]),
    )


def short_of_flash(p: Project, flash: int, flash_bytes: int | None) -> DoesNotFit | None:
    code = flash_bytes if flash_bytes is not None else p.weight_bytes
    if code <= flash:
        return None
    what = "flash" if flash_bytes is not None else "flash for the weights alone"
    heavy = max(p.calls, key=lambda call: readme.layer_bytes(p, call)[0], default=None)
    most = f"; this layer has most, {readme.layer_bytes(p, heavy)[0]:,}" if heavy is not None else ""
    found, less = readme.tables(p), []
    if found:
        most += f"; {readme.tables_told(found)}"
        less.append(WITHOUT_TABLES)
    if code - sum(found.values()) > flash:  # tables are not all that is too much
        less.append("a narrower network" if any("_w4_" in k for k in p.kernels) else "recipe w4a8, or a narrower network")
    return DoesNotFit(
        f"{code:,} bytes of {what} are needed, {flash:,} are there{most}",
        where=heavy.where if heavy is not None else None,
        hint="; ".join(less),
    )


WITHOUT_TABLES = "quantize with wide=False (--no-wide), which does without them, or a rule that gives these layers 8"
