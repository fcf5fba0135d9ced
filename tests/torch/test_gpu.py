"""The Triton kernels without a GPU: exact in Triton's interpreter, and what they compile to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="the extra gpu is not installed: Triton's wheel has 290 MB, which the checks do not fetch")

import torch
from torch import nn

from lowbit.lower import lower
from lowbit.torch import Linear, kernels
from lowbit.torch.gpu import launch, ptx, table

AMPERE = "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"


def test_the_kernels_have_the_bits_of_lowbits_arithmetic() -> None:
    cases = Path(__file__).parent / "gpu_interpreted.py"
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}  # it is read when the kernels are defined: a process of its own
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(cases)], env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-3000:]


@pytest.mark.parametrize("variant", ["matmul_s8", "linear_static", "linear_integers", "linear_requantized", "matmul_int4_rows"])
def test_integer_products_use_the_tensor_cores(variant: str) -> None:
    found = ptx.instructions(ptx.ptx(variant, 80))
    assert AMPERE in found
    assert not any(i.startswith("fma") for i in found)  # a product and a sum round twice


@pytest.mark.parametrize("variant", ptx.VARIANTS)
@pytest.mark.parametrize("capability", [75, 90])
def test_every_kernel_compiles_for_older_and_newer_ones(variant: str, capability: int) -> None:
    text = ptx.ptx(variant, capability)
    assert f".target sm_{capability}" in text
    integers = [i for i in ptx.instructions(text) if "mma" in i and ".s8" in i]
    products = "matmul_s8" in variant or "linear" in variant or variant in ("matmul_int4_rows", "conv_static")
    assert bool(integers) == (capability == 90 and products)


@pytest.mark.parametrize("variant", ["matmul_dp4a", "linear_dp4a"])
@pytest.mark.parametrize("capability", [61, 70, 75])
def test_older_ones_multiply_four_bytes_at_once(variant: str, capability: int) -> None:
    text = ptx.ptx(variant, capability)
    found = ptx.instructions(text)
    assert f".target sm_{capability}" in text and "dp4a.s32.s32" in found
    assert not any(i.startswith("fma") for i in found)


@pytest.mark.parametrize(
    ("variant", "capability", "instruction"),
    [
        ("matmul_s4", 80, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"),
        ("matmul_s4", 86, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"),
        ("matmul_s8_turing", 75, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"),
    ],
)
def test_fragments_are_the_tensor_cores_instructions_and_lane_i_holds_element_i(variant: str, capability: int, instruction: str) -> None:
    made = ptx.compiled(variant, capability)
    assert instruction in ptx.instructions(made.asm["ptx"])
    layouts = set(re.findall(r"^(#\w+) = (#ttg\..*)$", made.asm["ttgir"], re.M))
    (name, layout), *others = [found for found in layouts if "blocked" in found[0]]
    assert not others and "sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]" in layout
    (line,) = [s for s in made.asm["ttgir"].splitlines() if "elementwise_inline_asm" in s]
    assert set(re.findall(r"tensor<128xi32, (#\w+)>", line)) == {name}


@pytest.mark.parametrize(("capability", "way"), [(53, "float"), (60, "float"), (61, "dp4a"), (75, "dp4a"), (80, "mma"), (90, "mma")])
def test_the_way_to_multiply_follows_the_compute_capability(capability: int, way: str) -> None:
    assert launch.way_of(capability) == way


def test_hopper_has_its_own_instruction_and_turing_sums_floats() -> None:
    assert any(
        i.startswith("wgmma.mma_async.sync.aligned") and i.endswith(".s32.s8.s8") for i in ptx.instructions(ptx.ptx("matmul_s8", 90))
    )
    turing = ptx.instructions(ptx.ptx("matmul_s8", 75))
    assert "fma.rn.f32" in turing and not any("mma" in i.split(".") for i in turing)


@pytest.mark.parametrize("capability", [75, 80, 90])
def test_divisions_are_exact_and_nothing_is_flushed_to_zero(capability: int) -> None:
    for variant in ("quantize", "quantize_rows"):
        found = ptx.instructions(ptx.ptx(variant, capability))
        assert "div.rn.f32" in found
        assert not any("ftz" in i or i.startswith(("div.full", "div.approx", "rcp", "fma")) for i in found)


def test_quantized_tensors_on_a_gpu_find_these_kernels() -> None:
    for op in ("quantize", "dequantize", "matmul", "linear", "linear_rows", "linear_static", "conv_static", "weight_only"):
        found = kernels.find("cuda", op)
        assert found is not None and found.__module__ == "lowbit.torch.gpu.table"


@pytest.mark.parametrize(("k", "taken"), [(66_300, True), (66_400, False)])  # 255 * 127 * 66,312 is below 2**31
@pytest.mark.parametrize("reals", [False, True])
def test_static_layers_whose_sums_may_leave_32_bits_are_not_taken(k: int, taken: bool, reals: bool) -> None:
    layer = nn.Linear(k, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.where(torch.arange(k) % 2 == 0, 1.0, -1.0))  # 127 and -127
    q = Linear.from_float(layer).start_calibration().eval()
    q(torch.rand(1, k))  # the zero point is -128: differences reach 255
    q.finish_calibration()
    if reals:
        q.output_params = None
    graph = lower(q.layer()).graph
    assert (table.StaticLayer.of(graph, torch.device("cpu")) is not None) == taken
