"""Writes the tables of csrc/README.md from the declarations in csrc: the kernels of each family for each instruction set, and those that
only portable C has: `make docs`. A test keeps them fresh."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from lowbit.kernels import kernel_table

CSRC = Path(__file__).resolve().parents[1] / "csrc"
PAGE = CSRC / "README.md"
BEGIN, END = "<!-- coverage: made by `make docs` -->\n", "<!-- end of coverage -->\n"
PROCESSORS = {"x86_64": "x86-64", "aarch64": "aarch64", "cortex-m": "Cortex-M"}
UNCOUNTED = {"peak", "tests"}  # chains of instructions that are measured, and no layers


def processors() -> dict[str, str]:
    """The processor of each instruction set, as isas.txt orders them; portable C has none."""
    rows = [[c.strip() for c in line.split("|")] for line in (CSRC / "isas.txt").read_text().splitlines() if line and line[0] != "#"]
    return {name: processor for name, processor, *_ in rows if processor != "any"}


def declared() -> dict[str, dict[str, set[str]]]:
    """Family → contract → instruction sets that have a kernel of it. The family is the folder in which portable C declares it."""
    found: dict[str, set[str]] = defaultdict(set)
    family: dict[str, str] = {}
    for path in kernel_table.kernel_files(CSRC):
        folder = path.relative_to(CSRC).parts[0]
        if folder in UNCOUNTED:
            continue
        for contract, isa in kernel_table.kernels_of(path):
            found[contract].add(isa)
            if isa == "ref":
                family[contract] = folder
    result: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for contract in sorted(found):
        result[family[contract]][contract] = found[contract]
    return dict(sorted(result.items()))


def coverage() -> str:
    """Both tables."""
    families, isas = declared(), processors()
    used = [i for i in isas if any(i in has for kernels in families.values() for has in kernels.values())]
    lines = [
        "Kernels of each family, and how many of them each instruction set has a version of. A CPU takes the best version that it can run:",
        "`avx512vnni` also runs those of `avx512` and `avx2`, `neondot` those of `neon`, `mve` those of `armdsp`; what is left runs in",
        "portable C (`ref`).",
        "",
        f"| family | kernels | {' | '.join(used)} |",
        f"|---|---|{'---|' * len(used)}",
    ]
    for family, kernels in families.items():
        cells = [str(sum(i in has for has in kernels.values()) or "–") for i in used]
        lines.append(f"| `{family}/` | {len(kernels)} | {' | '.join(cells)} |")
    lines += [
        "",
        "Kernels that a processor has in portable C only:",
        "",
        "| family | " + " | ".join(PROCESSORS.values()) + " |",
        "|---|---|---|---|",
    ]
    for family, kernels in families.items():
        cells = []
        for processor in PROCESSORS:
            own = {i for i, p in isas.items() if p == processor}
            missing = [name for name, has in kernels.items() if not has & own]
            cells.append("all" if len(missing) == len(kernels) else ", ".join(f"`{m}`" for m in missing) or "–")
        lines.append(f"| `{family}/` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """csrc/README.md with the tables as the declarations have them now."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return head + BEGIN + coverage() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
