"""What a folder of C promises of memory and work, and what is refused: known answers, sizes, stack, kernels in portable C."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen_tools import has
from plan_networks import network
from repository import ROOT

import lowbit
from lowbit.cli import main
from lowbit.codegen import data, measure, model
from lowbit.codegen import fits as fits_module
from lowbit.codegen import folder as folders
from lowbit.codegen.fits import DoesNotFit
from lowbit.codegen.targets import TARGETS
from lowbit.errors import FormatError, InputError, LowbitError
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.kernels import sources
from lowbit.types import TensorType

OWN = ("armdsp", "mve", "neon", "neondot")
needs_arm = pytest.mark.skipif(not has("arm-none-eabi-gcc"), reason="needs arm-none-eabi-gcc")


def three_layers(wide: int = 64) -> Graph:
    """Most weights are in `heavy`, and there most RAM is alive."""
    b = Builder("three")
    x = b.input("x", TensorType((1, 8), "int8"))
    clamp = {"x_zero": 0, "y_zero": 0, "lo": -128, "hi": 127, "to": "int8", "bound": 1 << 20}

    def linear(value: Value, rows: int, columns: int, name: str) -> Value:
        w = b.constant(np.full((rows, columns), 3, np.int8), name=f"{name}.w")  # no power of two: those are stored in four bits
        m, bias = b.constant(np.full(rows, 0.01, np.float32), name=f"{name}.m"), b.constant(np.zeros(rows, np.int32), name=f"{name}.b")
        return b.add("q_linear", value, w, m, bias, name=name, **clamp)

    h = linear(x, wide, 8, "first")
    h = linear(h, wide, wide, "heavy")
    h = linear(h, 2, wide, "last")
    return b.finish({"y": h})


def test_a_self_test_without_known_answers_is_refused() -> None:
    with pytest.raises(InputError, match="vectors=0, a whole number from 1 to 1,000 is needed"):
        lowbit.emit_c(network(), None, vectors=0, measure=False)
    with pytest.raises(InputError, match=r"samples= is empty, the self test needs one at least.\n  Try: without samples="):
        lowbit.emit_c(network(), None, samples=[], measure=False)


def test_a_network_that_does_not_fit_names_the_layer_to_begin_with() -> None:
    with pytest.raises(DoesNotFit, match=r"^q_linear 'heavy': .* are there; this layer has most, 4,[\d,]+\.\n  Try: recipe w4a8") as flash:
        lowbit.emit_c(three_layers(), None, fits=(1 << 20, 1000), measure=False)
    assert flash.value.where == "q_linear 'heavy'"
    with pytest.raises(DoesNotFit, match="; here the arena is fullest") as ram:
        lowbit.emit_c(three_layers(), None, fits=(10, 1 << 20), measure=False)
    assert ram.value.where == "q_linear 'heavy'"  # it reads and writes 64 bytes, both in the arena
    assert ram.value.hint == "io_in_arena (--io-in-arena), channels_last (--channels-last), a smaller input or a narrower network"


def test_memory_and_flash_that_are_both_too_small_are_said_at_once() -> None:
    with pytest.raises(DoesNotFit) as both:
        lowbit.emit_c(three_layers(), None, fits=(10, 1000), measure=False)
    said = both.value.message
    assert re.search(r"^q_linear 'heavy': [\d,]+ bytes of RAM are needed .*, 10 are there; here the arena is fullest; and ", said)
    assert re.search(r"and q_linear 'heavy': [\d,]+ bytes of flash .*are needed, 1,000 are there; this layer has most", said)
    assert both.value.hint is not None and "--io-in-arena" in both.value.hint and "for the flash: recipe w4a8" in both.value.hint


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_options_that_are_set_are_not_what_to_try(inside: bool, last: bool) -> None:
    with pytest.raises(DoesNotFit) as ram:
        lowbit.emit_c(network(), None, fits=(10, 1 << 20), measure=False, io_in_arena=inside, channels_last=last)
    assert ram.value.hint is not None and ram.value.where is not None
    assert ("--io-in-arena" in ram.value.hint, "--channels-last" in ram.value.hint) == (not inside, not last)


def test_stack_that_was_not_measured_is_said_not_to_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DoesNotFit, match="stack not measured and not counted"):
        lowbit.emit_c(network(), None, fits=(10, 1 << 20), measure=False)
    network().save(tmp_path / "net.lowbit")
    monkeypatch.setattr(measure.shutil, "which", lambda _: None)
    assert main(["emit-c", str(tmp_path / "net.lowbit"), "-o", str(tmp_path / "c"), "--fits", "64k", "1M"]) == 0
    assert "stack    not measured, and not counted by --fits; nor is the code\n" in capsys.readouterr().out


def test_what_is_measured_of_weights_is_their_size_without_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of numbers need no compiler to be counted: the same flash, with arrays of that size, type and alignment."""
    quick = lowbit.emit_c(three_layers(), tmp_path / "c")
    whole = data.weights_source
    monkeypatch.setattr(measure, "weights_source", lambda p, outline: whole(p))
    assert lowbit.emit_c(three_layers(), None).flash_bytes == quick.flash_bytes
    assert len((tmp_path / "c/weights.c").read_text()) > 10_000


