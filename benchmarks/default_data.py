"""Pictures, pages and sounds for default_cases.py, out of public packages: photographs, stamps, rendered tables, speech, tones."""

from __future__ import annotations

import wave
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_cases import crops, photographs, typefaces, words
from numpy.typing import NDArray

from zoo.fetch import debian, pypi

Image = NDArray[np.float32]
RATE = 16000  # of all sounds
MEAN, STD = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1), np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)


def normalized(x: Image) -> Image:
    """An image of 0 … 1 by ImageNet's mean and deviation."""
    return ((x - MEAN) / STD).astype(np.float32)


def stamps(folders: tuple[str, ...] = ("animals", "food", "plants", "people", "household", "clothes", "vehicles")) -> list[Path]:
    """Photographs and drawings of single things, cut out, from tuxpaint's stamps; a picture's folder says what it shows."""
    root = debian("tuxpaint-stamps-default") / "usr" / "share" / "tuxpaint" / "stamps"
    return [p for f in folders for p in sorted((root / f).rglob("*.png")) if "_mirror" not in p.stem and "_flip" not in p.stem]


def stamped(count: int, height: int, width: int, seed: int, half: int) -> Iterator[Image]:
    """Crops of photographs, most with a stamp on them, (3, H, W) in 0 … 1. Halves 0 and 1 share neither photograph nor stamp."""
    import PIL.Image

    rng, things = np.random.default_rng(seed), stamps()[half::2]
    for ground in crops(count, height, width, seed, photographs()[half::2]):
        x = ground
        if rng.random() < 0.7:
            thing = PIL.Image.open(things[int(rng.integers(len(things)))]).convert("RGBA")
            scale = rng.uniform(0.5, 1.0) * min(height / thing.height, width / thing.width)
            thing = thing.resize((max(8, int(thing.width * scale)), max(8, int(thing.height * scale))), PIL.Image.Resampling.BICUBIC)
            top, left = (int(rng.integers(0, a - b + 1)) for a, b in ((height, thing.height), (width, thing.width)))
            rgba = np.asarray(thing, np.float32).transpose(2, 0, 1) / 255
            x = x if rng.random() < 0.5 else np.full_like(x, rng.uniform(0.6, 1))
            part = x[:, top : top + thing.height, left : left + thing.width]
            part[:] = part * (1 - rgba[3:]) + rgba[:3] * rgba[3:]
        yield np.ascontiguousarray(np.clip(x, 0, 1))


