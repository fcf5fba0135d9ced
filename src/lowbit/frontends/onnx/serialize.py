"""ONNX files as plain Python values. The only file that knows protobuf.

Nothing is allocated by what a file merely declares: a tensor's size is checked against the bytes that are there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.dtypes import dtype
from lowbit.errors import DTypeError, FormatError
from lowbit.frontends.onnx.functions import check_functions
from lowbit.ir.graph import PREPROCESSING
from lowbit.limits import limits, over
from lowbit.types import Array

PROTOBUF_LIMIT = 2**31  # protobuf messages end here; larger models keep their weights in external data files


@dataclass(frozen=True)
class OnnxNode:
    """One node; `attrs` holds int, float, str, Array, OnnxGraph, or lists of these."""

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    index: int
    scopes: tuple[str, ...] = ()  # module path, outermost first, where the exporter recorded it
    own: bool = False  # an op of lowbit's, put here in place of what spelled it (own.py)

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)


@dataclass(frozen=True)
class OnnxValue:
    """A declared value: element type name and shape (int, name of a symbol, or None for unknown); None where nothing is declared."""

    name: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class OnnxGraph:
    name: str
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[OnnxValue, ...]
    outputs: tuple[OnnxValue, ...]
    initializers: dict[str, OnnxTensor]
    declared: dict[str, OnnxValue] = field(default_factory=dict)


@dataclass(frozen=True)
class OnnxTensor:
    """A constant: its element type by lowbit's name, and its data unpacked (int4 stands in int8)."""

    dtype: str
    data: Array


@dataclass(frozen=True)
class OnnxModel:
    graph: OnnxGraph
    opsets: dict[str, int]  # domain -> version; the default domain is ""
    source: str  # the name of this model in errors
    own: OwnNames | None = None  # of a file that lowbit wrote
    preprocessing: dict[str, str] = field(default_factory=dict)  # by input, as lowbit.data reads it


@dataclass(frozen=True)
class OwnGroup:
    """Nodes that spell one op of lowbit's, which ONNX lacks, with the op."""

    nodes: tuple[str, ...]  # by their first outputs
    results: tuple[str, ...]  # parameters that the op defines
    op: str
    inputs: tuple[str, ...]
    attrs: dict[str, Any]


@dataclass(frozen=True)
class OwnBits:
    """A MatMulNBits that was a linear layer and the dequantize of its weight."""

    output: str
    at: int  # how many nodes stood before the dequantize
    real: str
    layer: str
    inputs: tuple[str, ...]  # of the dequantize
    dtype: str


@dataclass(frozen=True)
class OwnNames:
    """lowbit's own names in a file that lowbit wrote, where ONNX has others."""

    names: dict[str, str]  # value in the file -> value in the graph
    layers: dict[str, str]  # node -> layer
    dtypes: dict[str, str]  # constant -> its element type, where ONNX has none
    linears: dict[str, str]  # output of a MatMul -> output of the Add after it, or "": together one linear layer
    groups: tuple[OwnGroup, ...]
    nbits: tuple[OwnBits, ...] = ()
    intact: bool = False  # whether the nodes are those that lowbit wrote: then the graph is as lowbit had it


_NAMES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "COMPLEX64": "complex64",
    "COMPLEX128": "complex128",
    "BOOL": "bool",
    **{f"{u}INT{b}": f"{u.lower()}int{b}" for u in ("", "U") for b in (4, 8, 16, 32, 64)},
}


def dtype_name(elem_type: int) -> str:
    """lowbit's name for ONNX's element type number."""
    from onnx import TensorProto

    name = TensorProto.DataType.Name(elem_type) if elem_type in TensorProto.DataType.values() else f"number {elem_type}"
    if name not in _NAMES:
        raise DTypeError(f"element type {name} is not supported", hint="one of " + ", ".join(_NAMES.values()))
    return _NAMES[name]


def read_model(path: str | Path) -> OnnxModel:
    """The model in a file; FormatError when it is not one, is truncated, or refers to files outside its folder."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size >= PROTOBUF_LIMIT:
            raise FormatError(f"{size:,} bytes: a protobuf file ends at 2 GiB", where=path.name, hint="save the weights as external data")
        data = path.read_bytes()
    except OSError as e:
        raise FormatError(f"cannot be read ({e.strerror or e})", where=str(path)) from e
    return parse_model(data, path.name, path.parent)


def parse_model(data: bytes, source: str, folder: Path | None = None) -> OnnxModel:
    """The model in these bytes. External data is looked for in `folder`."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, RecursionError) as e:
        raise FormatError(f"not an ONNX model ({e})", where=source, hint="is the file complete? lowbit.load reads .onnx and .lowbit") from e
    if not proto.HasField("graph") or not proto.opset_import:
        raise FormatError("not an ONNX model: it has no graph or no opset", where=source, hint="is the file complete?")
    if proto.functions:
        from onnx import inliner

        check_functions(proto, source)
        try:
            proto = inliner.inline_local_functions(proto)
        except (RuntimeError, ValueError) as e:  # the errors of ONNX's C++, also for names that are not UTF-8
            raise FormatError(f"the functions in it cannot be inlined ({e})", where=source, hint="is the file complete?") from e
    opsets = {_domain(o): o.version for o in proto.opset_import}
    return OnnxModel(_Reader(source, folder).graph(proto.graph), opsets, source, _own(proto), _preprocessing(proto))


