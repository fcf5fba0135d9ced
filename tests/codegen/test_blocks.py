"""Int8 weights with a scale for each block: C for them, with the interpreter's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from codegen_tools import selftest

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType


def layer(to: str | None, block: int, k: int = 20, n: int = 6, bias: bool = True) -> tuple[Graph, dict[str, Array]]:
    """One layer; to: its type with static scales, None: activations with a scale for each row."""
    rng = np.random.default_rng(block)
    b = Builder("blocks")
    feed: dict[str, Array] = {"x": rng.integers(-128, 128, (3, k)).astype(np.int8)}
    x = b.input("x", TensorType((3, k), "int8"))
    w = b.constant(rng.integers(-127, 128, (n, k)).astype(np.int8), name="w")
    scales = b.constant(rng.uniform(1e-4, 1e-3, (n, -(-k // block) if block else 1)).astype(np.float32), name="scales")
    more = [b.constant(rng.normal(size=n).astype(np.float32), name="bias")] if bias else []
    if to is None:
        feed["rows"] = rng.uniform(0.5, 2.0, (3, 1)).astype(np.float32)
        out = b.add("q_linear_rows", x, b.input("rows", TensorType((3, 1), "float32")), w, scales, *more, block=block, bound=1 << 24)
    else:
        ends = {"lo": -128, "hi": 127} if to == "int8" else {"lo": -32768, "hi": 32767}
        out = b.add(
            "q_linear_blocks", x, w, scales, *more, block=block, x_zero=-7, y_scale=0.01 if to == "int8" else 1e-4, y_zero=3, to=to,
            bound=1 << 24, **ends,
        )  # fmt: skip
    return b.finish({"y": out}), feed


@pytest.mark.parametrize(("to", "block", "bias"), [(None, 8, True), ("int8", 8, True), ("int16", 5, False), ("float32", 16, True)])
def test_blocks_of_int8_weights_have_the_bits_of_the_interpreter(to: str | None, block: int, bias: bool, tmp_path: Path) -> None:
    graph, feed = layer(to, block, bias=bias)
    done = lowbit.emit_c(graph, tmp_path / "c", samples=[feed], vectors=1, measure=False)
    assert done.exact and "kernels/linear_s8_blocks_f32__ref.c" in done.files
    assert selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of 2 outputs differ")
