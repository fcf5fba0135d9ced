"""What generated C looks like, kept word for word: three small networks in tests/codegen/golden, all files of each on one page.

A change of the printer, of the choice of kernels or of their contracts shows here first. To accept it:
PYTHONPATH=tests/helpers python tests/codegen/test_golden.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_networks import NETWORKS, graph

import lowbit

FOLDER = Path(__file__).parent / "golden"
SHOWN = ("model.h", "model.c", "weights.h", "weights.c", "selftest.c", "Makefile", "CMakeLists.txt", "README.md")


def page(name: str) -> str:
    """The files of a project, one after the other, each under its path."""
    files = lowbit.emit_c(graph(name), None, name="model", measure=False, vectors=1, **NETWORKS[name][1]).files  # type: ignore[arg-type]
    shown = [path for path in files if path in SHOWN or path.startswith("board/")]
    return "\n".join(f"==> {path} <==\n{files[path]}" for path in shown)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_files_are_what_they_were(name: str) -> None:
    assert (FOLDER / f"{name}.txt").read_text() == page(name), "this file says how to accept the change"


if __name__ == "__main__":
    for network in NETWORKS:
        (FOLDER / f"{network}.txt").write_text(page(network))