def test_compiling_can_be_interrupted_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(measure, "progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lowbit.emit_c(network(), tmp_path / "c")
    assert list((tmp_path / "temp").iterdir()) == [] and not (tmp_path / "c").exists()


@needs_arm
def test_flash_of_a_chip_without_floats_counts_the_library_s() -> None:
    soft = lowbit.emit_c(network(), None, target="cortex-m0plus")
    parts = re.search(
        r"\*\*Flash: ([\d,]+) bytes\*\*: ([\d,]+) of weights, ([\d,]+) of code and parameters, ([\d,]+) of the compiler's library",
        soft.files["README.md"],
    )
    assert parts is not None
    total, weights, code, library = (int(n.replace(",", "")) for n in parts.groups())
    assert total == soft.flash_bytes == weights + code + library and library > 1000  # __aeabi_fmul, __aeabi_fadd, conversions
    here = lowbit.emit_c(network(), None).files["README.md"]
    assert "compiler's library" not in here


def test_stack_that_is_not_known_when_compiling_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own__ref.c").write_text("void use(char *);\nvoid own(int n) {\n    char a[n];\n    use(a);\n}\n")
    (tmp_path / "fixed.c").write_text("void use(char *);\nvoid own(void) {\n    char a[100];\n    use(a);\n}\n")
    for name in ("own__ref", "fixed"):
        subprocess.run(["gcc", "-O2", "-fstack-usage", "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    with pytest.raises(
        FormatError, match=r"^own__ref\.c: own takes stack that is not known when compiling.\n  Try: arrays of a fixed size"
    ):
        measure._stack(tmp_path / "own__ref.c")
    assert 100 <= measure._stack(tmp_path / "fixed.c") < 300


def test_what_does_not_compile_says_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "source", lambda _: "int x = ;\n")
    with pytest.raises(FormatError, match=r"(?s)does not compile model\.c: .*Try: .*measure=False writes the folder without compiling it"):
        lowbit.emit_c(network(), None)


def test_errors_of_names_and_folders_say_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r'is no C identifier .*\n  Try: name="model" \(--name\)'):
        lowbit.emit_c(network(), None, name="a-b", measure=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match=r"is a file, a folder is needed.\n  Try: another path, or take the file away"):
        lowbit.emit_c(network(), tmp_path / "file", measure=False)

    def unable(out: Path) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(folders, "_recover", unable)
    with pytest.raises(
        LowbitError, match=r"cannot be put back .*\(Permission denied\).\n  Try: another folder; the old files are in .*/\.c\.lowbit-\*/old"
    ):
        lowbit.emit_c(network(), tmp_path / "c", measure=False)


