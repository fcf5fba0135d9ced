"""The one door for data: loaders, datasets, pairs and mappings give a network's inputs, and keep their labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lowbit.dims import symbol
from lowbit.errors import CalibrationError, InputError
from lowbit.ir.beside import together
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


def read(graph: Graph, data: Any) -> tuple[list[dict[str, Array]], Array | None]:
    labels: list[Array | None] = []
    return list(as_samples(graph, data, labels)), together(labels)


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
    seen, labels = read(network(), FORMS[form]())
    assert np.array_equal(np.concatenate([s["x0"] for s in seen]), rows()[0])
    assert labels is not None and np.array_equal(labels, rows()[1])


def test_data_without_labels_stay_as_they_are() -> None:
    samples, labels = read(network(), [rows()[0]])
    assert len(samples) == 1 and labels is None


def test_labels_of_some_batches_are_none() -> None:
    x, y = rows()
    assert read(network(), [(x, y), x])[1] is None


def test_a_second_input_is_no_label() -> None:
    x, _ = rows()
    (sample,), labels = read(network(2), [(x, x)])
    assert set(sample) == {"x0", "x1"} and labels is None


def test_a_part_that_is_neither_input_nor_label() -> None:
    x, _ = rows()
    with pytest.raises(
        CalibrationError, match=r"(?s)2 arrays given, the network has 1 input; the last one \(ndarray\[6, 4\]\) is no class number.*metric="
    ):
        read(network(), [(x, x)])


def test_a_torch_loader() -> None:
    torch = pytest.importorskip("torch", reason="a DataLoader is torch's")
    x, y = rows()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=4)
    samples, labels = read(network(), loader)
    assert labels is not None and np.array_equal(labels, y)
    assert np.array_equal(np.concatenate([s["x0"] for s in samples]), x)


def test_a_dataset_of_hugging_face() -> None:
    datasets = pytest.importorskip("datasets", reason="the library of Hugging Face is not installed")
    x, y = rows(10)
    samples, labels = read(network(), datasets.Dataset.from_dict({"x0": x.tolist(), "text": ["a"] * 10, "label": y.tolist()}))
    assert np.allclose(np.concatenate([s["x0"] for s in samples]), x) and labels is not None and np.array_equal(labels, y)
    with pytest.raises(InputError, match=r"(?s)the dataset has the columns a, b, and no 'x0'.*rename_column"):
        read(network(), datasets.Dataset.from_dict({"a": [1], "b": [2]}))
