"""Folders of sounds (see `folders` for their classes)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from lowbit.data.folders import FileRows, found_files
from lowbit.data.rows import need_library
from lowbit.errors import FormatError, InputError, ShapeError
from lowbit.files import unreadable
from lowbit.ir.beside import BATCH
from lowbit.types import Array, TensorType

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au")
EXAMPLE = "rate=16000,length=16000"


@dataclass(frozen=True)
class SoundPreprocessing:
    """A sound becomes one channel of float32 numbers of -1 … 1, `rate` of them a second; `length` of them (cut, or zeros after it)."""

    rate: int = 16000
    length: int | None = None

    def __post_init__(self) -> None:
        if not 100 <= self.rate <= 1_000_000:
            raise InputError(f"rate={self.rate}, numbers a second are needed", where="--audio", hint=EXAMPLE)
        if self.length is not None and not 0 < self.length < 1 << 31:
            raise InputError(f"length={self.length}, a count of numbers is needed", where="--audio", hint=EXAMPLE)

    @staticmethod
    def parse(text: str) -> SoundPreprocessing:
        """
        >>> SoundPreprocessing.parse("rate=8000,length=4000")
        SoundPreprocessing(rate=8000, length=4000)
        """
        found: dict[str, int] = {}
        for part in (p.strip() for p in text.split(",") if p.strip()):
            name, given, value = part.partition("=")
            if not given or name not in ("rate", "length") or not value.isdecimal() or name in found:
                raise InputError(f"{part!r} is neither rate=NUMBER nor length=NUMBER, once", where="--audio", hint=EXAMPLE)
            found[name] = int(value)
        return SoundPreprocessing(**found)

    @staticmethod
    def from_json(text: str) -> SoundPreprocessing:
        try:
            values = json.loads(text)
            if values["kind"] != "sound":
                raise ValueError
            return SoundPreprocessing(int(values["rate"]), None if values["length"] is None else int(values["length"]))
        except (ValueError, KeyError, TypeError) as e:
            raise FormatError("the stored preprocessing is not for sounds", hint=f"state it anew: --audio {EXAMPLE}") from e

    def to_json(self) -> str:
        return json.dumps({"kind": "sound", **asdict(self)})

    def for_input(self, name: str, t: TensorType) -> SoundPreprocessing:
        if not t.dtype.is_float or t.rank not in (1, 2, 3):
            raise ShapeError(f"it is {t}, sounds need a shape like [1, 16000]", where=f"input {name!r}", hint="data as .npz files")
        own = t.shape[-1] if isinstance(t.shape[-1], int) else None
        if own is not None and self.length not in (None, own):
            raise ShapeError(f"length={self.length}, and the network takes {own} ({t})", where=f"input {name!r}", hint="without length=")
        return SoundPreprocessing(self.rate, own or self.length)

    @property
    def rank(self) -> int:
        return 1

    def row(self, path: Path, t: TensorType) -> Array:
        x = self.samples(path)
        return x if t.rank < 3 else x[None]

    def samples(self, path: Path) -> Array:
        files = need_library("soundfile", "audio", "reading sounds")
        try:
            x, rate = files.read(path, dtype="float32", always_2d=True)
        except (OSError, RuntimeError, ValueError) as e:
            raise FormatError(f"it is not a readable sound ({unreadable(e)})", where=str(path), hint="leave it out, or save it anew") from e
        mono = x.mean(axis=1, dtype=np.float32)
        if rate != self.rate:
            mono = need_library("soxr", "audio", f"bringing a sound of {rate} numbers a second to {self.rate}").resample(
                mono, rate, self.rate
            )
        if self.length is None:
            return mono
        return np.pad(mono[: self.length], (0, max(0, self.length - len(mono))))


def sounds(folder: str | PathLike[str], *, rate: int = 16000, length: int | None = None, batch: int = BATCH) -> FileRows:
    """The sounds of a folder, as data for quantize, evaluate, compare and the others; folders inside it are classes.

    rate    numbers a second that the network was trained with: sounds of another rate are converted
    length  numbers in a row: longer sounds are cut, after shorter ones come zeros; without it, as many as the network's input has
    """
    return FileRows(found_files(Path(folder), SUFFIXES, "sounds"), SoundPreprocessing(rate, length), "sounds", batch)
