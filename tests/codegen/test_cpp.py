"""Programs in C++ include model.h and call the network, whose files a C compiler compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import c_files
from golden_networks import graph
from state_networks import delays

import lowbit
from lowbit.codegen.targets import EXACT, WARNINGS
from lowbit.ir.interp import run

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
FLAGS = ("-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", EXACT)


def said(folder: Path, program: str) -> list[str]:
    """The words that a program in C++ prints."""
    objects = []
    for path in c_files(folder):
        objects.append(str(folder / f"{path.stem}.o"))
        subprocess.run(["gcc", *WARNINGS, EXACT, "-c", str(path), "-o", objects[-1]], check=True)
    source = folder / "main.cpp"
    source.write_text(f'#include "model.h"\n#include "model.h"\n\n#include <cstdio>\n\nint main() {{\n{program}}}\n')
    done = subprocess.run(["g++", *FLAGS, str(source), *objects, "-o", str(folder / "main")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return subprocess.run([str(folder / "main")], capture_output=True, text=True, check=True).stdout.split()


def test_reals_are_quantized_and_the_network_runs(tmp_path: Path) -> None:
    lowbit.emit_c(graph("mlp"), tmp_path / "c", measure=False)
    words = said(
        tmp_path / "c",
        """\
    const float x[MODEL_IN_COUNT] = {0.5f, -1.25f, 3.0f, 0.1f};
    int8_t in[MODEL_IN_COUNT];
    float out[MODEL_OUT_COUNT];
    for (int i = 0; i < MODEL_IN_COUNT; i++)
        in[i] = MODEL_IN_QUANTIZE(x[i]);
    model_run(in, out);
    for (int i = 0; i < MODEL_OUT_COUNT; i++)
        std::printf("%a ", static_cast<double>(out[i]));
    std::printf("%a", static_cast<double>(MODEL_IN_DEQUANTIZE(in[1])));
""",
    )
    want = run(graph("mlp"), {"x": np.array([[0.5, -1.25, 3.0, 0.1]], np.float32)})["y"].reshape(-1)
    assert [float.fromhex(w) for w in words] == [*want.tolist(), -1.25]


def test_states_and_inputs_in_the_arena(tmp_path: Path) -> None:
    lowbit.emit_c(delays(), tmp_path / "c", state={"h": "h2", "d": "d2", "e": "e2"}, io_in_arena=True, measure=False)
    words = said(
        tmp_path / "c",
        """\
    static_assert(sizeof(model_state) == MODEL_STATE_BYTES, "");
    model_state state;
    model_reset(&state);
    state.s_e[0] = 2.0f;
    for (int frame = 0; frame < 3; frame++) {
        for (int i = 0; i < MODEL_IN_COUNT; i++)
            MODEL_IN(model_arena())[i] = static_cast<float>(1 + frame);
        model_run(&state);
        std::printf("%g ", static_cast<double>(MODEL_OUT(model_arena())[0]));
    }
""",
    )
    assert [float(w) for w in words] == [(1 + 0) * (0 + 2), (2 + 1) * (0 + 2), (3 + 2) * (1 + 2)]


def test_without_floats(tmp_path: Path) -> None:
    lowbit.emit_c(graph("residual"), tmp_path / "c", no_float=True, measure=False)
    words = said(
        tmp_path / "c",
        """\
    const int8_t in[MODEL_IN_COUNT] = {1, -2, 3, 100, -128, 127};
    int8_t out[MODEL_OUT_COUNT];
    model_run(in, out);
    for (int i = 0; i < MODEL_OUT_COUNT; i++)
        std::printf("%d ", static_cast<int>(out[i]));
    std::printf("%d", static_cast<int>(lb_f32_bits(lb_f32_from_s32(1)) == 0x3f800000u));
""",
    )
    want = run(graph("residual"), {"x": np.array([[1, -2, 3], [100, -128, 127]], np.int8)})["y"].reshape(-1)
    assert list(map(int, words)) == [*want.tolist(), 1]
