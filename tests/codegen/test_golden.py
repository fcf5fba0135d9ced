"""What generated C looks like, kept word for word: three small networks in tests/codegen/golden.

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


def written(name: str) -> dict[str, str]:
    files = lowbit.emit_c(graph(name), None, name="model", measure=False, vectors=1, **NETWORKS[name][1]).files  # type: ignore[arg-type]
    return {path: text for path, text in files.items() if path in SHOWN or path.startswith("board/")}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_files_are_what_they_were(name: str) -> None:
    for path, text in written(name).items():
        assert (FOLDER / name / path).read_text() == text, f"{name}/{path}: this file says how to accept the change"


if __name__ == "__main__":
    for network in NETWORKS:
        (FOLDER / network).mkdir(parents=True, exist_ok=True)
        for file, content in written(network).items():
            (FOLDER / network / file).parent.mkdir(exist_ok=True)
            (FOLDER / network / file).write_text(content)
