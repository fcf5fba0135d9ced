"""The compiled kernels: dispatch, the struct layouts from lb.h, and the same bits as NumPy on every instruction set."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from lowbit.errors import InputError
from lowbit.kernels import native, sources
from lowbit.numerics import dequantize_with, quantize_with

QUANTIZE = native.of("quantize_f32_s8")
DEQUANTIZE = native.of("dequantize_s8_f32")
RANGE = {"lo": -128, "hi": 127}


def usable(kernels: tuple[native.Kernel, ...]) -> list[native.Kernel]:
    return [k for k in kernels if k.available]


def isa(kernel: native.Kernel) -> str:
    return kernel.isa


def test_the_source_of_every_compiled_kernel_is_there_and_every_contract_has_ref() -> None:
    shipped = {name.partition("__")[0] for name in sources.kernels()}  # other tests may have loaded kernels of users
    assert shipped <= {c for c in native.contracts()}
    assert {f"{k.contract.name}__{k.isa}" for k in native.kernels() if k.contract.name in shipped} <= set(sources.kernels())
    assert all(native.of(c)[0].isa == "ref" and native.of(c)[0].available for c in native.contracts())


@pytest.mark.parametrize("kernel", usable(QUANTIZE), ids=isa)
@pytest.mark.parametrize(("scale", "zero_point"), [(1.0, 0), (0.0173, -5), (3.0, 127), (np.finfo(np.float32).tiny, -128)])
def test_quantize_gives_the_bits_of_numerics(kernel: native.Kernel, scale: float, zero_point: int) -> None:
    rng = np.random.default_rng(0)
    steps = np.concatenate([np.arange(-600, 601) * 0.5, rng.normal(0, 100, 1000), [1e30, -1e30, np.inf, -np.inf]])
    with np.errstate(over="ignore"):
        x = steps.astype(np.float32) * np.float32(scale)
    want = quantize_with(x, scale, zero_point, "int8")
    got = np.empty_like(want)
    kernel({"scale": scale, "zero_point": zero_point, **RANGE}, x, got, items=x.size)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kernel", usable(QUANTIZE), ids=isa)
def test_nan_becomes_the_zero_point(kernel: native.Kernel) -> None:
    x, out = np.full(65, np.nan, np.float32), np.zeros(65, np.int8)
    kernel({"scale": 0.1, "zero_point": -7, **RANGE}, x, out, items=65)
    assert set(out.tolist()) == {-7}


@pytest.mark.parametrize("back", usable(QUANTIZE), ids=isa)
@pytest.mark.parametrize("there", usable(DEQUANTIZE), ids=isa)
def test_quantize_undoes_dequantize_on_all_of_int8(there: native.Kernel, back: native.Kernel) -> None:
    k = np.arange(-128, 128).astype(np.int8)
    real, again = np.empty(256, np.float32), np.empty(256, np.int8)
    p = {"scale": 0.0173, "zero_point": -5}
    there(p, k, real, items=256)
    np.testing.assert_array_equal(real, dequantize_with(k, 0.0173, -5))
    back({**p, **RANGE}, real, again, items=256)
    np.testing.assert_array_equal(again, k)


def test_dispatch_takes_the_best_that_the_cpu_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWBIT_ISA", raising=False)
    assert native.best("quantize_f32_s8") == usable(QUANTIZE)[-1]


def test_lowbit_isa_caps_the_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWBIT_ISA", "ref")
    assert native.best("quantize_f32_s8").isa == "ref"
    assert [isa for isa in native.isas() if native.runs(isa)] == ["ref"]  # and verify_backends names no other
    monkeypatch.setenv("LOWBIT_ISA", "sse9")
    with pytest.raises(InputError, match="LOWBIT_ISA=sse9 is not an instruction set of this build"):
        native.best("quantize_f32_s8")


def test_an_unknown_contract_names_those_near_it_and_tells_of_a_library_that_is_too_old() -> None:
    with pytest.raises(InputError, match=r"no kernel has the contract 'frobnicate'") as far:
        native.best("frobnicate")
    assert far.value.hint is not None and far.value.hint.startswith("if lowbit itself asked for it, the built library is older than")
    with pytest.raises(InputError, match=r"Try: .*dequantize_s8_f32.*; or if lowbit itself asked for it, .*: build it anew") as near:
        native.best("dequantise_s8_f32")
    assert "gemm" not in str(near.value)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"scale": 1.0}, r"params \['scale'\], needs \['scale', 'zero_point'\]"),
        ({"scale": 1.0, "zero_point": 0, "zp": 0}, r"needs \['scale', 'zero_point'\]"),
        ({"scale": 1.0, "zero_point": 1.5}, "param zero_point = 1.5 does not fit int32"),
        ({"scale": 1.0, "zero_point": 1 << 31}, "param zero_point = 2147483648 does not fit int32"),
        ({"scale": 1.0, "zero_point": [1, 2]}, r"param zero_point = \[1, 2\] does not fit int32"),
        ({"scale": "1", "zero_point": 0}, "param scale = '1' does not fit float32"),
    ],
)
def test_params_that_do_not_fit_the_struct_are_refused(params: dict[str, native.Scalar], text: str) -> None:
    with pytest.raises(InputError, match=text):
        native.contracts()["dequantize_s8_f32"].pack(params)


def test_arrays_that_do_not_fit_the_contract_are_refused() -> None:
    kernel, p = DEQUANTIZE[0], {"scale": 1.0, "zero_point": 0}
    x, out = np.zeros(4, np.int8), np.zeros(4, np.float32)
    readonly = out.copy()
    readonly.flags.writeable = False
    for arrays, text in [
        ((x,), r"1 arrays, needs 2 \(x, out\)"),
        ((x.view(np.uint8), out), "x is uint8, needs int8"),
        ((np.zeros(8, np.int8)[::2], out), "x is not contiguous and aligned"),
        ((x, readonly), "out is read-only"),
    ]:
        with pytest.raises(InputError, match=text):
            kernel(p, *arrays, items=4)


def test_kernels_run_at_the_same_time_in_threads() -> None:
    x = np.linspace(-3, 3, 10_007, dtype=np.float32)
    outs = [np.zeros(x.size, np.int8) for _ in range(4)]
    p = {"scale": 0.02, "zero_point": 3, **RANGE}
    threads = [threading.Thread(target=native.best("quantize_f32_s8"), args=(p, x, out), kwargs={"items": x.size}) for out in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((out == outs[0]).all() and out.any() for out in outs)


def test_items_are_given_where_the_contract_has_them_and_only_there() -> None:
    with pytest.raises(InputError, match="kernel dequantize_s8_f32: needs items="):
        DEQUANTIZE[0]({"scale": 1.0, "zero_point": 0}, np.zeros(4, np.int8), np.zeros(4, np.float32))
    sizes = native.of("gemm_s8_sizes")[0]
    with pytest.raises(InputError, match="kernel gemm_s8_sizes: has no items"):
        sizes({"m": 1, "k": 1, "n": 1, "segment": 1}, np.zeros(2, np.int64), items=1)
