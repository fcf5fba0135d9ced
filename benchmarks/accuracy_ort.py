"""ONNX Runtime's static quantization of a case, at its best of many settings: same calibration data, same test data."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_cases import Case, Sample
from numpy.typing import NDArray

METHODS = ("MinMax", "Entropy", "Percentile")
TYPES = {  # activations, weights, reduced range
    "u8s8": ("QUInt8", "QInt8", False),
    "u8u8": ("QUInt8", "QUInt8", False),
    "s8s8": ("QInt8", "QInt8", False),
    "u8s8-reduced": ("QUInt8", "QInt8", True),
}


@dataclass(frozen=True)
class Setting:
    method: str  # of METHODS, or dynamic
    types: str

    def __str__(self) -> str:
        return f"{self.method} {self.types}"


DYNAMIC = Setting("dynamic", "s8")  # ranges of activations are found at each run, weights are of signed bytes


def settings() -> Iterator[Setting]:
    for method in METHODS:
        for types in TYPES:
            yield Setting(method, types)


def session(model: bytes | str, threads: int = 1) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # spins while it runs, not while others do
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def outputs(model: bytes | str, samples: Iterable[Sample]) -> list[list[NDArray[Any]]]:
    s = session(model)
    return [s.run(None, dict(x)) for x in samples]


def quantized(case: Case) -> Iterator[tuple[Setting, list[list[NDArray[Any]]] | str]]:
    """For each setting the outputs on the test data, or the words with which ONNX Runtime gave up."""
    with tempfile.TemporaryDirectory() as work:
        for setting, path in files(case, settings(), Path(work)):
            try:
                yield setting, path if isinstance(path, str) else outputs(str(path), case.test)
            except Exception as e:
                yield setting, words(e)


def files(case: Case, wanted: Iterable[Setting], work: Path) -> Iterator[tuple[Setting, Path | str]]:
    """For each setting the quantized network's file in the folder, or the words with which ONNX Runtime gave up."""
    logging.disable(logging.WARNING)  # quantizers talk
    try:
        yield from _files(case, wanted, work)
    finally:
        logging.disable(logging.NOTSET)


def _files(case: Case, wanted: Iterable[Setting], work: Path) -> Iterator[tuple[Setting, Path | str]]:
    import onnx
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.samples = iter(case.calibration)

        def get_next(self) -> Sample | None:
            return next(self.samples, None)

    source, ready = work / "model.onnx", work / "ready.onnx"
    source.write_bytes(case.onnx)
    try:
        quant_pre_process(str(source), str(ready))
    except Exception:  # symbolic shape inference does not know every model; ONNX's own shape inference is the documented way out
        try:
            quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        except Exception:
            ready.write_bytes(source.read_bytes())
    if onnx.load(str(ready)).opset_import[0].version < 13:  # per-channel needs opset 13
        converted(source, ready, work)
    for setting in wanted:
        out = work / f"{setting.method}-{setting.types}.onnx"
        try:
            if setting == DYNAMIC:
                q.quantize_dynamic(str(ready), str(out), per_channel=True, weight_type=q.QuantType.QInt8)
                yield setting, out
                continue
            activations, weights, reduced = TYPES[setting.types]
            q.quantize_static(
                str(ready),
                str(out),
                Reader(),
                quant_format=q.QuantFormat.QDQ,
                per_channel=True,
                reduce_range=reduced,
                activation_type=q.QuantType[activations],
                weight_type=q.QuantType[weights],
                calibrate_method=q.CalibrationMethod[setting.method],
            )
            yield setting, out
        except Exception as e:
            yield setting, words(e)


def words(e: Exception) -> str:
    """Whatever a peer's tools raise, in one line."""
    return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def converted(source: Path, ready: Path, work: Path) -> None:
    """The model in opset 13. The converter wants constants among the inputs of old files, so it sees the file as it came."""
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    for path in (ready, source):
        try:
            newer = work / "opset13.onnx"
            onnx.save(onnx.version_converter.convert_version(onnx.load(str(path)), 13), str(newer))
            quant_pre_process(str(newer), str(ready), skip_symbolic_shape=True)
            return
        except Exception:
            continue


def finite(results: list[list[NDArray[Any]]]) -> bool:
    return all(bool(np.isfinite(y).all()) for row in results for y in row if y.dtype.kind == "f")
