"""Dead code, common subexpressions, identities and constants: what is left computes the same, exactly, and less of it."""

from __future__ import annotations

import numpy as np
import pytest
from passes_laws import Net, check, f32, net_of, ops

from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.passes.common_subexpressions import common_subexpressions
from lowbit.passes.drop_dead import drop_dead
from lowbit.passes.drop_identities import drop_identities
from lowbit.passes.fold_constants import fold_constants

IDENTITIES = {
    "identity": lambda n, x: n("identity", x),
    "cast": lambda n, x: n("cast", x, to="float32"),
    "reshape": lambda n, x: n("reshape", x, shape=(2, 3, 4)),
    "transpose": lambda n, x: n("transpose", x, perm=(0, 1, 2)),
    "slice": lambda n, x: n("slice", x, axes=(1, 2), starts=(0, 0), ends=(3, 4), steps=(1, 1)),
    "pad": lambda n, x: n("pad", x, pads=(0,) * 6, mode="constant"),
    "concat": lambda n, x: n("concat", x, axis=1),
    "split": lambda n, x: n("split", x, axis=1, sizes=(3,)),
    "expand": lambda n, x: n("expand", x, shape=(2, 3, 4)),
    "tile": lambda n, x: n("tile", x, repeats=(1, 1, 1)),
    "mul by 1": lambda n, x: n("mul", 1.0, x),
    "div by 1": lambda n, x: n("div", x, 1.0),
    "add 0": lambda n, x: n("add", x, np.zeros((3, 1), np.float32)),
    "sub 0": lambda n, x: n("sub", x, 0.0),
    "pow 1": lambda n, x: n("pow", x, 1.0),
    "clip without limits": lambda n, x: n("clip", x, min=None, max=None),
    "twice negated": lambda n, x: n("neg", n("neg", x)),
    "where of True": lambda n, x: n("where", np.array(True), x, n("exp", x)),
    "where of False": lambda n, x: n("where", np.array(False), n("exp", x), x),
    "sum over no axes": lambda n, x: n("reduce_sum", x, axes=(), keepdims=False),
}


@pytest.mark.parametrize("build", IDENTITIES.values(), ids=IDENTITIES.keys())
def test_an_op_that_changes_nothing_is_dropped(build):
    g = net_of(lambda n, x: n("relu", build(n, n("abs", x))), (2, 3, 4))
    assert ops(check(g, drop_identities, exact=True)) == ["abs", "relu"]


CHANGES = {
    "a cast that rounds": lambda n, x: n("cast", x, to="float16"),
    "a 1 that makes it larger": lambda n, x: n("mul", x, np.ones((2, 2, 3, 4), np.float32)),
    "1 - x": lambda n, x: n("sub", 0.0, x),
    "1 / x": lambda n, x: n("div", 1.0, x),
    "a reversal": lambda n, x: n("slice", x, axes=(1,), starts=(2,), ends=(-1,), steps=(-1,)),
    "another order of equal sizes": lambda n, x: n(
        "transpose", n("slice", x, axes=(2,), starts=(0,), ends=(3,), steps=(1,)), perm=(0, 2, 1)
    ),
    "the norm over no axes": lambda n, x: n("reduce_l2", x, axes=(), keepdims=False),
    "pad and crop": lambda n, x: n("pad", x, pads=(0, 1, 0, 0, -1, 0), mode="constant"),
    "one limit": lambda n, x: n("clip", x, min=None, max=1.0),
}


@pytest.mark.parametrize("build", CHANGES.values(), ids=CHANGES.keys())
def test_an_op_that_changes_something_is_kept(build):
    g = net_of(build, (2, 3, 4))
    assert check(g, drop_identities, exact=True) is g


def test_an_output_that_is_an_input_survives_the_identity_between_them():
    g = net_of(lambda n, x: n("identity", x), (2, 3))
    after = check(g, exact=True)
    assert ops(after) == [] and after.outputs["y0"].name == "x0"


def test_expand_goes_in_front_of_an_op_that_broadcasts():
    g = net_of(lambda n, x, y: n("add", n("expand", x, shape=(2, 3, 4)), y), (1, 4), (2, 3, 4))
    assert ops(check(g, drop_identities, exact=True)) == ["add"]


def test_expand_stays_where_it_makes_the_shape():
    g = net_of(lambda n, x, y: n("add", n("expand", x, shape=(2, 3, 4)), y), (1, 4), (1, 1, 4))
    assert ops(check(g, drop_identities, exact=True)) == ["expand", "add"]
    g = net_of(lambda n, x, y: n("matmul", n("expand", x, shape=(3, 4)), y), (3, 1), (4, 5))
    assert ops(check(g, drop_identities, exact=True)) == ["expand", "matmul"]


def test_what_no_output_needs_is_dropped():
    net = Net()
    x = net.x(2, 3)
    net("mul", x, f32(3))
    g = net.graph(net("relu", x))
    full = type(g)(g.inputs, g.outputs, tuple(net._nodes.values()), net._constants, g.name)
    after = check(full, drop_dead, exact=True)
    assert ops(after) == ["relu"] and not after.constants


