"""Numbers that each test draws for itself: the same ones in whatever order and process it runs."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from lowbit.types import Array

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def numbers_of_a_test(request: pytest.FixtureRequest) -> None:
    global rng
    rng = np.random.default_rng(zlib.crc32(request.node.name.encode()))


def normal(*shape: int) -> Array:
    """Within ±2.5: the data are within the range that calibration saw."""
    return np.clip(rng.standard_normal(shape), -2.5, 2.5).astype(np.float32)
