"""State dicts with quantized tensors as safetensors files: plain tensors and JSON, no pickle.

A QTensor `w` is stored as `w:ints`, `w:scale` and `w:zero_point`; what else a state holds (modes, parameters, the graph's text) is JSON in
the metadata, with the tensors in it stored beside the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lowbit.arguments import path as needed
from lowbit.errors import FormatError, InputError
from lowbit.files import write_whole
from lowbit.torch.params import Layout
from lowbit.torch.qtensor import QTensor

VERSION = 1
PARTS = ("ints", "scale", "zero_point")


def save_safetensors(state: nn.Module | Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Writes a module's state (or a state dict) with its quantized tensors. The old file stays whole until the new one is.

    >>> import tempfile
    >>> from pathlib import Path
    >>> model = quantize_(nn.Sequential(nn.Linear(4, 3)).eval(), "int8-dynamic")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_safetensors(model.state_dict(), Path(folder) / "m.safetensors")
    ...     sorted(load_safetensors(Path(folder) / "m.safetensors"))
    ['0._extra_state', '0.bias', '0.weight']
    """
    from safetensors.torch import save

    whole = state.state_dict() if isinstance(state, nn.Module) else state
    if not isinstance(whole, Mapping):
        raise InputError(f"{type(state).__name__} given, a module or a state dict is needed", where="save_safetensors")
    file = _File()
    described = {key: file.described(value, key) for key, value in whole.items()}
    write_whole(path, save(file.tensors, {"lowbit": json.dumps({"version": VERSION, "state": described}, sort_keys=True)}))


def load_safetensors(path: str | PathLike[str]) -> dict[str, Any]:
    """The state that `save_safetensors` wrote: for `load_state_dict`, or `restore_(model, state)` on a float model.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_safetensors({"w": torch.ones(2)}, Path(folder) / "m.safetensors")
    ...     load_safetensors(Path(folder) / "m.safetensors")["w"].tolist()
    [1.0, 1.0]
    """
    from safetensors import SafetensorError, safe_open

    path = needed(path)
    try:
        with safe_open(path, "pt") as f:
            tensors = {key: f.get_tensor(key) for key in f.keys()}  # noqa: SIM118 - it is no dict
            meta = json.loads((f.metadata() or {}).get("lowbit", "null"))
        if not isinstance(meta, dict) or meta.get("version") != VERSION:
            raise FormatError(f"not a state of version {VERSION}", where=Path(path).name, hint="lowbit.torch.save_safetensors(model, path)")
        return {key: _made(row, tensors) for key, row in meta["state"].items()}
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as e:
        raise FormatError(f"not a state of quantized tensors ({e})", where=Path(path).name) from e


class _File:
    """Tensors by the names that they have in the file. One that several keys hold, a table that is also a head's weight, is there once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._seen: dict[Any, str] = {}

    def described(self, value: Any, key: str) -> Any:
        """The value as JSON; its tensors go into the file and are named in it."""
        if isinstance(value, QTensor):
            parts = (value._data, value._scale, value._zero_point)
            key = self._seen.setdefault(tuple(map(place, parts)), key)
            self.tensors |= {f"{key}:{part}": t.detach().contiguous().clone() for part, t in zip(PARTS, parts, strict=True)}
            g = value._layout
            row = {"qtensor": key, "layout": [g.dtype, g.scheme, g.axis, g.block], "shape": list(value.shape)}
            original = str(value.original_dtype).removeprefix("torch.")
            return row if original == "float32" else {**row, "original": original}
        if isinstance(value, Tensor):
            key = self._seen.setdefault(place(value), key)
            self.tensors[key] = value.detach().contiguous().clone()
            return {"tensor": key}
        if isinstance(value, Mapping):
            return {"map": [[str(k), self.described(v, f"{key}/{k}")] for k, v in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [self.described(v, f"{key}/{i}") for i, v in enumerate(value)]}
        if value is None or isinstance(value, str | int | float | bool):
            return {"value": value}
        raise FormatError(f"a {type(value).__name__} cannot be stored", where=key, hint="tensors, numbers, text, lists and dicts can")


def place(t: Tensor) -> Any:
    """A key that is equal for tensors with the same numbers in the same memory."""
    return (t.data_ptr(), t.dtype, tuple(t.shape), t.stride()) if t.numel() else object()


def _made(row: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:
    if "qtensor" in row:
        data, scale, zero = (tensors[f"{row['qtensor']}:{part}"] for part in PARTS)
        return QTensor(data, scale, zero, Layout(*row["layout"]), torch.Size(row["shape"]), getattr(torch, row.get("original", "float32")))
    if "tensor" in row:
        return tensors[row["tensor"]]
    if "map" in row:
        return {k: _made(v, tensors) for k, v in row["map"]}
    return [_made(v, tensors) for v in row["list"]] if "list" in row else row["value"]
