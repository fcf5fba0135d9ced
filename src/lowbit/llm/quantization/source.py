"""A float network to quantize, as a GGUF file would have it: fields, and tensors that are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path

import numpy as np

from lowbit.block_formats import block_format
from lowbit.errors import UnsupportedOp
from lowbit.frontends.gguf.file import RawTensor
from lowbit.frontends.gguf.header import Field
from lowbit.llm.architectures import Config, config_of
from lowbit.llm.quantization.fields import fields_of_folder
from lowbit.llm.tokenizer import Tokenizer
from lowbit.llm.weights import Weights, open_weights
from lowbit.numerics import F32


@dataclass(frozen=True, eq=False)
class Source:
    """`change` makes a tensor of the file what GGUF has under that name; `extra` are tensors that the file has not."""

    weights: Weights
    fields: Mapping[str, Field]
    change: Callable[[str, F32], F32]
    extra: Mapping[str, F32] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.weights.name

    @property
    def files(self) -> list[Path]:
        """Where the numbers come from, to know them again."""
        return sorted({Path(str(_file_of(t.data))) for t in self.weights.tensors.values()})

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {**{n: t.shape for n, t in self.weights.tensors.items()}, **{n: t.shape for n, t in self.extra.items()}}

    def real(self, name: str) -> F32:
        """A tensor as floats."""
        if name in self.extra:
            return self.extra[name]
        return self.change(name, np.array(self.weights.tensors[name].dequantize()))

    def rows(self, name: str, begin: int, end: int) -> F32:
        """Rows of a table of tokens, which has the same order everywhere."""
        return np.array(self.weights.tensors[name].rows(begin, end).dequantize())

    @cached_property
    def config(self) -> Config:
        """The network's settings, as the loader will read them from the file that is written."""
        architecture = str(self.fields["general.architecture"].value)
        prefix = architecture + "."
        settings = {k.removeprefix(prefix): f.value for k, f in self.fields.items() if k.startswith(prefix)}
        table = {n: t for n, t in self.weights.tensors.items() if n == "token_embd.weight"}
        extra = {n: RawTensor("F32", t.shape, t.view(np.uint8)) for n, t in self.extra.items()}
        return config_of(Weights(self.name, architecture, settings, {**table, **extra}))

    def tokenizer(self) -> Tokenizer:
        return self.weights.tokenizer()


def _file_of(data: object) -> object:
    while isinstance(data, np.ndarray):
        if isinstance(data, np.memmap) and data.filename is not None:
            return data.filename
        data = data.base
    return "memory"


def open_source(path: str | PathLike[str]) -> Source:
    """The float network of a Hugging Face folder or of a GGUF file of F32, F16 or BF16."""
    weights = open_weights(path)
    few = next((n for n, t in weights.tensors.items() if not block_format(t.format).is_float), None)
    if few is not None:
        raise UnsupportedOp(
            f"tensor {few!r} is {weights.tensors[few].format} already: weights that were rounded before lose twice",
            where=weights.name,
            hint="a file of F16, BF16 or F32, or the Hugging Face folder",
        )
    if weights.file is not None:
        return Source(weights, weights.file.fields, lambda _, x: x)
    fields, change, extra = fields_of_folder(weights)
    return Source(weights, fields, change, extra)
