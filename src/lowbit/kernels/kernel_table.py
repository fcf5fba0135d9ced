"""Writes what a build derives from the C sources: the kernel table, contracts.h and the list of tests.

    python src/lowbit/kernels/kernel_table.py csrc build ref,avx2 linear/avx2.c …     build/contracts.h, build/lb_table.c, templates' files
    python src/lowbit/kernels/kernel_table.py tests build csrc/tests/test_layers.c …     build/table_of_tests.c

The build runs this file by itself, before there is a lowbit to import; `own_kernels.py` uses it for kernels from elsewhere.

A header that defines function types `lb_<contract>_fn` with params `lb_<contract>_params` holds contracts. contracts.h, which lb.h
includes, names all of them.

A C file declares its kernels, each by a line `lb_linear_s8_fn lb_linear_s8__avx2;`. Its name ends with their instruction set, which gives
it its compiler flags: `linear/avx2.c`, `pool/max_avx2.c`. What stands before the first declaration is the file's head (includes, macros,
static inline functions). From a declaration to the next one is a kernel's section: head and section are a C file that holds this kernel
alone, and that is what generated C copies.

A file whose name ends with ISA is a template: its first line names instruction sets, `/* ISA: avx2 avx512 */`, and for each of them the
build writes the rest as a C file, with the set's name in place of the word ISA (also within `lb_abs_f32__ISA` and "base/f32_ISA.h").
If the line is `/* ISA: avx2 avx512, each kernel alone */`, each kernel becomes a C file: a hot loop is then compiled for one kernel.

Each kernel gets a thunk with the one signature `lb_call_fn`, so that a plan calls any kernel without casting function pointers,
and the C compiler checks each thunk against the contract. Offsets and sizes are left to the compiler (offsetof, sizeof).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RANGE = ("int32_t begin", "int32_t end")
INCLUDE = r'^#include "([\w/]+\.h)"$'
DECLARATION = re.compile(r"^lb_(\w+)_fn lb_(\w+)__(\w+);", re.M)
CONTRACT = re.compile(r"^typedef void lb_(\w+)_fn\(const lb_\1_params \*p\b", re.M)
TEMPLATE = re.compile(r"/\* ISA: ([a-z0-9 ]+)(, each kernel alone)? \*/\n")
PLACE = re.compile(r"(?<![A-Za-z0-9])ISA(?![A-Za-z0-9])")  # of the instruction set's name in a template
TEST = re.compile(r"^(?:KERNEL_TEST|TESTED_BY)\((\w+)", re.M)
CONTRACTS = "contracts.h"
FIELDS = "base/fields.h"  # macros for fields that several contracts have
REAL = {"lb_f32": "float"}  # what kernels that may run without floats call it (base/numerics.h)


class ContractError(ValueError):
    """A header or a C file that is not what a kernel needs."""


@dataclass(frozen=True)
class Field:
    type: str
    name: str
    count: int  # 0: a scalar


@dataclass(frozen=True)
class Arg:
    type: str
    name: str
    is_input: bool


@dataclass(frozen=True)
class Contract:
    name: str
    fields: tuple[Field, ...]
    args: tuple[Arg, ...]
    ranged: bool = False  # whether it takes the items begin … end - 1


def parse_contracts(header: str) -> dict[str, Contract]:
    """The contracts of lb.h by name. Anything that it cannot read is an error: a contract is never half understood."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S).replace("\\\n", " ")
    shared = dict(re.findall(r"#define (LB_\w+_FIELDS) (.*)", text))
    text = re.sub(r"(LB_\w+_FIELDS);", lambda m: str(shared.get(m[1], m[1])) + ";", text)
    structs = re.findall(r"typedef struct \{([^}]*)\} lb_(\w+)_params;", text)
    params = {name: tuple(map(_field, _items(body, ";"))) for body, name in structs}
    aliases = {name: known for known, name in re.findall(r"typedef lb_(\w+)_params lb_(\w+)_params;", text)}
    for name, known in aliases.items():
        while known in aliases:
            known = aliases[known]
        if known not in params:
            raise ContractError(f"lb_{name}_params stands for lb_{known}_params, which is not defined")
        params[name] = params[known]
    contracts = {}
    for name, signature in re.findall(r"typedef void lb_(\w+)_fn\(([^)]*)\);", text):
        first, *rest = _items(signature, ",")
        if first != f"const lb_{name}_params *p" or name not in params:
            raise ContractError(f"lb_{name}_fn must take `const lb_{name}_params *p` first, and that struct must be defined before it")
        ranged = tuple(rest[-2:]) == RANGE
        contracts[name] = Contract(name, params[name], tuple(map(_arg, rest[:-2] if ranged else rest)), ranged)
    if orphans := params.keys() - contracts.keys():
        raise ContractError(f"params without a function type: {', '.join(sorted(orphans))}")
    return contracts