def _text(x: str | bytes) -> str:
    """A name; protobuf gives bytes for one that is not UTF-8."""
    return x if isinstance(x, str) else x.decode("utf-8", "replace")


def _domain(x: Any) -> str:
    return "" if x.domain == "ai.onnx" else _text(x.domain)


def _preprocessing(proto: Any) -> dict[str, str]:
    """How pictures or sounds become the inputs, as lowbit stores it beside a network."""
    prefix = f"lowbit.{PREPROCESSING}"
    return {_text(p.key).removeprefix(prefix): _text(p.value) for p in proto.metadata_props if _text(p.key).startswith(prefix)}


def _own(proto: Any) -> OwnNames | None:
    """lowbit's metadata; None when there are none or they are not what lowbit writes."""
    text = next((p.value for p in proto.metadata_props if p.key == "lowbit"), None)
    try:
        found = json.loads(text) if text is not None else None
        if not isinstance(found, dict):
            return None
        maps = ({str(k): str(v) for k, v in found[key].items()} for key in ("names", "layers", "dtypes", "linears"))
        names, layers, dtypes, linears = maps
        bits = tuple(
            OwnBits(str(k), int(b["at"]), str(b["real"]), str(b["layer"]), tuple(map(str, b["inputs"])), str(b["dtype"]))
            for k, b in sorted(found.get("nbits", {}).items(), key=lambda kb: int(kb[1].get("rank", 0)))  # of those at one place
        )
        intact = group_digest(proto.graph.node, ()) == found.get("nodes")
        return OwnNames(names, layers, dtypes, linears, _intact_groups(proto.graph, found["groups"]), bits, intact)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _intact_groups(graph: Any, groups: list[dict[str, Any]]) -> tuple[OwnGroup, ...]:
    """The groups whose nodes and constants are byte for byte those that were written: another program may have changed the others."""
    nodes = {o: n for n in graph.node for o in n.output}
    tensors = {t.name: t for t in graph.initializer}
    intact = []
    for g in groups:
        outputs, constants = [str(o) for o in g["outputs"]], [str(c) for c in g["constants"]]
        there = bool(outputs) and all(o in nodes for o in outputs) and all(c in tensors for c in constants)
        if there and group_digest([nodes[o] for o in outputs], [tensors[c] for c in constants]) == g["digest"]:
            inputs, results = (tuple(map(str, g[key])) for key in ("inputs", "results"))
            intact.append(OwnGroup(tuple(outputs), results, str(g["op"]), inputs, dict(g["attrs"])))
    return tuple(intact)


def group_digest(nodes: Iterable[Any], tensors: Iterable[Any]) -> str:
    """A name for the bytes of these protobuf messages."""
    total = hashlib.sha256()
    for message in (*nodes, *tensors):
        total.update(hashlib.sha256(message.SerializeToString(deterministic=True)).digest())
    return total.hexdigest()[:32]


def shortest(x: Any) -> float:
    """The float that a float32 was written from: of the decimals that round to it, the shortest. 1e-5 stays 1e-05."""
    return float(str(np.float32(x)))


def number_of(x: Array) -> float | int | bool:
    """The first element as a Python number; bfloat16 and float8 by way of float."""
    v = x.reshape(-1)[0]
    if x.dtype == np.float32:
        return shortest(v)
    return v.item() if x.dtype.kind in "iufb" else float(v)


