"""Every public name has a docstring with an example that runs, and stands in the API reference."""

from __future__ import annotations

import doctest
import importlib
import inspect
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import lowbit

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")

ROOT = Path(__file__).resolve().parents[2]
API = runpy.run_path(str(ROOT / "tools" / "gen_api_doc.py"))
PACKAGES = {"lowbit": sorted(lowbit._PUBLIC)}
PACKAGES |= {name: sorted(importlib.import_module(name).__all__) for name in ("lowbit.torch", "lowbit.llm")}
NAMES = [(package, name) for package, names in PACKAGES.items() for name in names]
HOMES = sorted({(package, getattr(importlib.import_module(package), name).__module__) for package, name in NAMES})


def own_docstring(package: str, name: str) -> str:
    """The docstring that the thing has itself: a class does not count that of its base."""
    found = getattr(importlib.import_module(package), name)
    return (vars(found).get("__doc__") if isinstance(found, type) else found.__doc__) or ""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The names that examples of a package may use beside those of their module."""
    of_torch = {"torch": torch, "nn": torch.nn, **vars(importlib.import_module("lowbit.torch"))}
    return {"lowbit": {}, "lowbit.torch": of_torch, "lowbit.llm": {"path": tmp_path_factory.mktemp("llama")}}


@pytest.mark.parametrize(("package", "home"), HOMES)
def test_examples_in_docstrings_run(package: str, home: str, given: dict[str, dict[str, Any]]) -> None:
    """Every public name has a docstring with an example that runs → `docs/api/README.md`"""
    if package == "lowbit.llm" and not any(given[package]["path"].iterdir()):
        pytest.importorskip("transformers", reason="it makes the network that the examples load")
        from llm_networks import saved

        saved("llama", given[package]["path"])
    module = importlib.import_module(home)
    names = {n for p, n in NAMES if p == package and getattr(importlib.import_module(p), n).__module__ == home}
    found = doctest.testmod(module, extraglobs={**given[package], **vars(module)})
    assert found.failed == 0 and found.attempted >= len(names)


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_name_has_an_example(package: str, name: str) -> None:
    text = own_docstring(package, name)
    words, _, example = text.partition(">>> ")
    assert words.strip() and example.strip(), f"{package}.{name}: a docstring with an example (>>> …)"


def test_public_methods_have_a_docstring() -> None:
    bare = []
    for package, name in NAMES:
        cls = getattr(importlib.import_module(package), name)
        if not isinstance(cls, type):
            continue
        for member, value in vars(cls).items():
            target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            plain = inspect.isfunction(target) and target.__module__.startswith("lowbit") and not member.startswith("_")
            inherited = any(member in vars(base) for base in cls.__mro__[1:])
            if plain and not inherited and not (target.__doc__ or "").strip():
                bare.append(f"{package}.{name}.{member}")
    assert bare == []


def test_every_public_name_stands_in_the_api_reference() -> None:
    """Every public name is in the API reference → `docs/api/README.md`"""
    listed = [(API["GROUPS"][page][1], name) for page in API["GROUPS"] for name in API["names_of"](page)]
    assert sorted(listed) == sorted(NAMES), "tools/gen_api_doc.py: GROUPS"
    pages = {path.name: path.read_text() for path in (ROOT / "docs" / "api").glob("*.md")}
    for package, name in NAMES:
        assert any(f"## {package}.{name}\n" in text for text in pages.values()), name


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the signatures of the standard library differ between versions of Python")
def test_the_api_reference_is_what_the_docstrings_say() -> None:
    pages = {path.name: path.read_text() for path in (ROOT / "docs" / "api").glob("*.md")}
    assert pages == API["pages"](), "run: make docs"
