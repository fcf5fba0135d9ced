"""The kernels compiled for a GPU that need not be there: their PTX, to look at and to test."""

from __future__ import annotations

import re
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from lowbit.torch.gpu import kernels
from lowbit.torch.gpu.launch import OPTIONS, TILE

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
}


def ptx(variant: str, capability: int) -> str:
    """The PTX of a kernel for compute capability 75, 80, 90 …"""
    name, types, constants = VARIANTS[variant]
    if "matmul" in name:
        constants = {**constants, "TENSOR_CORES": capability >= 80}
    fn = getattr(kernels, name)
    signature = {p: "constexpr" if p in constants else {**_POINTERS[name], **types}.get(p, "i32") for p in fn.arg_names}
    source = ASTSource(fn=fn, signature=signature, constexprs={(fn.arg_names.index(k),): v for k, v in constants.items()})
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4, **OPTIONS})
    return str(made.asm["ptx"])


def instructions(text: str) -> set[str]:
    """The opcodes in a PTX text: mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32, div.rn.f32 …"""
    return set(re.findall(r"^\s+(?:@%\w+\s+)?([a-z][\w.:]+)", text, re.M))
