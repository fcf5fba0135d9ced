"""The networks of benchmarks/tiny as C: RAM is near what no arena can be smaller than, and below the arenas set by hand for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "tiny"))

from models import MODELS, Tiny

import lowbit


@pytest.mark.parametrize("tiny", MODELS, ids=lambda m: m.name)
def test_ram_is_within_a_tenth_of_the_tensors_that_live_at_once(tiny: Tiny) -> None:
    emitted = lowbit.emit_c(tiny.graph(), None, io_in_arena=True, channels_last=True, vectors=1, measure=False)
    assert emitted.exact and emitted.live_bytes <= emitted.ram_bytes <= 1.1 * emitted.live_bytes
    for target in ("cortex-m4", "cortex-m55"):  # scratch memory of their kernels included
        own = lowbit.emit_c(tiny.graph(), None, target=target, io_in_arena=True, channels_last=True, vectors=1, measure=False)
        assert own.ram_bytes <= 1.1 * own.live_bytes and (tiny.arena is None or own.ram_bytes <= tiny.arena << 10)