class _Reader:
    """Turns protobuf messages into the values above."""

    def __init__(self, source: str, folder: Path | None) -> None:
        self.source = source
        self.folder = folder

    def graph(self, g: Any) -> OnnxGraph:
        named = [(_text(t.name), self.tensor(t)) for t in g.initializer]
        named += [(_text(t.values.name), self.sparse(t)) for t in g.sparse_initializer]
        initializers = dict(named)
        if len(initializers) < len(named):
            (twice, _), *_ = Counter(name for name, _ in named).most_common(1)
            raise FormatError(f"initializer '{twice}' is there twice", where=self.source)
        inputs, outputs, inner = (tuple(map(self.value, values)) for values in (g.input, g.output, g.value_info))
        for v in inputs:
            if v.name in initializers:
                self.check_default(v, initializers[v.name])
        inputs = tuple(v for v in inputs if v.name not in initializers)
        declared = {v.name: v for v in inner}
        nodes = tuple(self.node(n, i) for i, n in enumerate(g.node))
        return OnnxGraph(_text(g.name), nodes, inputs, outputs, initializers, declared)

    def check_default(self, v: OnnxValue, t: OnnxTensor) -> None:
        """A FormatError when an initializer is not what the input of its name is declared to be."""
        fits = v.shape is None or (
            len(v.shape) == t.data.ndim and all(not isinstance(d, int) or d == n for d, n in zip(v.shape, t.data.shape, strict=True))
        )
        if not fits or v.dtype not in (None, t.dtype):
            declared = f"{v.dtype}{'' if v.shape is None else list(v.shape)}"
            raise FormatError(
                f"it is {t.dtype}{list(t.data.shape)}, the input is {declared}", where=f"{self.source}, initializer '{v.name}'"
            )

    def node(self, n: Any, index: int) -> OnnxNode:
        attrs = {_text(a.name): self.attribute(a, n) for a in n.attribute}
        meta = {_text(p.key): _text(p.value) for p in n.metadata_props}
        inputs, outputs = (tuple(map(_text, names)) for names in (n.input, n.output))
        return OnnxNode(_text(n.op_type), _domain(n), _text(n.name), inputs, outputs, attrs, index, _scopes(meta))

    def value(self, v: Any) -> OnnxValue:
        if not v.type.HasField("tensor_type"):
            return OnnxValue(_text(v.name), None, None)
        t = v.type.tensor_type
        name = dtype_name(t.elem_type) if t.elem_type else None
        if not t.HasField("shape"):
            return OnnxValue(_text(v.name), name, None)
        # some exporters write -1 for a size that is not known
        dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else _text(d.dim_param) or None for d in t.shape.dim)
        return OnnxValue(_text(v.name), name, dims)

    def attribute(self, a: Any, node: Any) -> Any:
        from onnx import AttributeProto as A

        match a.type:
            case A.FLOAT:
                return shortest(a.f)
            case A.INT:
                return int(a.i)
            case A.STRING:
                return a.s.decode("utf-8", "replace")
            case A.FLOATS:
                return [shortest(x) for x in a.floats]
            case A.INTS:
                return [int(x) for x in a.ints]
            case A.STRINGS:
                return [s.decode("utf-8", "replace") for s in a.strings]
            case A.TENSOR:
                return self.tensor(a.t)
            case A.GRAPH:
                return self.graph(a.g)
            case A.GRAPHS:
                return [self.graph(g) for g in a.graphs]
            case A.SPARSE_TENSOR:
                return self.sparse(a.sparse_tensor)
        kind = A.AttributeType.Name(a.type) if a.type in A.AttributeType.values() else a.type
        raise FormatError(f"attribute '{a.name}' of kind {kind} is not supported", where=f"{self.source}, {node.op_type} '{node.name}'")

    def tensor(self, t: Any) -> OnnxTensor:
        from onnx import TensorProto, numpy_helper

        where = f"{self.source}, tensor '{t.name}'"
        try:
            d = dtype(dtype_name(t.data_type))
        except DTypeError as e:
            raise e.at(where) from None
        shape = tuple(t.dims)
        if any(n < 0 for n in shape):
            raise FormatError(f"shape {shape} has a negative dimension", where=where)
        count = math.prod(shape)
        if t.data_location == TensorProto.EXTERNAL:
            return OnnxTensor(d.name, _unpack(self.external(t, where, d.nbytes(count)), d.name, count).reshape(shape))
        if t.HasField("raw_data"):
            if len(t.raw_data) != d.nbytes(count):
                raise FormatError(f"{len(t.raw_data):,} bytes of data, {d}{list(shape)} needs {d.nbytes(count):,}", where=where)
            return OnnxTensor(d.name, _unpack(t.raw_data, d.name, count).reshape(shape))
        present = max(len(f) for f in (t.float_data, t.int32_data, t.int64_data, t.double_data, t.uint64_data))
        elements = present * 8 // d.bits if d.bits < 8 else present // 2 if d.kind == "complex" else present
        if not count <= elements < count + 8:  # packed formats may round up
            raise FormatError(f"{elements:,} elements of data, {d}{list(shape)} needs {count:,}", where=where)
        try:
            return OnnxTensor(d.name, numpy_helper.to_array(t).astype(d.numpy).reshape(shape))
        except ValueError as e:
            raise FormatError(f"its data are not in the field for {d} ({e})", where=where) from e

    def external(self, t: Any, where: str, need: int) -> bytes:
        """The bytes of a tensor in its own file, which must lie inside the model's folder."""
        info = {e.key: e.value for e in t.external_data}
        if self.folder is None:
            raise FormatError("its data is in another file, and the model was not loaded from a folder", where=where)
        root = self.folder.resolve()
        try:
            file = (root / info.get("location", "")).resolve()
            regular = file.is_file() or not file.exists()
        except (OSError, ValueError, RuntimeError) as e:  # a NUL in it, a loop of links
            raise FormatError(f"external data {info['location']!r} is no path ({e})", where=where) from e
        if not regular:  # a pipe would be waited for
            raise FormatError(f"external data '{info.get('location')}' is not a regular file", where=where, hint="copy it beside the model")
        if not file.is_relative_to(root):
            raise FormatError(
                f"external data '{info.get('location')}' lies outside the model's folder", where=where, hint="keep it beside the model"
            )
        try:
            offset, length = int(info.get("offset", 0)), int(info.get("length", need))
            if offset < 0 or length != need:
                raise FormatError(f"external data of {length:,} bytes at {offset:,}, its shape needs {need:,}", where=where)
            with file.open("rb") as f:
                f.seek(offset)
                data = f.read(need) if offset + need <= file.stat().st_size else b""
        except (OSError, ValueError) as e:
            raise FormatError(
                f"external data '{info.get('location')}' cannot be read ({e})", where=where, hint="copy it beside the model"
            ) from e
        if len(data) != need:
            raise FormatError(f"external data '{file.name}' ends before byte {offset + need:,}", where=where, hint="is the file complete?")
        return data

    def sparse(self, t: Any) -> OnnxTensor:
        values, indices = self.tensor(t.values), self.tensor(t.indices).data
        where = f"{self.source}, sparse tensor '{t.values.name}'"
        shape = tuple(t.dims)
        if any(n < 0 for n in shape):
            raise FormatError(f"shape {shape} has a negative dimension", where=where)
        dense_bytes = math.prod(shape) * values.data.dtype.itemsize
        if dense_bytes > limits().folded_bytes:
            raise over("folded_bytes", dense_bytes, f"bytes of a sparse tensor of shape {shape} that is made dense", where)
        dense = np.zeros(shape, values.data.dtype)
        try:
            where_to = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
            dense.reshape(-1)[where_to] = values.data
        except (IndexError, ValueError) as e:
            raise FormatError(f"indices do not fit shape {shape}", where=where) from e
        return OnnxTensor(values.dtype, dense)


