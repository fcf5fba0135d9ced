"""Movement that follows movement is merged, and transposes meet their inverses; every element stays exactly what it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passes_laws import Net, check, f32, net_of, ops

from lowbit.dims import symbol
from lowbit.passes import simplify

BATCH, SEQ = symbol("batch"), symbol("seq")
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def cut(n, x, axes, starts, ends, steps=None):
    return n("slice", x, axes=axes, starts=starts, ends=ends, steps=steps or (1,) * len(axes))


MERGED = {
    "reshape of reshape": (["reshape"], lambda n, x: n("reshape", n("reshape", x, shape=(6, 20)), shape=(4, 30))),
    "reshape and back": ([], lambda n, x: n("reshape", n("reshape", x, shape=(6, 20)), shape=(2, 3, 4, 5))),
    "transpose of transpose": (["transpose"], lambda n, x: n("transpose", n("transpose", x, perm=(1, 2, 0, 3)), perm=(3, 0, 1, 2))),
    "transpose and back": ([], lambda n, x: n("transpose", n("transpose", x, perm=TO_LAST), perm=TO_FIRST)),
    "slice of slice": (
        ["slice"],
        lambda n, x: cut(n, cut(n, x, (2, 3), (1, 0), (4, 4)), (0, 2, 3), (1, 1, 0), (2, 3, 3), (1, 1, 2)),
    ),
    "concat of concat": (["neg", "exp", "concat"], lambda n, x: n("concat", n("concat", x, n("neg", x), axis=1), n("exp", x), axis=1)),
    "concat of all parts": ([], lambda n, x: n("concat", *n.add_node("split", x, axis=3, sizes=(1, 3, 1)), axis=3)),
    "expand of expand": (["expand"], lambda n, x: n("expand", n("expand", x, shape=(1, 2, 3, 4, 5)), shape=(3, 2, 3, 4, 5))),
    "flip and back": ([], lambda n, x: n("flip", n("flip", x, axes=(1, 2)), axes=(1, 2))),
    "cast up and down": ([], lambda n, x: n("cast", n("cast", x, to="float64"), to="float32")),
    "a transpose before a mean": (
        ["reduce_mean"],
        lambda n, x: n("reduce_mean", n("transpose", x, perm=TO_LAST), axes=(1, 2), keepdims=False),
    ),
}


@pytest.mark.parametrize(("left", "build"), MERGED.values(), ids=MERGED.keys())
def test_movement_that_follows_movement_is_merged(left, build):
    exact = "reduce_mean" not in left  # another order of addition
    assert ops(check(net_of(build, (2, 3, 4, 5)), exact=exact)) == left


KEPT = {
    "two turns that are no identity": (1, lambda n, x: n("transpose", n("transpose", x, perm=TO_LAST), perm=TO_LAST)),
    "a slice of a stepped slice": (2, lambda n, x: cut(n, cut(n, x, (3,), (0,), (5,), (2,)), (3,), (1,), (3,))),
    "concat along another axis": (2, lambda n, x: n("concat", n("concat", x, x, axis=1), n("concat", x, x, axis=1), axis=2)),
    "parts in another order": (2, lambda n, x: n("concat", *n.add_node("split", x, axis=3, sizes=(1, 3, 1))[::-1], axis=3)),
    "cast down and up": (2, lambda n, x: n("cast", n("cast", x, to="float16"), to="float32")),
    "a mean that keeps another order": (
        2,
        lambda n, x: n("reduce_max", n("transpose", x, perm=(0, 3, 2, 1)), axes=(0,), keepdims=False),
    ),
}


@pytest.mark.parametrize(("count", "build"), KEPT.values(), ids=KEPT.keys())
def test_movement_that_cannot_be_merged_stays(count, build):
    assert len(check(net_of(build, (2, 3, 4, 5)), exact=True)) == count


HEADS = {
    "heads merged with the batch": (
        ["transpose", "reshape"],
        (5, 8, 4),
        [("transpose", (1, 2, 0)), ("reshape", (2, 4, 4, 5)), ("transpose", (0, 1, 3, 2))],
    ),
    "heads split off through the batch": (
        ["reshape", "transpose"],
        (5, 2, 16),
        [("reshape", (5, 8, 4)), ("transpose", (1, 0, 2)), ("reshape", (2, 4, 5, 4))],
    ),
    "a one that comes and goes": (
        ["reshape", "transpose"],
        (5, 2, 48),
        [("reshape", (1, 5, 2, 3, 16)), ("transpose", (3, 1, 2, 0, 4)), ("reshape", (3, 5, 2, 16))],
    ),
    "a shuffle of channels and back": (
        [],
        (2, 6, 4),
        [("reshape", (2, 2, 3, 4)), ("transpose", (0, 2, 1, 3)), ("reshape", (2, 6, 4))]
        + [("reshape", (2, 3, 2, 4)), ("transpose", (0, 2, 1, 3)), ("reshape", (2, 6, 4))],
    ),
    "a shuffle of channels": (
        ["reshape", "transpose", "reshape"],
        (2, 6, 4),
        [("reshape", (2, 2, 3, 4)), ("transpose", (0, 2, 1, 3)), ("reshape", (2, 6, 4))],
    ),
    "sizes that do not divide": (
        ["transpose", "reshape", "transpose"],
        (4, 9),
        [("transpose", (1, 0)), ("reshape", (6, 6)), ("transpose", (1, 0))],
    ),
    "a reshape between two turns": (
        ["transpose", "reshape"],
        (2, 3, 4, 5),
        [("transpose", TO_LAST), ("reshape", (2, 4, 15)), ("transpose", (0, 2, 1))],
    ),
    "symbols": (
        ["reshape", "transpose"],
        (SEQ, BATCH, 16),
        [("reshape", (SEQ, BATCH * 4, 4)), ("transpose", (1, 0, 2)), ("reshape", (BATCH, 4, SEQ, 4))],
    ),
}


def views(n, x, steps):
    for op, arg in steps:
        x = n(op, x, shape=arg) if op == "reshape" else n(op, x, perm=arg)
    return x


@pytest.mark.parametrize(("left", "shape", "steps"), HEADS.values(), ids=HEADS.keys())
def test_chains_of_views_are_as_short_as_they_can_be(left, shape, steps):
    assert ops(check(net_of(lambda n, x: views(n, x, steps), shape), exact=True)) == left


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_chain_of_views_keeps_every_element_and_has_three_steps_at_most(data):
    shape = data.draw(st.permutations([2, 4, 2, 1, 8]))  # powers of 2: of two sizes one always divides the other
    steps, now = [], list(shape)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            perm = data.draw(st.permutations(range(len(now))))
            steps.append(("transpose", tuple(perm)))
            now = [now[p] for p in perm]
        else:
            now = _other_shape(data, now)
            steps.append(("reshape", tuple(now)))
    after = check(net_of(lambda n, x: views(n, x, steps), tuple(shape)), exact=True)
    assert len(after) <= 3


def _other_shape(data, shape):
    """Dimensions merged with a neighbour, or split in two."""
    i = data.draw(st.integers(0, len(shape) - 1))
    if i + 1 < len(shape) and data.draw(st.booleans()):
        return [*shape[:i], shape[i] * shape[i + 1], *shape[i + 2 :]]
    part = data.draw(st.sampled_from([k for k in range(1, shape[i] + 1) if shape[i] % k == 0]))
    return [*shape[:i], part, shape[i] // part, *shape[i + 1 :]]


def test_integers_go_through_wider_types_unchanged():
    net = Net()
    x = net.x(4, dtype="int8")
    g = net.graph(net("cast", net("cast", net("cast", x, to="int32"), to="float32"), to="int8"))
    assert ops(check(g, exact=True)) == []
    net = Net()
    g = net.graph(net("cast", net("cast", net.x(4, dtype="int32"), to="float32"), to="int64"))
    assert ops(check(g, exact=True)) == ["cast", "cast"]  # float32 does not hold every int32


def test_a_transpose_of_axes_of_size_one_is_a_reshape():
    g = net_of(lambda n, x: n("transpose", x, perm=(0, 2, 3, 1)), (2, 1, 4, 5))
    assert ops(check(g, exact=True)) == ["reshape"]
    batch = symbol("batch")
    g = net_of(lambda n, x: n("reshape", n("transpose", x, perm=(1, 0, 2)), shape=(batch, 5)), (batch, 1, 5))
    assert ops(check(g, exact=True)) == ["reshape"]


def test_a_transpose_of_a_constant_is_a_constant():
    g = net_of(lambda n, x: n("add", x, n("transpose", f32(4, 3), perm=(1, 0))), (3, 4))
    assert ops(check(g, exact=True)) == ["add"]


def conv(n, x, o, i):
    return n("conv", x, f32(o, i, 1, 1), stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1)


def test_transposes_cancel_through_elementwise_ops():
    def channels_last(n, x):
        y = n("transpose", conv(n, x, 6, 3), perm=TO_LAST)
        y = n("clip", n("sigmoid", n("mul", y, f32(5, 5, 6))), min=0.1, max=0.9)
        return conv(n, n("transpose", y, perm=TO_FIRST), 2, 6)

    assert ops(check(net_of(channels_last, (2, 3, 5, 5)))) == ["conv", "mul", "sigmoid", "clip", "conv"]


def test_a_residual_network_written_channels_last_has_no_transposes_left():
    def block(n, x):  # x and the result are (N, H, W, C)
        y = n("transpose", conv(n, n("transpose", x, perm=TO_FIRST), 6, 6), perm=TO_LAST)
        return n("relu", n("add", y, x))

    def model(n, x):
        y = n("relu", n("transpose", conv(n, x, 6, 3), perm=TO_LAST))
        for _ in range(3):
            y = block(n, y)
        return n("reduce_mean", y, axes=(1, 2), keepdims=False)

    after = check(net_of(model, (2, 3, 5, 5)))
    assert "transpose" not in ops(after) and ops(after).count("conv") == 4


def test_concat_pad_softmax_and_reductions_are_said_for_the_other_order():
    def model(n, x):
        y = n("transpose", x, perm=TO_LAST)
        z = n("transpose", n("exp", x), perm=TO_LAST)
        y = n("pad", n("concat", y, z, axis=3), pads=(0, 1, 2, 0, 0, 3, 0, 0), mode="constant")
        y = n("softmax", y, axis=3)
        return n("transpose", n("reduce_max", y, axes=(1,), keepdims=True), perm=TO_FIRST)

    assert "transpose" not in ops(check(net_of(model, (2, 3, 4, 5))))


def test_transposes_on_both_sides_of_a_linear_go():
    g = net_of(lambda n, x: n("transpose", n("linear", n("transpose", x, perm=(1, 0, 2)), f32(6, 4)), perm=(1, 0, 2)), (2, 5, 4))
    assert ops(check(g)) == ["linear"]


def test_a_transpose_moves_past_a_linear_to_the_views_on_its_other_side():
    def into(n, x):  # (batch, seq, 8) to (heads of seq-first queries)
        y = n("linear", n("transpose", x, perm=(1, 0, 2)), f32(12, 8), f32(12))
        return n("exp", n("transpose", n("reshape", y, shape=(5, 2, 3, 4)), perm=(1, 2, 0, 3)))

    def out_of(n, x):
        y = n("reshape", n("transpose", n("exp", x), perm=(2, 0, 1, 3)), shape=(5, 2, 12))
        return n("transpose", n("linear", y, f32(8, 12), f32(8)), perm=(1, 0, 2))

    assert ops(check(net_of(into, (2, 5, 8)))) == ["linear", "reshape", "transpose", "exp"]
    assert ops(check(net_of(out_of, (2, 3, 5, 4)))) == ["exp", "transpose", "reshape", "linear"]


def test_a_transpose_that_moves_the_features_stays_where_it_is():
    g = net_of(lambda n, x: n("reshape", n("linear", n("transpose", x, perm=(0, 2, 1)), f32(6, 5)), shape=(2, 24)), (2, 5, 4))
    assert ops(check(g)) == ["transpose", "linear", "reshape"]


def test_a_mean_that_keeps_its_axes_leaves_less_to_transpose():
    g = net_of(lambda n, x: n("reduce_max", n("transpose", x, perm=(2, 3, 0, 1)), axes=(1,), keepdims=True), (2, 3, 4, 5))
    assert ops(check(g, exact=True)) == ["reduce_max", "transpose"]


def test_transposes_of_which_one_is_needed_stay():
    def two_orders(n, x):
        y = n("transpose", x, perm=TO_LAST)
        return n("softmax", y, axis=1), n("transpose", n("relu", y), perm=TO_FIRST)

    after = check(net_of(two_orders, (2, 3, 5, 5)))
    assert ops(after).count("transpose") <= 2

    g = net_of(lambda n, x, y: n("transpose", n("add", n("transpose", x, perm=TO_LAST), y), perm=TO_FIRST), (2, 3, 4, 5), (2, 4, 5, 3))
    assert ops(check(g, exact=True)) == ["transpose", "add", "transpose"]  # y would need one of its own


def test_outputs_in_the_middle_keep_their_order():
    def model(n, x):
        y = n("relu", n("transpose", x, perm=TO_LAST))
        return y, n("exp", n("transpose", y, perm=TO_FIRST))

    after = check(net_of(model, (2, 3, 4, 5)), exact=True)
    assert ops(after).count("transpose") == 1 and after.outputs["y0"].shape == (2, 4, 5, 3)
    assert np.prod(after.outputs["y1"].shape) == 120


def test_a_chain_of_doublings_does_not_grow():
    def doubled(n, x):
        for _ in range(60):
            x = n("concat", x, x, axis=0)
        return x

    g = net_of(doubled, (3,))
    assert ops(simplify(g)) == ["concat"] * 60
    assert ops(check(net_of(lambda n, x: n("concat", n("concat", x, x, axis=0), x, axis=0), (3,)), exact=True)) == ["concat"]
