"""The networks of benchmarks/default.py: each with calibration data as a user has it, other data to test with, and a score.

Weights and data are fetched by name into the cache (zoo/fetch.py); none of them is part of this repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import accuracy_cases
import default_data as data
import default_scores as scores
import numpy as np
import torch
from accuracy_cases import Case, Sample, of_file, of_module
from default_scores import Results, Score
from numpy.typing import NDArray

from lowbit.frontends.onnx import load_onnx
from lowbit.passes import simplify
from lowbit.report.onnxruntime_int8 import session as in_onnxruntime
from zoo import fetched, jax_block, randomize
from zoo.fetch import debian, pypi
from zoo.sequence import BidirectionalStack


def answers(case: Case, name: str) -> Score:
    """The share of right answers of a case that knows them."""
    right = case.right
    assert right is not None
    return Score(name, lambda got, _: scores.share(right(got)))


# --- the networks of docs/public.md ---


def ocr_rec() -> Case:
    case = accuracy_cases.ocr_rec()
    return replace(case, score=answers(case, "lines read"))


def signs(calibration: int, test: int) -> list[Sample]:
    """Lines of print on photographs; none of the photographs to calibrate with is among those to test with."""
    photos = accuracy_cases.photographs()
    return accuracy_cases.signs(calibration, photos[::2]) + accuracy_cases.signs(test, photos[1::2], seed=30)


def ocr_det() -> Case:
    return of_file("ocr-det", fetched.ocr("det"), signs(48, 96), 48, score=scores.above(0.3, "text pixels"))


def ocr_cls() -> Case:
    case = accuracy_cases.ocr_cls(64, 400)
    return replace(case, score=answers(case, "top-1"))


def efficientnet() -> Case:
    """The halves share no photograph and no stamp."""
    pictures = [*data.stamped(64, 224, 224, 6, 0), *data.stamped(400, 224, 224, 7, 1)]
    samples = [{"inputs": data.normalized(x)[None]} for x in pictures]
    return of_module("efficientnet-lite0", fetched.efficientnet_lite0(), samples, 64, classifier=True, score=scores.agreement())


def minilm() -> Case:
    return replace(accuracy_cases.minilm(64, 128), score=scores.cosine())


def demo() -> Case:
    case = accuracy_cases.demo(debian("dataset-fashion-mnist") / "usr" / "share" / "datasets" / "fashion-mnist")
    images = np.concatenate([s["image"] for s in case.calibration])[:128]
    return replace(case, calibration=data.batches(images, 8, "image"), score=answers(case, "top-1"))


def mnist_conv() -> Case:
    case = accuracy_cases.mnist_conv(2000)
    return replace(case, score=answers(case, "top-1"))


def silero() -> Case:
    """Speech out of recordings; the points are frames on which both say speech, or both do not."""
    frames, zero, samples = 16, np.zeros((1, 1, 128), np.float32), []
    for half, count in ((0, 48), (1, 96)):
        for _, x in data.clips(count, frames * 512 + 64, half, half):
            rows = np.stack([x[i * 512 : i * 512 + 576] for i in range(frames)])
            samples.append({"input": rows, "h": zero, "c": zero})

    def of(got: Results, real: Results) -> float:
        return scores.share((scores.column(got) > 0.5) == (scores.column(real) > 0.5))

    return of_file("silero", fetched.silero(), samples, 48, score=Score("agreement", of))


# --- the second list of networks ---


def table_cls() -> Case:
    found = list(data.tables(64 + 400, 224, 1))
    samples = [{"input": data.normalized(x.mean(0, keepdims=True))[None]} for _, x in found]
    labels = np.array([0 if lined else 1 for lined, _ in found[64:]])
    return of_file("table-cls", fetched.table_cls(), samples, 64, classifier=True, score=scores.top1(labels))


def crepe(size: str, calibration: int, test: int) -> Case:
    """Batches of eight frames, each normalized as the package does it."""
    found = list(data.tones(calibration + test, 1024, 3))
    rows = np.stack([(x - x.mean()) / max(float(x.std()), 1e-10) for _, x in found]).astype(np.float32)
    pitches = np.array([pitch for pitch, _ in found])[calibration:]
    score = scores.within_cents(pitches, crepe_cents)
    return of_module(f"crepe-{size}", fetched.crepe(size), data.batches(rows, 8, "x"), calibration // 8, score=score)


def crepe_cents(y: NDArray[np.float32]) -> NDArray[np.float64]:
    """The mean of the bins around the largest, weighted by what they say: 20 cents a bin, from 1997.38 above 10 Hz."""
    bins = y.argmax(1)[:, None] + np.arange(-4, 5)
    weights = np.take_along_axis(y, np.clip(bins, 0, 359), 1) * ((bins >= 0) & (bins < 360))
    return (weights * (20.0 * bins + 1997.3794084376191)).sum(1) / weights.sum(1)


def nudenet() -> Case:
    counts = 64, 200
    pictures = [x for half in (0, 1) for x in data.stamped(counts[half], 320, 320, 8 + half, half, 6 * data.people(half))]
    return of_file("nudenet", fetched.nudenet(), [{"images": x[None]} for x in pictures], 64, score=scores.boxes_matched())


def ocr6_det() -> Case:
    """Two by two pictures of 160×160."""
    parts = [s["x"] for s in signs(4 * 32, 4 * 48)]
    samples = []
    for i in range(0, len(parts), 4):
        a, b, c, d = parts[i : i + 4]
        samples.append({"x": np.concatenate([np.concatenate([a, b], 3), np.concatenate([c, d], 3)], 2)})
    return of_file("ocr6-det", fetched.ocr6("det"), samples, 32, score=scores.above(0.3, "text pixels"))


def ocr6_rec() -> Case:
    import onnx

    path = fetched.ocr6("rec")
    characters = {p.key: p.value for p in onnx.load(str(path)).metadata_props}["character"].split("\n")
    lines = list(accuracy_cases.printed(36 + 144, 48, 320, 1))  # each face once to calibrate, four times to test
    score = scores.lines_read([*characters, " "], [text for text, _ in lines[36:]])
    return of_file("ocr6-rec", path, [{"x": x[None]} for _, x in lines], 36, score=score)


def resemblyzer() -> Case:
    samples = []
    for half, count in ((0, 48), (1, 150)):
        for _, x in data.clips(count, 160 * 160 - 1, 10 + half, half):
            level = 10 ** (-30 / 20) / max(float(np.sqrt(np.mean(x**2))), 1e-6)  # quiet ones are raised to -30 dB, as the package does
            samples.append({"mels": data.mel(x * np.float32(max(level, 1)))[None]})
    return of_module("resemblyzer", fetched.resemblyzer(), samples, 48, old=True, score=scores.cosine())


def deepfilternet2() -> Case:
    """A second of noisy speech; the points are the cosine of the enhanced spectrum with the one that float makes."""
    model = fetched.deepfilternet2()
    bands = model.net.erb_fb.numpy()
    seen, unseen = data.Spectra(bands, 48, 100, 11, 0), data.Spectra(bands, 60, 100, 12, 1)

    def of(got: Results, real: Results) -> float:
        each = []
        for i, rows in enumerate(zip(got, real, strict=True)):
            a, b = (unseen.enhanced(i, *r).reshape(-1) for r in rows)
            each.append(abs(np.vdot(a, b)) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))
        return 100 * float(np.mean(each))

    return of_module("deepfilternet2", model, seen.samples + unseen.samples, 48, old=True, score=Score("cosine", of))


def basic_pitch() -> Case:
    name = "serving_default_input_2:0"
    samples = [{name: x[None, :, None]} for x in data.music(32 + 48, 43844, 22050, 13)]
    return of_file("basic-pitch", fetched.basic_pitch(), samples, 32, score=scores.above(0.3, "note frames", (1,)))


def openwakeword() -> Case:
    """76 mel frames of speech, by the package's own network, to 96 numbers."""
    sounds, samples = in_onnxruntime(str(fetched.openwakeword("melspectrogram")), 1), []
    for half, count in ((0, 64), (1, 256)):
        for _, x in data.clips(count, 12640, 14 + half, half):
            (frames,) = sounds.run(None, {"input": (x * 32767)[None]})
            samples.append({"input_1": np.ascontiguousarray(frames[0, 0, :76, :, None][None] / 10 + 2)})
    return of_file("openwakeword", fetched.openwakeword("embedding_model"), samples, 64, score=scores.cosine(3))


