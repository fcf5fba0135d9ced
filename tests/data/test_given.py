"""The one door for data: loaders, datasets, pairs and mappings give a network's inputs, and keep their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowbit.data.given import given
from lowbit.dims import symbol
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.samples import as_samples
from lowbit.types import Array, TensorType


def network(inputs: int = 1) -> Graph:
    b = Builder("small")
    xs = [b.input(f"x{i}", TensorType((symbol("n"), 4), "float32")) for i in range(inputs)]
    return b.finish({"y": b.add("relu", xs[0])})


def rows(count: int = 6) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((count, 4)).astype(np.float32), rng.integers(0, 3, count)


def pairs() -> Iterator[Any]:
    x, y = rows()
    for i in range(0, 6, 4):
        yield x[i : i + 4], y[i : i + 4]


FORMS = {
    "tuples": lambda: list(pairs()),
    "lists, as torch loaders give": lambda: [list(p) for p in pairs()],
    "generator": pairs,
    "mappings": lambda: [{"x0": x, "label": y} for x, y in pairs()],
    "columns of labels": lambda: [(x, y[:, None]) for x, y in pairs()],
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_beside_inputs_are_kept(form: str) -> None:
    found = given(network(), FORMS[form]())
    seen = list(as_samples(network(), found))
    assert np.array_equal(np.concatenate([s["x0"] for s in seen]), rows()[0])
    assert found.labels is not None and np.array_equal(found.labels, rows()[1])


def test_data_without_labels_stay_as_they_are() -> None:
    found = given(network(), [rows()[0]])
    assert len(list(as_samples(network(), found))) == 1 and found.labels is None


def test_a_second_input_is_no_label() -> None:
    x, _ = rows()
    found = given(network(2), [(x, x)])
    (sample,) = as_samples(network(2), found)
    assert set(sample) == {"x0", "x1"} and found.labels is None


def test_a_part_that_is_neither_input_nor_label() -> None:
    x, _ = rows()
    with pytest.raises(InputError, match=r"(?s)2 parts for 1 inputs, and the last one \(ndarray\[6, 4\]\) is no class number.*metric="):
        list(given(network(), [(x, x)]))


def test_a_torch_loader() -> None:
    torch = pytest.importorskip("torch", reason="a DataLoader is torch's")
    x, y = rows()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=4)
    found = given(network(), loader)
    samples = list(as_samples(network(), found))
    assert len(found) == 2 and found.labels is not None and np.array_equal(found.labels, y)  # type: ignore[arg-type]
    assert np.array_equal(np.concatenate([s["x0"] for s in samples]), x)


class Stream:
    """A stream that has the method and no length, as torch's loaders over streams."""

    def __len__(self) -> int:
        raise TypeError("no length")

    def __iter__(self) -> Iterator[Any]:
        return pairs()


def test_a_stream_without_a_length() -> None:
    found = given(network(), Stream())
    assert not hasattr(found, "__len__") and len(list(found)) == 2


def test_a_dataset_of_hugging_face() -> None:
    datasets = pytest.importorskip("datasets", reason="the library of Hugging Face is not installed")
    x, y = rows(10)
    found = given(network(), datasets.Dataset.from_dict({"x0": x.tolist(), "text": ["a"] * 10, "label": y.tolist()}))
    samples = [sample["x0"] for sample in as_samples(network(), found)]
    assert np.allclose(np.concatenate(samples), x) and found.labels is not None and np.array_equal(found.labels, y)
    with pytest.raises(InputError, match=r"(?s)the dataset has the columns a, b, and no 'x0'.*rename_column"):
        given(network(), datasets.Dataset.from_dict({"a": [1], "b": [2]}))
