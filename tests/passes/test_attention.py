"""Scaled dot-product attention that exporters write out becomes one op."""

from __future__ import annotations

import math

import numpy as np
import pytest
from passes_laws import Net, check, f32, inputs_for, net_of, ops

from lowbit.dims import symbol
from lowbit.ir.interp import run
from lowbit.passes import simplify

Q, K, V = (2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)
SCALE = 1 / math.sqrt(8)
SWAP = (0, 1, 3, 2)


def spell(n, q, k, v, *, scale=lambda n, s: n("mul", s, SCALE), mask=lambda n, s: s, guard=lambda n, s, p: p, axis=3):
    s = mask(n, scale(n, n("matmul", q, n("transpose", k, perm=SWAP))))
    return n("matmul", guard(n, s, n("softmax", s, axis=axis)), v)


def torch_scales(n, q, k, v):
    """Each side times the root of the scale, as torch's exporter does."""
    root = math.sqrt(SCALE)
    return n("matmul", n("softmax", n("matmul", n("mul", q, root), n("mul", n("transpose", k, perm=SWAP), root)), axis=3), v)


SPELLINGS = {
    "times scale": spell,
    "over root": lambda n, q, k, v: spell(n, q, k, v, scale=lambda n, s: n("div", s, math.sqrt(8))),
    "q scaled": lambda n, q, k, v: spell(n, n("mul", q, SCALE), k, v, scale=lambda n, s: s),
    "both scaled by the root": torch_scales,
    "NaN guarded": lambda n, q, k, v: spell(n, q, k, v, guard=lambda n, s, p: n("where", n("isnan", p), 0.0, p)),
}