def parse_isas(text: str) -> dict[str, list[str]]:
    """Instruction set → CPU features that it needs, worst first, as isas.txt orders them."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line and not line.startswith("#")]
    return {name: needs.split() for name, _processor, needs, _flags in rows}


def table(contracts: dict[str, Contract], isas: dict[str, list[str]], kernels: list[tuple[str, str]], header: str = "lb.h") -> str:
    """The C source. `kernels` are pairs (contract, instruction set); `header` declares the contracts."""
    for wanted, isa in kernels:
        if wanted not in contracts or isa not in isas:
            raise ContractError(f"lb_{wanted}__{isa}: needs a contract lb_{wanted}_fn in {header} and a row {isa!r} in isas.txt")
    if twice := {k for k in kernels if kernels.count(k) > 1}:
        raise ContractError(f"declared twice: {', '.join(f'lb_{c}__{isa}' for c, isa in sorted(twice))}")
    for name in contracts:
        if (name, "ref") not in kernels:
            raise ContractError(f"{header}: contract {name} has no kernel lb_{name}__ref; `ref` is what every other one is tested against")
    used = [isa for isa in isas if any(isa == k for _, k in kernels)]
    rank = {isa: i for i, isa in enumerate(used)}
    kernels = sorted(kernels, key=lambda k: (k[0], rank[k[1]]))
    ordered = sorted(contracts.values(), key=lambda c: c.name)
    index = {c.name: i for i, c in enumerate(ordered)}

    out = [
        "/* Generated by kernel_table.py. */",
        *(f"#include {h}" for h in ('"base/kernel_table.h"', f'"{header}"', '"base/cpu.h"', "<stddef.h>")),
    ]
    out += [f"lb_{c}_fn lb_{c}__{isa};" for c, isa in kernels]
    for c, isa in kernels:
        ranged = contracts[c].ranged
        call = ", ".join(["p", *(f"a[{i}]" for i in range(len(contracts[c].args))), *(("begin", "end") if ranged else ())])
        unused = "" if ranged else "(void)begin, (void)end; "
        signature = f"static void call_{c}__{isa}(const void *p, void *const *a, int32_t begin, int32_t end)"
        out.append(f"{signature} {{ {unused}lb_{c}__{isa}({call}); }}")
    for contract in ordered:
        n = contract.name
        rows = (f'{{"{f.name}", "{f.type}", (uint32_t)offsetof(lb_{n}_params, {f.name}), {f.count}}}' for f in contract.fields)
        out.append(f"static const lb_field fields_{n}[] = {{{', '.join(rows)}}};")
        args = (f'{{"{a.name}", "{a.type}", {int(a.is_input)}}}' for a in contract.args)
        out.append(f"static const lb_arg args_{n}[] = {{{', '.join(args)}}};")
    out.append("const lb_contract lb_contracts[] = {")
    for contract in ordered:
        n = contract.name
        sizes = f"(uint32_t)sizeof(lb_{n}_params), {len(contract.fields)}, {len(contract.args)}, {int(contract.ranged)}"
        out.append(f'    {{"{n}", {sizes}, fields_{n}, args_{n}}},')
    out += ["};", f"const int lb_contract_count = {len(ordered)};", "const lb_isa lb_isas[] = {"]
    out += [f'    {{"{isa}", {" | ".join(f"LB_CPU_{f}" for f in isas[isa]) or "0"}}},' for isa in used]
    out += ["};", f"const int lb_isa_count = {len(used)};", "const lb_kernel lb_kernels[] = {"]
    out += [f"    {{&lb_contracts[{index[c]}], &lb_isas[{rank[isa]}], call_{c}__{isa}}}," for c, isa in kernels]
    out += ["};", f"const int lb_kernel_count = {len(kernels)};", ""]
    return "\n".join(out)


def _items(text: str, separator: str) -> list[str]:
    return [" ".join(item.split()) for item in text.split(separator) if item.strip()]


def _field(text: str) -> Field:
    m = re.fullmatch(r"(u?int(?:8|16|32|64)_t|float|lb_f32) (\w+)(?:\[(\d+)\])?", text)
    if m is None:
        raise ContractError(f"field `{text}`: params hold fixed-width integers, float, or arrays of them, one field a declaration")
    return Field(REAL.get(m[1], m[1]), m[2], int(m[3] or 0))


def _arg(text: str) -> Arg:
    m = re.fullmatch(r"(const )?(\w+) \*(\w+)", text)
    if m is None:
        raise ContractError(f"argument `{text}`: arguments are pointers to elements, as `const int8_t *x`")
    return Arg(REAL.get(m[2], m[2]), m[3], m[1] is not None)


def isa_of(path: Path) -> str:
    """The instruction set of a C file's kernels, the end of its name; "ISA" of a template."""
    return path.stem.rpartition("_")[2]


