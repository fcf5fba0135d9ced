"""Texts, a line or a file each, as the token numbers of a tokenizer.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.data.folders import found_files
from lowbit.data.rows import Rows, need_library
from lowbit.errors import CalibrationError, FormatError, InputError, ShapeError
from lowbit.files import unreadable
from lowbit.ir.beside import BATCH
from lowbit.ir.graph import Graph
from lowbit.types import Array, TensorType

SUFFIXES = (".txt", ".md", ".text")
EXAMPLE = "tokenizer.json,max=128"
LONGEST = 128


@dataclass(frozen=True)
class TextPreprocessing:
    """A text becomes the numbers of its tokens, at most `longest` of them, with zeros of the mask after them."""

    tokenizer: Path
    longest: int = LONGEST

    @staticmethod
    def parse(text: str) -> TextPreprocessing:
        """
        >>> TextPreprocessing.parse("tokenizer.json,max=64").longest
        64
        """
        file, _, rest = text.partition(",")
        name, given, value = rest.strip().partition("=")
        if not file or (rest and (name not in ("max", "length") or not given or not value.isdecimal() or not int(value))):
            raise InputError(f"{text!r} is not TOKENIZER.json,max=NUMBER", where="--text", hint=EXAMPLE)
        return TextPreprocessing(Path(file), int(value) if rest else LONGEST)

    def to_json(self) -> str:
        return json.dumps({"kind": "text", "tokenizer": self.tokenizer.name, "max": self.longest})

    def load(self) -> Any:
        library = need_library("tokenizers", "llm", "reading texts")
        if not self.tokenizer.is_file():
            raise CalibrationError("there is no such file", where=str(self.tokenizer), hint=EXAMPLE)
        try:
            found = library.Tokenizer.from_file(str(self.tokenizer))
        except Exception as e:  # the library's own kind of exception
            raise FormatError(f"it is not a readable tokenizer.json ({unreadable(e)})", where=str(self.tokenizer), hint=EXAMPLE) from e
        found.no_padding()
        found.no_truncation()
        return found


@dataclass(frozen=True)
class Texts:
    """Texts for a network that is not known yet: `for_graph` gives their rows."""

    texts: tuple[str, ...]
    where: str
    preprocessing: TextPreprocessing
    labels: Array | None = None
    classes: tuple[str, ...] = ()
    batch: int = BATCH

    def for_graph(self, graph: Graph) -> Rows:
        types = {v.name: v.type for v in graph.inputs}
        roles = {name: role(name, t, len(types), self.where) for name, t in types.items()}
        sizes = {t.shape[1] for t in types.values() if t.rank == 2 and isinstance(t.shape[1], int)}
        if len(sizes) > 1:
            raise ShapeError(f"the inputs have the lengths {sorted(sizes)}", where=self.where, hint="data as .npz files")
        tokenizer = self.preprocessing.load()
        fixed = next(iter(sizes), None)
        longest = min(self.preprocessing.longest, fixed or self.preprocessing.longest)
        encoded = [tokenizer.encode(text).ids[:longest] for text in self.texts]
        batch = 1 if fixed is None and len({len(ids) for ids in encoded}) > 1 and "mask" not in roles.values() else self.batch
        step = next((t.shape[0] for t in types.values() if isinstance(t.shape[0], int)), batch)

        def read(i: int) -> dict[str, Array]:
            ids = encoded[i]
            start = i // step * step
            length = fixed or max(1, *(len(other) for other in encoded[start : start + step]))
            padded = np.zeros(length, np.int64)
            padded[: len(ids)] = ids
            values = {"ids": padded, "mask": (np.arange(length) < len(ids)).astype(np.int64), "type": np.zeros(length, np.int64)}
            values["position"] = np.arange(length)
            return {name: values[kind].astype(types[name].dtype.numpy) for name, kind in roles.items()}

        stored = {name: self.preprocessing.to_json() for name, kind in roles.items() if kind == "ids"}
        return Rows(read, len(self.texts), self.where, types, batch, self.labels, self.classes, stored)


def role(name: str, t: TensorType, count: int, where: str) -> str:
    """What an input takes: the tokens, the mask, the kinds of the tokens or their places."""
    lower = name.lower()
    for kind in ("mask", "type", "position"):
        if kind in lower and count > 1:
            return kind
    if t.rank == 2 and (count == 1 or "id" in lower or "token" in lower) and not t.dtype.is_float:
        return "ids"
    raise CalibrationError(f"input {name!r} ({t}) takes no tokens and no mask", where=where, hint="data as .npz files, or file.py:function")


def texts(path: str | PathLike[str], tokenizer: str | PathLike[str], *, max_length: int = LONGEST, batch: int = BATCH) -> Texts:
    """The texts of a file (a line each) or of a folder (a file each; folders inside it are classes), as token numbers.

    tokenizer   a tokenizer.json
    max_length  tokens of a text; longer ones are cut
    """
    return found_texts(Path(path), TextPreprocessing(Path(tokenizer), max_length), batch)


def found_texts(path: Path, how: TextPreprocessing, batch: int = BATCH) -> Texts:
    files = found_files(path, SUFFIXES, "texts")
    if path.is_file():
        lines = tuple(line for line in read_text(path).splitlines() if line.strip())
        if not lines:
            raise CalibrationError("there are no lines of text in it", where=str(path), hint="a line for each text")
        return Texts(lines, str(path), how, batch=batch)
    return Texts(tuple(read_text(p) for p in files.paths), files.where, how, files.labels, files.classes, batch)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise FormatError(f"it is not a readable text ({unreadable(e)})", where=str(path), hint="UTF-8") from e
