"""How a picture becomes the array that a network takes: size, channels, scale, mean, standard deviation and layout.

size=224                      the shorter side becomes 224 pixels, the middle is cut out (fit=stretch and fit=pad do otherwise)
mean=0.485,0.456,0.406        subtracted from pixels of 0 … 1
std=0.229,0.224,0.225         what is left is divided by it
layout=nchw                   channels first; nhwc: last
channels=rgb                  rgb, bgr or gray
scale=255                     pixels are divided by it before anything else; 1 keeps 0 … 255
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lowbit.arguments import is_real, shown
from lowbit.data.rows import need_library
from lowbit.errors import FormatError, InputError, ShapeError
from lowbit.files import unreadable
from lowbit.types import Array, TensorType

if TYPE_CHECKING:
    from PIL.Image import Image

PRESETS = {"imagenet": {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}}
CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1}
LAYOUTS = ("nchw", "nhwc")
FITS = ("crop", "stretch", "pad")
EXAMPLE = "size=224,mean=0.485,0.456,0.406,std=0.229,0.224,0.225,layout=nchw"
PAD = 114  # the gray that fills what a picture does not cover, as detectors are trained with


@dataclass(frozen=True)
class ImagePreprocessing:
    """Pixels p become (p / scale - mean) / std in float32, in this order, after the picture has its size.

    A value that is None is taken from the network's input, where it says it.
    """

    size: tuple[int, int] | None = None  # height, width
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str | None = None
    channels: str | None = None
    fit: str = "crop"
    scale: float = 255.0

    def __post_init__(self) -> None:
        checks = {
            "size": self.size is None or all(isinstance(n, int) and 0 < n < 1 << 16 for n in self.size),
            "mean": all(map(is_real, self.mean)),
            "std": all(is_real(s) and s > 0 for s in self.std),
            "layout": self.layout in (None, *LAYOUTS),
            "channels": self.channels in (None, *CHANNELS),
            "fit": self.fit in FITS,
            "scale": is_real(self.scale) and self.scale > 0,
        }
        needed = {
            "size": "224, or height,width", "mean": "one number, or one for each channel", "std": "numbers above 0",
            "layout": " or ".join(LAYOUTS), "channels": ", ".join(CHANNELS), "fit": ", ".join(FITS), "scale": "a number above 0",
        }  # fmt: skip
        for name, fine in checks.items():
            if not fine:
                raise InputError(f"{name}={shown(getattr(self, name))}, {needed[name]} is needed", where="--image", hint=EXAMPLE)

    # -- made ----------------------------------------------------------------------------------------------------------------

    @staticmethod
    def of(**given: Any) -> ImagePreprocessing:
        """From a person's values: numbers in the place of pairs and lists, None for what is not given.

        >>> ImagePreprocessing.of(size=224, mean=0.5, std=0.5).size
        (224, 224)
        """
        values = {k: v for k, v in given.items() if v is not None}
        known = {f.name for f in fields(ImagePreprocessing)}
        if unknown := sorted(set(values) - known):
            raise InputError(f"there is no {unknown[0]}=, there are {', '.join(sorted(known))}", where="--image", hint=EXAMPLE)
        if "size" in values:
            pair = _several(values["size"])
            values["size"] = (pair[0], pair[0]) if len(pair) == 1 else pair
            if len(pair) > 2:
                raise InputError(f"size={shown(given['size'])} has {len(pair)} numbers, 1 or 2 are needed", where="--image", hint=EXAMPLE)
        for name in ("mean", "std"):
            if name in values:
                values[name] = tuple(float(v) if is_real(v) else v for v in _several(values[name]))
        return ImagePreprocessing(**values)

    @staticmethod
    def parse(text: str) -> ImagePreprocessing:
        """From the text of --image; a value with several numbers has commas as well.

        >>> ImagePreprocessing.parse("size=224,mean=0.5,0.5,0.5,std=0.25").mean
        (0.5, 0.5, 0.5)
        """
        found: dict[str, list[str]] = {}
        for part in (p.strip() for p in text.split(",") if p.strip()):
            name, given, value = part.partition("=")
            if given:
                if name in found:
                    raise InputError(f"{name}= is given twice", where="--image", hint=EXAMPLE)
                found[name] = [value.strip()]
            elif part in PRESETS:
                found |= {k: [str(n) for n in v] for k, v in PRESETS[part].items()}
            elif found:
                found[next(reversed(found))].append(part)
            else:
                raise InputError(f"{part!r} is neither NAME=VALUE nor one of {', '.join(PRESETS)}", where="--image", hint=EXAMPLE)
        return ImagePreprocessing.of(**{k: _read(k, v) for k, v in found.items()})

    @staticmethod
    def from_json(text: str) -> ImagePreprocessing:
        try:
            values = json.loads(text)
            kind = values.pop("kind")
        except (ValueError, AttributeError, KeyError) as e:
            raise FormatError("the stored preprocessing cannot be read", hint="state it anew: --image") from e
        if kind != "image":
            raise FormatError(f"the stored preprocessing is for {kind!r}, a picture was given", hint="arrays from .npy files")
        return ImagePreprocessing.of(**values)

    def to_json(self) -> str:
        return json.dumps({"kind": "image", **asdict(self)})

    def for_input(self, name: str, t: TensorType) -> ImagePreprocessing:
        """With the size, channels and layout that the input says; an error where both say something else."""
        where = f"input {name!r}"
        if not t.dtype.is_float and t.dtype.name != "uint8":
            raise ShapeError(f"it is {t}, pictures need float32 or uint8", where=where, hint="data as .npz files")
        if t.rank not in (3, 4):
            raise ShapeError(f"it is {t}, pictures need a shape like [1, 3, 224, 224]", where=where, hint="data as .npz files")
        dims = [d if isinstance(d, int) else None for d in t.shape[-3:]]
        layout = self.layout or self._layout_of(dims, where, t)
        count, *rest = dims if layout == "nchw" else (dims[2], dims[0], dims[1])
        height, width = rest
        size = self.size
        if size is None:
            if height is None or width is None:
                raise InputError(f"the network leaves height and width open ({t})", where=where, hint="--image size=224")
            size = (height, width)
        elif (height or size[0], width or size[1]) != size:
            raise ShapeError(f"size={size[0]},{size[1]}, and the network takes {height}×{width} ({t})", where=where, hint="without size=")
        channels = self.channels or ("gray" if count == 1 else "rgb")
        if count is not None and CHANNELS[channels] != count:
            hint = (
                f"layout={LAYOUTS[layout == 'nchw']}, or arrays from .npz files" if count not in (1, 3) else "channels=gray or channels=rgb"
            )
            raise ShapeError(f"channels={channels} are {CHANNELS[channels]}, the network takes {count} ({t})", where=where, hint=hint)
        for said in ("mean", "std"):
            if len(getattr(self, said)) not in (1, CHANNELS[channels]):
                have = len(getattr(self, said))
                raise InputError(f"{said}= has {have} numbers for {CHANNELS[channels]} channels", where=where, hint=EXAMPLE)
        return replace(self, size=size, channels=channels, layout=layout)

    def _layout_of(self, dims: list[int | None], where: str, t: TensorType) -> str:
        first, last = dims[0] in (1, 3), dims[2] in (1, 3)
        if first == last:
            raise InputError(f"{t} does not say where the channels are", where=where, hint="--image layout=nchw (or nhwc)")
        return "nchw" if first else "nhwc"

    # -- used ----------------------------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return 3

    def pixels(self, image: Image) -> Array:
        """The picture in its size and channels: uint8, height × width × channels."""
        from PIL import Image as images

        assert self.size is not None and self.channels is not None
        if image.mode.startswith("I"):  # 16 bits: the upper eight are the pixel
            image = images.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
        image = image.convert("L" if self.channels == "gray" else "RGB")
        height, width = self.size
        if self.fit != "stretch" and image.size != (width, height):
            pick = max if self.fit == "crop" else min
            times = pick(width / image.width, height / image.height)
            scaled = (max(1, round(image.width * times)), max(1, round(image.height * times)))
            image = image.resize(scaled, images.Resampling.BILINEAR)
            left, top = (scaled[0] - width) // 2, (scaled[1] - height) // 2
            if self.fit == "crop":
                image = image.crop((left, top, left + width, top + height))
            else:
                padded = images.new(image.mode, (width, height), PAD if image.mode == "L" else (PAD,) * 3)
                padded.paste(image, (-left, -top))
                image = padded
        elif image.size != (width, height):
            image = image.resize((width, height), images.Resampling.BILINEAR)
        found = np.asarray(image, np.uint8).reshape(height, width, -1)
        return np.ascontiguousarray(found[..., ::-1]) if self.channels == "bgr" else found

    def normalized(self, pixels: Array) -> Array:
        """(p / scale - mean) / std in float32, for pixels with their channels last."""
        x = pixels.astype(np.float32) / np.float32(self.scale)
        return (x - np.asarray(self.mean, np.float32)) / np.asarray(self.std, np.float32)

    def row(self, path: Path, t: TensorType) -> Array:
        """A picture's file as the network takes it; its pixels, if the network holds its preprocessing."""
        images = need_library("PIL.Image", "images", "reading pictures")
        try:
            with images.open(path) as image:
                x = self.pixels(image) if t.dtype.name == "uint8" else self.normalized(self.pixels(image))
        except (OSError, ValueError, SyntaxError, images.DecompressionBombError) as e:  # SyntaxError: what Pillow says of broken files
            hint = "leave it out, or save it anew"
            raise FormatError(f"it is not a readable picture ({unreadable(e)})", where=str(path), hint=hint) from e
        return np.ascontiguousarray(x.transpose(2, 0, 1)) if self.layout == "nchw" else x

    def __str__(self) -> str:
        size = "" if self.size is None else f"{self.size[0]}×{self.size[1]}, "
        means, stds = (",".join(f"{v:g}" for v in vs) for vs in (self.mean, self.std))
        return f"{size}{self.channels or 'rgb'}, {self.fit}, (pixel / {self.scale:g} - {means}) / {stds}"


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value,)


def _read(name: str, values: list[str]) -> Any:
    """Texts as whole numbers (size), numbers, or as they are."""
    if name == "size":
        values = [v for text in values for v in text.lower().split("x")]
    if name in ("layout", "channels", "fit"):
        return values[0].lower() if len(values) == 1 else values
    try:
        return [int(v) if name == "size" else float(v) for v in values] if name != "scale" else float(values[0])
    except ValueError:
        bad = ",".join(values)
        raise InputError(f"{name}={bad} is no number", where="--image", hint=EXAMPLE) from None
