"""Other engines on the same networks: quantized by their own tools as these recommend, and checked against what their files mean.

A peer's quantized network has a meaning: its Q/DQ brackets computed in floats, or its integers without overflow. How many dB its outputs
lose against that meaning (both measured against float32) is found when the file is made; beyond `ALLOWED` they are called not exact.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from models_cases import Case, Sample
from numpy.typing import NDArray

from lowbit.kernels import native

Run = Callable[[Sample], NDArray[Any]]
ALLOWED = 1.0  # dB: rounding that falls the other way here and there stays far below it, saturated sums do not


@dataclass(frozen=True)
class Peer:
    """An engine. `prepare` makes a variant's file and gives the outputs that it means (None: not known); `load` gives how to run it."""

    name: str
    package: str
    variants: Callable[[Case], tuple[str, ...]]
    prepare: Callable[[Case, str, Path], Callable[[], NDArray[Any]] | None]
    load: Callable[[Case, str, Path, int], Run]
    suffix: str

    @property
    def version(self) -> str | None:
        """None where it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def path(self, case: Case, variant: str) -> Path:
        """Of the CPU's instructions: what is calibrated by other kernels is another file."""
        return case.folder / f"{self.name}-{self.version}-{native.isas_on_this_cpu()[-1]}-{variant}{self.suffix}"


def lost_db(case: Case, got: NDArray[Any], meant: NDArray[Any]) -> float:
    """How much more noise the outputs have than their meaning has, both against float32."""
    reference = case.reference().astype(np.float64)
    noise, least = (float(np.square(y - reference).sum()) for y in (got, meant))
    floor = 1e-12 * float(np.square(reference).sum())  # float32's own rounding
    return 10 * float(np.log10((noise + floor) / (least + floor)))


def prepare(peer: Peer, case: Case, variant: str) -> dict[str, Any]:
    """The variant's file, made once, and the note beside it: `lost` dB, or `failed` with the peer's own words."""
    path = peer.path(case, variant)
    note = path.with_name(path.name + ".json")
    if not note.is_file():
        found: dict[str, Any] = {"lost": None}
        try:
            with quiet():
                meaning = peer.prepare(case, variant, path)
                run = peer.load(case, variant, path, 1)
                got = outputs(run, case)
                if variant == "fp32":
                    found["close"] = close(case, got)
                elif meaning is not None:
                    with contextlib.suppress(Exception):  # an op whose meaning cannot be computed here: not known
                        found["lost"] = lost_db(case, got, meaning())
        except Exception as e:  # whatever a peer's tools raise is its answer, not the end of the benchmark
            found = {"failed": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}
        note.write_text(json.dumps(found))
    read: dict[str, Any] = json.loads(note.read_text())
    return read


def outputs(run: Run, case: Case) -> NDArray[Any]:
    """On the test data; copies, for some engines give the same memory again."""
    return np.stack([np.array(run(s)) for s in case.test])


def close(case: Case, got: NDArray[Any]) -> bool:
    """Whether float outputs are PyTorch's within the rounding of float sums."""
    reference = case.reference()
    return bool(np.abs(got - reference).max() <= 1e-4 * np.abs(reference).max())


def exact(note: dict[str, Any], variant: str) -> bool | None:
    if variant == "fp32":
        return bool(note["close"])
    return None if note["lost"] is None else bool(note["lost"] <= ALLOWED)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Quantizers talk."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


# --- ONNX Runtime ---

ORT_TYPES = {"u8s8": ("QUInt8", "QInt8"), "u8u8": ("QUInt8", "QUInt8"), "s8s8": ("QInt8", "QInt8")}


def ort_variants(case: Case) -> tuple[str, ...]:
    return (*ORT_TYPES, *(("dynamic",) if case.rows else ()), "fp32")


def ort_prepare(case: Case, variant: str, path: Path) -> Callable[[], NDArray[Any]] | None:
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if variant == "fp32":
        path.write_bytes(case.onnx().read_bytes())
        return None

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.samples = iter(case.calibration)

        def get_next(self) -> Sample | None:
            return next(self.samples, None)

    with tempfile.TemporaryDirectory() as work:
        ready = Path(work) / "ready.onnx"
        try:
            quant_pre_process(str(case.onnx()), str(ready))
        except Exception:  # symbolic shape inference does not know every model; the documented way out
            quant_pre_process(str(case.onnx()), str(ready), skip_symbolic_shape=True)
        if variant == "dynamic":
            q.quantize_dynamic(str(ready), str(path), per_channel=True, weight_type=q.QuantType.QInt8)
            return lambda: without_overflow(path, case)
        activations, weights = ORT_TYPES[variant]
        q.quantize_static(
            str(ready),
            str(path),
            Reader(),
            quant_format=q.QuantFormat.QDQ,
            per_channel=True,
            activation_type=q.QuantType[activations],
            weight_type=q.QuantType[weights],
        )

    def fake() -> NDArray[Any]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # Q/DQ in floats, as it is written
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return np.stack([session.run(None, s)[0] for s in case.test])

    return fake


def without_overflow(path: Path, case: Case) -> NDArray[Any]:
    """The file with integer products in exact integers: by lowbit's interpreter."""
    import lowbit
    from lowbit.ir.interp import run

    graph = lowbit.load(path)
    return np.stack([next(iter(run(graph, s).values())) for s in case.test])


