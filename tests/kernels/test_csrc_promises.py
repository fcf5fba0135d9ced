"""What generated C promises of its kernels: no recursion, stack of a known size, no function of a library but those that move bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from repository import ROOT

from lowbit.kernels.kernel_table import DECLARATION, kernels_of
from lowbit.kernels.sources import folder as folder_of_the_build

CSRC = ROOT / "csrc"
NODE, EDGE = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"'), re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
MOVES_BYTES = {"memcpy", "memset", "memmove", "memcmp"}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, str], list[tuple[str, str]]]]:
    """Kernel of portable C → its functions with what gcc says of each, and which calls which."""
    gcc = shutil.which("gcc")
    if gcc is None or "clang" in subprocess.run([gcc, "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("call graphs are told by GCC (-fcallgraph-info), which is not here")
    folder = tmp_path_factory.mktemp("calls")
    sources = []
    for (contract, isa), text in (kernel for path in sorted(CSRC.rglob("*ref.c")) for kernel in kernels_of(path).items()):
        sources.append(folder / f"{contract}__{isa}.c")
        sources[-1].write_text(text)
    flags = ["-std=c11", "-O1", "-ffreestanding", "-fcallgraph-info=su", "-I", str(CSRC), "-I", str(folder_of_the_build())]
    subprocess.run([gcc, *flags, "-c", *map(str, sources)], cwd=folder, check=True, capture_output=True)
    graphs = {}
    for source in sources:
        text = (folder / f"{source.stem}.ci").read_text()
        graphs[source.stem] = dict(NODE.findall(text)), EDGE.findall(text)
    return graphs


def cycles(edges: list[tuple[str, str]]) -> Iterator[str]:
    """Functions that reach themselves."""
    after: dict[str, set[str]] = {}
    for f, g in edges:
        after.setdefault(f, set()).add(g)
    for start in after:
        seen: set[str] = set()
        todo = set(after[start])
        while todo:
            f = todo.pop()
            seen.add(f)
            todo |= after.get(f, set()) - seen
        if start in seen:
            yield start


def test_no_kernel_recurses(calls: dict[str, tuple[dict[str, str], list[tuple[str, str]]]]) -> None:
    assert {kernel: found for kernel, (_, edges) in calls.items() if (found := list(cycles(edges)))} == {}


def test_every_stack_frame_has_a_size_known_beforehand(calls: dict[str, tuple[dict[str, str], list[tuple[str, str]]]]) -> None:
    frames = {(kernel, f): what for kernel, (nodes, _) in calls.items() for f, what in nodes.items() if "bytes (" in what}
    assert len(frames) >= len(calls)
    assert [f for f, what in frames.items() if "(static)" not in what] == []


def test_kernels_call_nothing_outside_but_what_moves_bytes(calls: dict[str, tuple[dict[str, str], list[tuple[str, str]]]]) -> None:
    outside = {
        (kernel, g)
        for kernel, (nodes, edges) in calls.items()
        for _, g in edges
        if "bytes (" not in nodes.get(g, "") and g not in MOVES_BYTES and g != "__indirect_call"
    }
    assert outside == set()


def test_headers_stand_in_the_folders_of_families_under_names_of_their_own() -> None:
    """Generated C has them in one folder."""
    headers = [path for path in CSRC.rglob("*.h") if "tests" not in path.parts]
    assert [path.name for path in headers if path.parent == CSRC] == ["lb.h"]
    assert len({path.name for path in headers}) == len(headers)


def test_what_kernels_of_a_file_share_gives_no_warning_where_one_of_them_stands_alone() -> None:
    """Functions before the first declaration are inline: a compiler does not say that they are not used."""
    texts = {str(path): path.read_text() for path in CSRC.rglob("*.c")}
    heads = {path: DECLARATION.split(text)[0] for path, text in texts.items() if len(DECLARATION.findall(text)) > 1}
    assert heads and [path for path, head in heads.items() if re.search(r"^static (?!inline|const)", head, re.M)] == []
