"""Hypothesis strategies shared by the tests: float32 values of every kind, quantization parameters, quantized arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowbit.dtypes import dtype
from lowbit.quant_params import (
    QUANT_DTYPES,
    SCHEMES,
    Granularity,
    PerAxis,
    PerBlock,
    PerTensor,
    QuantParams,
    middle,
    scale_shape,
)

AFFINE_DTYPES = tuple(d for d in QUANT_DTYPES if d != "binary")
MATMUL_DTYPES = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "binary")

finite_floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
any_floats = st.floats(width=32)
scales = st.floats(2.0**-60, 2.0**60, width=32)  # products with any code are normal float32


def float_arrays(shape: Any = None, elements: st.SearchStrategy[float] = finite_floats) -> st.SearchStrategy[np.ndarray]:
    shape = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=6) if shape is None else shape
    return hnp.arrays(np.float32, shape, elements=elements)


@st.composite
def granularities(draw: Any, shape: tuple[int, ...]) -> Granularity:
    if not shape:
        return PerTensor()
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return draw(st.sampled_from([PerTensor(), PerAxis(axis), PerBlock(axis, draw(st.integers(1, 4)))]))


@st.composite
def quant_params(
    draw: Any, shape: tuple[int, ...], dtypes: tuple[str, ...] = QUANT_DTYPES, granularity: Granularity | None = None
) -> QuantParams:
    d = dtype(draw(st.sampled_from(dtypes)))
    schemes = [s for s in SCHEMES if s != "logarithmic" or d.name in ("int4", "uint4", "int8")]
    if d.name in ("binary", "int32"):
        schemes.remove("asymmetric")
    scheme = draw(st.sampled_from(schemes))
    granularity = draw(granularities(shape)) if granularity is None else granularity
    s_shape = scale_shape(granularity, shape)
    scale = draw(hnp.arrays(np.float32, s_shape, elements=scales))
    fixed = 0 if scheme == "logarithmic" else middle(d)
    zero_point = draw(hnp.arrays(np.int64, s_shape, elements=st.integers(d.min, d.max))) if scheme == "asymmetric" else fixed
    return QuantParams(d, scale, zero_point, scheme, granularity)


@st.composite
def codes(draw: Any, shape: tuple[int, ...], params: QuantParams) -> np.ndarray:
    """Integers that quantizing with `params` can give, extremes often."""
    lo, hi = params.code_range
    elements = st.sampled_from([-1, 1]) if params.dtype.name == "binary" else st.one_of(st.integers(lo, hi), st.sampled_from([lo, hi]))
    return draw(hnp.arrays(params.dtype.numpy, shape, elements=elements))


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
