"""Laws of the ONNX frontend by onnx's own node tests. What is not supported stands in unsupported.txt with its reason.

`python tests/onnx_nodes.py [words]` prints the failing ones.
"""

from __future__ import annotations

import onnx_nodes
import pytest

from lowbit.errors import LowbitError

NAMES = onnx_nodes.names()
UNSUPPORTED = onnx_nodes.unsupported()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in UNSUPPORTED])
def test_node_gives_the_expected_outputs(name: str) -> None:
    onnx_nodes.check(name)


@pytest.mark.parametrize("name", [n for n in NAMES if n in UNSUPPORTED])
def test_unsupported_node_is_refused_with_a_reason(name: str) -> None:
    expected = AssertionError if UNSUPPORTED[name].startswith(onnx_nodes.WRONG_DATA) else LowbitError  # neither a crash nor a wrong answer
    try:
        onnx_nodes.check(name)
    except expected:
        return
    pytest.fail(f"stale line: {name} passes now; python tests/onnx_nodes.py --prune")


def test_every_unsupported_line_names_a_test_and_a_reason() -> None:
    assert [n for n in UNSUPPORTED if n not in NAMES] == []
    assert [n for n, reason in UNSUPPORTED.items() if len(reason) < 8] == []


def test_at_least_1150_of_the_1653_node_tests_pass() -> None:
    assert len(NAMES) == 1653
    assert len(NAMES) - len(UNSUPPORTED) >= 1150
