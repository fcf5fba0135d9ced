"""Writes docs/tiny.md: RAM, flash and instructions of small networks on emulated cores.

`python benchmarks/tiny/table.py [NETWORK …] [--quick]`. Every figure is exact and the same each time: RAM is the arena that is asserted
when compiling, flash is what the compiler made, QEMU counts instructions. With networks (kws, lstm …) their rows are measured, the others
stay as they are in the page. --quick measures the first core only and writes nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from instructions import count
from models import MODELS, Tiny

import lowbit

CORES = ["cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"]
OWN = {"cortex-m4": "armdsp", "cortex-m7": "armdsp", "cortex-m33": "armdsp", "cortex-m55": "mve"}  # what a core has beyond portable C
OUT = Path(__file__).parents[2] / "docs" / "tiny.md"
OPTIONS = {"io_in_arena": True, "channels_last": True, "vectors": 1}
HEAD = """# Small networks on small machines

Made by `python benchmarks/tiny/table.py`; networks are in `benchmarks/tiny/models.py`: the four of MLPerf Tiny, and an LSTM and a
transformer of their size, all int8. Weights are seeded, not trained: memory does not depend on them, and instructions hardly do.

## Memory

RAM is the whole arena, inputs and outputs included (`--io-in-arena --channels-last`). **Bound**: no arena can be smaller than what is alive
at the fullest step: inputs and outputs of one kernel call, and whatever else is read later, without scratch memory of kernels. TFLM: the
bytes that TensorFlow Lite Micro uses of its arena for the same network; they were measured apart, not by this command.
`armdsp` kernels have scratch memory, and so have `mve` ones: their arenas stand
beside. Flash is constants, code and what it takes of libgcc, by arm-none-eabi-gcc -O2 for the Cortex-M4.

| network | RAM | bound | RAM / bound | RAM, armdsp | RAM, mve | TFLM's arena | flash | weights | stack |
|---|---|---|---|---|---|---|---|---|---|
"""
SPEED = """
## Instructions per inference

In millions, counted by QEMU. A core's own kernels (`armdsp`: SMLAD and friends; `mve`: vectors) beside portable C (`ref`) on the same core.
Convolutions, linear and recurrent layers have them, and attention (`armdsp`, also on the Cortex-M55); norms are portable C everywhere.

| network | multiply-adds | """


def measured(m: Tiny, cores: list[str]) -> tuple[str, str]:
    """A row of each table."""
    graph = m.graph()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = lowbit.emit_c(graph, folder / "ref", target="portable", **OPTIONS)  # type: ignore[arg-type]
        own = {}
        for target in cores:
            own[target] = lowbit.emit_c(graph, folder / target, target=target, **OPTIONS)  # type: ignore[arg-type]
        m4 = own.get("cortex-m4", own[cores[0]])
        assert m4.flash_bytes is not None and m4.stack_bytes is not None, "arm-none-eabi-gcc is needed"
        limit = f"{m.arena:,}" if m.arena is not None else ""
        memory = (
            f"| {m.what} | {plain.arena_bytes:,} | {plain.live_bytes:,} | {plain.arena_bytes / plain.live_bytes:.3f} "
            f"| {m4.arena_bytes:,} | {own[cores[-1]].arena_bytes:,} | {limit} "
            f"| {m4.flash_bytes:,} | {m4.weight_bytes:,} | {m4.stack_bytes:,} |"
        )
        cells = []
        for target in cores:
            ref = count(folder / "ref", target)
            if target in OWN:
                mine = count(folder / target, target)
                cells.append(f"{ref / 1e6:.2f} | {mine / 1e6:.2f} ({100 * mine / ref:.0f} %)")
            else:
                cells.append(f"{ref / 1e6:.2f}")
        macs = sum(int(r.split("|")[4].replace(",", "")) for r in plain.files["README.md"].splitlines() if r.startswith("| ") and "__" in r)
        return memory, f"| {m.name} | {macs:,} | {' | '.join(cells)} |"


def rows_of_page() -> dict[str, tuple[str, str]]:
    """Network → its rows, as the page has them."""
    lines = OUT.read_text().splitlines() if OUT.is_file() else []
    found = {}
    for m in MODELS:
        memory = next((line for line in lines if line.startswith(f"| {m.what} |")), None)
        speed = next((line for line in lines if line.startswith(f"| {m.name} |")), None)
        if memory is not None and speed is not None:
            found[m.name] = memory, speed
    return found


def main() -> None:
    quick, wanted = "--quick" in sys.argv, [a for a in sys.argv[1:] if not a.startswith("-")]
    unknown = set(wanted) - {m.name for m in MODELS}
    if unknown:
        raise SystemExit(f"no network {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MODELS)}")
    cores = CORES[:1] if quick else CORES
    known = rows_of_page() if wanted else {}
    rows = []
    for m in MODELS:
        rows.append(known[m.name] if wanted and m.name not in wanted and m.name in known else measured(m, cores))
        print(*rows[-1], sep="\n", file=sys.stderr, flush=True)
    columns = [f"{c} ref | {c} {OWN[c]}" if c in OWN else f"{c} ref" for c in cores]
    width = 2 + sum(c.count("|") + 1 for c in columns)
    text = HEAD + "\n".join(r[0] for r in rows) + "\n" + SPEED + " | ".join(columns) + " |\n|" + "---|" * width + "\n"
    text += "\n".join(r[1] for r in rows) + "\n"
    if quick:
        print(text)
    else:
        OUT.write_text(text)


if __name__ == "__main__":
    main()
