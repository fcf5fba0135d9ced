"""Plans: the physical graph means the same, buffers that live together never overlap, and the arena is hardly larger than it must be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_networks import CLAMP, WINDOW, conv, inputs, network

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.plan import Place, Plan, Target, build, channels_last, segments
from lowbit.plan.memory import Buffer, least, place, rounded
from lowbit.types import TensorType


def test_the_physical_graph_gives_the_same_bits() -> None:
    g = network()
    physical = verify(channels_last(g))
    x = inputs(g)
    want, got = run(g, x), run(physical, x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_nothing_is_turned_between_convolutions() -> None:
    ops = [n.op for n in channels_last(network())]
    assert ops.count("transpose") == 2  # the input, and what is flattened
    assert {"q_conv_nhwc", "max_pool_nhwc"} <= set(ops) and not {"q_conv", "max_pool"} & set(ops)


def test_a_graph_without_images_stays_the_same_object() -> None:
    b = Builder()
    y = b.add("relu", b.input("x", TensorType((2, 3), "float32")))
    g = b.finish({"y": y})
    assert channels_last(g) is g


# -- memory -------------------------------------------------------------------------------------------------------------------

lives = st.builds(
    lambda size, first, length: Buffer(size, first, first + length), st.integers(0, 500), st.integers(0, 20), st.integers(0, 8)
)


@settings(deadline=None)  # the law is about places, not about time: a busy machine is not a counterexample
@given(st.lists(lives, max_size=25))
def test_buffers_that_live_together_never_overlap(buffers: list[Buffer]) -> None:
    offsets, end = place(buffers)
    spans = [(o, o + rounded(b.size), b) for o, b in zip(offsets, buffers, strict=True) if b.size]
    for i, (start, stop, a) in enumerate(spans):
        assert start % 64 == 0 and stop <= end
        assert all(not a.meets(b) or stop <= other or until <= start for other, until, b in spans[:i])
    assert least([b for b in buffers if b.size]) <= end <= sum(rounded(b.size) for b in buffers)


def test_a_chain_needs_two_buffers() -> None:
    chain = [Buffer(640, i, i + 1) for i in range(10)]
    assert place(chain)[1] == least(chain) == 1280


def steps_touching(plan: Plan) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """(step, what it does, bytes of the arena) for every argument in the arena whose size can be told from the params."""
    for i, step in enumerate(plan.steps):
        for slot in step.args:
            if slot.place is Place.ARENA:
                yield i, step.layer, (slot.offset, plan.arena_bytes)


def test_a_plan_stays_in_its_arena_and_is_hardly_larger_than_the_least() -> None:
    physical = channels_last(network())
    (segment,) = segments(physical, Target())
    plan = build(segment.graph, Target())
    assert all(0 <= offset < end for _, _, (offset, end) in steps_touching(plan))
    assert plan.least_bytes <= plan.arena_bytes <= 1.1 * plan.least_bytes
    assert all(slot.place is not Place.ARENA or slot.offset % 64 == 0 for step in plan.steps for slot in step.args)


def test_an_operation_in_place_takes_the_memory_of_its_input() -> None:
    b = Builder()
    x = b.input("x", TensorType((1, 1000), "int8"))
    table = b.constant(np.arange(256).astype(np.uint8).view(np.int8), name="t")
    y = x
    for _ in range(4):
        y = b.add("q_table", y, table)
    plan = build(b.finish({"y": y}), Target())
    assert plan.arena_bytes == rounded(1000)


def test_views_cost_no_step() -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 6, 1, 1), "int8"))
    t = b.add("transpose", b.add("reshape", x, shape=(2, 1, 1, 6)), perm=(0, 3, 1, 2))
    y = b.add("q_table", t, b.constant(np.zeros(256, np.int8), name="t"))
    assert [s.contract for s in build(b.finish({"y": y}), Target()).steps] == ["table_s8"]


def test_small_work_is_not_split_and_large_work_is() -> None:
    plan = build(channels_last(network()), Target(threads=2))
    assert {s.parts for s in plan.steps} == {1}
    big = build(channels_last(network(4, 64, 64)), Target(threads=2))
    assert max(s.parts for s in big.steps) > 1 and all(s.parts <= max(1, s.items) for s in big.steps)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_graph_gives_the_same_plan(threads: int) -> None:
    a, b = (build(channels_last(network()), Target(threads=threads)) for _ in range(2))
    assert a.steps == b.steps and a.arena_bytes == b.arena_bytes


# -- concat -------------------------------------------------------------------------------------------------------------------


def branches(axis: int = 1, also_read: bool = False, batch: int = 2) -> Graph:
    """Two convolutions and a pool side by side; `also_read`: the first is read by another layer too."""
    b = Builder("branches")
    x = b.input("x", TensorType((batch, 5, 9, 7), "int8"))
    sides = [conv(b, x, 8, "narrow", kernel=1), conv(b, x, 8, "three"), b.add("max_pool", x, kernel=(3, 3), ceil_mode=False, **WINDOW)]
    c = b.add("concat", *(sides if axis == 1 else sides[:2]), axis=axis, name="concat")
    y = conv(b, c, 6, "behind")
    outputs = {"y": y} | ({"z": conv(b, sides[0], 3, "other")} if also_read else {})
    return b.finish(outputs)


def planned(graph: Graph, target: Target | None = None) -> Plan:
    target = target or Target()
    (segment,) = segments(channels_last(graph), target)
    return build(segment.graph, target)


@pytest.mark.parametrize(("axis", "also_read", "copies"), [(1, False, 0), (1, True, 1), (0, False, 0), (2, False, 2)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_concat_copies_only_what_others_read_too(axis: int, also_read: bool, copies: int, threads: int) -> None:
    g = branches(axis, also_read)
    plan = planned(g)
    assert [s.layer for s in plan.steps].count("concat") == copies
    x = {"x": np.random.default_rng(3).integers(-128, 128, (2, 5, 9, 7)).astype(np.int8)}
    want, got = run(g, x), lowbit.compile(g, threads=threads).run(x)
    assert all(np.array_equal(want[k], got[k]) for k in want)


def test_images_behind_each_other_are_written_behind_each_other() -> None:
    g = branches(axis=2, batch=1)
    assert "concat" not in [s.layer for s in planned(g).steps]
    x = {"x": np.random.default_rng(3).integers(-128, 128, (1, 5, 9, 7)).astype(np.int8)}
    assert np.array_equal(run(g, x)["y"], lowbit.compile(g).run(x)["y"])


def test_where_memory_counts_a_concat_is_copied_if_that_takes_less() -> None:
    for target in (Target(isas=("ref",), scratch_in_arena=True, io_in_arena=io) for io in (False, True)):
        b = Builder("late")
        x = b.input("x", TensorType((1, 4, 8, 8), "int8"))
        first = conv(b, x, 4, "first")
        wide = conv(b, conv(b, first, 32, "up"), 60, "down", kernel=1)
        y = conv(b, b.add("concat", conv(b, x, 4, "second"), wide, axis=1, name="concat"), 2, "behind", kernel=1)
        plan = planned(b.finish({"y": y}), target)
        assert plan.arena_bytes <= 64 * (4 + 32 + 60 + 64)


# -- steps that follow ----------------------------------------------------------------------------------------------------------


def residual(kernel: int = 1, on_input: bool = False) -> Graph:
    """A convolution of many pixels, a sum with what it reads or with another layer, and a table."""
    b = Builder("residual")
    x = b.input("x", TensorType((1, 16, 40, 40), "int8"))
    a = conv(b, x, 16, "first", kernel=3)
    y = conv(b, a, 16, "second", kernel=kernel, groups=2 if kernel > 1 else 1)
    other = a if on_input else conv(b, x, 16, "other", kernel=1)
    s = b.add("q_add", y, other, name="sum", x_zero=-5, y_zero=-5, z_zero=2, mx=0.7, my=0.9, **CLAMP)
    table = b.constant(np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8), name="table")
    t = b.add("q_table", s, table, name="table")
    return b.finish({"y": conv(b, t, 3, "last", kernel=1)})


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("kernel", "on_input"), [(1, False), (1, True), (3, True)])
def test_sums_and_tables_are_done_on_pieces_of_the_layer_before_with_the_same_bits(kernel: int, on_input: bool, threads: int) -> None:
    g = residual(kernel, on_input)
    pieces = {s.layer: s.fused_items for s in planned(g, Target(threads=threads)).steps}
    assert pieces["table"] == pieces["sum"] > 0 == pieces["second"] == pieces["last"]
    session = lowbit.compile(g, threads=threads)
    for seed in range(3):
        x = {"x": np.random.default_rng(seed).integers(-128, 128, (1, 16, 40, 40)).astype(np.int8)}
        assert np.array_equal(run(g, x)["y"], session.run(x)["y"])
    assert {"second", "sum", "table"} <= {r.layer for r in session.profile(*x.values()).rows if r.ms > 0}


def test_a_sum_never_overwrites_what_the_layer_before_still_reads() -> None:
    plan = planned(residual(kernel=3, on_input=True))
    lead, follower = (next(s for s in plan.steps if s.layer == layer) for layer in ("second", "sum"))
    reads, writes = lead.args[0], follower.args[-1]
    assert reads.place is writes.place is Place.ARENA
    assert reads.offset + reads.size <= writes.offset or writes.offset + writes.size <= reads.offset


def test_code_that_is_printed_has_no_steps_that_follow() -> None:
    plan = planned(residual(), Target(isas=("ref",), scratch_in_arena=True))
    assert not any(s.fused_items for s in plan.steps)


def sums(names: list[tuple[str, str, str]], shape: tuple[int, ...] = (1, 16, 40, 40)) -> Graph:
    """A convolution `y` of `a`, another `o`, and sums of them by name."""
    b = Builder("sums")
    a = conv(b, b.input("x", TensorType(shape, "int8")), 16, "a")
    known = {"a": a, "o": conv(b, a, 16, "o", kernel=1), "y": conv(b, a, 16, "y", kernel=1)}
    for name, left, right in names:
        known[name] = b.add("q_add", known[left], known[right], name=name, x_zero=-5, y_zero=-5, z_zero=2, mx=0.7, my=0.9, **CLAMP)
    return b.finish({"z": known[names[-1][0]]})


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("names", [[("s", "y", "o"), ("t", "s", "y")], [("s", "y", "o"), ("t", "s", "o"), ("u", "t", "y")]])
def test_a_step_in_place_leaves_what_a_later_follower_reads(names: list[tuple[str, str, str]], threads: int) -> None:
    g = sums(names)
    x = {"x": np.random.default_rng(0).integers(-128, 128, (1, 16, 40, 40)).astype(np.int8)}
    assert np.array_equal(run(g, x)["z"], lowbit.compile(g, threads=threads).run(x)["z"])


def test_a_sum_of_parts_of_a_value_is_not_made_in_place_where_a_concat_has_the_value_s_size() -> None:
    b = Builder("shifted")
    table = b.constant(np.arange(-128, 128).astype(np.int8), name="table")
    v = b.add("q_table", b.input("x", TensorType((100001,), "int8")), table)
    parts = [b.add("slice", v, starts=(start,), ends=(start + 100000,), axes=(0,), steps=(1,)) for start in (0, 1)]
    s = b.add("q_add", *parts, name="sum", x_zero=-5, y_zero=-5, z_zero=2, mx=0.7, my=0.9, **CLAMP)
    one = b.input("one", TensorType((1,), "int8"))
    plan = build(b.finish({"z": b.add("q_table", b.add("concat", s, one, axis=0), table)}), Target(threads=2))
    step = next(s for s in plan.steps if s.layer == "sum")
    left, right, out = (step.args[i].offset for i in (0, 1, 2))
    assert out + 100000 <= left or right + 100000 <= out


@pytest.mark.parametrize("io_in_arena", [False, True])
def test_an_input_that_is_joined_is_copied(io_in_arena: bool) -> None:
    b = Builder("input")
    x = b.input("x", TensorType((4, 8), "int8"))
    w, m = b.constant(np.ones((8, 8), np.int8), name="w"), b.constant(np.full(8, 0.1, np.float32), name="m")
    y = b.add("q_linear", x, w, m, name="fc", x_zero=0, y_zero=0, lo=-128, hi=127, to="int8", bound=1 << 20)
    g = b.finish({"z": b.add("concat", x, y, axis=1, name="concat")})
    plan = build(g, Target(isas=("ref",), scratch_in_arena=True, io_in_arena=io_in_arena))
    fc = next(s for s in plan.steps if s.layer == "fc")
    (copy,) = (s for s in plan.steps if s.layer == "concat")
    assert fc.params["out_stride"] == 16 and fc.args[4].offset == copy.args[1].offset + 8  # y, behind the first x
    assert not io_in_arena or copy.args[0] == plan.input_slots[0]


def test_threads_share_a_small_layer_with_much_behind_it_and_none_follows_where_they_could_not() -> None:
    b = Builder("small")
    w, m = b.constant(np.ones((64, 4), np.int8), name="w"), b.constant(np.full(64, 0.01, np.float32), name="m")
    x = b.input("x", TensorType((2000, 4), "int8"))
    y = b.add("q_linear", x, w, m, name="fc", x_zero=0, y_zero=0, lo=0, hi=0, to="float32", bound=1 << 20)
    for _ in range(3):
        y = b.add("erf", y, name="erf")
    steps = build(b.finish({"y": y}), Target(threads=2)).steps
    lead = steps[0]
    assert lead.parts > 1 or not any(s.fused_items for s in steps)


def test_a_follower_of_a_part_of_what_is_made_is_right() -> None:
    b = Builder("prefix")
    y = conv(b, b.input("x", TensorType((4, 16, 20, 20), "int8")), 16, "y", kernel=1)
    table = b.constant(np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8), name="table")
    g = b.finish({"z": b.add("q_table", b.add("slice", y, starts=(0,), ends=(1,), axes=(0,), steps=(1,)), table)})
    x = {"x": np.random.default_rng(0).integers(-128, 128, (4, 16, 20, 20)).astype(np.int8)}
    for threads in (1, 2):
        assert np.array_equal(run(g, x)["z"], lowbit.compile(g, threads=threads).run(x)["z"])
