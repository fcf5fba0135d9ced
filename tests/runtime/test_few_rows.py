"""Linear layers of few rows, which are multiplied one by one: as exact as others, wherever their activations are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lowbit.ir.build import Builder
from lowbit.runtime.session import Session
from lowbit.types import TensorType


@pytest.mark.parametrize("x_zero", [-128, -120, 0, 90])
@pytest.mark.parametrize("spread", [1, 12, 30, 60, 255])
def test_few_rows_of_any_spread_are_exact(x_zero: int, spread: int) -> None:
    rng = np.random.default_rng(spread)
    n, k = 77, 205
    w: NDArray[np.int8] = rng.integers(-128, 128, (n, k)).astype(np.int8)
    b = Builder("few")
    x = b.input("x", TensorType((2, k), "int8"))
    m = b.constant(np.ones(n, np.float32), "m")
    attrs = {"x_zero": x_zero, "y_zero": 0, "lo": -128, "hi": 127, "to": "float32", "bound": 255 * 128 * k}
    session = Session(b.finish({"y": b.add("q_linear", x, b.constant(w, "w"), m, **attrs)}), threads=1)
    for _ in range(20):
        a = np.clip(x_zero + rng.integers(-spread, spread + 1, (2, k)), -128, 127).astype(np.int8)
        want = (a.astype(np.int64) - x_zero) @ w.T.astype(np.int64)
        assert np.array_equal(np.asarray(session(a)), want.astype(np.float32))
    assert session.backend == "native"
