"""The native session gives the interpreter's bits on every instruction set, any threads and sizes, and refuses what does not fit."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from native_laws import ISAS, integer_graph, same
from numpy.lib.stride_tricks import as_strided
from plan_networks import CLAMP, conv, inputs, network

import lowbit
from lowbit.errors import InputError, LowbitError, ShapeError
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.kernels import native
from lowbit.lower import lower
from lowbit.quantization.rules import CalibratedQuantRule
from lowbit.runtime.session import Session
from lowbit.types import Array, TensorType
from zoo import entry


@pytest.mark.parametrize("name", ["mlp", "resnet9", "resnet18", "mobilenetv2", "dscnn"])
def test_networks_run_natively_with_the_bits_of_the_interpreter(name: str) -> None:
    graph, x = integer_graph(name)
    want = run(graph, x)
    for threads in (1, 2, 3):
        session = Session(graph, threads=threads)
        assert session.backend == "native"
        assert same(want, session.run(x)) and same(want, session.run(x))


@pytest.mark.parametrize("name", ["mlp", "resnet9", "dscnn"])
def test_networks_with_16_bit_activations_run_natively(name: str) -> None:
    e = entry(name)
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()))
    x = dict(zip([v.name for v in g.inputs], [t.numpy() for t in e.example().values()], strict=True))
    last = next(n.name for n in reversed(g.nodes) if n.op == "linear")
    for rules in (
        [CalibratedQuantRule(".*", "int16")],
        [CalibratedQuantRule(f"^{last}$", "int16"), CalibratedQuantRule(".*", "int8")],
        [CalibratedQuantRule("0$", "int16"), CalibratedQuantRule(".*", "int8")],
    ):
        graph = lower(lowbit.quantize(g, [x], rules=rules)).graph
        assert "int16" in str(graph)
        want = run(graph, x)
        for isa in ISAS:
            session = Session(graph, threads=2, isa=isa)
            assert same(want, session.run(x)) and session.backend == "native"


def test_what_has_no_kernel_yet_runs_in_the_interpreter_between_native_parts() -> None:
    b = Builder()
    x = b.input("x", TensorType((3, 8), "int8"))
    table = b.constant(np.arange(256).astype(np.uint8).view(np.int8), name="t")
    first = b.add("q_table", x, table)
    middle = b.add("depth_to_space", b.add("reshape", first, shape=(1, 24, 1, 1)), block=2, mode="DCR")
    g = b.finish({"y": b.add("q_table", middle, table)})
    feed = {"x": np.arange(24, dtype=np.int8).reshape(3, 8)}
    session = Session(g, threads=2)
    assert session.backend == "native and interpreter"
    assert same(run(g, feed), session.run(feed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 9, 7), (0, 5, 5), (3, 17, 5), (1, 33, 40)])
def test_odd_sizes_on_every_instruction_set(isa: str, threads: int, size: tuple[int, int, int]) -> None:
    g = network(*size)
    x = inputs(g)
    assert same(run(g, x), Session(g, threads=threads, isa=isa).run(x))


def test_lowbit_isa_caps_sessions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWBIT_ISA", "ref")
    profile = Session(network()).profile(inputs(network())["x"], repeats=1)
    assert {r.kernel.rpartition("__")[2] for r in profile.rows} == {"ref"}


def one_layer(batch: int, channels: int, size: int, out: int, kernel: int, groups: int, stride: int) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((batch, channels, size, size + 1), "int8"))
    return b.finish({"y": conv(b, x, out, "conv", kernel, groups, stride)})


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 4, 15, 16, 24, 31, 33, 63, 64, 66, 97, 130])
def test_depthwise_layers_of_few_pixels_and_any_channels(isa: str, channels: int) -> None:
    rng = np.random.default_rng(channels)
    for size in (1, 2, 3, 4, 7):
        for kernel, stride in ((3, 1), (3, 2), (5, 1), (5, 2)):
            g = one_layer(2, channels, size, channels, kernel, channels, stride)
            feed = {"x": rng.integers(-128, 128, g.inputs[0].shape).astype(np.int8)}
            assert same(run(g, feed), Session(g, threads=1, isa=isa).run(feed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "layer",
    [
        (1, 3, 11, 5, 7, 1, 2),
        (2, 3, 13, 40, 3, 1, 2),
        (1, 5, 9, 24, 5, 1, 1),
        (2, 16, 6, 16, 3, 1, 1),
        (1, 32, 7, 33, 3, 1, 2),
        (1, 12, 5, 8, 3, 4, 1),
        (2, 17, 8, 17, 3, 17, 1),
    ]
    + [(1, 32, 9, 32, 5, 32, 2), (1, 48, 5, 16, 1, 1, 1), (1, 48, 5, 16, 1, 1, 2), (3, 1, 6, 4, 3, 1, 1), (1, 6, 5, 12, 3, 6, 1)],
)
def test_convolutions_of_every_kind(isa: str, layer: tuple[int, int, int, int, int, int, int]) -> None:
    g = one_layer(*layer)
    rng = np.random.default_rng(0)
    for x in (rng.integers(-128, 128, g.inputs[0].shape), np.full(g.inputs[0].shape, -128), np.full(g.inputs[0].shape, 127)):
        feed = {"x": x.astype(np.int8)}
        assert same(run(g, feed), Session(g, threads=2, isa=isa).run(feed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [(1, 64, 24, 64), (2, 90, 24, 77), (1, 96, 27, 97)])
def test_winograd_is_exact_where_it_is_proved_and_not_chosen_elsewhere(isa: str, size: tuple[int, int, int, int]) -> None:
    batch, channels, side, out = size
    g = one_layer(batch, channels, side, out, 3, 1, 1)
    best = native.best("conv3x3_s8", isa).isa
    for x in (np.random.default_rng(0).integers(-128, 128, g.inputs[0].shape), np.full(g.inputs[0].shape, -128)):
        feed = {"x": x.astype(np.int8)}
        for threads in (1, 3):
            session = Session(g, threads=threads, isa=isa)
            kernels = {r.kernel for r in session.profile(feed["x"], repeats=1).rows}
            assert (f"conv3x3_s8__{best}" in kernels) == (best != "ref")
            assert same(run(g, feed), session.run(feed))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("channels", "size", "kernel"), [(3, 23, 7), (1, 10, 7), (4, 9, 7), (2, 31, 5)])
def test_stems_of_stride_two_are_done_by_tiles_where_that_is_faster(isa: str, channels: int, size: int, kernel: int) -> None:
    g = one_layer(2, channels, size, 20, kernel, 1, 2)
    best, quads = native.best("conv_stride2_winograd_s8", isa).isa, native.best("conv_few_channels_s8", isa).isa == "avx512vnni"
    for x in (np.random.default_rng(0).integers(-128, 128, g.inputs[0].shape), np.full(g.inputs[0].shape, 127)):
        feed = {"x": x.astype(np.int8)}
        for threads in (1, 3):
            session = Session(g, threads=threads, isa=isa)
            kernels = {r.kernel for r in session.profile(feed["x"], repeats=1).rows}
            assert (f"conv_stride2_winograd_s8__{best}" in kernels) == (best != "ref" and kernel == 7 and not quads)
            assert same(run(g, feed), session.run(feed))


@pytest.mark.parametrize(("channels", "winograd"), [(128, True), (512, False)])  # 255 · 128 · 9 · channels ≥ 2²⁵, ≥ 2²⁷
def test_large_weights_get_low_tiles_and_weights_too_large_for_winograd_none(channels: int, winograd: bool) -> None:
    b = Builder()
    x = b.input("x", TensorType((1, channels, 22, 24), "int8"))
    w = b.constant(np.full((128, channels, 3, 3), -128, np.int8), name="w")
    m = b.constant(np.full(128, 1e-6, np.float32), name="m")
    window = {"stride": (1, 1), "pads": (1,) * 4, "dilation": (1, 1), "groups": 1}
    g = b.finish({"y": b.add("q_conv", x, w, m, **window, x_zero=127, y_zero=0, **CLAMP, bound=255 * 128 * 9 * channels)})
    session = Session(g, threads=1)
    for feed in (
        np.full((1, channels, 22, 24), -128, np.int8),
        np.random.default_rng(0).integers(-128, 128, (1, channels, 22, 24), np.int8),
    ):
        kernels = {r.kernel for r in session.profile(feed, repeats=1).rows}
        assert any(k.startswith("conv3x3") for k in kernels) == (winograd and native.best("conv3x3_s8").isa != "ref")
        assert same(run(g, {"x": feed}), session.run({"x": feed}))


def test_several_python_threads_use_one_session_at_once() -> None:
    g = network(2, 24, 24)
    session = Session(g, threads=2)
    feeds = [inputs(g, seed) for seed in range(4)]
    wants = [run(g, x) for x in feeds]
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(i for _ in range(25) if not same(wants[i], session.run(feeds[i])))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


@pytest.mark.parametrize("how", ["strided", "read-only", "byte-swapped", "unaligned", "Fortran"])
def test_arrays_of_every_kind_are_taken(how: str) -> None:
    g = network()
    x = inputs(g)["x"]
    given: Any = {
        "strided": np.repeat(x, 2, axis=3)[..., ::2],
        "read-only": np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
        "byte-swapped": x.astype(x.dtype.newbyteorder()),
        "unaligned": np.frombuffer(b"1" + x.tobytes(), np.float32, offset=1).reshape(x.shape),
        "Fortran": np.asfortranarray(x),
    }[how]
    before = given.copy()
    assert same(run(g, {"x": x}), Session(g).run({"x": given}))
    assert np.array_equal(before, given)


@pytest.mark.parametrize(
    ("feed", "error", "text"),
    [
        ({}, InputError, "input 'x' is missing"),
        ({"x": np.zeros((2, 3, 9, 7), np.float32), "z": np.zeros(1)}, InputError, "no input named 'z'"),
        ({"x": np.zeros((2, 3, 9, 7))}, InputError, "float64 given, float32 needed"),
        ({"x": np.zeros((2, 3, 9, 7), complex)}, InputError, r"complex128 given, float32 needed\.\n  Try: x\.real\.astype\(np\.float32\)"),
        ({"x": np.zeros((2, 3, 9, 8), np.float32)}, ShapeError, r"shape \(2, 3, 9, 8\) given, \(2, 3, 9, 7\) needed"),
        ({"x": np.zeros((2, 3, 9), np.float32)}, ShapeError, r"shape \(2, 3, 9\) given"),
    ],
)
def test_wrong_inputs_are_errors_before_anything_runs(feed: dict[str, Array], error: type[LowbitError], text: str) -> None:
    with pytest.raises(error, match=text):
        Session(network()).run(feed)


def test_shapes_are_compiled_when_they_are_met_and_weights_are_packed_once() -> None:
    e = entry("dscnn")
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()), dynamic=e.dynamic)
    x = e.example()["x"].numpy()
    q = lower(lowbit.quantize(g, [{"x": x}], rules=[CalibratedQuantRule(".*", "int8")])).graph
    session = Session(q, threads=1)
    assert session.backend == "compiled at the first call, which says how large batch is"
    for batch in (1, 3, 4):  # few rows and more of them have layouts of their own
        feed = {"x": np.concatenate([x] * 2)[:batch]}
        assert same(run(q, feed), session.run(feed))
    assert session.backend == "native"
    packed = dict(session._packed)
    for batch in (2, 5):
        session.run({"x": np.concatenate([x] * 3)[:batch]})
    assert all(session._packed[k] is v for k, v in packed.items()) and session._packed.keys() == packed.keys()
    assert same(run(bind(q, {"batch": 2}), {"x": x}), session.run({"x": x}))


def test_outputs_are_arrays_of_their_own() -> None:
    b = Builder()
    x = b.input("x", TensorType((4, 6), "int8"))
    t = b.add("q_table", x, b.constant(np.arange(256).astype(np.uint8).view(np.int8), name="t"))
    g = b.finish(
        {"same": x, "a": t, "b": b.add("reshape", t, shape=(24,)), "part": b.add("slice", t, axes=(0,), starts=(1,), ends=(3,), steps=(1,))}
    )
    feed = {"x": np.arange(24, dtype=np.int8).reshape(4, 6)}
    session = Session(g)
    first = session.run(feed)
    assert same(run(g, feed), first)
    second = session.run({"x": feed["x"] + np.int8(1)})
    assert same(run(g, feed), first) and not np.array_equal(second["a"], first["a"])


@pytest.mark.parametrize("how", ["as it is", "strided", "unaligned", "over the input", "one of two"])
def test_outputs_are_written_into_the_arrays_given(how: str) -> None:
    b = Builder()
    x = b.input("x", TensorType((4, 6), "float32"))
    g = b.finish({"y": b.add("transpose", b.add("transpose", x, perm=(1, 0)), perm=(1, 0)), "z": b.add("reshape", x, shape=(24,))})
    feed = {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}
    want = run(g, feed)
    y: Array = np.zeros((4, 6), np.float32)
    if how == "strided":
        y = np.zeros((4, 12), np.float32)[:, ::2]
    elif how == "unaligned":
        y = np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)
    elif how == "over the input":
        y = feed["x"]
    out = {"y": y} if how == "one of two" else {"y": y, "z": np.zeros(24, np.float32)}
    for _ in range(2):
        session = Session(g)
        got = session.run(dict(feed), out=out)
        assert got["y"] is y and same(want, got) and list(got) == ["y", "z"]
    if how == "as it is":
        pair = session(feed["x"], out=(y, out["z"]))
        assert isinstance(pair, tuple) and pair[0] is y and pair[1] is out["z"]


def one_output() -> tuple[Graph, Array]:
    g = one_layer(1, 3, 6, 4, 3, 1, 1)
    return g, np.random.default_rng(0).integers(-128, 128, g.inputs[0].shape).astype(np.int8)


def test_a_call_writes_into_one_array() -> None:
    g, x = one_output()
    session = Session(g)
    want = session(x)
    assert isinstance(want, np.ndarray)
    out = np.empty_like(want)
    assert session(x, out=out) is out and np.array_equal(out, want)


@pytest.mark.parametrize(
    ("out", "error", "text"),
    [
        (np.zeros((1, 4, 6, 7)), InputError, "out 'y': float64 given, int8 needed"),
        (np.zeros(3, np.int8), ShapeError, r"out 'y': shape \(3,\) given, \(1, 4, 6, 7\) needed"),
        (np.frombuffer(bytes(168), np.int8).reshape(1, 4, 6, 7), InputError, "out 'y': the array is read-only"),
        (as_strided(np.zeros(42, np.int8), (1, 4, 6, 7), (0, 0, 7, 1)), InputError, "out 'y': elements of the array share memory"),
        (as_strided(np.zeros(64, np.int8), (1, 4, 6, 7), (0, 14, 2, 1)), InputError, "out 'y': elements of the array share memory"),
        ([np.zeros(1), np.zeros(1)], InputError, "out= holds 2 arrays, 1 needed.\n  Try: the outputs are y"),
        ([3.0], InputError, "out 'y': float given, a plain array is needed"),
        (np.ma.zeros((1, 4, 6, 7), np.int8), InputError, "out 'y': MaskedArray given, a plain array is needed"),
        (3.0, InputError, "out= is float, an array is needed, or several"),
    ],
)
def test_wrong_outputs_are_errors_before_anything_runs(out: Any, error: type[LowbitError], text: str) -> None:
    g, x = one_output()
    with pytest.raises(error, match=text):
        Session(g)(x, out=out)


@pytest.mark.parametrize("shared", [True, False])
def test_two_outputs_do_not_share_an_array(shared: bool) -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 3), "float32"))
    g = b.finish({"y": b.add("neg", x), "z": b.add("relu", x)})
    both = np.zeros((2, 6), np.float32)
    feed, out = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2}, {"y": both[:, :3], "z": both[:, 2:5] if shared else both[:, 3:]}
    if shared:
        with pytest.raises(InputError, match=r"out 'z': the array shares memory with that of 'y'\.\n  Try: an array for each output"):
            Session(g).run(feed, out=out)
        assert not both.any()
    else:
        assert same(run(g, feed), Session(g).run(feed, out=out)) and np.array_equal(both[:, :3], -feed["x"])


def test_outputs_of_other_names_are_refused() -> None:
    g, x = one_output()
    with pytest.raises(InputError, match=r"there is no output named 'nobody'\.\n  Try: the outputs are y"):
        Session(g).run({"x": x}, out={"nobody": np.zeros(1)})


def test_more_work_than_kernels_count_is_refused() -> None:
    b = Builder()
    g = b.finish({"y": b.add("relu", b.input("x", TensorType((70_000, 70_000), "float32")))})
    with pytest.raises(ShapeError, match=r"relu '.*': 4,900,000,000 items of work, kernels count to 2,147,483,647\.\n  Try: smaller"):
        Session(g, threads=1)


def test_the_environment_caps_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    g, _ = one_output()
    monkeypatch.setenv("LOWBIT_THREADS", "2")
    assert [Session(g, threads=n).target.threads for n in (1, 2, 4)] == [1, 2, 2]
    for wrong in ("0", "4097", "99999999999999999999", "1.5", "-1", "²"):
        monkeypatch.setenv("LOWBIT_THREADS", wrong)
        with pytest.raises(InputError, match=rf"LOWBIT_THREADS={wrong} is not a number of threads\.\n  Try: 1 to 4,096, or leave it out"):
            Session(g, threads=1)


def test_a_graph_without_nodes_gives_copies() -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 3), "float32"))
    g = b.finish({"a": x, "b": x, "c": b.constant(np.arange(64, dtype=np.int8), name="c")})
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    got = Session(g).run(feed)
    assert same(run(g, feed), got) and len({id(v) for v in (*got.values(), *feed.values())}) == 4
    got["a"][:] = 0
    assert feed["x"][0, 1] == 1 and got["b"][0, 1] == 1


def test_a_program_of_other_shapes_does_not_run_on_these() -> None:
    e = entry("mlp")
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()), dynamic=e.dynamic)
    x = e.example()["x"].numpy()
    q = lower(lowbit.quantize(g, [{"x": x}], rules=[CalibratedQuantRule(".*", "int8")])).graph
    session = Session(q, threads=1)
    for batch in (4, 1, 4, 3, 3):
        got = session(x[:batch])
        assert isinstance(got, np.ndarray) and np.array_equal(got, next(iter(run(q, {"x": x[:batch]}).values())))


def test_movement_of_every_kind() -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 3, 4, 5), "int8"))
    real = b.input("r", TensorType((3, 5, 2), "float32"))
    out = {
        "transpose": b.add("transpose", x, perm=(3, 0, 2, 1)),
        "slice": b.add("slice", x, axes=(1, 3), starts=(-1, 4), ends=(-4, 0), steps=(-1, -2)),
        "concat": b.add("concat", x, x, axis=2),
        "pad": b.add("pad", x, pads=(0, 1, 0, 2, 1, 0, 3, 0), mode="constant", value=-7.0),
        "expand": b.add("expand", b.add("slice", x, axes=(2,), starts=(1,), ends=(2,), steps=(1,)), shape=(2, 3, 6, 5)),
        "turned": b.add("transpose", real, perm=(2, 0, 1)),
    }
    a, c = b.add_node("split", x, axis=3, sizes=(2, 3))
    g = b.finish({**out, "a": a, "c": c})
    rng = np.random.default_rng(0)
    feed = {"x": rng.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8), "r": rng.normal(size=(3, 5, 2)).astype(np.float32)}
    for isa in ISAS:
        session = Session(g, isa=isa)
        assert session.backend == "native" and same(run(g, feed), session.run(feed))


def test_broadcasts_of_add_and_mul() -> None:
    rng = np.random.default_rng(0)
    zeros = {"x_zero": 5, "y_zero": -7, "z_zero": 3}
    for a, c in [
        ((2, 3, 4, 5), (5,)),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((1, 4, 1), (2, 1, 7)),
        ((3, 1), (1, 3)),
        ((), (4,)),
        ((2, 1, 3, 1), (1, 4, 1, 5)),
    ]:
        b = Builder()
        x, y = b.input("x", TensorType(a, "int8")), b.input("y", TensorType(c, "int8"))
        total = b.add("q_add", x, y, **zeros, mx=0.6, my=-0.3, **CLAMP)
        g = b.finish({"add": total, "mul": b.add("q_mul", x, y, **zeros, multiplier=2**-8, **CLAMP)})
        feed = {"x": rng.integers(-128, 128, a).astype(np.int8), "y": rng.integers(-128, 128, c).astype(np.int8)}
        for isa in ISAS:
            session = Session(g, isa=isa)
            assert session.backend == "native" and same(run(g, feed), session.run(feed)), (a, c)


def test_a_profile_names_layers_kernels_and_speeds() -> None:
    g = network()
    profile = Session(g, threads=1).profile(inputs(g)["x"], repeats=2)
    stem = next(r for r in profile.rows if r.layer == "stem")
    assert stem.kernel.startswith(("conv_s8__", "conv_few_channels_s8__")) and stem.macs == 2 * 9 * 7 * 8 * 27 and stem.gmacs is not None
    node = next(n for n in g.nodes if n.name == "stem")
    assert stem.bound == node.attrs["bound"] and stem.proof == f"|sum| ≤ {stem.bound:,} < 2^{stem.bound.bit_length()}"
    assert stem.proof in str(profile)
    assert stem.peak is not None and stem.share == stem.gmacs / stem.peak
    assert "GMAC/s  % of peak" in str(profile) and "stem" in str(profile) and profile.ms > 0


def test_threads_and_instruction_sets_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="threads=0 is not a number of threads"):
        Session(network(), threads=0)
    with pytest.raises(InputError, match="isa=sse9 is not an instruction set of this build"):
        Session(network(), isa="sse9")


def test_a_session_stays_in_its_process_and_says_what_to_send_instead() -> None:
    b = Builder()
    x = b.input("x", TensorType((3,), "float32"))
    session = Session(b.finish({"y": b.add("relu", x)}))
    for carry in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InputError, match="a Session cannot be copied or sent to another process") as e:
            carry(session)
        assert e.value.hint == "send session.graph, or the path of the file, and call lowbit.compile there"
    sent = pickle.loads(pickle.dumps(session.graph))
    feed = {"x": np.array([-1, 0, 2], np.float32)}
    assert same(Session(sent).run(feed), session.run(feed))
