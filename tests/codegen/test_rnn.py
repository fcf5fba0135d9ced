"""Recurrent layers as C: one call that keeps nothing of its inputs' products, with the bits of the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from codegen_tools import selftest
from rnn_layers import SIZES, Size, layer

import lowbit

CELLS = {"lstm": ("q_lstm", True), "gru": ("q_gru", True), "gru, reset first": ("q_gru", False)}


@pytest.mark.parametrize("size", SIZES[2:5:2])  # backwards; both ways, with the batch first
@pytest.mark.parametrize("cell", CELLS)
def test_a_layer_is_one_call_that_holds_its_ends_and_its_state(cell: str, size: Size, tmp_path: Path) -> None:
    op, lbr = CELLS[cell]
    graph, feed = layer(op, size, lbr=lbr)
    done = lowbit.emit_c(graph, tmp_path / "c", samples=[feed], vectors=1, io_in_arena=True, measure=False)
    state = 2 * int(graph.outputs["y1"].type.size) + 2 * size[3] if op == "q_gru" else 0  # 16 bits of a GRU, and its r * h of one row
    ends = sum(int(v.type.size) * v.type.dtype.numpy.itemsize for v in (*graph.inputs, *graph.outputs.values()))
    assert done.exact and [k for k in done.files if k.endswith("__ref.c")] == [f"kernels/{op[2:]}_x_s8__ref.c"]
    assert done.arena_bytes <= ends + state + 8 * (len(graph.inputs) + len(graph.outputs) + 2)
    assert selftest(tmp_path / "c", tmp_path / "selftest").startswith("model: 0 of ")


@pytest.mark.parametrize(
    ("target", "kernel"), [("cortex-m4", "lstm_x_s8__armdsp"), ("cortex-m55", "lstm_x_s8__mve"), ("aarch64", "lstm_s8__ref")]
)
def test_machines_with_vectors_for_all_times_at_once_use_them(target: str, kernel: str) -> None:
    graph, feed = layer("q_lstm", SIZES[1])
    done = lowbit.emit_c(graph, None, target=target, samples=[feed], vectors=1, measure=False)
    assert f"kernels/{kernel}.c" in done.files
    assert ("kernels/linear_s8_f32__neon.c" in done.files) == (target == "aarch64")
