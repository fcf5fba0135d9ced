"""Generated C: compiles without a warning, runs clean under sanitizers, and gives the interpreter's bits."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from codegen_tools import NO_UNIT, Compiled, compile_all, has, selftest
from codegen_zoo import made
from native_laws import integer_graph
from plan_networks import inputs, network

import lowbit
from lowbit.cli import main
from lowbit.codegen import TARGETS
from lowbit.errors import FormatError, InputError, LowbitError, ShapeError, UnsupportedOp
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.numerics import quantize_with
from lowbit.types import Array, TensorType

COMPILERS = [
    "gcc",
    pytest.param("clang", marks=pytest.mark.skipif(not has("clang"), reason="clang with its sanitizers is not installed")),
]


def outputs_of(graph: Graph) -> list[tuple[tuple[int, ...], np.dtype]]:
    return [(tuple(int(d) for d in v.shape), v.type.dtype.numpy) for v in graph.outputs.values()]


def check(graph: Graph, feed: dict[str, Array], folder: Path, **options: object) -> None:
    """Emits with floats at both ends, and compares with the interpreter."""
    emitted = lowbit.emit_c(graph, folder, float_io=True, measure=False, **options)  # type: ignore[arg-type]
    want = run(graph, feed)
    got = Compiled(folder, emitted).run([feed[v.name] for v in graph.inputs], outputs_of(graph))
    for (name, w), g in zip(want.items(), got, strict=True):
        assert w.tobytes() == g.tobytes(), name


@pytest.mark.parametrize("target", ["portable", "host"])
@pytest.mark.parametrize("name", ["mlp", "dscnn", "resnet9"])
def test_networks_give_the_bits_of_the_interpreter(name: str, target: str, tmp_path: Path) -> None:
    graph, feed = integer_graph(name)
    check(graph, feed, tmp_path / "c", target=target)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 9, 7), (3, 17, 5)])
def test_odd_sizes_and_several_outputs(size: tuple[int, int, int], tmp_path: Path) -> None:
    g = network(*size)
    check(g, inputs(g), tmp_path / "c")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["mlp", "net", "dscnn"])
def test_the_self_test_passes_under_sanitizers(name: str, compiler: str, tmp_path: Path) -> None:
    graph = network() if name == "net" else integer_graph(name)[0]
    emitted = lowbit.emit_c(graph, tmp_path / "c", measure=False)
    assert emitted.exact
    said = selftest(tmp_path / "c", tmp_path / "selftest", compiler=compiler)
    assert f"0 of {4 * len(graph.outputs)} outputs differ; arena {emitted.arena_bytes} bytes" in said


def test_a_wrong_weight_fails_the_self_test(tmp_path: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", measure=False)
    weights = tmp_path / "c" / "weights.c"
    text = weights.read_text()
    at = text.index("model_stem_bias[8] = {\n") + len("model_stem_bias[8] = {\n")
    weights.write_text(text[:at] + "    99" + text[at:].lstrip())
    with pytest.raises(AssertionError, match="outputs differ"):
        selftest(tmp_path / "c", tmp_path / "selftest", flags=())


def test_integers_at_both_ends_mean_what_the_header_says(tmp_path: Path) -> None:
    g = network()
    feed = inputs(g)
    emitted = lowbit.emit_c(g, tmp_path / "c", measure=False)
    header = emitted.files["model.h"]
    assert "#define MODEL_IN_SCALE 0.0500000007f /* 0x1.99999ap-5f */" in header and "#define MODEL_OUT_MAP_ZERO_POINT (3)" in header
    shapes = [(s, np.int8 if name == "map" else d) for name, (s, d) in zip(g.outputs, outputs_of(g), strict=True)]
    y, mean, image = Compiled(tmp_path / "c", emitted).run([quantize_with(feed["x"], 0.05, 3, "int8")], shapes)
    want = run(g, feed)
    assert y.tobytes() == want["y"].tobytes() and np.array_equal(mean, want["mean"])
    assert np.array_equal((image.astype(np.float32) - 3) * np.float32(0.05), want["map"])


def test_images_may_be_given_with_channels_last(tmp_path: Path) -> None:
    g = network()
    feed = inputs(g)
    plain, last = (lowbit.emit_c(g, tmp_path / str(c), channels_last=c, measure=False) for c in (False, True))
    x = np.ascontiguousarray(quantize_with(feed["x"], 0.05, 3, "int8").transpose(0, 2, 3, 1))
    shapes = [(s, np.int8 if name == "map" else d) for name, (s, d) in zip(g.outputs, outputs_of(g), strict=True)]
    y = Compiled(tmp_path / "True", last).run([x], shapes)[0]
    assert y.tobytes() == run(g, feed)["y"].tobytes()
    assert "int8[2, 9, 7, 3]" in last.files["model.h"] and len(last.files["model.c"]) < len(plain.files["model.c"])


@pytest.mark.parametrize("name", ["mlp", "net", "dscnn"])
def test_inputs_and_outputs_in_the_arena_save_memory(name: str, tmp_path: Path) -> None:
    graph = network() if name == "net" else integer_graph(name)[0]
    own = lowbit.emit_c(graph, None, measure=False)
    shared = lowbit.emit_c(graph, tmp_path / "c", io_in_arena=True, measure=False)
    assert shared.io_bytes == 0 and shared.ram_bytes <= own.ram_bytes
    selftest(tmp_path / "c", tmp_path / "selftest")


@pytest.mark.parametrize("name", ["transformer", "vit"])
def test_whatever_has_kernels_needs_no_change_of_the_printer(name: str, tmp_path: Path) -> None:
    emitted = lowbit.emit_c(integer_graph(name)[0], tmp_path / "c", measure=False)
    assert emitted.exact
    selftest(tmp_path / "c", tmp_path / "selftest")


@pytest.mark.parametrize("name", ["mlp", "dscnn", "resnet9", "transformer", "vit"])
def test_ram_is_within_a_tenth_of_what_is_alive_at_the_fullest_step(name: str) -> None:
    for inside in (False, True):
        emitted = lowbit.emit_c(integer_graph(name)[0], None, target="cortex-m4", io_in_arena=inside, measure=False, vectors=1)
        assert emitted.least_bytes <= emitted.arena_bytes <= 1.1 * emitted.least_bytes


def test_a_network_that_does_nothing_is_a_copy(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", TensorType((3,), "float32"))
    g = b.finish({"y": b.add("reshape", x, shape=(3, 1)), "z": x})
    check(g, {"x": np.array([1, -0.0, np.inf], np.float32)}, tmp_path / "c")


@pytest.mark.parametrize("name", ["net", "dscnn", "transformer", "lstm_lm", "gru_lm", "blocks"])
def test_without_floats_the_bits_are_the_same_and_no_instruction_is_a_float_one(name: str, tmp_path: Path) -> None:
    graph = network() if name == "net" else made("mlp", "w4a8-block")[0] if name == "blocks" else integer_graph(name)[0]
    emitted = lowbit.emit_c(graph, tmp_path / "c", no_float=True, measure=False)
    assert emitted.exact and lowbit.emit_c(graph, None, measure=False).arena_bytes == emitted.arena_bytes
    selftest(tmp_path / "c", tmp_path / "selftest")
    library = compile_all(tmp_path / "c", tmp_path / "model.so", flags=("-shared", "-fPIC", "-O2", *NO_UNIT))
    code = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True).stdout
    assert len(code) > 10_000 and not re.search(r"%[xyz]mm|%st\b|\b[sdv]\d+\b.*(fmul|fadd)", code)
    needed = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"__(mul|add|sub|div|float|fix)\w*[sd]f", needed)
    for path, text in emitted.files.items():
        if path.endswith((".c", ".h")) and path != "kernels/lb_numerics.h":
            plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
            assert not re.search(r"\b(float|double)\b", plain), path


@pytest.mark.parametrize(("name", "recipe"), [("mlp", "float"), ("mlp", "int4-weights"), ("lstm_lm", "int8-dynamic"), ("demo", "mixture")])
def test_without_floats_a_float_layer_is_refused_whether_a_compiler_is_there_or_not(name: str, recipe: str) -> None:
    with pytest.raises(
        UnsupportedOp, match=r"'\S+': its kernel \w+__ref computes in floating point.\n  Try: a rule that quantizes this layer"
    ):
        lowbit.emit_c(made(name, recipe)[0], None, no_float=True, measure=False)


def test_reals_at_the_ends_are_bits_without_floats(tmp_path: Path) -> None:
    g = network()
    emitted = lowbit.emit_c(g, tmp_path / "c", no_float=True, float_io=True, measure=False)
    assert "void model_run(const lb_f32 *in, lb_f32 *out_y, int8_t *out_mean, lb_f32 *out_map);" in emitted.files["model.h"]
    feed = {"x": np.concatenate([inputs(g)["x"].reshape(-1)[:-4], [np.nan, np.inf, -np.inf, -0.0]]).astype(np.float32).reshape(2, 3, 9, 7)}
    got = Compiled(tmp_path / "c", emitted).run([feed["x"]], outputs_of(g))
    assert all(w.tobytes() == y.tobytes() for w, y in zip(run(g, feed).values(), got, strict=True))


# -- what is written ------------------------------------------------------------------------------------------------------------------


def test_only_the_kernels_that_are_used_are_there() -> None:
    files = lowbit.emit_c(integer_graph("mlp")[0], None, measure=False).files
    assert sorted(f for f in files if f.endswith(".c")) == [
        "kernels/linear_s8__ref.c", "kernels/linear_s8_f32__ref.c", "model.c", "selftest.c", "weights.c"
    ]  # fmt: skip
    assert "kernels/lb_linear.h" in files and "kernels/lb_conv.h" not in files


def test_nothing_of_libc_is_used_but_memory(tmp_path: Path) -> None:
    for name in ("mlp", "dscnn", "resnet9"):
        files = lowbit.emit_c(integer_graph(name)[0], None, target="portable", measure=False).files
        for path, text in files.items():
            if path.endswith((".c", ".h")) and path != "selftest.c":
                included = {line.split("<")[1].split(">")[0] for line in text.splitlines() if line.startswith("#include <")}
                assert included <= {"stdint.h", "stddef.h", "string.h", "float.h"}, path


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    a, b = (lowbit.emit_c(network(), tmp_path / n, target="cortex-m4", measure=False).files for n in ("a", "b"))
    assert a == b and list(a) == list(b)
    for path in a:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


@pytest.mark.parametrize("target", list(TARGETS))
def test_every_target_has_a_project(target: str) -> None:
    emitted = lowbit.emit_c(network(), None, target=target, measure=False)
    assert emitted.target == target and emitted.least_bytes <= emitted.arena_bytes
    assert ("-mcpu=" + target in emitted.files["Makefile"]) == target.startswith("cortex")


# -- what is refused ----------------------------------------------------------------------------------------------------------------


def test_an_op_without_kernel_names_its_layer() -> None:
    b = Builder()
    y = b.add("tan", b.input("x", TensorType((2, 3), "float32")), name="head.tan")
    with pytest.raises(UnsupportedOp, match=r"tan 'head.tan': there is no C kernel for it on float32\[2, 3\]"):
        lowbit.emit_c(b.finish({"y": y}), None, measure=False)


def test_names_and_targets_are_checked() -> None:
    for name in ("9lives", "a-b", "a__b", "", "x;y"):
        with pytest.raises(InputError, match="is no C identifier"):
            lowbit.emit_c(network(), None, name=name, measure=False)
    with pytest.raises(InputError, match="there is no target 'z80'"):
        lowbit.emit_c(network(), None, target="z80", measure=False)
    with pytest.raises(InputError, match="a Graph is needed"):
        lowbit.emit_c(3, None, measure=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "because"),
    [
        ("weights", r"weights\.c, weights\.h would be in the way of the project's weights\.c, weights\.h"),
        ("Weights", r"Weights\.c, Weights\.h would be in the way of the project's weights\.c, weights\.h"),
        ("selftest", r"selftest\.c, selftest\.h would be in the way of the project's selftest\.c"),
        ("lb", "lb_ begins the symbols and the header guards of the kernels"),
        ("LB", "lb_ begins the symbols and the header guards of the kernels"),
        ("lb_conv", "lb_ begins the symbols"),
        ("string", r"string\.h would be in the way of <string\.h>"),
        ("test", "CMake has a target test of its own"),
    ],
)
def test_names_of_other_files_guards_and_targets_are_refused(name: str, because: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"name '{name}' cannot be used: {because}.*\\n  Try: name="):
        lowbit.emit_c(network(), tmp_path / "c", name=name, measure=False)
    assert not (tmp_path / "c").exists()


def test_a_name_with_the_header_guard_of_a_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = importlib.import_module("lowbit.codegen.emit")
    for guard in ("NET_H", "NET_WEIGHTS_H"):
        monkeypatch.setattr(emit, "copies", lambda *_, g=guard: {"kernels/mine.h": f"#ifndef {g}\n#define {g}\n#endif\n"})
        with pytest.raises(InputError, match=rf"name 'net' cannot be used: kernels/mine\.h has the header guard {guard} too"):
            lowbit.emit_c(network(), None, name="net", measure=False)
        assert "net2.h" in lowbit.emit_c(network(), None, name="net2", measure=False).files


@pytest.mark.parametrize("name", ["model", "state", "arena", "in", "out", "layer", "known", "weights_2", "lbx"])
def test_every_other_name_compiles(name: str, tmp_path: Path) -> None:
    lowbit.emit_c(network(), tmp_path / "c", name=name, measure=False)
    compile_all(tmp_path / "c", tmp_path / "selftest", flags=("-I", str(tmp_path / "c")), extra=(tmp_path / "c" / "selftest.c",))


def test_a_network_that_does_not_fit_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(LowbitError, match=r"bytes of RAM are needed \(arena 4,032, inputs and outputs 1,050, stack .*\), 1,000 are there"):
        lowbit.emit_c(network(), tmp_path / "c", fits=(1000, 1 << 20))
    with pytest.raises(LowbitError, match=r"bytes of flash are needed, 2,000 are there"):
        lowbit.emit_c(network(), tmp_path / "c", fits=(1 << 20, 2000))
    assert not (tmp_path / "c").exists()
    lowbit.emit_c(network(), tmp_path / "c", fits=(1 << 20, 1 << 20))
    assert (tmp_path / "c" / "model.c").exists()


# -- the folder -------------------------------------------------------------------------------------------------------------------


def test_files_of_others_are_kept_and_not_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    lowbit.emit_c(network(), folder, measure=False)
    (folder / "main.c").write_text("mine")
    lowbit.emit_c(integer_graph("mlp")[0], folder, measure=False)  # another network: its files replace the old ones
    assert (folder / "main.c").read_text() == "mine" and not (folder / "kernels" / "conv_s8__ref.c").exists()
    (folder / "model.c").write_text("changed")
    with pytest.raises(FormatError, match=r"model\.c would be overwritten, and lowbit did not write it so"):
        lowbit.emit_c(network(), folder, measure=False)
    assert (folder / "model.c").read_text() == "changed" and not (folder / "kernels" / "conv_s8__ref.c").exists()
    lowbit.emit_c(network(), folder, force=True, measure=False)
    assert (folder / "kernels" / "conv_s8__ref.c").exists() and (folder / "main.c").read_text() == "mine"


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from lowbit.codegen import folder as module

    out = tmp_path / "c"
    lowbit.emit_c(network(), out, measure=False)
    before = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    rename, count = os.rename, 0

    def failing(a: object, b: object) -> None:
        nonlocal count
        count += 1
        if count == 9:
            raise OSError(28, "No space left on device")
        rename(a, b)  # type: ignore[arg-type]

    def unable(a: Path, b: Path) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(module, "_exchange", unable)  # file by file
    monkeypatch.setattr(module.os, "rename", failing)
    with pytest.raises(FormatError, match="No space left on device"):
        lowbit.emit_c(integer_graph("mlp")[0], out, measure=False)
    monkeypatch.undo()
    assert {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    with pytest.raises(FormatError, match="its parent folder does not exist"):
        lowbit.emit_c(network(), tmp_path / "no" / "c", measure=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="is a file, a folder is needed"):
        lowbit.emit_c(network(), tmp_path / "file", measure=False)


def test_symbols_left_are_an_error() -> None:
    from zoo import entry

    e = entry("mlp")
    g = lowbit.load(e.make(), inputs=tuple(e.example().values()), dynamic=e.dynamic)
    with pytest.raises(ShapeError, match="dimensions batch are not numbers"):
        lowbit.emit_c(g, None, measure=False)


# -- the command line -----------------------------------------------------------------------------------------------------------


def test_the_command_line_writes_and_tells_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network().save(tmp_path / "net.lowbit")
    command = ["emit-c", str(tmp_path / "net.lowbit"), "-o", str(tmp_path / "out")]
    assert main([*command, "--fits", "1k", "1M"]) == 1
    assert "bytes of RAM are needed" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main([*command, "--name", "a-b"]) == 2
    assert main([*command, "--name", "net", "--fits", "64k", "1M"]) == 0
    told = capsys.readouterr().out
    assert "RAM      4,032 bytes of arena" in told and "those of the interpreter" in told and (tmp_path / "out" / "net.h").exists()
    assert main([*command, "--json", "--name", "net", "--no-float", "--io-in-arena"]) == 0
    assert json.loads(capsys.readouterr().out)["io_bytes"] == 0
    (tmp_path / "out" / "net.c").write_text("mine")
    assert main(command) == 0  # other names: net.c was changed and stays
    assert (tmp_path / "out" / "net.c").read_text() == "mine" and not (tmp_path / "out" / "net.h").exists()
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--fits", "much", "1M"])


def test_the_readme_names_the_flags_that_are_no_choice(tmp_path: Path) -> None:
    chip = lowbit.emit_c(network(), None, target="cortex-m4", measure=False).files["README.md"]
    assert "`-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16`" in chip and "BOARD=../my_board/board.mk" in chip
    here = lowbit.emit_c(network(), None, target="portable", measure=False).files["README.md"]
    assert "CPU's flags" not in here and "board" not in here and "float" not in here.partition("## Building")[2].replace("-ffp-", "")


@pytest.mark.parametrize(
    ("target", "no_float", "said"),
    [
        ("cortex-m4", False, "startup code must switch it on (CPACR)"),
        ("cortex-m4", True, "No floating-point unit is used"),
        ("cortex-m0plus", False, "The chip has no floating-point unit: the compiler's library computes floats"),
        ("riscv32", False, "The chip has no floating-point unit"),
        ("riscv32", True, "No floating-point unit is used"),
    ],
)
def test_the_readme_tells_what_is_asked_of_a_floating_point_unit(target: str, no_float: bool, said: str) -> None:
    text = lowbit.emit_c(network(), None, target=target, no_float=no_float, measure=False).files["README.md"]
    assert said in text and text.count("floating-point unit") == 1
