"""Interpolation of integers runs natively and as C, with the bits of the interpreter, whatever the mode and wherever the channels stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_tools import selftest
from native_laws import ISAS, same
from q_laws import bracketed, inputs, lowered, params, side

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.lower import lower
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType

MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SHAPES = (((2, 3, 5, 7), (2, 3, 11, 4)), ((1, 17, 4, 4), (1, 17, 8, 8)), ((2, 3, 6), (2, 3, 13)), ((3, 2, 1, 5), (3, 2, 4, 5)))


def attributes(mode: str, coordinates: str, sizes: tuple[int, ...], scales: Any = None, **others: Any) -> dict[str, Any]:
    plain = {"mode": mode, "coordinate_mode": coordinates, "sizes": sizes, "scales": scales or (None,) * len(sizes)}
    return plain | {"antialias": False, "exclude_outside": False, "cubic_coeff_a": -0.75} | others


def agrees(graph: Graph, feed: dict[str, Array]) -> None:
    """Every instruction set, any number of threads."""
    want = run(graph, feed)
    for isa in ISAS:
        for threads in (1, 3):
            session = Session(graph, threads=threads, isa=isa)
            assert session.backend == "native" and same(want, session.run(feed)), (isa, threads)


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_every_mode_has_the_bits_of_the_interpreter(mode: str, coordinates: str) -> None:
    rng = np.random.default_rng(1)
    for shape, sizes in SHAPES:
        for others in ({}, {"antialias": True}, {"exclude_outside": True}):
            x = side(rng, shape, "int8", 0.02)
            graph = lowered(bracketed("resize", [x], [params("int8", 0.03)], **attributes(mode, coordinates, sizes, **others)))
            assert [n.op for n in graph.nodes] == ["q_resize"]
            agrees(graph, inputs([x]))


def test_scales_that_are_no_whole_numbers_and_extreme_bytes() -> None:
    rng = np.random.default_rng(2)
    x = side(rng, (1, 20, 9, 9), "int8", 0.02)
    x.ints[:] = np.where(rng.random(x.ints.shape) < 0.5, -128, 127)
    graph = lowered(bracketed("resize", [x], [x.params], **attributes("cubic", "half_pixel", (1, 20, 15, 22), (None, None, 1.7, 2.45))))
    agrees(graph, inputs([x]))


def test_a_resize_to_the_same_size_is_a_requantize() -> None:
    x = side(np.random.default_rng(6), (1, 8, 6, 6), "int8", 0.02)
    graph = lowered(bracketed("resize", [x], [params("int8", 0.03)], **attributes("linear", "half_pixel", (1, 8, 6, 6))))
    assert [n.op for n in graph.nodes] == ["requantize"]
    agrees(graph, inputs([x]))


def test_weights_that_do_not_fit_are_left_to_the_interpreter() -> None:
    x = side(np.random.default_rng(3), (1, 2, 6, 6), "int8", 0.02)
    overshooting = attributes("cubic", "half_pixel", (1, 2, 12, 12), cubic_coeff_a=-60.0)
    graph, feed = lowered(bracketed("resize", [x], [x.params], **overshooting)), inputs([x])
    session = Session(graph)
    assert session.backend != "native" and same(run(graph, feed), session.run(feed))


def upsampled(channels: int) -> Graph:
    """conv → twice as large → conv, as segmentation networks have it."""
    rng = np.random.default_rng(4)
    b = Builder("up")

    def conv(x: Any, size: int, name: str) -> Any:
        w = b.constant(rng.standard_normal((size, int(x.shape[1]), 3, 3)).astype(np.float32), name=f"{name}.w")
        return b.add("conv", x, w, name=name, stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)

    x = conv(b.input("x", TensorType((1, 3, 6, 5), "float32")), channels, "first")
    large = b.add(
        "resize", b.add("relu", x), name="up", sizes=(1, channels, 12, 10), scales=(None,) * 4, mode="linear", coordinate_mode="half_pixel"
    )
    return verify(b.finish({"y": conv(large, 4, "last")}))


@pytest.mark.parametrize("channels", [3, 24])
def test_a_network_that_interpolates_is_native_between_its_layers_and_becomes_c(channels: int, tmp_path: Path) -> None:
    feed = {"x": np.random.default_rng(5).standard_normal((1, 3, 6, 5)).astype(np.float32)}
    graph = lower(lowbit.quantize(upsampled(channels), [feed], guard=False)).graph
    agrees(graph, feed)
    folder = tmp_path / "c"
    assert lowbit.emit_c(graph, folder, no_float=True, vectors=2, measure=False).exact
    selftest(folder, tmp_path / "test")
    assert "resize_s8" in (folder / "model.c").read_text()
