"""export_onnx: a file that is checked, run and compared before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

from lowbit.arguments import flag, shown, whole
from lowbit.arguments import path as needed
from lowbit.errors import FormatError, InputError
from lowbit.export.onnx.check import Agreement, check_bytes, check_recurrences
from lowbit.export.onnx.saturation import Safe, safe_weights
from lowbit.export.onnx.writer import Writer
from lowbit.files import check_target, write_whole
from lowbit.ir.graph import Graph, need_graph

RECURRENCES = ("float", "integer")
LIMIT = 2**31 - 2**20  # a protobuf file ends at 2 GiB; the graph itself needs some of that


@dataclass(frozen=True)
class ExportReport:
    """The written file, and the checks that it passed.

    `agreement` is None where the file was not run (`ran` says why); else it compares it with lowbit's interpreter on random inputs.
    `safe_layers` are those whose weights were written in another form, as `safe` says.
    """

    path: str
    opset: int
    ir_version: int
    nodes: int
    bytes: int
    checked: bool
    ran: str
    agreement: Agreement | None
    safe: Safe = True
    safe_layers: tuple[str, ...] = ()

    @property
    def safety(self) -> str:
        """What was done so that no CPU saturates; "" where nothing was needed or asked for."""
        if not self.safe_layers:
            return ""
        how = "weights as uint8: the same results on every CPU" if self.safe is True else "channels with weights of 7 bits"
        shown = ", ".join(self.safe_layers[:4]) + (f" and {len(self.safe_layers) - 4} more" if len(self.safe_layers) > 4 else "")
        return f"{how} ({shown}), so that u8·s8 products do not saturate on CPUs without VNNI"

    def to_json(self) -> dict[str, Any]:
        agreement = None if self.agreement is None else self.agreement.to_json()
        return {**self.__dict__, "agreement": agreement}


def export_onnx(
    graph: Graph,
    path: str | PathLike[str],
    *,
    check: bool = True,
    opset: int | None = None,
    matmul_nbits: bool = False,
    recurrences: str = "float",
    safe: Safe = True,
) -> ExportReport:
    """Writes the graph, float or with Q/DQ, as standard ONNX; the same graph gives the same bytes.

    check         validates the file with onnx.checker and, where ONNX Runtime is installed, runs it and compares; nothing is written if
                  that fails
    opset         17 to 23; the least that can say the graph if it is left out
    matmul_nbits  linear layers with four-bit blocks as MatMulNBits of ONNX Runtime, not as DequantizeLinear
    recurrences   "float": LSTM and GRU as ONNX's ops, which compute in float between integers; "integer": by their integer arithmetic, as
                  Scan, so that the file gives lowbit's bytes (slower, and not read back)
    safe          True: layers whose sums ONNX Runtime would saturate on CPUs without VNNI get their weights as uint8: the same results on
                  every CPU, slower where there is VNNI. "7-bit": their output channels get weights of 7 bits: fast on every CPU, but other
                  weights. False: neither

    >>> import lowbit, numpy as np
    >>> g = lowbit.Workload("linear", (4, 3)).graph()  # or lowbit.load("model.onnx")
    >>> x = np.ones((2, 4), np.float32)
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.int8.onnx"
    ...     done = lowbit.export_onnx(lowbit.quantize(g, [{"x": x}], guard=False), path)
    ...     done.opset, [n.op for n in lowbit.load(path).nodes][:2]
    (17, ['quantize_linear', 'dequantize_linear'])
    """
    need_graph(graph, "export_onnx")
    if safe not in (True, False, "7-bit"):
        raise InputError(f"safe={shown(safe)} does not exist", hint='True, False or "7-bit"')
    for name, value in (("check", check), ("matmul_nbits", matmul_nbits)):
        flag(name, value)
    if opset is not None:
        whole("opset", opset, 1, 1000)
    known_recurrences(recurrences)
    target = needed(path)
    if target.suffix != ".onnx":
        raise FormatError(f"files of kind '{target.suffix}' are not written", where=target.name, hint="a name that ends in .onnx")
    check_target(target)
    weights = sum(c.value.type.nbytes for c in graph.constants.values())
    if weights > LIMIT:
        raise FormatError(
            f"{weights:,} bytes of constants, an ONNX file holds {LIMIT:,}",
            where=target.name,
            hint="quantize it (int8 is a quarter), or save it as .lowbit, which has no limit",
        )
    made = safe_weights(graph, safe)
    graph = made.graph
    model = Writer(graph, opset, matmul_nbits, recurrences).model()
    data = model.SerializeToString(deterministic=True)
    ran, agreement = "not asked for", None
    if check:
        if recurrences == "integer":
            check_recurrences(graph, partial(onnx_bytes, opset=opset, matmul_nbits=matmul_nbits, recurrences=recurrences))
        ran, agreement = check_bytes(graph, data, integers=recurrences == "integer")
    write_whole(target, data)
    version = next(o.version for o in model.opset_import if not o.domain)
    count = len(model.graph.node)
    return ExportReport(str(target), version, model.ir_version, count, len(data), check, ran, agreement, safe, made.layers)


def known_recurrences(value: object) -> None:
    if not isinstance(value, str) or value not in RECURRENCES:
        raise InputError(f"recurrences={shown(value)} does not exist", hint="one of " + ", ".join(RECURRENCES))


def onnx_bytes(graph: Graph, *, opset: int | None = None, matmul_nbits: bool = False, recurrences: str = "float") -> bytes:
    """The bytes of the file that `export_onnx` would write, not checked."""
    known_recurrences(recurrences)
    data: bytes = Writer(graph, opset, matmul_nbits, recurrences).model().SerializeToString(deterministic=True)
    return data