@pytest.mark.skipif(not has("cmake"), reason="needs cmake")
@pytest.mark.parametrize(("arguments", "flags"), [((), ["-O2"]), (("-DCMAKE_C_FLAGS=-Os",), ["-Os"]), (("-DCMAKE_BUILD_TYPE=Debug",), [])])
def test_cmake_optimizes_where_nothing_else_is_asked(arguments: tuple[str, ...], flags: list[str], tmp_path: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", measure=False)
    command = ["cmake", "-S", str(tmp_path / "c"), "-B", str(tmp_path / "b"), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    commands = (tmp_path / "b" / "compile_commands.json").read_text()
    line = next(line for line in commands.splitlines() if '"command"' in line and "weights.c" in line)
    assert re.findall(r" (-O\w)\b", line) == flags


# -- portable C on machines with kernels of their own ---------------------------------------------------------------------------------


def test_the_page_lists_the_kernels_that_machines_have_of_their_own() -> None:
    there: dict[str, set[str]] = {}
    for kernel in sources.kernels():
        contract, _, isa = kernel.rpartition("__")
        if isa in OWN:
            there.setdefault(contract, set()).add(isa)
    table = (ROOT / "docs" / "output-format.md").read_text().partition("| kernels | of its own for |")[2].partition("\n\n")[0]
    rows = [[set(re.findall(r"`(\w+)`", c)) for c in r.split("|")[1:3]] for r in table.splitlines() if "`" in r]
    assert {contract: isas for contracts, isas in rows for contract in contracts} == there


def test_the_share_of_portable_kernels_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network().save(tmp_path / "net.lowbit")
    for target in ("cortex-m3", "cortex-m4"):
        assert main(["emit-c", str(tmp_path / "net.lowbit"), "-o", str(tmp_path / target), "--target", target]) == 0
        told, page = capsys.readouterr().out, (tmp_path / target / "README.md").read_text()
        assert ("kernels  " in told) == ("of the multiply-adds run in portable C (__ref)" in page) == (target == "cortex-m4")
    emitted = lowbit.emit_c(network(), None, target="cortex-m4", measure=False)
    rows = re.findall(r"^\| [^|]+ \| \w+__(\w+) \| [^|]+ \| ([\d,]+) \|", emitted.files["README.md"], re.M)
    macs = [(isa, int(n.replace(",", ""))) for isa, n in rows]
    assert emitted.macs == sum(n for _, n in macs) > emitted.ref_macs == sum(n for isa, n in macs if isa == "ref")
    assert emitted.to_json()["ref_macs"] == emitted.ref_macs


def test_without_floats_vectors_give_way_to_kernels_that_round_in_integers() -> None:
    for target, kernels in (("cortex-m55", {"armdsp", "ref"}), ("aarch64", {"ref"}), ("aarch64-dot", {"ref"})):
        emitted = lowbit.emit_c(three_layers(), None, target=target, no_float=True, measure=False)
        isas = {p.rpartition("__")[2][:-2] for p in emitted.files if p.startswith("kernels/") and p.endswith(".c")}
        assert isas <= kernels and TARGETS[target].isas is not None and TARGETS[target].isas[0] not in isas
        assert (emitted.ref_macs == emitted.macs) == (target != "cortex-m55")


def test_flash_that_a_table_of_16_bits_takes_is_not_to_be_had_from_narrower_weights() -> None:
    b = Builder("wide")
    x = b.input("x", TensorType((1, 8), "int16"))
    table = b.constant(np.arange(-(1 << 15), 1 << 15, dtype=np.int16), name="table")
    graph = b.finish({"y": b.add("q_table", x, table, name="act")})
    with pytest.raises(DoesNotFit, match="this layer has most, 131,") as flash:
        lowbit.emit_c(graph, None, fits=(1 << 20, 1000), measure=False)
    assert flash.value.where == "q_table 'act'"
    assert "; 131,076 bytes are tables of layers that read 16 bits, 65,536 entries each (act)" in flash.value.message
    assert flash.value.hint == "quantize with wide=False (--no-wide), which does without them, or a rule that gives these layers 8"
    done = lowbit.emit_c(graph, None, measure=False)
    assert done.table_bytes == done.to_json()["table_bytes"] == 131_076
    assert "Of the weights, 131,076 bytes are tables of layers that read 16 bits" in done.files["README.md"]


@pytest.mark.parametrize("batch", [200_000, 1_000_000, 500_000_000])
def test_an_absurd_batch_is_refused_at_once(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before answers are computed for it, or a compiler is asked."""
    b = Builder("batched")
    x = b.input("x", TensorType((batch, 64), "float32"))
    w = b.constant(np.ones((64, 64), np.float32))
    graph = b.finish({"y": b.add("linear", x, w, name="fc")})
    monkeypatch.setattr(sys.modules["lowbit.codegen.emit"], "golden", lambda *_: pytest.fail("answers are computed"))
    said = {
        200_000: "the self test would hold 51,200,000 numbers (2 known answers of this size), 20,000,000 at most are written",
        1_000_000: "the self test would hold 256,000,000 numbers",
        500_000_000: "input 'x' is float32[500000000, 64]: 128,000,000,000 bytes, more than the 2,147,483,647 that C can place",
    }[batch]
    with pytest.raises(DoesNotFit, match=re.escape(said)) as e:
        lowbit.emit_c(graph, None)
    assert e.value.hint is not None and "--shapes batch=1" in e.value.hint
    if batch == 1_000_000:
        return
    monkeypatch.setattr(fits_module, "MOST_NUMBERS", 10**12)
    monkeypatch.setattr(fits_module, "MOST_BYTES", 10**12)
    with pytest.raises(DoesNotFit, match=r"bytes of RAM are needed .*stack not measured and not counted"):
        lowbit.emit_c(graph, None, fits=(1 << 20, 1 << 20))  # known without any answer, too


def test_the_result_of_emit_c_is_short_at_a_prompt() -> None:
    found = lowbit.emit_c(lowbit.load(Path(lowbit.__file__).parent / "demo" / "fashion_cnn.onnx", shapes={"batch": 1}), None, measure=False)
    assert len(repr(found)) < 400 and sum(map(len, found.files.values())) > 100_000