def texts_of(path: Path) -> dict[str, str]:
    """Instruction set → C text: the file's own, or those that a template stands for."""
    text = path.read_text()
    if isa_of(path) != "ISA":
        return {isa_of(path): text}
    first = TEMPLATE.match(text)
    if first is None:
        raise ContractError(
            f"{path.name}: is a template by its name, and its first line names no instruction sets: `/* ISA: avx2 avx512 */`"
        )
    return {isa: PLACE.sub(isa, text[first.end() :]) for isa in first[1].split()}


def kernels_of(path: Path) -> dict[tuple[str, str], str]:
    """(contract, instruction set) of each kernel that a C file declares → the text of a file that holds this kernel alone."""
    return {kernel: alone for isa, text in texts_of(path).items() for kernel, alone in _kernels_of(path.name, isa, text).items()}


def instances_of(path: Path, isas: Iterable[str]) -> dict[str, str]:
    """The C files that a template becomes for these instruction sets: name → text. None for a file that is no template."""
    first = TEMPLATE.match(path.read_text())
    if isa_of(path) != "ISA" or first is None:
        return {}
    if first[2]:
        return {f"{contract}__{isa}.c": text for (contract, isa), text in kernels_of(path).items() if isa in isas}
    return {f"{path.stem.removesuffix('ISA')}{isa}.c": text for isa, text in texts_of(path).items() if isa in isas}


def _kernels_of(file: str, isa: str, text: str) -> dict[tuple[str, str], str]:
    found = list(DECLARATION.finditer(text))
    if not found:
        raise ContractError(f"{file}: declares no kernel by a line `lb_<contract>_fn lb_<contract>__{isa};`")
    starts = [text.rfind("\n\n", 0, m.start()) + 2 for m in found]  # comments right above a declaration belong to it
    kernels = {}
    for m, start, end in zip(found, starts, [*starts[1:], len(text)]):
        if m[1] != m[2] or m[3] != isa:
            wanted = f"`lb_{m[1]}_fn lb_{m[1]}__{isa};`, for the instruction set that ends the file's name"
            raise ContractError(f"{file}: found `{m[0]}`, needs {wanted}")
        kernels[m[1], m[3]] = text[: starts[0]] + text[start:end].rstrip("\n") + "\n"
    return kernels


def kernel_files(folder: Path) -> list[Path]:
    """The C files below a folder that declare kernels, also in a source tree, whose tests declare none."""
    return [path for path in sorted(folder.rglob("*.c")) if "tests" not in path.relative_to(folder).parts and path.name != "cpu.c"]


def contract_headers(folder: Path) -> dict[str, str]:
    """The headers of a folder that hold contracts: path in it → text."""
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.h"))}
    return {path: text for path, text in texts.items() if CONTRACT.search(text)}


def contracts_header(paths: Iterable[str]) -> str:
    return "/* Every contract. Generated by kernel_table.py. */\n" + "".join(f'#include "{path}"\n' for path in paths)


def contracts_of(folder: Path) -> dict[str, Contract]:
    """Every contract of a folder's headers by name."""
    return parse_contracts("\n".join([(folder / FIELDS).read_text(), *contract_headers(folder).values()]))


def table_of_tests(texts: Iterable[str]) -> str:
    """The C source that lists the tests: of each contract that a line KERNEL_TEST(contract) or TESTED_BY(contract, function) names."""
    names = sorted(name for text in texts for name in TEST.findall(text))
    if twice := {n for n in names if names.count(n) > 1}:
        raise ContractError(f"tested twice: {', '.join(sorted(twice))}")
    rows = "".join(f'    {{"{n}", test_of_{n}}},\n' for n in names)
    return "".join([
        '/* Generated by kernel_table.py. */\n#include "tests/test_support.h"\n',
        *(f"kernel_test test_of_{n};\n" for n in names),
        f"const contract_test contract_tests[] = {{\n{rows}}};\nconst int contract_test_count = {len(names)};\n",
    ])  # fmt: skip


def write(path: Path, text: str) -> None:
    """The file, touched only if it changes: everything that includes it would be compiled again."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main(folder: str, out: str, *rest: str) -> None:
    if folder == "tests":
        write(Path(out) / "table_of_tests.c", table_of_tests(Path(path).read_text() for path in rest))
        return
    isas_built, *files = rest
    root, isas = Path(folder), parse_isas((Path(folder) / "isas.txt").read_text())
    paths, built = [root / file for file in files], isas_built.split(",")
    kernels = [kernel for path in paths for kernel in kernels_of(path) if kernel[1] in built]
    for path in paths:
        for name, text in instances_of(path, built).items():
            instance = Path(out) / path.parent.relative_to(root) / name
            instance.parent.mkdir(parents=True, exist_ok=True)
            write(instance, text)
    write(Path(out) / CONTRACTS, contracts_header(contract_headers(root)))
    (Path(out) / "lb_table.c").write_text(table(contracts_of(root), isas, kernels))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ContractError as error:
        sys.exit(str(error))
