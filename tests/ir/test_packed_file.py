"""Packed weights in a file: compiling what is loaded packs nothing again, gives the same bits, and never trusts what is not its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_networks import inputs, network

import lowbit
from lowbit.errors import FormatError
from lowbit.ir.graph import PackedConstants
from lowbit.ir.interp import run
from lowbit.kernels import sources
from lowbit.plan.kernels import convolutions, products
from lowbit.runtime.session import Session


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "packed.lowbit"
    Session(network(16, 16, 16), threads=1).save(path)
    return path


def test_what_is_loaded_with_packed_weights_packs_nothing_again(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = network(16, 16, 16)
    monkeypatch.setattr(products, "pack", lambda *_: pytest.fail("packed again"))
    for name in ("pack", "pack_by"):
        monkeypatch.setattr(convolutions, name, lambda *_: pytest.fail("packed again"))
    loaded = lowbit.load(saved)
    assert loaded == g and loaded.packed is not None and loaded.packed.arrays
    x = inputs(g)
    want, got = run(g, x), lowbit.compile(loaded, threads=1, trust_packed=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_the_file_is_the_same_bytes_each_time_and_loads_without_the_packed_weights(saved: Path, tmp_path: Path) -> None:
    again, plain = tmp_path / "again.lowbit", tmp_path / "plain.lowbit"
    lowbit.compile(lowbit.load(saved), threads=1, trust_packed=True).save(again)
    assert again.read_bytes() == saved.read_bytes()
    network(16, 16, 16).save(plain)
    assert lowbit.load(plain).packed is None and plain.stat().st_size < saved.stat().st_size


def test_weights_packed_by_another_build_are_not_used(saved: Path, tmp_path: Path) -> None:
    g = lowbit.load(saved)
    assert g.packed is not None and g.packed.kernels == sources.digest()
    foreign = replace(g, packed=PackedConstants("another", {k: np.zeros_like(v) for k, v in g.packed.arrays.items()}))
    foreign.save(tmp_path / "foreign.lowbit")
    x = inputs(g)
    want, got = run(g, x), lowbit.compile(lowbit.load(tmp_path / "foreign.lowbit"), threads=1, trust_packed=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_an_edited_weight_is_packed_anew(saved: Path) -> None:
    g = lowbit.load(saved)
    c = g.constants["wide.w"]
    other = c.data[::-1].copy()
    other.flags.writeable = False
    changed = replace(g, constants={**g.constants, "wide.w": replace(c, data=other)})
    assert changed.packed is g.packed
    x = inputs(g)
    want, got = run(changed, x), lowbit.compile(changed, threads=1, trust_packed=True).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want) and not np.array_equal(want["y"], run(g, x)["y"])


def test_packed_weights_are_used_by_those_who_trust_them_alone(saved: Path, tmp_path: Path) -> None:
    g = lowbit.load(saved)
    assert g.packed is not None
    evil = replace(g, packed=PackedConstants(g.packed.kernels, {k: v[:0] for k, v in g.packed.arrays.items()}))
    evil.save(tmp_path / "evil.lowbit")
    x = inputs(g)
    want, got = run(g, x), lowbit.compile(lowbit.load(tmp_path / "evil.lowbit"), threads=1).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_damaged_packed_weights_are_seen(saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    g = lowbit.load(bytes(data))
    assert g.packed is not None
    largest = max(g.packed.arrays.values(), key=lambda a: a.nbytes)
    at = data.find(largest.tobytes())
    data[at + largest.nbytes // 2] ^= 1
    with pytest.raises(FormatError, match="packed weights have another digest"):
        lowbit.load(bytes(data))
