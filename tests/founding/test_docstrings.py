"""Examples in docstrings of public names run, and new public names have one."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import lowbit

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
MODULES = sorted({module for module in lowbit._PUBLIC.values()})
OF_TORCH = ["calibrate", "create", "qtensor", "weights", "modules.base", "modules.kept"]
# Public names of the founding documents: each has an example.
SHOWN = [
    "insert_q_dq", "quantize_int8", "quantize_uint8", "empty", "full", "zeros", "Op", "CustomQuantNode", "QuantizationSystem", "Workload",
    "auto_tune", "bench_ops", "register_method", "QuantParams", "calibrate_from_samples", "QuantRule", "array",
    "quantize_array", "auto_quantize",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


@pytest.mark.parametrize("name", OF_TORCH)
def test_examples_in_docstrings_of_torch_run(name: str) -> None:
    module = importlib.import_module(f"lowbit.torch.{name}")
    names = {"torch": torch, "nn": torch.nn, **vars(importlib.import_module("lowbit.torch"))}
    assert doctest.testmod(module, extraglobs=names).failed == 0


@pytest.mark.parametrize("name", SHOWN)
def test_names_of_the_founding_documents_have_an_example(name: str) -> None:
    found = getattr(lowbit, name)
    assert ">>> " in (inspect.getdoc(found) or ""), name


def test_every_public_name_has_a_docstring() -> None:
    bare = [n for n in lowbit._PUBLIC if not (inspect.getdoc(getattr(lowbit, n)) or "").strip()]
    assert bare == []
