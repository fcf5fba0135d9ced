"""Einsums of groups are convolutions, negative padding is a slice: both run natively, and mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest
from passes_laws import check, f32, net_of, ops

import lowbit
from lowbit.decide.batches import Joined
from lowbit.decide.brackets import Pair
from lowbit.decide.candidates import Candidate, CandidateMaker
from lowbit.decide.points import find_points
from lowbit.decide.samples import split
from lowbit.decide.sensitivity import noise_shares
from lowbit.dims import symbol
from lowbit.passes.crop_pads import crop_pads
from lowbit.passes.group_einsum import group_einsum
from lowbit.quantization.rules import CalibratedQuantRule


@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (symbol("n"), 5, 3, 4), (7, 3, 4), (1, 1, 3, 4)])
def test_an_einsum_of_groups_is_a_convolution_with_groups(shape):
    letters = "abcdefg"[: len(shape) - 2] + "gi".replace("g", "x")
    equation = f"{letters},xih->{letters[:-1]}h"
    g = net_of(lambda n, x: n("einsum", x, f32(3, 4, 6), equation=equation), shape)
    made = check(g, group_einsum)
    assert ops(made) == ["reshape", "conv", "reshape"]


@pytest.mark.parametrize("equation", ["abgi,gih->abhg", "abgi,gih->agbh", "abgi,igh->abgh", "abgi,gig->abg"])
def test_other_einsums_stay(equation):
    weight = f32(*({"a": 2, "b": 5, "g": 3, "i": 3, "h": 6}[c] for c in equation.split(",")[1].split("->")[0]))
    g = net_of(lambda n, x: n("einsum", x, weight, equation=equation), (2, 5, 3, 3))
    assert group_einsum(g) is g


@pytest.mark.parametrize("pads", [(0, -2, 0, 2), (0, 2, 0, -2), (1, -1, 2, -1), (-1, 0, 0, 0), (-1, 3, 2, 1), (0, -1, -1, -2)])
def test_negative_padding_is_a_slice(pads):
    g = net_of(lambda n, x: n("pad", x, pads=pads, mode="constant", value=0.5), (4, 6))
    made = check(g, crop_pads, exact=True)
    assert "pad" not in ops(made) and ops(made)[0] == "slice"


def test_padding_that_adds_alone_or_has_open_sizes_stays():
    for pads, shape in (((0, 1, 0, 2), (4, 6)), ((0, -2, 0, 2), (symbol("n"), 6))):
        g = net_of(lambda n, x, p=pads: n("pad", x, pads=p, mode="constant", value=0.0), shape)
        assert crop_pads(g) is g


def test_a_shift_and_a_layer_of_groups_run_natively_in_float_and_integers():
    def network(n, x):
        shifted = n("pad", x, pads=(0, -2, 0, 0, 0, 2, 0, 0), mode="constant", value=0.0)
        return n("einsum", shifted, f32(8, 16, 8), equation="btgi,gih->btgh")

    g = lowbit.passes.simplify(net_of(network, (1, 20, 8, 16)))
    data = [{"x0": f32(1, 20, 8, 16)} for _ in range(6)]
    q = lowbit.quantize(g, data, guard=False)
    sessions = [lowbit.compile(net) for net in (g, q)]
    assert [s.backend for s in sessions] == ["native", "native"] and any(k.endswith(":int8") for k in q.constants)
    made, want = (s.run(data[0])["y0"] for s in reversed(sessions))
    assert np.abs(made - want).max() < 0.05 * np.abs(want).max()


def test_layers_of_groups_are_decided_about_like_others():
    def network(n, x):
        h = n("reshape", n("relu", n("einsum", x, f32(8, 16, 8), equation="btgi,gih->btgh")), shape=(1, 20, 64))
        both = n("reshape", n("add", h, n("linear", h, f32(64, 64))), shape=(1, 20, 8, 8))
        return n("einsum", both, f32(8, 8, 8), equation="btgi,gih->btgh")

    g = lowbit.passes.simplify(net_of(network, (1, 20, 8, 16)))
    data = [{"x0": f32(1, 20, 8, 16)} for _ in range(12)]
    maker = CandidateMaker(g, Joined(split(data).fit, 1), CalibratedQuantRule(".*", "int8"), None)
    candidate = Candidate(g, "mse")
    pair, units = Pair.bound(g, maker.make(candidate), data[5]), maker.units(candidate)
    shares = noise_shares(pair, data[5], units, find_points(g))
    assert len([u for u in units if u.startswith("weights ")]) == 3 and all(0 < s < 0.01 for s in shares.values())
