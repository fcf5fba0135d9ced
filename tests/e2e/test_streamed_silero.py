"""A trained voice detector, window by window in C with its state kept in a struct, has the bits of the whole recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from codegen_tools import selftest

import lowbit
from lowbit.ir.bind import bind
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.types import Array
from zoo import fetched

WINDOWS = 20


def recording() -> Array:
    """Chirps and silence in windows of 576 samples, 64 of them from the window before."""
    rng = np.random.default_rng(0)
    t = np.arange(WINDOWS * 512 + 64) / 16000
    x = 0.3 * np.sin(2 * np.pi * (200 + 300 * t) * t) * (np.sin(40 * t) > 0) + 0.01 * rng.normal(size=t.size)
    return np.stack([x[i * 512 : i * 512 + 576] for i in range(WINDOWS)]).astype(np.float32)


def test_windows_of_silero_give_the_bits_of_the_whole_recording(tmp_path: Path) -> None:
    x, zero = recording(), np.zeros((1, 1, 128), np.float32)
    g = lowbit.load(fetched.silero())
    q = lowbit.quantize(g, [{"input": x, "h": zero, "c": zero}], recipe="int8", guard=False)
    length = g.symbols[0]
    whole = run(lower(bind(q, {length: WINDOWS})).graph, {"input": x, "h": zero, "c": zero})
    one = bind(q, {length: 1})
    integer, state, probabilities = lower(one).graph, {"h": zero, "c": zero}, []
    for window in x:
        got = run(integer, {"input": window[None], **state})
        state = {"h": got["hn"], "c": got["cn"]}
        probabilities.append(got["speech_probs"])
    assert np.concatenate(probabilities).tobytes() == whole["speech_probs"].tobytes()
    assert state["h"].tobytes() == whole["hn"].tobytes() and state["c"].tobytes() == whole["cn"].tobytes()
    samples = [{"input": window[None]} for window in x]
    pairs = {"h": "hn", "c": "cn"}
    emitted = lowbit.emit_c(one, tmp_path / "c", state=pairs, float_io=True, samples=samples, vectors=WINDOWS, measure=False)
    assert emitted.exact and emitted.state_bytes == 128 + 2 * 128
    assert f"0 of {2 * WINDOWS * 3} outputs differ" in selftest(tmp_path / "c", tmp_path / "selftest")
