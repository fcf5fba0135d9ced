"""What a path names: arrays, pictures, sounds, texts or a table, by what lies there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Union

from lowbit.data import image_files, sound_files, text_files
from lowbit.data.arrays import SUFFIXES as ARRAYS
from lowbit.data.arrays import FileData, array_files
from lowbit.data.bake import preprocessing_of
from lowbit.data.folders import FileRows, every, found_files
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.data.rows import Rows
from lowbit.data.sound_files import SoundPreprocessing
from lowbit.data.tables import read_csv
from lowbit.data.text_files import TextPreprocessing, found_texts
from lowbit.errors import CalibrationError, FormatError
from lowbit.ir.beside import BATCH
from lowbit.ir.graph import Graph

Data = Union[FileData, Rows]  # noqa: UP007 (a name for both)
KINDS = {
    "pictures": image_files.SUFFIXES,
    "sounds": sound_files.SUFFIXES,
    "texts": text_files.SUFFIXES,
    "a table": (".csv",),
    "arrays": ARRAYS,
}
STATED = {"pictures": "--image", "sounds": "--audio", "texts": "--text"}
HINT = ".npy, .npz, .csv, a folder of pictures, sounds or texts, or file.py:function"


@dataclass(frozen=True)
class How:
    """What was stated of the data: how pictures, sounds or texts become arrays, and how many rows a batch has."""

    image: ImagePreprocessing | None = None
    audio: SoundPreprocessing | None = None
    text: TextPreprocessing | None = None
    batch: int = BATCH
    limit: int | None = None

    @property
    def stated(self) -> dict[str, object]:
        return {k: v for k, v in (("pictures", self.image), ("sounds", self.audio), ("texts", self.text)) if v is not None}


def open_data(paths: list[str], graph: Graph, how: How) -> Data:
    """The data of the paths, for a network."""
    places = [Path(p) for p in paths]
    kinds = dict.fromkeys(kind_of(p) for p in places)
    if len(kinds) > 1:
        raise CalibrationError(f"--data names {' and '.join(kinds)}", where=", ".join(paths), hint="data of one kind")
    kind = next(iter(kinds))
    for other in how.stated:
        if other != kind:
            said = f"{STATED[other]} is for {other}, --data names {kind}"
            raise CalibrationError(said, where=", ".join(paths), hint=f"without {STATED[other]}, or a folder of {other}")
    if kind == "arrays":
        return array_files(places, graph, how.batch, how.limit)
    if len(places) > 1:
        raise CalibrationError(f"--data names {len(places)} places with {kind}", where=", ".join(paths), hint="one folder or file of them")
    return rows_of(kind, places[0], graph, how).first(how.limit)


def rows_of(kind: str, place: Path, graph: Graph, how: How) -> Rows:
    """Rows of one kind. What is not stated is taken from the network, which may know how its calibration data were prepared."""
    stored = next((text for v in graph.inputs if (text := preprocessing_of(graph, v.name)) is not None), None)
    if kind == "pictures":
        image = how.image or (ImagePreprocessing.from_json(stored) if stored is not None else ImagePreprocessing())
        return FileRows(found_files(place, image_files.SUFFIXES, kind), image, kind, how.batch).for_graph(graph)
    if kind == "sounds":
        audio = how.audio or (SoundPreprocessing.from_json(stored) if stored is not None else SoundPreprocessing())
        return FileRows(found_files(place, sound_files.SUFFIXES, kind), audio, kind, how.batch).for_graph(graph)
    if kind == "texts":
        if how.text is None:
            raise CalibrationError("texts need a tokenizer", where=str(place), hint=f"--text {text_files.EXAMPLE}")
        return found_texts(place, how.text, how.batch).for_graph(graph)
    return read_csv(place, how.batch).for_graph(graph)


def kind_of(path: Path) -> str:
    """The kind of data at a path: by the suffix of a file, or of the files in a folder."""
    if path.is_dir() and str(path):
        found = {kind for kind, suffixes in KINDS.items() if every(path, suffixes)}
        if found == {"arrays", "texts"}:  # a README beside arrays
            found = {"arrays"}
        if len(found) > 1:
            raise CalibrationError(f"it holds {' and '.join(sorted(found))}", where=str(path), hint="a folder with one kind of data")
        if not found:
            raise CalibrationError("there is no data in this folder", where=str(path), hint=HINT)
        return found.pop()
    if not path.exists():
        raise FormatError("there is no such file or folder", where=str(path), hint=HINT)
    kind = next((kind for kind, suffixes in KINDS.items() if path.suffix.lower() in suffixes), None)
    if kind is None:
        raise CalibrationError(f"data are not read from files of kind '{path.suffix}'", where=str(path), hint=HINT)
    return kind
