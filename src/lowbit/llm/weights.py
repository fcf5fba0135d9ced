"""Where a network comes from: settings and tensors by the names of GGUF, from a GGUF file or a Hugging Face folder. Both are mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.errors import FormatError, InputError, LowbitError, UnsupportedOp
from lowbit.frontends.gguf.file import GGUFFile, RawTensor, mapped
from lowbit.llm.tokenizer import Tokenizer, from_folder, from_gguf
from lowbit.numerics import F32


@dataclass(frozen=True)
class Weights:
    """Settings without the architecture's name before them, and tensors. `used` collects the tensors that were asked for."""

    name: str
    architecture: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, RawTensor]
    folder: Path | None = None  # of a Hugging Face network
    file: GGUFFile | None = None
    used: set[str] = field(default_factory=set, compare=False)

    def __contains__(self, tensor: str) -> bool:
        return tensor in self.tensors

    def tensor(self, name: str, *shape: int) -> RawTensor:
        """A tensor of that shape."""
        t = self.tensors.get(name)
        if t is None:
            raise FormatError(f"there is no tensor {name!r}", where=self.name)
        if t.shape != shape:
            raise FormatError(f"tensor {name!r} is {t.shape}, the settings say {shape}", where=self.name)
        self.used.add(name)
        return t

    def vector(self, name: str, *shape: int) -> F32:
        """A small tensor as floats, which are no part of the file any more."""
        return np.array(self.tensor(name, *shape).dequantize())

    def has(self, key: str) -> bool:
        return self.settings.get(key) is not None

    def setting(self, key: str, otherwise: Any = None) -> Any:
        value = self.settings.get(key)
        if value is None:
            value = otherwise
        if value is None:
            raise FormatError(f"there is no setting {key!r}", where=self.name)
        return value

    def whole(self, key: str, otherwise: int | None = None, *, most: int = 1 << 24) -> int:
        """A whole number from 1 on. Some files have one for each layer: they must be equal."""
        value = self.setting(key, otherwise)
        if isinstance(value, list) and value and all(v == value[0] for v in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise FormatError(f"the setting {key!r} is {str(value)[:40]}, a whole number from 1 to {most:,} is needed", where=self.name)
        return value

    def number(self, key: str, otherwise: float | None = None) -> float:
        """A finite number."""
        value = self.setting(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise FormatError(f"the setting {key!r} is {str(value)[:40]}, a number is needed", where=self.name)
        return float(value)

    def tokenizer(self) -> Tokenizer:
        if self.folder is not None:
            return from_folder(self.folder)
        assert self.file is not None
        return from_gguf(self.file)

    def need_all_used(self) -> None:
        """UnsupportedOp where the file has tensors that the architecture does not know: experts, for one."""
        unknown = sorted(set(self.tensors) - self.used)
        if unknown:
            raise UnsupportedOp(
                f"{len(unknown)} tensors have no meaning in the architecture {self.architecture!r}, the first is {unknown[0]!r}",
                where=self.name,
                hint="docs/llm.md lists the architectures",
            )


def open_weights(path: str | PathLike[str]) -> Weights:
    """The network of a .gguf file, or of a folder with config.json and safetensors."""
    if not isinstance(path, str | PathLike):
        raise InputError(
            f"{type(path).__name__} given, a path is needed", hint="a .gguf file, or a folder with config.json and safetensors"
        )
    p = Path(path)
    if p.is_dir():
        from lowbit.llm.folder import open_folder

        return open_folder(p)
    file = mapped(p)
    architecture = file.get("general.architecture")
    if not isinstance(architecture, str):
        raise FormatError("general.architecture is not given", where=file.name)
    if isinstance(parts := file.get("split.count"), int) and parts > 1:
        raise UnsupportedOp(f"the network is split into {parts} files", where=file.name, hint="llama-gguf-split --merge puts them together")
    prefix = architecture + "."
    settings = {k.removeprefix(prefix): f.value for k, f in file.fields.items() if k.startswith(prefix)}
    tensors = {name: t for name, t in file.tensors.items() if isinstance(t, RawTensor)}
    return Weights(file.name, architecture, settings, tensors, file=file)


def named(error: LowbitError, weights: Weights) -> LowbitError:
    return error if error.where and weights.name in error.where else error.at(weights.name)