@pytest.mark.parametrize("build", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_spelled_out_attention_is_one_op(build):
    after = check(net_of(build, Q, K, V))
    assert ops(after) == ["attention"]
    node = after.nodes[0]
    assert node.attrs["scale"] == pytest.approx(SCALE, rel=1e-6) and not node.attrs["causal"] and len(node.inputs) == 3


def test_without_a_scale_it_is_1():
    after = check(net_of(lambda n, q, k, v: spell(n, q, k, v, scale=lambda n, s: s), Q, K, V))
    assert ops(after) == ["attention"] and after.nodes[0].attrs["scale"] == 1.0


def test_a_float_mask_is_added():
    g = net_of(lambda n, q, k, v, m: spell(n, q, k, v, mask=lambda n, s: n("add", m, s)), Q, K, V, (2, 1, 1, 7))
    after = check(g)
    assert ops(after) == ["attention"] and after.nodes[0].inputs[3].name == "x3"


def test_masks_that_are_added_one_after_the_other_are_summed():
    g = net_of(lambda n, q, k, v, m, b: spell(n, q, k, v, mask=lambda n, s: n("add", n("add", s, b), m)), Q, K, V, (2, 1, 1, 7), (4, 5, 7))
    assert ops(check(g)) == ["add", "attention"]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_condition_is_a_bool_mask(hidden, guarded):
    net = Net()
    q, k, v = (net.x(*s, name=name) for s, name in ((Q, "q"), (K, "k"), (V, "v")))
    m = net.x(2, 1, 5, 7, name="m", dtype="bool")
    inf = float("-inf")
    y = spell(
        net, q, k, v,
        mask=lambda n, s: n("where", m, inf, s) if hidden else n("where", m, s, inf),
        guard=lambda n, s, p: n("where", n("isnan", p), 0.0, p) if guarded else p,
    )  # fmt: skip
    feed = np.random.default_rng(0).integers(0, 2, (2, 1, 5, 7)).astype(bool)
    feed[..., 0] = not hidden  # every row sees something …
    if guarded:
        feed[0, 0, 0] = hidden  # … but where a NaN would be turned to 0
    after = check(net.graph(y), feed={"m": feed})
    assert ops(after) == (["logical_not", "attention"] if hidden else ["attention"])


@pytest.mark.parametrize("lowest", [float("-inf"), float(np.finfo(np.float32).min)])
def test_a_constant_mask_of_the_future_is_causal(lowest):
    future = np.triu(np.full((5, 7), lowest, np.float32), 1)
    after = check(net_of(lambda n, q, k, v: spell(n, q, k, v, mask=lambda n, s: n("add", s, future[None, None])), Q, K, V))
    assert ops(after) == ["attention"] and after.nodes[0].attrs["causal"] and not after.constants


@pytest.mark.parametrize("upper", [False, True])
def test_a_triangle_of_the_sequence_s_size_is_causal(upper):
    s = symbol("seq")

    def model(n, q, k, v):
        ones = n("fill", shape=(s, s), value=True, dtype="bool")
        past = n("logical_not", n("trilu", ones, upper=True, k=1)) if upper else n("trilu", ones, upper=False, k=0)
        past = n("reshape", past, shape=(1, 1, s, s))
        return n("attention", q, k, v, past, scale=0.5, causal=False)

    after = check(net_of(model, *[(2, 4, s, 8)] * 3))
    assert ops(after) == ["attention"] and after.nodes[0].attrs["causal"]


def test_a_triangle_that_shows_one_more_or_the_future_is_no_causal_mask():
    for options in (dict(upper=False, k=1), dict(upper=True, k=0)):

        def model(n, q, k, v, options=options):
            past = n("trilu", n("fill", shape=(symbol("seq"), symbol("seq")), value=True, dtype="bool"), **options)
            return n("attention", q, k, v, past, scale=0.5, causal=False)

        after = check(net_of(model, *[(2, 4, symbol("seq"), 8)] * 3))
        assert not after.nodes[-1].attrs["causal"] and len(after.nodes[-1].inputs) == 4


def test_a_mask_that_is_the_same_for_all_columns_is_no_causal_one():
    after = check(net_of(lambda n, q, k, v: n("attention", q, k, v, np.ones((5, 1), bool), scale=0.5, causal=False), Q, K, V))
    assert not after.nodes[0].attrs["causal"]


def test_a_constant_mask_that_is_shifted_or_soft_is_no_causal_one():
    for mask in (np.triu(np.full((5, 7), -np.inf, np.float32), 2), np.triu(np.full((5, 7), -1.0, np.float32), 1)):
        after = check(net_of(lambda n, q, k, v, m=mask: spell(n, q, k, v, mask=lambda n, s: n("add", s, m)), Q, K, V))
        assert ops(after) == ["attention"] and not after.nodes[0].attrs["causal"] and len(after.constants) == 1


def test_a_transpose_merged_into_an_earlier_one_is_undone():
    def model(n, q, k, v):  # k is (B, S, H, D): one transpose makes (B, H, D, S) of it
        s = n("matmul", n("transpose", q, perm=(0, 2, 1, 3)), n("transpose", k, perm=(0, 2, 3, 1)))
        return n("matmul", n("softmax", n("mul", s, SCALE), axis=3), n("transpose", v, perm=(0, 2, 1, 3)))

    after = check(net_of(model, (2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 6)))
    assert sorted(ops(after)) == ["attention", "transpose", "transpose", "transpose"]
    assert {n.attrs["perm"] for n in after if n.op == "transpose"} == {(0, 2, 1, 3)}


def test_keys_that_were_made_the_other_way_round_are_turned():
    g = net_of(lambda n, q, kt, v: n("matmul", n("softmax", n("matmul", q, kt), axis=3), v), Q, (2, 4, 8, 7), V)
    assert ops(check(g)) == ["transpose", "attention"]


def test_sizes_may_be_symbols():
    b, s = symbol("batch"), symbol("seq")
    assert ops(check(net_of(spell, (b, 4, s, 8), (b, 4, s, 8), (b, 4, s, 8)))) == ["attention"]


def test_a_row_of_hidden_scores_gives_zeros_where_a_softmax_gave_nan():
    mask = np.zeros((7, 7), np.float32)
    mask[2] = -np.inf
    graph = net_of(
        lambda n, q, k, v: n("matmul", n("softmax", n("add", n("matmul", q, k), mask), axis=2), v), (2, 7, 8), (2, 8, 7), (2, 7, 8)
    )
    feed = inputs_for(graph)
    before, after = run(graph, feed)["y0"], run(simplify(graph), feed)["y0"]
    assert np.isnan(before[:, 2]).all() and (after[:, 2] == 0).all()


NEAR_MISSES = {
    "softmax over the queries": lambda n, q, k, v: spell(n, q, k, v, axis=2),
    "scores with a cap": lambda n, q, k, v: spell(n, q, k, v, mask=lambda n, s: n("tanh", s)),
    "a finite number for hidden scores": lambda n, q, k, v: spell(
        n, q, k, v, mask=lambda n, s: n("where", n("greater", f32(5, 7), 0.0), s, -10.0)
    ),
    "a scale per head": lambda n, q, k, v: spell(n, q, k, v, scale=lambda n, s: n("mul", s, f32(4, 1, 1))),
    "weights that are an output": lambda n, q, k, v: (lambda p: (n("matmul", p, v), p))(
        n("softmax", n("matmul", q, n("transpose", k, perm=SWAP)), axis=3)
    ),
    "a mask that is scaled too": lambda n, q, k, v: spell(
        n, q, k, v, scale=lambda n, s: s, mask=lambda n, s: n("mul", n("add", s, f32(5, 7)), SCALE)
    ),
}


@pytest.mark.parametrize("build", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_what_only_looks_like_attention_stays(build):
    assert "attention" not in ops(check(net_of(build, Q, K, V)))


def test_it_has_the_name_of_its_module():
    net = Net()
    q, k, v = (net.x(*s, name=name) for s, name in ((Q, "q"), (K, "k"), (V, "v")))

    def named(op, *inputs, **attrs):
        return net(op, *inputs, name="encoder.0.attn" + (".softmax" if op == "softmax" else ""), **attrs)

    assert check(net.graph(spell(named, q, k, v))).nodes[-1].name == "encoder.0.attn"
