"""ONNX Runtime as a peer: its session with the calls of a lowbit Session, and the int8 networks that its own tools make of a float one.

`lowbit bench --against ort` and the benchmarks compare with these. The calibration data are the same as lowbit's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowbit.types import Array

Sample = Mapping[str, Array]
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

    @property
    def name(self) -> str:
        """u8s8, u8u8, s8s8 or dynamic."""
        return "dynamic" if self == DYNAMIC else self.types


DYNAMIC = Setting("dynamic", "s8")  # ranges of activations are found at each run, weights are of signed bytes
DEFAULTS = (*(Setting("MinMax", types) for types in ("u8s8", "u8u8", "s8s8")), DYNAMIC)


def settings() -> Iterator[Setting]:
    """Every static setting."""
    for method in METHODS:
        for types in TYPES:
            yield Setting(method, types)


def session(model: bytes | str, threads: int = 1, exact_int8: bool = False) -> Any:
    """An ONNX Runtime session. By default it makes uint8 of int8 activations, for faster kernels; `exact_int8` keeps them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # spins while it runs, not while others do
    if exact_int8:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OrtSession:
    """An ONNX Runtime session that is called as a lowbit Session is: metrics take either."""

    def __init__(self, model: bytes | str, outputs: Sequence[str], threads: int = 1, exact_int8: bool = False) -> None:
        self._session = session(model, threads, exact_int8)
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._outputs = list(outputs)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(self._outputs, self._session.run(self._outputs, dict(inputs)), strict=True))

    def __call__(self, *arrays: Array) -> Array | tuple[Array, ...]:
        made = tuple(self.run(dict(zip(self._inputs, arrays, strict=True))).values())
        return made[0] if len(made) == 1 else made


def quantized_files(
    onnx: bytes, calibration: Iterable[Sample], wanted: Iterable[Setting], work: Path
) -> Iterator[tuple[Setting, Path | str]]:
    """For each setting the quantized network's file in the folder, or the words with which ONNX Runtime gave up."""
    samples = list(calibration)
    logging.disable(logging.WARNING)  # quantizers talk
    try:
        yield from _files(onnx, samples, wanted, work)
    finally:
        logging.disable(logging.NOTSET)


def _files(model: bytes, calibration: Sequence[Sample], wanted: Iterable[Setting], work: Path) -> Iterator[tuple[Setting, Path | str]]:
    import onnx
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.samples = iter(calibration)

        def get_next(self) -> Sample | None:
            return next(self.samples, None)

    source, ready = work / "model.onnx", work / "ready.onnx"
    source.write_bytes(model)
    try:
        quant_pre_process(str(source), str(ready))
    except Exception:  # symbolic shape inference does not know every model; ONNX's own shape inference is the documented way out
        try:
            quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        except Exception:
            ready.write_bytes(source.read_bytes())
    if onnx.load(str(ready)).opset_import[0].version < 13:  # per-channel needs opset 13
        _converted(source, ready, work)
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


def _converted(source: Path, ready: Path, work: Path) -> None:
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
