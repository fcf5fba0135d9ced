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


def people(half: int) -> list[NDArray[np.uint8]]:
    """Portraits from the tests of face_recognition (MIT); halves 0 and 1 share no photograph."""
    import PIL.Image

    folder = pypi("face_recognition", "1.3.0", sdist=True) / "tests" / "test_images"
    names = ("biden.jpg", "obama2.jpg", "32bit.png"), ("obama.jpg", "obama3.jpg", "obama_partial_face2.jpg")
    return [np.asarray(PIL.Image.open(folder / n).convert("RGB"), np.uint8) for n in names[half]]


def stamped(count: int, height: int, width: int, seed: int, half: int, more: list[NDArray[np.uint8]] | None = None) -> Iterator[Image]:
    """Crops of photographs (and of `more`), many with a stamp on them, (3, H, W) in 0 … 1. Halves 0 and 1 share no picture."""
    import PIL.Image

    rng, things = np.random.default_rng(seed), stamps()[half::2]
    for ground in crops(count, height, width, seed, [*photographs()[half::2], *(more or ())]):
        x = ground
        if rng.random() < (0.3 if more else 0.7):
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


def mel(x: NDArray[np.float32], bands: int = 40, size: int = 400, hop: int = 160) -> NDArray[np.float32]:
    """Powers in mel bands (Slaney's, of equal area) of Hann windows centred on every `hop` samples at 16 kHz: (frames, bands)."""
    padded = np.pad(x, size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop] * np.hanning(size + 1)[:-1]
    power = np.abs(np.fft.rfft(frames)) ** 2

    def hertz(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))

    top = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    edges, bins = hertz(np.linspace(0, top, bands + 2)), np.fft.rfftfreq(size, 1 / RATE)
    up = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    filters = np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    return (power @ filters.T).astype(np.float32)


class Spectra:
    """Spectra of noisy speech at 48 kHz as DeepFilterNet2 reads them, and the enhanced spectrum that its outputs make of them."""

    def __init__(self, bands: NDArray[np.float32], count: int, frames: int, seed: int, half: int) -> None:
        """`bands` (481, 32) are the network's, each of sum 1."""
        self.inverse = (bands > 0).astype(np.float64).T
        self.spectra: list[NDArray[np.complex128]] = []  # (T, 481)
        self.samples: list[dict[str, NDArray[np.float32]]] = []
        from scipy.signal import resample_poly

        window = np.sin(np.pi / 2 * np.sin(np.pi * (np.arange(960) + 0.5) / 960) ** 2)  # Vorbis'
        rng = np.random.default_rng(seed)
        for _, x in clips(count, (frames + 101) * RATE // 100, seed, half):
            sound = resample_poly(x, 3, 1)
            colour = np.cumsum(rng.standard_normal(len(sound))) if rng.random() < 0.3 else rng.standard_normal(len(sound))
            colour = colour - np.convolve(colour, np.ones(481) / 481, "same")  # no drift
            sound = sound + 10 ** (-rng.uniform(0, 25) / 20) * sound.std() * colour / colour.std()
            pieces = np.lib.stride_tricks.sliding_window_view(sound, 960)[::480]
            spectrum = np.fft.rfft(pieces * window) / 960
            erb, spec = self.features(spectrum, bands)
            self.spectra.append(spectrum[100 : 100 + frames])  # the running means have settled
            spec = spec[100 : 100 + frames]
            both = np.stack([spec.real, spec.imag])[None].astype(np.float32)
            self.samples.append({"erb": erb[None, None, 100 : 100 + frames].astype(np.float32), "spec": both})

    @staticmethod
    def features(spectrum: NDArray[np.complex128], bands: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
        """Decibels of the bands without their running mean, and the lowest 96 bins by the root of their running mean."""
        erb = 10 * np.log10(np.abs(spectrum) ** 2 @ bands + 1e-10)
        spec = spectrum[:, :96].copy()
        mean, size, keep = np.linspace(-60, -90, 32), np.linspace(1e-3, 1e-4, 96), 0.99
        for t in range(len(erb)):
            mean = (1 - keep) * erb[t] + keep * mean
            size = (1 - keep) * np.abs(spec[t]) + keep * size
            erb[t] = (erb[t] - mean) / 40
            spec[t] /= np.sqrt(size)
        return erb, spec

    def enhanced(self, at: int, mask: NDArray[Any], filters: NDArray[Any]) -> NDArray[np.complex128]:
        """Sample `at` by the outputs for it: bands are dimmed, then the lowest 96 bins filtered over five frames, two of them ahead."""
        y = self.spectra[at] * (mask[0, 0] @ self.inverse)
        low = np.pad(y[:, :96], ((2, 2), (0, 0)))
        coefs = filters[0, ..., 0] + 1j * filters[0, ..., 1]  # (5, T, 96)
        y[:, :96] = sum(low[k : k + len(y)] * coefs[k] for k in range(5))
        return y


def music(count: int, length: int, rate: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Melodies and chords of harmonic, fading notes, (length,) in -1 … 1."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, at = np.zeros(length), 0
        while at < length:
            size = int(rate * rng.uniform(0.12, 0.6))
            t = np.arange(min(2 * size, length - at)) / rate
            for key in rng.integers(36, 84, int(rng.integers(1, 4))):
                pitch, bright = 440 * 2 ** ((int(key) - 69) / 12), rng.uniform(0.5, 1.8)
                for k in range(1, 9):
                    if k * pitch < 0.45 * rate:
                        fade = np.minimum(t / 0.01, 1) * np.exp(-t * rng.uniform(1, 6))
                        x[at : at + len(t)] += k**-bright * fade * np.sin(2 * np.pi * k * pitch * t)
            at += size
        x *= rng.uniform(0.1, 0.9) / max(float(np.abs(x).max()), 1e-9)
        yield (x + 10 ** rng.uniform(-5, -2.5) * rng.standard_normal(length)).astype(np.float32)


def pages(count: int, size: int, seed: int) -> Iterator[tuple[int, Image]]:
    """Pages of print turned by k quarters to the left: k, and (3, size, size) in 0 … 1."""
    import PIL.Image
    from PIL import ImageDraw, ImageFont

    rng, faces = np.random.default_rng(seed), typefaces()
    text = " ".join(words(60, 400, seed)).split()
    for _ in range(count):
        wide, high = int(rng.integers(350, 600)), int(rng.integers(350, 600))
        paper, ink = tuple(int(v) for v in rng.integers(200, 256, 3)), tuple(int(v) for v in rng.integers(0, 90, 3))
        page = PIL.Image.new("RGB", (wide, high), paper)
        draw, pt = ImageDraw.Draw(page), int(rng.integers(16, 34))
        font = ImageFont.truetype(str(faces[int(rng.integers(len(faces)))]), pt)
        at = int(rng.integers(0, len(text) - 400))
        for top in range(15, high - pt - 10, int(pt * rng.uniform(1.2, 1.8))):
            line = ""
            while font.getlength(line + " " + text[at]) < wide - 40:
                line, at = f"{line} {text[at]}", at + 1
            draw.text((20, top), line, ink, font)
        turns = int(rng.integers(4))
        x = np.rot90(np.asarray(page.resize((size, size), PIL.Image.Resampling.BILINEAR), np.float32) / 255, turns)
        yield turns, np.ascontiguousarray(x.transpose(2, 0, 1))
