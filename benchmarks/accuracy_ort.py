"""ONNX Runtime's static quantization of a case, at its best of many settings: same calibration data, same test data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_cases import Case, Sample
from numpy.typing import NDArray

from lowbit.report import onnxruntime_int8
from lowbit.report.onnxruntime_int8 import Setting, quantized_files, session, settings, words

SOURCE = Path(onnxruntime_int8.__file__)  # of which kept results depend


def outputs(model: bytes | str, samples: Iterable[Sample]) -> list[list[NDArray[Any]]]:
    s = session(model)
    return [s.run(None, dict(x)) for x in samples]


def files(case: Case, wanted: Iterable[Setting], work: Path) -> Iterator[tuple[Setting, Path | str]]:
    return quantized_files(case.onnx, case.calibration, wanted, work)


def quantized(case: Case) -> Iterator[tuple[Setting, list[list[NDArray[Any]]] | str]]:
    """For each setting the outputs on the test data, or the words with which ONNX Runtime gave up."""
    with tempfile.TemporaryDirectory() as work:
        for setting, path in files(case, settings(), Path(work)):
            try:
                yield setting, path if isinstance(path, str) else outputs(str(path), case.test)
            except Exception as e:
                yield setting, words(e)


def finite(results: list[list[NDArray[Any]]]) -> bool:
    return all(bool(np.isfinite(y).all()) for row in results for y in row if y.dtype.kind == "f")
