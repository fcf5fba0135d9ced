"""The kernels compiled for a GPU that need not be there: their PTX, to look at and to test."""

from __future__ import annotations

import re
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from lowbit.torch.gpu import conv, kernels, packed
from lowbit.torch.gpu.launch import CONV, DP4A, OPTIONS, TILE, WARPS, way_of

_WORDS = {"a_ptr": "*i32", "b_ptr": "*i32", "y_ptr": "*fp32", "sa_ptr": "*fp32", "sb_ptr": "*fp32", "bias_ptr": "*fp32"}
_POINTERS = {
    "quantize": {"x_ptr": "*fp32", "y_ptr": "*i8", "scale_ptr": "*fp32", "zero_ptr": "*i32"},
    "dequantize": {"q_ptr": "*i8", "y_ptr": "*fp32", "scale_ptr": "*fp32", "zero_ptr": "*i32"},
    "quantize_rows": {"x_ptr": "*fp32", "q_ptr": "*i8", "scale_ptr": "*fp32"},
    "matmul": {
        "a_ptr": "*i8", "b_ptr": "*i8", "y_ptr": "*fp32", "sa_ptr": "*fp32", "sb_ptr": "*fp32", "za_ptr": "*i32", "zb_ptr": "*i32",
        "sum_a_ptr": "*i32", "sum_b_ptr": "*i32", "bias_ptr": "*fp32", "x_scale": "fp32",
    },
    "matmul_int4": {
        "a_ptr": "*i8", "b_ptr": "*u8", "y_ptr": "*fp32", "sa_ptr": "*fp32", "sb_ptr": "*fp32", "zb_ptr": "*i32", "bias_ptr": "*fp32",
    },
    "conv": {
        "x_ptr": "*i8", "w_ptr": "*i8", "y_ptr": "*i8", "m_ptr": "*fp32", "sum_ptr": "*i32", "bias_ptr": "*i32",
    },
    "matmul_dp4a": {
        "a_ptr": "*i32", "b_ptr": "*i32", "y_ptr": "*fp32", "sa_ptr": "*fp32", "sb_ptr": "*fp32", "za_ptr": "*i32", "zb_ptr": "*i32",
        "sum_a_ptr": "*i32", "sum_b_ptr": "*i32", "bias_ptr": "*fp32", "x_scale": "fp32",
    },
    "matmul_s4": _WORDS,
    "matmul_s8_turing": _WORDS,
}  # fmt: skip
_TILES = {"BM": TILE[0], "BN": TILE[1], "BK": TILE[2]}
_PLAIN = {"QUANTIZE": False, "ZEROS": True, "BIAS": True, "REQUANTIZE": False, **_TILES}

# Each kernel as it is launched: its name, the types that differ, its constants.
VARIANTS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "quantize": ("quantize", {}, {"BLOCK": 1024}),
    "dequantize": ("dequantize", {}, {"BLOCK": 1024}),
    "quantize_rows": ("quantize_rows", {}, {"BLOCK": 1024}),
    "matmul_s8": ("matmul", {}, _PLAIN),
    "linear_static": ("matmul", {"a_ptr": "*fp32"}, {**_PLAIN, "QUANTIZE": True}),
    "linear_integers": (
        "matmul",
        {"a_ptr": "*fp32", "y_ptr": "*i8", "bias_ptr": "*i32"},
        {**_PLAIN, "QUANTIZE": True, "REQUANTIZE": True},
    ),
    "linear_requantized": ("matmul", {"y_ptr": "*i8", "bias_ptr": "*i32"}, {**_PLAIN, "REQUANTIZE": True}),
    "matmul_int4_rows": ("matmul_int4", {}, {"ZEROS": True, "BIAS": True, "FLOAT": False, "BM": 64, "BN": 64, "SIZE": 32}),
    "matmul_int4_float": ("matmul_int4", {"a_ptr": "*fp32"}, {"ZEROS": True, "BIAS": True, "FLOAT": True, "BM": 64, "BN": 64, "SIZE": 32}),
    "conv_static": ("conv", {}, {"BIAS": True, "BM": CONV[0], "BN": CONV[1], "BK": CONV[2]}),
}
# Those whose instruction a compute capability has: the least one, and the one that has a better way.
PACKED: dict[str, tuple[str, dict[str, str], dict[str, Any], tuple[int, int]]] = {
    "matmul_dp4a": (
        "matmul_dp4a", {}, {"ZEROS": True, "BIAS": True, "REQUANTIZE": False, "ASM": True, "BM": DP4A[0], "BN": DP4A[1]}, (61, 80),
    ),
    "linear_dp4a": (
        "matmul_dp4a", {"y_ptr": "*i8", "bias_ptr": "*i32"},
        {"ZEROS": True, "BIAS": True, "REQUANTIZE": True, "ASM": True, "BM": DP4A[0], "BN": DP4A[1]}, (61, 80),
    ),
    "matmul_s4": ("matmul_s4", {}, {"BIAS": True, "WARPS": WARPS, "ASM": True}, (80, 90)),
    "matmul_s8_turing": ("matmul_s8_turing", {}, {"BIAS": True, "WARPS": WARPS, "ASM": True}, (75, 80)),
}  # fmt: skip


def ptx(variant: str, capability: int) -> str:
    """The PTX of a kernel for compute capability 61, 75, 80, 90 …"""
    return str(compiled(variant, capability).asm["ptx"])


def compiled(variant: str, capability: int) -> Any:
    """What Triton makes of a kernel: `asm` has its stages by name."""
    name, types, constants = (VARIANTS[variant] if variant in VARIANTS else PACKED[variant])[:3]
    if variant in VARIANTS and ("matmul" in name or name == "conv"):
        constants = {**constants, "TENSOR_CORES": way_of(capability) == "mma"}
    fn = next(getattr(home, name) for home in (kernels, packed, conv) if hasattr(home, name))
    signature = {p: "constexpr" if p in constants else {**_POINTERS[name], **types}.get(p, "i32") for p in fn.arg_names}
    source = ASTSource(fn=fn, signature=signature, constexprs={(fn.arg_names.index(k),): v for k, v in constants.items()})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": WARPS, **OPTIONS})


def instructions(text: str) -> set[str]:
    """The opcodes in a PTX text: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32, div.rn.f32 …"""
    return set(re.findall(r"^\s+(?:@%\w+\s+)?([a-z][\w.:]+)", text, re.M))
