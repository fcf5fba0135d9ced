"""Folders of pictures as data: what becomes of pixels, which classes there are, and what wrong settings say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lowbit import data
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.dims import symbol
from lowbit.errors import CalibrationError, FormatError, InputError, LowbitError, ShapeError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.samples import as_samples
from lowbit.types import Array, TensorType

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow (the extra images)")


def network(*shape: object, dtype: str = "float32") -> Graph:
    b = Builder("images")
    x = b.input("x", TensorType(shape or (symbol("n"), 3, 8, 8), dtype))  # type: ignore[arg-type]
    return b.finish({"y": b.add("relu", x) if dtype == "float32" else x})


def save(path: Path, pixels: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.squeeze()).save(path)


def photo(seed: int = 0, height: int = 8, width: int = 8) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def test_pixels_become_what_torchvision_makes_of_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch")
    save(tmp_path / "a.png", photo())
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    (batch,) = data.images(tmp_path, mean=mean, std=std).for_graph(network())
    pixels = torch.from_numpy(photo()).permute(2, 0, 1).to(torch.float32).div(255)
    wanted = pixels.sub(torch.tensor(mean)[:, None, None]).div(torch.tensor(std)[:, None, None])
    assert batch["x"].dtype == np.float32 and np.array_equal(batch["x"], wanted[None].numpy())


def test_folders_inside_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for c, name in enumerate(("cat", "dog")):
        for i in range(3):
            save(tmp_path / name / f"{i}.png", np.full((8, 8, 3), 10 * c + i, np.uint8))
    rows = data.images(tmp_path, scale=1, batch=4).for_graph(network())
    assert rows.classes == ("cat", "dog") and len(rows) == 2 and rows.rows == 6
    seen = np.concatenate([batch["x"][:, 0, 0, 0] for batch in rows])
    assert rows.labels is not None and np.array_equal(seen // 10, rows.labels) and sorted(seen) == [0, 1, 2, 10, 11, 12]
    again = np.concatenate([batch["x"][:, 0, 0, 0] for batch in rows])
    assert np.array_equal(seen, again)


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_a_picture_gets_the_size_of_the_network(tmp_path: Path, fit: str) -> None:
    save(tmp_path / "wide.png", np.full((10, 20, 3), 200, np.uint8))
    t = network().inputs[0].type
    x = ImagePreprocessing.of(fit=fit, scale=1).for_input("x", t).row(tmp_path / "wide.png", t)
    assert x.shape == (3, 8, 8)
    assert set(np.unique(x)) == ({114.0, 200.0} if fit == "pad" else {200.0})
    assert fit != "pad" or np.array_equal(x[0, :, 0], [114, 114, 200, 200, 200, 200, 114, 114])


def test_channels_and_layout(tmp_path: Path) -> None:
    save(tmp_path / "a.png", photo())
    (rgb,) = data.images(tmp_path, scale=1, layout="nhwc").for_graph(network(1, 8, 8, 3))
    (bgr,) = data.images(tmp_path, scale=1, channels="bgr").for_graph(network(1, 8, 8, 3))
    (gray,) = data.images(tmp_path, scale=1).for_graph(network(1, 1, 8, 8))
    assert np.array_equal(rgb["x"][0], photo()) and np.array_equal(bgr["x"][0], photo()[..., ::-1])
    assert gray["x"].shape == (1, 1, 8, 8)


def test_a_network_of_pixels_gets_pixels(tmp_path: Path) -> None:
    save(tmp_path / "a.png", photo())
    (batch,) = data.images(tmp_path, mean=0.5).for_graph(network(1, 8, 8, 3, dtype="uint8"))
    assert batch["x"].dtype == np.uint8 and np.array_equal(batch["x"][0], photo())


def test_a_fixed_batch_leaves_the_rest_away(tmp_path: Path) -> None:
    for i in range(5):
        save(tmp_path / f"{i}.png", photo(i))
    rows = data.images(tmp_path).for_graph(network(2, 3, 8, 8))
    assert [batch["x"].shape[0] for batch in rows] == [2, 2] and rows.rows == 4


def test_the_settings_go_through_text_and_json() -> None:
    how = ImagePreprocessing.parse("size=32x48, mean=0.5,0.4,0.3, std=0.25, channels=bgr, fit=pad, scale=1")
    assert how == ImagePreprocessing((32, 48), (0.5, 0.4, 0.3), (0.25,), None, "bgr", "pad", 1.0)
    assert ImagePreprocessing.from_json(how.to_json()) == how
    assert ImagePreprocessing.parse("imagenet,size=224").mean == (0.485, 0.456, 0.406)


WRONG = {
    "size=big": "size=big is no number",
    "size=0": "size=(0, 0), 224, or height,width is needed",
    "size=1,2,3": "has 3 numbers, 1 or 2 are needed",
    "mean=0.5,std=0": "std=(0.0,), numbers above 0 is needed",
    "layout=chw": "layout='chw', nchw or nhwc is needed",
    "channels=cmyk": "channels='cmyk', rgb, bgr, gray is needed",
    "fit=tile": "fit='tile', crop, stretch, pad is needed",
    "scale=0": "scale=0.0, a number above 0 is needed",
    "sizes=3": "there is no sizes=, there are channels",
    "bigger": "'bigger' is neither NAME=VALUE nor one of imagenet",
    "size=8,size=9": "size= is given twice",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_settings_say_what_is_needed(text: str) -> None:
    with pytest.raises(InputError) as e:
        ImagePreprocessing.parse(text)
    assert WRONG[text] in str(e.value) and "size=224" in str(e.value)


MISFITS: dict[str, tuple[dict[str, object], tuple[object, ...], type[LowbitError], str]] = {
    "another size": ({"size": 16}, (1, 3, 8, 8), ShapeError, "size=16,16, and the network takes 8×8"),
    "no size at all": ({}, (1, 3, symbol("h"), symbol("w")), InputError, "leaves height and width open"),
    "gray for colours": ({"channels": "gray"}, (1, 3, 8, 8), ShapeError, "channels=gray are 1, the network takes 3"),
    "no pictures": ({}, (1, 8), ShapeError, "pictures need a shape like"),
    "channels anywhere": ({}, (1, 8, 8, 8), InputError, "does not say where the channels are"),
    "layout that is not": ({"layout": "nhwc"}, (1, 3, 8, 8), ShapeError, "channels=rgb are 3, the network takes 8"),
    "four means": ({"mean": (1, 2, 3, 4)}, (1, 3, 8, 8), InputError, "mean= has 4 numbers for 3 channels"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_settings_that_do_not_fit_the_network(tmp_path: Path, name: str) -> None:
    options, shape, kind, said = MISFITS[name]
    save(tmp_path / "a.png", photo())
    with pytest.raises(kind, match=said):
        data.images(tmp_path, **options).for_graph(network(*shape))  # type: ignore[arg-type]


def test_folders_that_hold_no_pictures(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"(?s)there are no pictures in this folder.*\.jpg"):
        data.images(tmp_path)
    with pytest.raises(CalibrationError, match="there is no such file or folder"):
        data.images(tmp_path / "none")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises(FormatError, match=r"broken\.jpg: it is not a readable picture"):
        list(data.images(tmp_path).for_graph(network()))


def test_labels_go_with_their_batches(tmp_path: Path) -> None:
    for c, name in enumerate("ab"):
        for i in range(3):
            save(tmp_path / name / f"{i}.png", np.full((8, 8, 3), 10 * c + i, np.uint8))
    labels: list[Array | None] = []
    for batch in as_samples(network(), data.images(tmp_path, scale=1, batch=4), labels):
        assert labels[-1] is not None and np.array_equal(batch["x"][:, 0, 0, 0] // 10, labels[-1])
    assert len(labels) == 2