def deep_sort() -> Case:
    """CIFAR-10 enlarged to 224×224: features of 450 test images vote on the labels of 400 others."""
    from PIL import Image

    from examples.common.data import cifar10

    def large(x: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.asarray(Image.fromarray(x.transpose(1, 2, 0)).resize((224, 224), Image.Resampling.BICUBIC), np.float32).transpose(2, 0, 1)

    (seen, _), (images, labels) = cifar10()
    samples = [{"x": data.normalized(large(x) / 255)[None]} for x in [*seen[:64], *images[:850]]]
    return of_module("deep-sort", fetched.deep_sort(), samples, 64, score=scores.neighbours(labels[:850], 450))


# --- the four networks of examples/ ---


def example(name: str, batch: int, calibration: int, test: int) -> Case:
    """Batches of `batch` rows: `calibration` of them from the training data, `test` from the test data; the answers are known."""
    from examples.common.networks import networks

    (net,) = networks([name])
    split: list[tuple[list[Sample], NDArray[Any]]] = []
    for source, count in ((net.train, calibration), (net.test, test)):
        pairs = [(x, y) for x, y in source()]
        x, y = (np.concatenate([p[k].numpy() for p in pairs[: -(-count * batch // len(pairs[0][0]))]])[: count * batch] for k in (0, 1))
        split.append((data.batches(x, batch, net.argument), y))
    (seen, _), (unseen, labels) = split
    title = name.replace("_", "-")
    more = {"classifier": not net.lower, "score": scores.top1(labels), "old": name == "lstm_ptb"}
    return of_module(title, net.model, seen + unseen, len(seen), **more)


# --- seeded networks of zoo/ ---


def jax_encoder() -> Case:
    """Word vectors of MiniLM through a seeded encoder in JAX's spelling."""
    table = fetched.minilm().embeddings.word_embeddings.weight.detach().numpy()
    samples = [{"x": np.ascontiguousarray(table[s["ids"]] * np.float32(20))} for s in accuracy_cases.tokens(64 + 128)]
    model = jax_block.jax_encoder()
    graph = simplify(load_onnx(model, {"x": samples[0]["x"].shape}))
    return Case("jax-encoder", graph, model, samples[:64], samples[64:], score=scores.cosine())


def bilstm() -> Case:
    """Six seconds of speech in 600 frames of 40 mel bands through four seeded bidirectional LSTM layers."""
    torch.manual_seed(0)
    model, samples = randomize(BidirectionalStack(40, 128, 4, 3)).eval(), []
    for half, count in ((0, 32), (1, 48)):
        for _, x in data.clips(count, 599 * 160, 16 + half, half):
            samples.append({"x": np.ascontiguousarray(np.log(data.mel(x) + np.float32(1e-6)).T[None])})
    return of_module("bilstm", model, samples, 32, old=True, score=scores.agreement())


# --- networks held out: nothing is tuned with them ---


def magika() -> Case:
    """The first and last 1024 bytes of files in public packages, without white space around them."""
    roots = [pypi("pocketsphinx", "5.1.1", sdist=True), pypi("qonnx", "1.0.0", sdist=True), pypi("rapidocr", "3.10.0")]
    roots += [pypi("DeepFilterNet", "0.2.4"), debian("tuxpaint-stamps-default"), debian("asterisk-core-sounds-en-wav")]
    found: list[Path] = []
    for root in roots:
        by_kind: dict[str, list[Path]] = {}
        for path in sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size >= 64):
            by_kind.setdefault(path.suffix, []).append(path)
        found += [p for paths in by_kind.values() for p in paths[:: max(1, len(paths) // 25)][:25]]
    order = np.random.default_rng(18).permutation(len(found))

    def ints(path: Path) -> NDArray[np.int32]:
        raw, row = path.read_bytes(), np.full((1, 2048), 256, np.int32)
        begin, end = raw[:4096].lstrip()[:1024], raw[-4096:].rstrip()[-1024:]
        row[0, : len(begin)] = np.frombuffer(begin, np.uint8)
        row[0, 2048 - len(end) :] = np.frombuffer(end, np.uint8)
        return row

    samples = [{"bytes": ints(found[i])} for i in order[: 64 + 400]]
    return of_file("magika", fetched.magika(), samples, 64, classifier=True, holdout=True, score=scores.agreement())


def orientation() -> Case:
    found = list(data.pages(64 + 400, 224, 19))
    samples = [{"x": data.normalized(x)[None]} for _, x in found]
    labels = np.array([-turns % 4 for turns, _ in found[64:]])  # its classes go to the right
    return of_file("orientation", fetched.orientation(), samples, 64, classifier=True, holdout=True, score=scores.top1(labels))


def yolo_cls() -> Case:
    samples = [{"images": x[None]} for _, x in data.tables(32 + 120, 640, 20)]
    return of_file("yolo-cls", fetched.yolo_cls(), samples, 32, classifier=True, holdout=True, score=scores.agreement())


HOLDOUT: dict[str, Callable[[], Case]] = {"magika": magika, "orientation": orientation, "yolo-cls": yolo_cls}
CASES: dict[str, Callable[[], Case]] = {
    "ocr-rec": ocr_rec,
    "ocr-det": ocr_det,
    "ocr-cls": ocr_cls,
    "mnist-conv": mnist_conv,
    "efficientnet-lite0": efficientnet,
    "minilm": minilm,
    "silero": silero,
    "demo": demo,
    "nudenet": nudenet,
    "table-cls": table_cls,
    "ocr6-det": ocr6_det,
    "ocr6-rec": ocr6_rec,
    "resemblyzer": resemblyzer,
    "deepfilternet2": deepfilternet2,
    "basic-pitch": basic_pitch,
    "openwakeword": openwakeword,
    "deep-sort": deep_sort,
    "crepe-tiny": lambda: crepe("tiny", 128, 800),
    "crepe-full": lambda: crepe("full", 64, 160),
    "mlp-mnist": lambda: example("mlp_mnist", 8, 16, 1250),
    "resnet9-cifar10": lambda: example("resnet9_cifar10", 8, 12, 250),
    "lstm-ptb": lambda: example("lstm_ptb", 1, 32, 48),
    "transformer-ptb": lambda: example("transformer_ptb", 1, 48, 96),
    "jax-encoder": jax_encoder,
    "bilstm": bilstm,
    **HOLDOUT,
}
