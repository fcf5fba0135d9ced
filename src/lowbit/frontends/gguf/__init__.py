"""GGUF, the files of llama.cpp: tensors of few bits read exactly, Llama networks as graphs and torch modules, files written back.

    from lowbit.frontends.gguf import load_gguf, read, write, load_module

Needs the extra `gguf`; nothing here imports the package, or torch, before it is asked to.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from lowbit.frontends.gguf.blocks import BlockTensor, encode, from_ints
from lowbit.frontends.gguf.file import Field, GGUFFile, read, write
from lowbit.frontends.gguf.graph import load_gguf

if TYPE_CHECKING:
    from lowbit.frontends.gguf.module import LlamaModule


def load_module(source: str | PathLike[str] | GGUFFile) -> LlamaModule:
    """The network as a torch module with float weights, each equal to the file's number. Needs the extra `torch`."""
    from lowbit.frontends.gguf.module import load

    return load(source if isinstance(source, GGUFFile) else read(source))


__all__ = ["BlockTensor", "Field", "GGUFFile", "encode", "from_ints", "load_gguf", "load_module", "read", "write"]