def ort_load(case: Case, variant: str, path: Path, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, threads, 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # spins while it runs, not while the others do
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(sample: Sample) -> NDArray[Any]:
        (y,) = session.run(None, sample)
        return y  # type: ignore[no-any-return]

    return run


# --- OpenVINO ---


def openvino_prepare(case: Case, variant: str, path: Path) -> Callable[[], NDArray[Any]] | None:
    import openvino as ov

    model = ov.convert_model(str(case.onnx()))
    if variant == "int8":
        import nncf

        transformer = case.name in ("minilm", "gpt")
        model = nncf.quantize(
            model,
            nncf.Dataset(case.calibration),
            subset_size=len(case.calibration),
            model_type=nncf.ModelType.TRANSFORMER if transformer else None,
        )
    ov.save_model(model, str(path), compress_to_fp16=False)
    if variant == "fp32":
        return None

    def fake() -> NDArray[Any]:
        run = openvino_load(case, variant, path, 1, {"LP_TRANSFORMS_MODE": "NO"})
        return outputs(run, case)

    return fake


def openvino_load(case: Case, variant: str, path: Path, threads: int, more: dict[str, Any] | None = None) -> Run:
    import openvino as ov

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    settings["ENABLE_CPU_PINNING"] = False
    request = ov.Core().compile_model(str(path), "CPU", settings | (more or {})).create_infer_request()

    def run(sample: Sample) -> NDArray[Any]:
        result = request.infer(sample, share_inputs=True, share_outputs=True)
        return result[0]  # type: ignore[no-any-return]

    return run


# --- PyTorch ---


def torch_prepare(case: Case, variant: str, path: Path) -> Callable[[], NDArray[Any]] | None:
    path.write_text("made when it is loaded\n")
    return (lambda: torch_meaning(case)) if variant == "dynamic" and case.name != "lstm" else None


def torch_load(case: Case, variant: str, path: Path, threads: int) -> Run:
    import torch

    torch.set_num_threads(threads)
    model = case.module()
    if variant == "dynamic":
        with quiet():
            model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear, torch.nn.LSTM}, torch.qint8)

    def run(sample: Sample) -> NDArray[Any]:
        with torch.inference_mode():
            return model(**{k: torch.from_numpy(v) for k, v in sample.items()}).numpy()  # type: ignore[no-any-return]

    return run


def torch_meaning(case: Case) -> NDArray[Any]:
    """Weights and activations of linear layers on their grids, multiplied in floats; recurrent layers have no such form here."""
    import torch

    with quiet():
        model = torch.ao.quantization.quantize_dynamic(case.module(), {torch.nn.Linear}, torch.qint8)

    class Fake(torch.nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.weight, self.bias = layer.weight().dequantize(), layer.bias()

        def forward(self, x: Any) -> Any:
            low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
            scale = (high - low) / 255 or 1.0
            zero = min(255, max(0, round(-low / scale)))
            x = torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)
            return torch.nn.functional.linear(x, self.weight, self.bias)

    for name, layer in list(model.named_modules()):
        if isinstance(layer, torch.ao.nn.quantized.dynamic.Linear):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, Fake(layer))
    with torch.inference_mode():
        return np.stack([model(**{k: torch.from_numpy(v) for k, v in s.items()}).numpy() for s in case.test])


# --- LiteRT ---
# Its converters need TensorFlow: networks are written for it (litert_writer.py), in int8 with lowbit's grids: both compute the same, but
# the result lies on a grid of 8 bits, too, as LiteRT wants it.

LITERT = ("dscnn", "mlp", "mlp-64", "resnet18", "mobilenetv2", "resnet50")  # whose operators litert_writer.py knows


def litert_prepare(case: Case, variant: str, path: Path) -> Callable[[], NDArray[Any]] | None:
    import models_cases
    from litert_writer import tflite

    import lowbit

    models_cases.prepare(case, variant, False)
    if variant == "fp32":
        path.write_bytes(tflite(lowbit.load(case.folder / f"lowbit-fp32-{models_cases.digest()}.lowbit")))
        return None
    graph = models_cases.graph_path(case, "int8", False)
    scale = np.float32(np.abs(case.reference()).max() / 127)
    path.write_bytes(tflite(lowbit.load(graph), (float(scale), 0)))
    expected = np.load(graph.with_suffix(".npy"))
    return lambda: np.clip(np.rint(expected / scale), -128, 127) * scale


def litert_load(case: Case, variant: str, path: Path, threads: int) -> Run:
    """With XNNPACK, which is its default. Images are given with their channels last, made so once."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=threads)
    interpreter.allocate_tensors()
    given, found = (details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details()))
    ready: dict[int, NDArray[Any]] = {}

    def run(sample: Sample) -> NDArray[Any]:
        (x,) = sample.values()
        if id(x) not in ready:
            ready.clear()
            ready[id(x)] = np.ascontiguousarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)
        interpreter.set_tensor(given, ready[id(x)])
        interpreter.invoke()
        return interpreter.get_tensor(found)  # type: ignore[no-any-return]

    return run


PEERS = {
    p.name: p
    for p in [
        Peer("ort", "onnxruntime", ort_variants, ort_prepare, ort_load, ".onnx"),
        Peer("openvino", "openvino", lambda c: ("int8", "fp32"), openvino_prepare, openvino_load, ".xml"),
        Peer("litert", "ai-edge-litert", lambda c: ("int8", "fp32") if c.name in LITERT else (), litert_prepare, litert_load, ".tflite"),
        Peer("torch", "torch", lambda c: ("dynamic", "fp32") if c.rows else ("fp32",), torch_prepare, torch_load, ".txt"),
    ]
}
