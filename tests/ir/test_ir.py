"""Laws of the graph: it prints and parses to itself, keeps its types, and means what the interpreter says."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowbit.dims import symbol
from lowbit.dtypes import dtype
from lowbit.errors import FormatError, GraphError, InputError, LowbitError, ShapeError
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.file import load, save
from lowbit.ir.graph import Constant, Graph, Node, Value, freeze
from lowbit.ir.interp import run
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.ir.text import parse_graph, print_graph
from lowbit.ir.verify import verify
from lowbit.passes.common_subexpressions import common_subexpressions
from lowbit.types import TensorType, broadcast, type_of

HOSTILE = 'y\n"); system("x") # \\ \u2028 é'


def mlp(name: str = "mlp") -> Graph:
    """x (batch, 4) → linear → relu → linear, with one weight used twice and a hostile name."""
    rng = np.random.default_rng(1)
    b = Builder(name)
    x = b.input("x", TensorType((symbol("batch"), 4), "float32"))
    w = b.constant(rng.standard_normal((4, 4)).astype(np.float32), "fc1.weight")
    bias = b.constant(np.array([0.1, -0.0, 3e38, 1e-45], np.float32), "fc1.bias")
    h = b.add("relu", b.add("linear", x, w, bias, name="fc1"), name="act")
    y = b.add("linear", h, w, name=HOSTILE)
    return b.finish({HOSTILE: y, "hidden": h})


def test_printed_graph_parses_to_the_same_graph() -> None:
    g = verify(mlp())
    assert parse_graph(print_graph(g), g.constants) == g


def test_saved_graph_loads_as_the_same_graph_and_same_graph_gives_same_bytes(tmp_path: Path) -> None:
    g = mlp()
    save(g, tmp_path / "a.lowbit")
    save(mlp(), tmp_path / "b.lowbit")
    assert load(tmp_path / "a.lowbit") == g
    assert (tmp_path / "a.lowbit").read_bytes() == (tmp_path / "b.lowbit").read_bytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16", "int64", "bool", "uint16"])
def test_constants_of_every_kind_keep_every_bit_in_a_file(tmp_path: Path, dtype: str) -> None:
    b = Builder()
    t = TensorType((5, 7), dtype)
    data = np.arange(35).reshape(5, 7).astype(t.dtype.numpy)
    g = b.finish({"y": b.add("identity", b.constant(data, "c"))})
    save(g, tmp_path / "c.lowbit")
    assert load(tmp_path / "c.lowbit") == g


def test_nan_and_infinity_keep_their_bits_in_a_file(tmp_path: Path) -> None:
    data = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    data.view(np.uint32)[0] = 0x7FC01234  # a NaN with a payload
    b = Builder()
    g = b.finish({"y": b.add("identity", b.constant(data, "c"))})
    save(g, tmp_path / "c.lowbit")
    assert load(tmp_path / "c.lowbit").constants["c"].data.tobytes() == data.tobytes()


@pytest.mark.parametrize("damage", ["truncate", "random", "other", "flip"])
def test_a_damaged_file_is_a_format_error_that_names_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.lowbit"
    save(mlp(), path)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-3] ^= 1  # a bit of a weight
    new = {"truncate": bytes(data[: len(data) // 2]), "random": b"\x13" * 100, "other": b"", "flip": bytes(data)}[damage]
    path.write_bytes(new)
    with pytest.raises(FormatError) as e:
        load(path)
    assert "m.lowbit" in str(e.value) or "fc1.weight" in str(e.value)


def test_saving_to_a_folder_that_is_not_there_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be written"):
        mlp().save(tmp_path / "none" / "m.lowbit")
    assert list(tmp_path.iterdir()) == []


def test_interpreter_computes_the_formula_for_any_batch() -> None:
    g = mlp()
    w, b = g.constants["fc1.weight"].data, g.constants["fc1.bias"].data
    for n in (0, 1, 3):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        out = run(g, {"x": x})
        h = np.maximum(x @ w.T + b, np.float32(0))
        assert np.array_equal(out["hidden"], h)
        assert np.array_equal(out[HOSTILE], h @ w.T)


def test_binding_gives_numbers_everywhere_and_the_rest_stays() -> None:
    g = bind(mlp(), {"batch": 3})
    assert g.symbols == ()
    assert verify(g).outputs["hidden"].type == TensorType((3, 4), "float32")
    with pytest.raises(ShapeError, match="no dimension named n") as e:
        bind(mlp(), {"n": 3})
    assert "batch" in str(e.value)


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ({}, InputError, "input 'x' is missing"),
        ({"x": np.zeros((1, 4), "f4"), "z": np.zeros(1)}, InputError, "no input named 'z'"),
        ({"x": np.zeros((1, 4))}, InputError, "float64 given, float32 needed"),
        ({"x": np.zeros((1, 5), "f4")}, ShapeError, r"shape \(1, 5\) given, \(batch, 4\) needed"),
        ({"x": np.zeros((4,), "f4")}, ShapeError, r"shape \(4\) given"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_anything_runs(
    inputs: dict[str, np.ndarray], error: type[LowbitError], text: str
) -> None:
    with pytest.raises(error, match=text):
        run(mlp(), inputs)


def test_byte_swapped_and_strided_inputs_give_the_same_answer() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    want = run(mlp(), {"x": x})["hidden"]
    assert np.array_equal(run(mlp(), {"x": x.astype(">f4")})["hidden"], want)
    assert np.array_equal(run(mlp(), {"x": np.repeat(x, 2, axis=1)[:, ::2]})["hidden"], want)


def test_constants_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        mlp().constants["fc1.weight"].data[0] = 0


def test_replacing_a_value_redirects_every_use_and_drops_what_died() -> None:
    g = mlp()

    def skip(e: Editor, node: Node) -> None:
        assert node.inputs[0] is not None
        e.replace(node.output, node.inputs[0])

    h = verify(rewrite(g, skip, "relu"))
    assert [n.op for n in h.nodes] == ["linear", "linear"]
    assert h.outputs["hidden"].name == "fc1"


def test_a_rewrite_that_changes_nothing_gives_the_same_object() -> None:
    g = mlp()
    assert rewrite(g, lambda e, n: None) is g


def test_a_node_computed_from_the_value_it_replaces_keeps_reading_it() -> None:
    def double_negation(e: Editor, node: Node) -> None:
        e.replace(node.output, e.add("neg", e.add("neg", node.output)))

    h = verify(rewrite(mlp(), double_negation, "relu"))
    assert [n.op for n in h.nodes] == ["linear", "relu", "neg", "neg", "linear"]


def test_replacing_by_another_type_is_refused() -> None:
    e = Editor(mlp())
    with pytest.raises(GraphError, match="should stand for it"):
        e.replace(e.users(Value("x", TensorType((1,), "float32")))[0].output, e.constant(np.zeros(3, np.float32)))


def broken(g: Graph) -> list[tuple[Graph, str]]:
    first, *rest = g.nodes
    wrong_type = replace(first, outputs=(Value(first.output.name, TensorType((1, 1), "float32")),))
    cycle = replace(first, inputs=(rest[-1].output, *first.inputs[1:]))
    writable = Constant(g.constants["fc1.weight"].value, g.constants["fc1.weight"].data.copy())
    return [
        (replace(g, nodes=(first, *g.nodes)), "defined twice"),
        (replace(g, nodes=tuple(reversed(g.nodes))), "before it is defined"),
        (replace(g, nodes=(wrong_type, *rest)), "it gives"),
        (replace(g, nodes=(cycle, *rest)), "before it is defined"),
        (replace(g, nodes=(replace(first, attrs={"axis": 1}), *rest)), "attributes .* unknown"),
        (replace(g, nodes=(replace(first, op="liner"), *rest)), "did you mean linear"),
        (replace(g, nodes=(replace(first, inputs=first.inputs[:1]), *rest)), "1 inputs given"),
        (replace(g, nodes=(replace(first, inputs=(None, *first.inputs[1:])), *rest)), "an input that it needs is left out"),
        (replace(g, constants={**g.constants, "fc1.weight": writable}), "can be written to"),
        (replace(g, outputs={"y": Value("nowhere", TensorType((), "float32"))}), "not defined"),
    ]


@pytest.mark.parametrize("case", range(10))
def test_verifier_names_the_law_that_is_broken(case: int) -> None:
    graph, text = broken(mlp())[case]
    with pytest.raises(GraphError, match=text):
        verify(graph)


def test_misfit_is_reported_at_the_node_that_causes_it() -> None:
    b = Builder()
    x = b.input("x", TensorType((2, 3), "float32"))
    w = b.constant(np.zeros((5, 4), np.float32), "w")
    with pytest.raises(ShapeError, match=r"linear 'fc': input \(2, 3\) does not fit weight \(5, 4\)"):
        b.add("linear", x, w, name="fc")


@pytest.mark.parametrize(
    "text", ["graph", 'input "x"', '"y": float32[1] = relu("x") @ ""', "what", 'const "c": float32[3] = [1]', 'input "x": float99[1]']
)
def test_text_that_is_no_graph_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(FormatError, match="line 2"):
        parse_graph("\n" + text)


def test_broadcast_follows_numpy_and_carries_symbols() -> None:
    n = symbol("n")
    assert broadcast((n, 1, 3), (5, 1)) == (n, 5, 3)
    assert broadcast((n,), (1,)) == (n,)
    assert broadcast((n,), (4,)) == (4,)
    assert broadcast((0,), (1,)) == (0,)
    with pytest.raises(ShapeError, match="do not broadcast"):
        broadcast((2,), (3,))


def test_notes_are_kept_by_edits_and_files_and_make_no_graph_another_one(tmp_path: Path) -> None:
    g = replace(mlp(), notes={"relu": "a reason", "rule 2": "matches no layer"})
    assert g == mlp()
    save(g, tmp_path / "g.lowbit")
    edited = rewrite(g, lambda e, n: e.replace(n.output, e.add("sigmoid", *n.inputs)), "relu")
    for other in (load(tmp_path / "g.lowbit"), bind(g, {"batch": 2}), edited):
        assert other.notes == g.notes


def test_large_constants_are_not_copied_to_be_compared_named_or_found_equal() -> None:
    def make() -> Graph:
        b = Builder()
        y = b.input("x", TensorType((1, 1000), "float32"))
        for i in range(4):
            y = b.add("linear", y, b.constant(np.full((1000, 1000), i // 2, np.float32)))
        return b.finish({"y": y})

    g, h = make(), make()
    size = next(iter(g.constants.values())).data.nbytes
    for work in (lambda: common_subexpressions(g), lambda: print_graph(g), lambda: g == h):
        tracemalloc.start()
        found = work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found is not False and peak < size / 2
    assert len(common_subexpressions(g).constants) == 2


def test_constants_are_equal_when_every_bit_is() -> None:
    def constant(x: Any) -> Constant:
        return Constant(Value("c", type_of(x)), freeze(x))

    for kind in ("float32", "bfloat16", "complex128", "int8", "bool"):
        x = np.zeros((2, 3), dtype(kind).numpy)
        assert constant(x) == constant(x.copy()) and constant(x).digest == constant(x.copy()).digest
        other = x.copy()
        other[1, 2] = 1
        assert constant(x) != constant(other) and constant(x).digest != constant(other).digest
    assert constant(np.array(0.0)) != constant(np.array(-0.0)) and constant(np.array(np.nan)) == constant(np.array(np.nan))
    assert constant(np.zeros((0, 2))) == constant(np.zeros((0, 2)))