def _unpack(raw: bytes, name: str, count: int) -> Array:
    d = dtype(name)
    if d.bits >= 8:
        return np.frombuffer(raw, dtype=d.numpy.newbyteorder("<") if d.bits > 8 and d.numpy.kind in "fiuc" else d.numpy).astype(
            d.numpy, copy=False
        )
    packed = np.frombuffer(raw, dtype=np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count]
    return ((nibbles.astype(np.int8) ^ 8) - 8).astype(np.int8) if d.is_signed else nibbles


def _scopes(meta: dict[str, str]) -> tuple[str, ...]:
    """Module path that PyTorch's exporter records with each node: ["", "layer1", "layer1.0", "layer1.0.conv1", "conv2d"]."""
    try:
        scopes = json.loads(meta.get("pkg.torch.onnx.name_scopes", "[]").replace("'", '"'))
    except (ValueError, TypeError, RecursionError):  # bytes that are no text, or no list
        return ()
    return tuple(s for s in scopes if isinstance(s, str)) if isinstance(scopes, list) else ()


def subgraphs(node: OnnxNode) -> Iterator[OnnxGraph]:
    for a in node.attrs.values():
        if isinstance(a, OnnxGraph):
            yield a
        elif isinstance(a, list):
            yield from (g for g in a if isinstance(g, OnnxGraph))


_KINDS: dict[str, tuple[Any, Any]] = {  # ONNX's kind of attribute -> our type, and that of the elements of a list
    "INT": (int, None),
    "FLOAT": (float, None),
    "STRING": (str, None),
    "TENSOR": (OnnxTensor, None),
    "GRAPH": (OnnxGraph, None),
    "INTS": (list, int),
    "FLOATS": (list, float),
    "STRINGS": (list, str),
}


def check_attributes(node: OnnxNode, opset: int) -> None:
    """A FormatError when an attribute that ONNX requires is missing or one is of another kind, so that no function of an op need ask."""
    from onnx import defs

    try:
        schema = defs.get_schema(node.op_type, opset, node.domain)
    except defs.SchemaError:
        return  # not an op of ONNX itself
    for name, a in schema.attributes.items():
        if name not in node.attrs:
            if a.required:
                raise FormatError(f"attribute '{name}' is missing")
            continue
        wanted = str(a.type).rpartition(".")[2]
        kind, element = _KINDS.get(wanted, (object, None))
        value = node.attrs[name]
        if not isinstance(value, kind) or (element is not None and not all(isinstance(v, element) for v in value)):
            raise FormatError(f"attribute '{name}' is not of the kind that is needed: {wanted}")