def test_a_pool_whose_indices_nobody_reads_is_a_plain_pool():
    options = dict(kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1), ceil_mode=False)
    g = net_of(lambda n, x: n("max_pool_indices", x, **options), (1, 2, 4, 4))
    assert ops(check(g, drop_dead, exact=True)) == ["max_pool"]
    g = net_of(lambda n, x: n.add_node("max_pool_indices", x, **options)[1], (1, 2, 4, 4))
    assert ops(check(g, drop_dead, exact=True)) == ["max_pool_indices"]


def test_a_split_of_which_one_part_is_read_is_a_slice():
    g = net_of(lambda n, x: n.add_node("split", x, axis=1, sizes=(2, 3, 1))[1], (2, 6))
    assert ops(check(g, drop_dead, exact=True)) == ["slice"]
    g = net_of(lambda n, x: n.add_node("split", x, axis=1, sizes=(2, 3, 1))[1:], (2, 6))
    assert ops(check(g, drop_dead, exact=True)) == ["split"]


def test_equal_nodes_are_computed_once():
    g = net_of(lambda n, x: n("add", n("exp", n("mul", x, f32(3) * 0 + 2)), n("exp", n("mul", x, f32(3) * 0 + 2))), (2, 3))
    assert ops(check(g, common_subexpressions, exact=True)) == ["mul", "exp", "add"]


def test_equal_constants_become_one_and_nearly_equal_ones_do_not():
    w = f32(10, 10)
    near = w.copy()
    near[0, 0] = np.nextafter(near[0, 0], np.float32(9))
    net = Net()
    x = net.x(1, 10)
    a, b, c = (net.constant(d, name=n) for n, d in (("a", w), ("b", w.copy()), ("c", near)))
    g = net.graph(net("linear", net("linear", net("linear", x, a), b), c))
    assert list(check(g, common_subexpressions, exact=True).constants) == ["a", "c"]


def test_attributes_that_python_calls_equal_but_are_not_keep_nodes_apart():
    g = net_of(lambda n, x: n("concat", n("clip", x, min=0.0, max=None), n("clip", x, min=-0.0, max=None), axis=0), (2, 3))
    assert len(check(g, common_subexpressions, exact=True)) == 3


def test_what_depends_on_constants_alone_is_computed():
    g = net_of(lambda n, x: n("add", x, n("exp", n("mul", n("range", start=0.0, limit=4.0, step=1.0, dtype="float32"), 0.5))), (2, 4))
    after = check(g, fold_constants, exact=True)
    assert ops(after) == ["add"] and len(after.constants) == 1


def test_a_constant_output_is_computed():
    g = net_of(lambda n, x: (x, n("fill", shape=(2,), value=3.0, dtype="float32")), (2, 4))
    assert ops(check(g, fold_constants, exact=True)) == []


@pytest.mark.parametrize("op", ["fill", "expand", "tile", "range"])
def test_ops_that_only_repeat_stay_ops_when_large(op):
    def build(n, x):
        large = {
            "fill": lambda: n("fill", shape=(100, 100), value=1.5, dtype="float32"),
            "expand": lambda: n("expand", f32(1, 100), shape=(100, 100)),
            "tile": lambda: n("tile", f32(1, 100), repeats=(100, 1)),
            "range": lambda: n("reshape", n("range", start=0.0, limit=10000.0, step=1.0, dtype="float32"), shape=(100, 100)),
        }[op]()
        return n("matmul", x, large)

    after = check(net_of(build, (1, 100)), lambda g: fold_constants(g, growth=1000))
    assert op in ops(after) and after.parameter_bytes <= 400


def test_constants_grow_by_no_more_than_the_limit():
    g = net_of(lambda n, x: n("matmul", x, n("mul", f32(64, 1), f32(1, 64))), (1, 64))
    assert ops(check(g, lambda g: fold_constants(g, growth=1000))) == ["mul", "matmul"]
    assert ops(check(g, lambda g: fold_constants(g, growth=1 << 14))) == ["matmul"]


def test_a_region_is_judged_by_what_comes_out_of_it():
    g = net_of(lambda n, x: n("add", x, n("reduce_sum", n("mul", f32(64, 1), f32(1, 64)), axes=(0,), keepdims=False)), (1, 64))
    assert ops(check(g, lambda g: fold_constants(g, growth=0))) == ["add"]


def test_integer_weights_stay_integers():
    g = net_of(
        lambda n, x: n("linear", x, n("dequantize_linear", np.ones((4, 4), np.int8), 0.5, axis=0, block_size=0, to="float32")), (1, 4)
    )
    assert ops(check(g, fold_constants)) == ["dequantize_linear", "linear"]


def test_weights_stored_in_half_are_widened_once():
    g = net_of(lambda n, x: n("linear", x, n("cast", f32(1000, 1000).astype(np.float16), to="float32")), (1, 1000))
    assert ops(check(g, fold_constants)) == ["linear"]


def test_symbols_stay_until_they_are_bound():
    net = Net()
    batch = net.x(1, name="x").shape[0]
    from lowbit.dims import symbol

    s = symbol("seq")
    y = net.x(batch, s, name="t")
    g = net.graph(net("add", y, net("cast", net("dims", values=(s,), shape=(1,)), to="float32")))
    after = check(g, fold_constants, exact=True)
    assert ops(after) == ["dims", "cast", "add"]
    verify(after)
    assert run(after, {"x": np.ones(1, np.float32), "t": np.zeros((1, 5), np.float32)})["y0"][0, 0] == 5