def tables(count: int, size: int, seed: int) -> Iterator[tuple[bool, Image]]:
    """Photographed tables: whether lines are drawn around the cells, and (3, size, size) in 0 … 1."""
    import PIL.Image
    from PIL import ImageDraw, ImageFont

    rng, faces = np.random.default_rng(seed), typefaces()
    texts = " ".join(words(40, 200, seed)).split()
    for _ in range(count):
        lined = bool(rng.random() < 0.5)
        rows, columns = int(rng.integers(3, 12)), int(rng.integers(2, 7))
        wide, high = int(rng.integers(500, 900)), int(rng.integers(300, 800))
        paper, ink = tuple(int(v) for v in rng.integers(215, 256, 3)), tuple(int(v) for v in rng.integers(0, 90, 3))
        page = PIL.Image.new("RGB", (wide, high), paper)
        draw = ImageDraw.Draw(page)
        font = ImageFont.truetype(str(faces[int(rng.integers(len(faces)))]), int(rng.integers(12, 24)))
        xs, ys = (np.linspace(20, a - 20, n + 1).astype(int) for a, n in ((wide, columns), (high, rows)))
        for r in range(rows):
            for c in range(columns):
                text = " ".join(texts[int(k)] for k in rng.integers(0, len(texts), int(rng.integers(1, 3))))
                text = f"{rng.uniform(0, 1000):.{int(rng.integers(0, 3))}f}" if rng.random() < 0.5 and r else text
                draw.text((int(xs[c]) + 5, int(ys[r]) + 4), text[: max(2, (xs[1] - xs[0]) // 10)], ink, font)
        if lined:
            for x in xs:
                draw.line([(int(x), int(ys[0])), (int(x), int(ys[-1]))], ink, int(rng.integers(1, 3)))
            for y in ys:
                draw.line([(int(xs[0]), int(y)), (int(xs[-1]), int(y))], ink, int(rng.integers(1, 3)))
        elif rng.random() < 0.6:  # a rule above and below, as books print them
            for y in (ys[0], ys[1], ys[-1]):
                draw.line([(20, int(y)), (wide - 20, int(y))], ink, 2)
        page = page.rotate(float(rng.uniform(-2, 2)), PIL.Image.Resampling.BICUBIC, expand=True, fillcolor=paper)
        x = np.asarray(page.resize((size, size), PIL.Image.Resampling.BILINEAR), np.float32).transpose(2, 0, 1) / 255
        noise = np.float32(rng.uniform(0, 0.02)) * rng.standard_normal(x.shape).astype(np.float32)
        yield lined, np.ascontiguousarray(np.clip(x + noise, 0, 1))


def sound(path: Path) -> NDArray[np.float32]:
    """A .wav file of one channel at 16 kHz, -1 … 1."""
    from scipy.signal import resample_poly

    with wave.open(str(path)) as f:
        x = np.frombuffer(f.readframes(f.getnframes()), np.int16).astype(np.float32) / 32768
        x, rate = x.reshape(-1, f.getnchannels()).mean(1), f.getframerate()
    return x if rate == RATE else resample_poly(x, RATE, rate).astype(np.float32)


@lru_cache(1)
def speech() -> dict[str, list[NDArray[np.float32]]]:
    """Recordings by who speaks: readers of LibriVox and of playing cards (pocketsphinx), a telephone's voice (asterisk, 8 kHz)."""
    data = pypi("pocketsphinx", "5.1.1", sdist=True) / "test" / "data"
    prompts = debian("asterisk-core-sounds-en-wav") / "usr" / "share" / "asterisk" / "sounds"
    found = {
        "book": [sound(p) for p in sorted((data / "librivox").glob("*.wav"))],
        "cards": [sound(p) for p in sorted((data / "cards").glob("*.wav"))],
        "prompts": [x for x in map(sound, sorted(prompts.rglob("*.wav"))[::2]) if len(x) > RATE],
    }
    return found


def clips(count: int, length: int, seed: int, half: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Pieces of speech with pauses, in changing loudness and noise: who speaks, and (length,). Halves 0 and 1 share no recording."""
    rng, voices = np.random.default_rng(seed), [v[half::2] for v in speech().values()]
    for i in range(count):
        who = i % len(voices)
        x = np.zeros(0, np.float32)
        while len(x) < length + RATE:
            x = np.concatenate([x, voices[who][int(rng.integers(len(voices[who])))], np.zeros(int(rng.uniform(0, 0.5) * RATE), np.float32)])
        at = int(rng.integers(0, len(x) - length))
        x = x[at : at + length]
        loud = 10 ** rng.uniform(-1.6, -0.4) / max(float(np.abs(x).max()), 1e-3)
        noise = 10 ** rng.uniform(-4.5, -2) * rng.standard_normal(length)
        yield who, np.clip(x * loud + noise, -1, 1).astype(np.float32)


def tones(count: int, length: int, seed: int, rate: int = RATE) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """Harmonic tones as voices and instruments have them, some noisy: the pitch in Hz, and (length,) in -1 … 1."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) / rate
    for _ in range(count):
        pitch = float(np.exp(rng.uniform(np.log(60), np.log(1200))))
        strengths = rng.uniform(0.2, 1, 12) * np.arange(1, 13) ** -rng.uniform(0.3, 1.8)
        x = np.zeros(length)
        for k, strength in enumerate(strengths, 1):
            if k * pitch < 0.45 * rate:
                x += strength * np.sin(2 * np.pi * (k * pitch * t + rng.random()))
        x *= rng.uniform(0.05, 0.8) / max(float(np.abs(x).max()), 1e-9)
        yield pitch, (x + rng.choice([0.0, 0.001, 0.01]) * rng.standard_normal(length)).astype(np.float32)


def batches(rows: NDArray[Any], size: int, name: str) -> list[dict[str, NDArray[Any]]]:
    """Samples of `size` rows each for the input `name`; rows that fill no batch are left out."""
    return [{name: np.ascontiguousarray(rows[i : i + size])} for i in range(0, len(rows) - size + 1, size)]
