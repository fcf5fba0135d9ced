"""Preprocessing as part of the network: it takes the camera's bytes, and the normalization is a table for each channel.

The entries are the float32 numbers that `ImagePreprocessing.normalized` gives, so the network's results keep their bits. Where the first
layer reads integers, the entries are those integers: normalization and quantization together are one look at a table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lowbit.arguments import shown
from lowbit.data.image_preprocessing import EXAMPLE, ImagePreprocessing
from lowbit.errors import InputError
from lowbit.ir.build import Builder
from lowbit.ir.graph import PREPROCESSING, Graph, Value
from lowbit.ir.rewrite import renamed
from lowbit.ir.verify import verify
from lowbit.types import TensorType


def preprocessing_of(graph: Graph, name: str) -> str | None:
    """The preprocessing that is stored with the network for an input, as JSON."""
    return graph.notes.get(f"{PREPROCESSING}{name}")


def bake(graph: Graph, preprocessing: ImagePreprocessing | str | None = None, *, input: str | None = None, layout: str = "nhwc") -> Graph:
    """The network with its preprocessing in it: the input takes uint8 pixels in the size of the network.

    preprocessing  as in `lowbit.data.images`, as text ("mean=0.5,std=0.5") or None: the one that is stored with the network
    input          its name, where the network has several
    layout         of the pixels: "nhwc", as cameras and pictures have them, or "nchw"

    """
    name = _input_name(graph, input)
    old = next(v for v in graph.inputs if v.name == name)
    how = _checked(graph, preprocessing, name).for_input(name, old.type)
    if layout not in ("nhwc", "nchw"):
        raise InputError(f"layout={shown(layout)}, nhwc or nchw is needed", hint='layout="nhwc"')
    if not old.type.dtype.is_float:
        raise InputError(f"it is {old.type}: it takes integers already", where=f"input {name!r}", hint="the float network")
    real = Value(_unused(graph, f"{name}:real"), old.type)
    own = str(how.layout)
    sizes = dict(zip(own[1:], old.shape[-3:], strict=True))
    pixels = Value(name, TensorType((*old.shape[:-3], *(sizes[letter] for letter in layout[1:])), "uint8"))
    made = Builder(graph.name)
    x = made.input(name, pixels.type)
    if layout != own:
        lead = tuple(range(old.type.rank - 3))
        order = tuple(len(lead) + layout[1:].index(letter) for letter in own[1:])
        x = made.add("transpose", x, name=f"{name}:layout", perm=(*lead, *order))
    entries = how.normalized(np.arange(256, dtype=np.uint8)[:, None])  # 256 × channels, or × 1 where all are alike
    table = made.constant(np.ascontiguousarray(entries.T).astype(old.type.dtype.numpy), name=f"{real.name}:table")
    axis = old.type.rank - 3 + own[1:].index("c")
    front = made.finish({"x": made.add("channel_table", x, table, name=f"{name}:pixels", out=real.name, axis=axis)})
    after = renamed(graph, {name: real.name})
    notes = {**graph.notes, f"{PREPROCESSING}{name}": replace(how, layout=layout).to_json()}
    return verify(
        replace(
            after,
            inputs=tuple(pixels if v is old else v for v in graph.inputs),
            nodes=(*front.nodes, *after.nodes),
            constants={**front.constants, **after.constants},
            notes=notes,
        )
    )


def _unused(graph: Graph, name: str) -> str:
    while name in graph.values:
        name += "_"
    return name


def _checked(graph: Graph, given: Any, name: str) -> ImagePreprocessing:
    if isinstance(given, ImagePreprocessing):
        return given
    if isinstance(given, str):
        return ImagePreprocessing.parse(given)
    if given is not None:
        raise InputError(f"preprocessing={shown(given)}, a text like {EXAMPLE!r} is needed", hint=EXAMPLE)
    stored = preprocessing_of(graph, name)
    if stored is None:
        raise InputError("no preprocessing is stored with the network, and none is given", where=f"input {name!r}", hint=EXAMPLE)
    return ImagePreprocessing.from_json(stored)


def _input_name(graph: Graph, given: str | None) -> str:
    names = [v.name for v in graph.inputs]
    if given is None and len(names) == 1:
        return names[0]
    if given not in names:
        said = f"input={shown(given)} is none of them" if given is not None else f"the network has {len(names)} inputs"
        raise InputError(f"{said}: {', '.join(names)}", hint=f"input={names[0]!r}" if names else None)
    return given
