"""A fixture for modules that search: every time is measured once, since no test there is about how well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowbit.runtime import timing


@pytest.fixture(scope="module", autouse=True)
def quick_timing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "SECONDS", 0.0)
        patch.setattr(timing, "RUNS", 1)
        yield
