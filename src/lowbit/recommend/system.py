"""QuantizationSystem: the backend as one object, a thin front over arrays, observers, hardware, tuning and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from lowbit.arguments import is_whole, shown
from lowbit.calibration import calibrate_from_samples
from lowbit.errors import InputError, LowbitError, QuantError
from lowbit.hardware import Hardware
from lowbit.hardware.hints import Hints
from lowbit.ir.graph import Graph
from lowbit.qarray import QArray, quantize_array, zeros
from lowbit.quant_params import QuantParams, Scheme
from lowbit.recommend.ops import OpRow, bench_ops
from lowbit.recommend.tune import Recommendation, Tuning, auto_tune
from lowbit.recommend.workload import Workload


class QuantizationSystem:
    """Quantized arrays, products, calibration, tuning and advice for one device.

    >>> system = QuantizationSystem("cpu")
    >>> q = system.quantize([[0.5, -1.0]], "int8")
    >>> system.dequantize(q).tolist(), system.qmatmul(q, q.T).tolist()
    ([[0.5, -1.0]], [[1.25]])
    """

    def __init__(self, device: str | Hardware = "cpu") -> None:
        """device: "cpu", "cuda" (tensors then live there), or a Hardware that was detected elsewhere."""
        if isinstance(device, Hardware):
            self.device, self.hardware = "cpu", device
        elif isinstance(device, str) and device.split(":")[0] in ("cpu", "cuda"):
            self.device, self.hardware = device, Hardware.detect(gpu=device != "cpu")
            if device != "cpu" and not self.hardware.gpus:
                raise LowbitError(f"there is no GPU for device {device!r} ({self.hardware.gpu_note})", hint='QuantizationSystem("cpu")')
        else:
            raise InputError(f"device={shown(device)} does not exist", hint='QuantizationSystem("cpu") or QuantizationSystem("cuda")')

    def __repr__(self) -> str:
        return f"QuantizationSystem({self.device!r}: {self.hardware.cpu or self.hardware.arch}, {', '.join(self.hardware_features)})"

    @property
    def hardware_features(self) -> tuple[str, ...]:
        """Instruction sets that kernels of this build use here, best last; of a GPU what it can multiply."""
        if self.device != "cpu":
            return tuple(f for gpu in self.hardware.gpus or () for f in gpu.features)
        return tuple(self.hardware.isas_on_this_cpu)

    def quantize(
        self, x: Any, dtype: str = "int8", scale: ArrayLike | None = None, zero_point: ArrayLike | None = None, **options: Any
    ) -> Any:
        """`x` in few bits: a QArray, on a GPU a QTensor there. Options are those of `lowbit.quantize_array`."""
        if self.device == "cpu":
            return quantize_array(x, dtype, scale=scale, zero_point=zero_point, **options)
        import torch

        from lowbit.torch.qtensor import quantize

        return quantize(torch.as_tensor(x).to(self.device), dtype, scale=scale, zero_point=zero_point, **options)

    def dequantize(self, q: Any) -> Any:
        """The float32 numbers that it stands for."""
        if not hasattr(q, "dequantize"):
            raise InputError(f"{shown(q)} given, a quantized array is needed", hint="system.quantize(x, 'int8')")
        return q.dequantize()

    def qmatmul(self, a: Any, b: Any) -> Any:
        """The product of two quantized arrays, in integers; floats are quantized to int8 first. The result is float32."""
        sides = [x if hasattr(x, "quant_params") else self.quantize(x, "int8") for x in (a, b)]
        for name, x in zip("ab", sides, strict=True):
            if len(x.shape) == 0:
                raise QuantError(f"{name} is one number, a matrix is needed", where="qmatmul", hint="system.qmatmul(a, b), with axes")
        return sides[0] @ sides[1]

    def calibrate_from_samples(
        self, samples: Iterable[ArrayLike], dtype: str = "int8", method: Any = "minmax", *, scheme: Scheme | None = None, **options: Any
    ) -> QuantParams:
        """Parameters for arrays like the samples: `lowbit.calibrate_from_samples`."""
        return calibrate_from_samples(samples, dtype, method, scheme=scheme, **options)

    def create_quantized_tensor(self, given: Any, dtype: str | None = None, params: QuantParams | None = None) -> QArray | Any:
        """A quantized tensor: of data (an array, lists) by its range or `params`; of a shape, zeros.

        >>> QuantizationSystem().create_quantized_tensor((2, 3), "int4").shape
        (2, 3)
        """
        is_shape = is_whole(given) or (isinstance(given, tuple) and all(map(is_whole, given)))
        if is_shape:
            made = zeros(given, dtype, params)
        else:
            made = quantize_array(given, dtype or (None if params is not None else "int8"), params=params)
        if self.device == "cpu":
            return made
        from lowbit.torch.qtensor import QTensor

        return QTensor.from_qarray(made, self.device)

    def auto_tune(self, workload: Workload | Graph, data: Iterable[Any] | None = None) -> Tuning:
        """What was chosen, what was tried, what each gave: `lowbit.auto_tune`."""
        return auto_tune(workload, data)

    def get_recommendations(self, workload: Workload | Graph, data: Iterable[Any] | None = None) -> tuple[Recommendation, ...]:
        """dtype, scheme, granularity, block size and threads for a workload, each with the measurement behind it."""
        return auto_tune(workload, data).recommendations()

    def benchmark_operations(self, ops: Sequence[str] | None = None, **options: Any) -> list[OpRow]:
        """Times of quantize, dequantize, matmul, linear and conv by dtype and size: `lowbit.bench_ops`."""
        return bench_ops(ops, **options)

    def performance_hints(self, seconds: float = 0.3) -> Hints:
        """What this machine prefers, from its facts and a measurement of so many seconds; 0: from the facts alone."""
        return self.hardware.hints(self.hardware.measure(seconds) if seconds else None)

    def optimal_block_size(self, seconds: float = 0.3) -> int:
        """The block size that this machine multiplies fastest by."""
        return self.performance_hints(seconds).block_size.value
