"""Texts, sounds and tables as data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowbit import data
from lowbit.data.sound_files import SoundPreprocessing
from lowbit.data.tables import read_csv
from lowbit.data.text_files import TextPreprocessing
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.types import TensorType


def network(*inputs: tuple[str, tuple[object, ...], str]) -> Graph:
    b = Builder("any")
    values = [b.input(name, TensorType(shape, dtype)) for name, shape, dtype in inputs]  # type: ignore[arg-type]
    return b.finish({"y": values[0]})


N, T = symbol("n"), symbol("t")


# -- tables --------------------------------------------------------------------------------------------------------------


def test_a_table_takes_the_shape_of_the_input(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,label,c,d\n1,2,0,3,4\n5,6,1,7,8\n9,10,2,11,12\n")
    rows = read_csv(tmp_path / "d.csv", batch=2).for_graph(network(("x", (N, 2, 2), "float32")))
    batches = list(rows)
    assert [b["x"].shape for b in batches] == [(2, 2, 2), (1, 2, 2)] and np.array_equal(batches[0]["x"][0], [[1, 2], [3, 4]])
    assert rows.labels is not None and rows.labels.tolist() == [0, 1, 2]


BAD_TABLES: dict[str, tuple[str, type[LowbitError], str]] = {
    "text in a cell": ("1,2\n3,x\n", FormatError, "line 2 has 'x', a number is needed"),
    "ragged": ("a,b\n1,2\n3\n", FormatError, "line 3 has 1 cells, the first row has 2"),
    "empty": ("a,b\n", FormatError, "it has no numbers"),
    "half a class": ("label,a,b,c,d\n0.5,1,2,3,4\n", FormatError, "column 'label' has other than whole numbers"),
    "columns": ("1,2,3\n", ShapeError, "3 columns of numbers, input 'x' is"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    text, kind, said = BAD_TABLES[name]
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(kind, match=said):
        read_csv(tmp_path / "d.csv").for_graph(network(("x", (N, 4), "float32")))


# -- sounds --------------------------------------------------------------------------------------------------------------


def test_sounds_are_cut_and_filled(tmp_path: Path) -> None:
    files = pytest.importorskip("soundfile", reason="sounds need soundfile (the extra audio)")
    pytest.importorskip("soxr", reason="another rate needs soxr (the extra audio)")
    t = np.arange(8000) / 8000
    for name, count in (("long", 8000), ("short", 100)):
        files.write(tmp_path / f"{name}.wav", np.sin(2 * np.pi * 440 * t[:count]).astype(np.float32) / 2, 8000, subtype="FLOAT")
    rows = data.sounds(tmp_path, rate=8000).for_graph(network(("x", (N, 1, 400), "float32")))
    (batch,) = rows
    assert batch["x"].shape == (2, 1, 400)
    assert sorted(int(np.flatnonzero(x[0])[-1]) + 1 for x in batch["x"]) == [100, 400]
    (faster,) = data.sounds(tmp_path / "long.wav", rate=16000).for_graph(network(("x", (T,), "float32")))
    assert abs(len(faster["x"]) - 16000) < 10 and abs(np.abs(faster["x"][2000:-2000]).max() - 0.5) < 0.01


def test_wrong_sounds(tmp_path: Path) -> None:
    pytest.importorskip("soundfile", reason="sounds need soundfile (the extra audio)")
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(FormatError, match=r"a\.wav: it is not a readable sound"):
        list(data.sounds(tmp_path).for_graph(network(("x", (N, 10), "float32"))))
    with pytest.raises(ShapeError, match="length=5, and the network takes 10"):
        data.sounds(tmp_path, length=5).for_graph(network(("x", (N, 10), "float32")))
    for text in ("rate=x", "speed=3", "rate=1,rate=2"):
        with pytest.raises(InputError, match="is neither rate=NUMBER nor length=NUMBER"):
            SoundPreprocessing.parse(text)
    with pytest.raises(CalibrationError, match=r"the network has 2 inputs \(a, b\), sounds give one"):
        data.sounds(tmp_path).for_graph(network(("a", (N, 10), "float32"), ("b", (N, 10), "float32")))


# -- texts ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    library = pytest.importorskip("tokenizers", reason="texts need tokenizers (the extra llm)")
    words = {w: i for i, w in enumerate(["[UNK]", "the", "cat", "sat", "on", "a", "mat"])}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_texts_become_tokens_and_masks(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat sat\n\non a mat the cat sat\n")
    graph = network(("input_ids", (N, T), "int64"), ("attention_mask", (N, T), "int64"), ("token_type_ids", (N, T), "int64"))
    (batch,) = data.texts(tmp_path / "lines.txt", tokenizer, max_length=5).for_graph(graph)
    assert batch["input_ids"].tolist() == [[1, 2, 3, 0, 0], [4, 5, 6, 1, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]] and not batch["token_type_ids"].any()


def test_without_a_mask_texts_of_other_lengths_stay_apart(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat\non a mat\n")
    rows = data.texts(tmp_path / "lines.txt", tokenizer).for_graph(network(("ids", (N, T), "int32")))
    assert [b["ids"].tolist() for b in rows] == [[[1, 2]], [[4, 5, 6]]]


def test_a_fixed_length_is_filled(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat\n")
    (batch,) = data.texts(tmp_path / "lines.txt", tokenizer).for_graph(network(("ids", (N, 4), "int64")))
    assert batch["ids"].tolist() == [[1, 2, 0, 0]]


def test_wrong_texts(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(InputError, match=r"is not TOKENIZER\.json,max=NUMBER"):
        TextPreprocessing.parse("tokenizer.json,longest=3")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(CalibrationError, match="there are no lines of text in it"):
        data.texts(tmp_path / "empty.txt", tokenizer)
    (tmp_path / "lines.txt").write_text("the cat\n")
    with pytest.raises(CalibrationError, match=r"input 'pixels' .* takes no tokens and no mask"):
        data.texts(tmp_path / "lines.txt", tokenizer).for_graph(network(("pixels", (N, 3), "float32"), ("ids", (N, T), "int64")))
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(FormatError, match=r"it is not a readable tokenizer\.json"):
        data.texts(tmp_path / "lines.txt", tmp_path / "broken.json").for_graph(network(("ids", (N, T), "int64")))
