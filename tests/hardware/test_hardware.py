"""The machine as a value: what file trees say of it, what follows from facts and measurements, and how doctor tells it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowbit._native
from lowbit.cli import main
from lowbit.errors import InputError
from lowbit.hardware import Bandwidth, Cache, Case, Gpu, Hardware, Measurement, Product, system
from lowbit.hardware.gpu import NOT_ASKED
from lowbit.hardware.instructions import INSTRUCTIONS, best_instruction
from lowbit.hardware.measure import BATCHES, BLOCKS, PAIR_BATCH, measure, plan, reads

CPU0 = "sys/devices/system/cpu/cpu0"
AVX512 = ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


# --- what Linux's trees say ---------------------------------------------------------------------------------------------------


def test_a_machine_without_proc_and_sys_is_unknown_and_not_guessed(tmp_path: Path) -> None:
    hw = Hardware.detect(root=tmp_path)
    assert (hw.cpu, hw.caches, hw.cores, hw.usable_cores, hw.cpu_quota, hw.memory, hw.memory_limit, hw.load, hw.governor) == (
        (None, (), None, None, None, None, None, None, None)
    )  # fmt: skip
    assert hw.threads == hw.usable_cpus >= 1
    assert hw.hints().weights_near.value is None
    assert hw.hints().weights_near.because == "the system does not say how large L2 is"
    json.dumps(hw.to_dict(), allow_nan=False)


def test_cpu_name_is_x86s_model_name_or_arms_numbers(tmp_path: Path) -> None:
    x86 = "processor : 0\nvendor_id : A\nmodel name\t: Fast CPU @ 2GHz\n\nprocessor : 1\nmodel name : Other"
    assert system.cpu_name(tree(tmp_path / "x", {"proc/cpuinfo": x86})) == "Fast CPU @ 2GHz"
    arm = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c"
    assert system.cpu_name(tree(tmp_path / "a", {"proc/cpuinfo": arm})) == "Arm implementer 0x41 part 0xd0c"
    assert system.cpu_name(tree(tmp_path / "n", {"proc/cpuinfo": "nothing known"})) is None


def test_caches_come_nearest_first_with_line_and_sharing(tmp_path: Path) -> None:
    def cache(i: int, level: str, kind: str, size: str, shared: str) -> dict[str, str]:
        rows = {"level": level, "type": kind, "size": size, "coherency_line_size": "64", "shared_cpu_list": shared}
        return {f"{CPU0}/cache/index{i}/{k}": v for k, v in rows.items()}

    files = cache(0, "1", "Data", "48K", "0,4") | cache(1, "1", "Instruction", "32K", "0,4") | cache(2, "3", "Unified", "36M", "0-7")
    files |= cache(3, "2", "Unified", "2048K", "0,4") | {f"{CPU0}/cache/index4/level": "4"}  # a cache without a size is none
    root = tree(tmp_path, files)
    assert system.caches(root, 0) == (
        Cache(1, "data", 48 << 10, 64, 2),
        Cache(1, "instruction", 32 << 10, 64, 2),
        Cache(2, "unified", 2 << 20, 64, 2),
        Cache(3, "unified", 36 << 20, 64, 8),
    )
    hw = replace(PLAIN, caches=system.caches(root, 0))
    l1 = hw.cache(1)
    assert l1 is not None and l1.kind == "data" and hw.cache(4) is None


def test_two_threads_of_a_core_are_one_core(tmp_path: Path) -> None:
    siblings = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}
    root = tree(tmp_path, {f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": s for n, s in siblings.items()})
    tree(root, {"sys/devices/system/cpu/cpufreq/boost": "1"})  # not a CPU
    assert system.physical_cores(root) == 2
    assert system.physical_cores(root, {0, 2}) == 1
    assert system.physical_cores(root, {0, 1}) == 2
    assert system.physical_cores(root, {0, 9}) is None  # nobody says what 9 is


@pytest.mark.parametrize(
    ("files", "quota", "limit"),
    [
        ({"proc/self/cgroup": "0::/"}, None, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "max"}, None, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/memory.max": "1048576"}, 1.5, 1 << 20),
        (  # a group above limits too; the tightest counts
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
                "sys/fs/cgroup/a/memory.max": "5000",
            },
            2.0,
            5000,
        ),
        (  # version 1, in a container: the host's path, the container's mount
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/docker/0\n2:memory:/docker/0\n1:name=systemd:/",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            0.5,
            None,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/\n2:memory:/m",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/memory/m/memory.limit_in_bytes": "4096",
            },
            None,
            4096,
        ),
    ],
)
def test_control_groups_of_both_versions_limit(tmp_path: Path, files: dict[str, str], quota: float | None, limit: int | None) -> None:
    root = tree(tmp_path, files)
    assert (system.cpu_quota(root), system.memory_limit(root)) == (quota, limit)


def test_memory_load_and_governor_are_read(tmp_path: Path) -> None:
    files = {"proc/meminfo": "MemTotal:   2048 kB\nMemFree: 1 kB", "proc/loadavg": "3.25 1.00 0.50 2/100 7"}
    root = tree(tmp_path, files | {f"{CPU0}/cpufreq/scaling_governor": "powersave", f"{CPU0}/cpufreq/scaling_driver": "acpi-cpufreq"})
    assert (system.memory(root), system.load(root), system.governor(root, 0)) == (2048 * 1024, 3.25, ("powersave", "acpi-cpufreq"))


# --- this machine -------------------------------------------------------------------------------------------------------------


def test_detect_says_what_the_compiled_library_found() -> None:
    hw = Hardware.detect()
    assert hw.features == lowbit._native.cpu_features()
    assert hw.isas == lowbit._native.isas()
    assert hw.isas_on_this_cpu == tuple(i for i in hw.isas if any(a for _, isa, a in lowbit._native.kernels() if isa == i))
    told = hw.to_dict()
    assert (told["isas_built"], told["isas_on_this_cpu"]) == (hw.isas, hw.isas_on_this_cpu) and "isas" not in told
    assert replace(hw, load=None) == replace(Hardware.detect(), load=None)


def test_detect_does_not_import_torch_unless_asked() -> None:
    code = "import sys; from lowbit.hardware import Hardware; hw = Hardware.detect(); print('torch' in sys.modules, hw.gpus, hw.gpu_note)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"False None {NOT_ASKED}"


def test_an_imported_torch_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, major, minor, total_memory = "Ampere", 8, 6, 10 << 30

    class Cuda:
        is_available = staticmethod(lambda: True)
        device_count = staticmethod(lambda: 1)
        get_device_properties = staticmethod(lambda i: Properties)

    class Torch:
        __version__, __spec__, cuda = "2.13", object(), Cuda
        version = type("version", (), {"hip": None})

    monkeypatch.setitem(sys.modules, "torch", Torch)
    hw = Hardware.detect()
    assert hw.gpus == (Gpu("Ampere", (8, 6), 10 << 30),) and hw.gpu_note == "torch 2.13 sees 1"
    assert any("GPU Ampere: compute capability 8.6: has dp4a" in s for s in hw.recommend())
    monkeypatch.setattr(Torch.version, "hip", "6.0")  # capability is then a gfx number, and says nothing of dp4a
    assert Hardware.detect().gpus == (Gpu("Ampere", None, 10 << 30),)
    monkeypatch.setattr(Cuda, "is_available", lambda: False)
    assert (Hardware.detect().gpus, Hardware.detect().gpu_note) == ((), "torch 2.13 sees none")


@pytest.mark.parametrize(
    ("capability", "features"),
    [
        ((6, 0), ()),
        ((6, 1), ("dp4a",)),
        ((7, 0), ("dp4a",)),
        ((7, 2), ("dp4a", "int8 tensor cores")),
        ((7, 5), ("dp4a", "int8 tensor cores", "int4 tensor cores")),
        ((8, 9), ("dp4a", "int8 tensor cores", "int4 tensor cores")),
        ((9, 0), ("dp4a", "int8 tensor cores")),
        ((12, 0), ("dp4a", "int8 tensor cores")),
        (None, ()),
    ],
)
def test_compute_capability_decides_what_a_gpu_has(capability: tuple[int, int] | None, features: tuple[str, ...]) -> None:
    assert Gpu("any", capability, 1).features == features


# --- what follows -------------------------------------------------------------------------------------------------------------

L2 = Cache(2, "unified", 1 << 20, 64, 1)
PLAIN = Hardware(arch="x86_64", features=("avx2", "fma"), isas=("ref", "avx2"), cpus=4, usable_cpus=4, usable_cores=4, caches=(L2,))
VNNI = replace(PLAIN, features=AVX512, isas=("ref", "avx2", "avx512vnni"))
ARM = replace(PLAIN, arch="aarch64", features=("dotprod",), isas=("ref", "neon", "neondot"))


def measured(spread: float = 0.02, memory: float | None = 20.0, **speeds: float) -> Measurement:
    """A measurement in which all products have 50 GMAC/s but those named: s8, u8, f32, w4, w4_1, zp, b32, b64, b128, s8_1, s8_256 …"""
    names = {
        **{f"s8_{m}": Case("int8", "int8", m, 64, 64) for m in BATCHES},
        **{f"f32_{m}": Case("float32", "float32", m, 64, 64) for m in BATCHES},
        "u8": Case("uint8", "int8", PAIR_BATCH, 64, 64),
        "w4": Case("int8", "int4", PAIR_BATCH, 64, 64),
        "w4_1": Case("int8", "int4", 1, 64, 64),
        "zp": Case("int8", "int8", PAIR_BATCH, 64, 64, asymmetric=True),
        **{f"b{b}": Case("int8", "int4", PAIR_BATCH, 64, 64, block=b) for b in BLOCKS},
    }
    assert speeds.keys() <= names.keys()
    products = tuple(Product(case, speeds.get(name, 50.0), spread, 1.0) for name, case in names.items())
    read = () if memory is None else (Bandwidth("L2", 1, 100.0), Bandwidth("memory", 1, memory))
    return Measurement(0.3, "cpu", None, products, read)


def test_the_instruction_decides_the_signedness_of_activations() -> None:
    vnni, plain, arm, none = (hw.hints().activation_dtype for hw in (VNNI, PLAIN, ARM, replace(PLAIN, features=())))
    assert vnni.value == "int8" and vnni.because.startswith("AVX-512-VNNI: vpdpbusd multiplies uint8 by int8")
    assert plain.value == "int8" and "vpmaddubsw (uint8 by int8) saturates" in plain.because
    assert arm.value == "int8" and "sdot" in arm.because
    assert none.value == "int8" and none.because.startswith("no instruction of this CPU multiplies bytes")


def test_an_instruction_that_no_kernel_uses_is_said_to_be_unused() -> None:
    assert "no kernel of this build uses AVX-512-VNNI yet" in replace(VNNI, isas=("ref", "avx2")).hints().activation_dtype.because
    assert "no kernel" not in VNNI.hints().activation_dtype.because


def test_vnni_without_the_registers_it_works_on_does_not_count() -> None:
    assert best_instruction(["avx2", "fma", "avx512vnni"]) == best_instruction(["avx2"])
    assert [i.isa for i in INSTRUCTIONS if i.needs <= set(AVX512)] == ["avx512vnni", "avx2"]


def test_a_clear_measurement_overrules_the_instruction_and_a_noisy_one_does_not() -> None:
    clear, noisy = (VNNI.hints(measured(u8=60, spread=s)).activation_dtype for s in (0.02, 0.3))
    assert clear.value == "uint8" and clear.because.startswith("measured: int8 × int8 50 GMAC/s, uint8 × int8 60 GMAC/s, float32 50 GMAC/s")
    assert noisy.value == "int8" and "the measurement does not tell them apart" in noisy.because
    assert PLAIN.hints(measured(u8=60)).activation_dtype.value == "uint8"


def test_float32_is_preferred_where_it_is_measured_to_be_faster() -> None:
    hints = PLAIN.hints(measured(f32_64=100))
    assert (hints.activation_dtype.value, hints.weight_dtype.value) == ("float32", "float32")
    assert "is 2.0× as fast as integers" in hints.activation_dtype.because and "'cpu'" in hints.activation_dtype.because
    assert PLAIN.recommend(measured(f32_64=100))[0].startswith("Keep float32 for speed: measured: float32 100 GMAC/s")
    assert PLAIN.hints(measured(f32_64=25)).activation_dtype.value == "int8"


def test_int4_weights_are_preferred_only_where_they_are_faster_and_nowhere_slower() -> None:
    assert PLAIN.hints().weight_dtype.value == "int8"
    both = PLAIN.hints(measured(w4=50, w4_1=90)).weight_dtype
    assert both.value == "int4" and "1.80× at batch 1, 1.00× at batch 64" in both.because
    assert PLAIN.hints(measured(w4=30, w4_1=90)).weight_dtype.value == "int8"


def test_weights_are_symmetric_and_the_price_of_a_zero_point_is_the_measured_one() -> None:
    dear, free = (PLAIN.hints(measured(zp=z)).weight_scheme for z in (25, 50))
    assert (dear.value, free.value) == ("symmetric", "symmetric")
    assert "measured: 0.50× the speed" in dear.because and "within the noise of the measurement (1.00× the speed, noise 2%)" in free.because


def test_unmeasured_blocks_are_whole_registers_and_measured_ones_the_smallest_that_is_not_slower() -> None:
    assert PLAIN.hints().block_size.value == 32 and "AVX2 registers of 32 int8" in PLAIN.hints().block_size.because
    assert VNNI.hints().block_size.value == 64 and "AVX-512-VNNI registers of 64 int8" in VNNI.hints().block_size.because
    assert PLAIN.hints(measured(b32=20, b64=49.5, b128=50)).block_size.value == 64
    assert PLAIN.hints(measured(b32=20, b64=30, b128=50)).block_size.value == 128
    assert VNNI.hints(measured(b32=49.5)).block_size.value == 32


def test_batch_is_where_the_measured_throughput_saturates() -> None:
    hint = PLAIN.hints(measured(s8_1=5, s8_4=20, s8_16=46, memory=10.0)).batch
    assert hint.value == 16
    assert "1: 5 GMAC/s, 4: 20 GMAC/s, 16: 46 GMAC/s" in hint.because and "below 5 rows memory is the limit" in hint.because
    assert PLAIN.hints(measured(s8_1=49)).batch.value == 1
    assert PLAIN.hints().batch == type(hint)(None, "not measured")


def test_a_measurement_that_was_disturbed_decides_nothing() -> None:
    m = measured(u8=100, s8_1=1)
    busy = replace(m, products=tuple(replace(p, waited=0.6) for p in m.products))
    assert PLAIN.hints(m).activation_dtype.value == "uint8"
    assert PLAIN.hints(busy).activation_dtype.value == "int8"  # int8 waited 60 %: it may be as fast as 125
    assert PLAIN.hints(busy).batch.value is None
    assert PLAIN.hints(busy).batch.because.startswith("the machine was busy: threads waited for a CPU 60% of the time")


def test_a_measurement_that_ended_early_has_no_batch() -> None:
    m = measured()
    short = replace(m, products=tuple(p for p in m.products if p.case.m < 64))
    assert PLAIN.hints(short).batch.value is None and "ended before batch 256" in PLAIN.hints(short).batch.because
    assert PLAIN.hints(short).activation_dtype == PLAIN.hints().activation_dtype


def test_threads_are_cores_within_the_quota() -> None:
    assert PLAIN.hints().threads.value == 4
    assert replace(PLAIN, usable_cores=2).hints().threads.value == 2  # two threads of a core share its multipliers
    hint = replace(PLAIN, cpu_quota=1.5).hints().threads
    assert hint.value == 1 and "control groups allow 1.5 CPUs' worth of time" in hint.because
    assert replace(PLAIN, cpu_quota=0.5).threads == 1


def test_l2_says_how_many_weights_stay_near() -> None:
    assert PLAIN.hints().weights_near.value == 1 << 20
    assert PLAIN.hints(measured(w4_1=90)).weights_near.value == 1 << 21  # int4
    assert "100 GB/s from L2, 20 GB/s from memory" in PLAIN.hints(measured()).weights_near.because


def test_ranking_is_by_measured_speed() -> None:
    assert PLAIN.hints(measured(u8=70, w4=60, f32_64=20)).ranking.value == ("uint8 × int8", "int8 × int4", "int8 × int8", "float32")


def test_problems_say_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def texts(hw: Hardware, isa: str = "") -> list[tuple[str, str]]:
        monkeypatch.setenv("LOWBIT_ISA", isa)
        return [(p.what, p.remedy) for p in hw.problems()]

    assert texts(PLAIN) == texts(VNNI) == texts(ARM) == []
    assert texts(PLAIN, "ref") == [("LOWBIT_ISA=ref is set: no kernel better than ref runs", "unset LOWBIT_ISA")]
    assert texts(PLAIN, "sse9")[0][1] == "one of ref, avx2"
    assert "ref kernels only" in texts(replace(PLAIN, features=()))[0][0]
    assert "this build has ref kernels only, the CPU has AVX2" in texts(replace(PLAIN, isas=("ref",)))[0][0]
    assert "the CPU has AVX-512-VNNI, this build has no kernel that uses it" in texts(replace(VNNI, isas=("ref", "avx2")))[0][0]
    assert texts(replace(PLAIN, cpu_quota=1.5))[0][1].startswith("threads=1")
    assert texts(replace(PLAIN, usable_cpus=2, usable_cores=2))[0][0] == "the process may run on 2 of 4 CPUs"
    assert "allows 1.0 of 2.0 GB" in texts(replace(PLAIN, memory=2 * 10**9, memory_limit=10**9))[0][0]
    assert "powersave" in texts(replace(PLAIN, governor="powersave", governor_driver="acpi-cpufreq"))[0][0]
    assert texts(replace(PLAIN, governor="powersave", governor_driver="intel_pstate")) == []  # there it follows the load
    assert texts(replace(PLAIN, load=9.0))[0][1] == "again when the machine is idle"
    assert replace(PLAIN, load=9.0).recommend()[-1].endswith("Try: again when the machine is idle.")


# --- measuring ----------------------------------------------------------------------------------------------------------------


def test_the_measured_layer_just_fits_l2() -> None:
    assert {(c.k, c.n) for c in plan([L2])} == {(1024, 1024)}
    assert {(c.k, c.n) for c in plan([replace(L2, bytes=512 << 10)])} == {(512, 512)}
    assert {(c.k, c.n) for c in plan([])} == {(512, 512)}
    assert len(set(plan([L2]))) == len(plan([L2]))


def test_buffers_lie_in_their_level_and_a_last_cache_too_large_to_pass_is_left_out() -> None:
    l3 = Cache(3, "unified", 32 << 20)
    assert reads([L2, l3]) == (("L2", 512 << 10), ("L3", 16 << 20), ("memory", 128 << 20))
    assert reads([L2, replace(l3, bytes=384 << 20)]) == (("L2", 512 << 10),)
    assert reads([]) == ()


def test_a_measurement_has_positive_numbers_and_is_json() -> None:
    m = measure([Cache(2, "unified", 1 << 12)], seconds=0.05)  # a layer of 64 × 64 and no buffer beyond 16 KiB: quick
    assert all(p.gmacs > 0 and p.spread >= 0 and p.waited >= 0 for p in m.products) and m.products
    assert all(np.isfinite(b.gb_per_s) and b.gb_per_s > 0 for b in m.bandwidth) and m.bandwidth
    assert json.loads(json.dumps(m.to_dict(), allow_nan=False))["products"][0]["left"] == "float32"
    with pytest.raises(InputError, match="a measurement of 0 seconds measures nothing"):
        measure([], seconds=0)


# --- lowbit doctor ------------------------------------------------------------------------------------------------------------


def test_doctor_quick_json_has_facts_hints_and_problems(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWBIT_ISA", raising=False)
    assert main(["doctor", "--json", "--quick"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts.keys() == {
        *("lowbit", "python", "core", "optional", "compilers", "hardware", "kernels", "isa_cap"),
        *("measurement", "hints", "problems", "recommendations"),
    }
    assert facts["measurement"] is None
    assert facts["hardware"]["features"] == list(lowbit._native.cpu_features())
    assert all(h.keys() == {"value", "because"} and h["because"] for h in facts["hints"].values())
    assert all(row["chosen"] == row["on_this_cpu"][-1] for row in facts["kernels"].values())


def test_doctor_shows_the_cap_on_dispatch_and_survives_one_that_does_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWBIT_ISA", "ref")
    assert main(["doctor", "--json", "--quick"]) == 0
    assert {row["chosen"] for row in json.loads(capsys.readouterr().out)["kernels"].values()} == {"ref"}
    monkeypatch.setenv("LOWBIT_ISA", "sse9")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "not possible: LOWBIT_ISA=sse9" in out
    assert "LOWBIT_ISA=sse9 is not an instruction set of this build: every kernel refuses to run\n    Try: one of ref" in out


def test_doctor_tells_the_measurement(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWBIT_ISA", raising=False)
    monkeypatch.setattr(Hardware, "measure", lambda hw, seconds: measured(u8=12.5, s8_1=5))
    assert main(["doctor", "-v"]) == 0
    out = capsys.readouterr().out
    assert "read memory" in out and "20.0 GB/s" in out and "12.5" in out and "blocks of 128" in out
    assert "because measured, int8: the smallest batch with 90% of the best; 1: 5 GMAC/s" in out


def test_what_a_busy_machine_did_not_reach_is_counted_and_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWBIT_ISA", raising=False)
    late = measure([Cache(2, "unified", 1 << 12)], seconds=1e-9)  # over before the first product
    assert late.products == () and late.not_reached == len(plan([Cache(2, "unified", 1 << 12)]))
    monkeypatch.setattr(Hardware, "measure", lambda hw, seconds: late)
    assert main(["doctor", "-v", "--seconds", "0.5"]) == 0
    out = capsys.readouterr().out
    assert f"nothing was measured: the time of --seconds 0.5 was over before the first of {late.not_reached} products" in out
    assert "Try: lowbit doctor --seconds 2, or again when the machine is idle" in out and "GMAC/s   cores" not in out
    part = replace(measured(u8=12.5, s8_1=5), not_reached=3)
    monkeypatch.setattr(Hardware, "measure", lambda hw, seconds: part)
    assert main(["doctor", "-v", "--seconds", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "12.5" in out and "3 products were not reached in the time of --seconds 0.5" in out


def test_the_time_of_a_measurement_begins_when_its_arrays_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine making them takes longer than the whole measurement may."""
    from lowbit.hardware import measure as measuring

    late = [0.0]
    clock, work = time.perf_counter, measuring._work

    def slow(case: Case, rng: np.random.Generator) -> Any:
        late[0] += 10
        return work(case, rng)

    monkeypatch.setattr(time, "perf_counter", lambda: clock() + late[0])
    monkeypatch.setattr(measuring, "_work", slow)
    assert measure([Cache(2, "unified", 1 << 12)], seconds=0.3).products


def test_doctor_fits_a_screen_and_keeps_the_rest_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--quick"]) == 0
    short = capsys.readouterr().out
    assert short.count("\n") <= 48 and "because" not in short and "linear_s8" not in short
    assert main(["doctor", "--quick", "-v", "--kernels"]) == 0
    long = capsys.readouterr().out
    assert "because" in long and "linear_s8" in long
