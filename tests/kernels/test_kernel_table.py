"""The generator of the kernel table reads all of lb.h or stops: a contract is never half understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowbit.kernels import kernel_table as gen

HEADER = """
/* a comment with typedef void lb_no_fn(int); in it */
typedef struct {
    int32_t n; /* elements */
    uint8_t pads[4];
    float scale;
} lb_twice_s8_params;
typedef void lb_twice_s8_fn(const lb_twice_s8_params *p, const int8_t *x,
                            int8_t *out);
"""
ISAS = "# a comment\nref | any | |\navx2 | x86_64 | avx2 fma | -mavx2 -mfma\n"


def test_a_contract_is_read_whole() -> None:
    fields = (gen.Field("int32_t", "n", 0), gen.Field("uint8_t", "pads", 4), gen.Field("float", "scale", 0))
    args = (gen.Arg("int8_t", "x", True), gen.Arg("int8_t", "out", False))
    assert gen.parse_contracts(HEADER) == {"twice_s8": gen.Contract("twice_s8", fields, args)}


def test_each_kernel_gets_a_call_of_the_one_signature_and_the_best_isa_comes_last() -> None:
    text = gen.table(gen.parse_contracts(HEADER), gen.parse_isas(ISAS), [("twice_s8", "avx2"), ("twice_s8", "ref")])
    thunk = "call_twice_s8__avx2(const void *p, void *const *a, int32_t begin, int32_t end)"
    assert f"{thunk} {{ (void)begin, (void)end; lb_twice_s8__avx2(p, a[0], a[1]); }}" in text
    assert '{"avx2", LB_CPU_avx2 | LB_CPU_fma}' in text
    rows = text[text.index("lb_kernels[] =") :]
    assert rows.index("call_twice_s8__ref") < rows.index("call_twice_s8__avx2")


def test_a_contract_with_items_takes_begin_and_end() -> None:
    header = HEADER.replace("int8_t *out)", "int8_t *out, int32_t begin, int32_t end)")
    contract = gen.parse_contracts(header)["twice_s8"]
    assert contract.ranged and [a.name for a in contract.args] == ["x", "out"]
    text = gen.table({"twice_s8": contract}, gen.parse_isas(ISAS), [("twice_s8", "ref")])
    assert "{ lb_twice_s8__ref(p, a[0], a[1], begin, end); }" in text


def test_a_struct_may_serve_two_contracts() -> None:
    more = "typedef lb_twice_s8_params lb_twice_f32_params;\ntypedef void lb_twice_f32_fn(const lb_twice_f32_params *p, float *out);\n"
    both = gen.parse_contracts(HEADER + more)
    assert both["twice_f32"].fields == both["twice_s8"].fields


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float scale", "double scale", "field `double scale`"),
        ("int32_t n;", "int32_t n, m;", "field `int32_t n, m`"),
        ("int8_t *out)", "int32_t out)", "argument `int32_t out`"),
        ("typedef void lb_twice", "typedef int lb_twice", "params without a function type: twice_s8"),
        ("(const lb_twice_s8_params *p", "(const lb_thrice_s8_params *p", "must take `const lb_twice_s8_params \\*p` first"),
    ],
)
def test_a_contract_that_python_could_not_pack_stops_the_build(old: str, new: str, message: str) -> None:
    assert old in HEADER
    with pytest.raises(gen.ContractError, match=message):
        gen.parse_contracts(HEADER.replace(old, new))


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([("twice_s8", "ref"), ("thrice_s8", "ref")], "lb_thrice_s8__ref: needs a contract lb_thrice_s8_fn in lb.h"),
        ([("twice_s8", "ref"), ("twice_s8", "sse9")], "needs .* a row 'sse9' in isas.txt"),
        ([("twice_s8", "ref"), ("twice_s8", "ref")], "declared twice: lb_twice_s8__ref"),
        ([("twice_s8", "avx2")], "contract twice_s8 has no kernel lb_twice_s8__ref"),
    ],
)
def test_a_kernel_without_contract_isa_or_ref_stops_the_build(kernels: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(gen.ContractError, match=message):
        gen.table(gen.parse_contracts(HEADER), gen.parse_isas(ISAS), kernels)


HEAD = '#include "lb.h"\n\nstatic inline int twice(int v) {\n    return 2 * v;\n}\n\n'
FIRST = "lb_a_s8_fn lb_a_s8__avx2;\n\nvoid lb_a_s8__avx2(void) {\n}\n"
SECOND = "/* What the second does. */\nlb_b_s8_fn lb_b_s8__avx2;\n\nstatic int helper;\n\nvoid lb_b_s8__avx2(void) {\n}\n"


def test_a_kernel_alone_is_the_head_of_its_file_and_what_follows_its_declaration(tmp_path: Path) -> None:
    file = tmp_path / "more_avx2.c"
    file.write_text(HEAD + FIRST + "\n" + SECOND)
    assert gen.kernels_of(file) == {("a_s8", "avx2"): HEAD + FIRST, ("b_s8", "avx2"): HEAD + SECOND}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lb_a_s8__avx2;", "lb_a_s8__avx512;", "found `lb_a_s8_fn lb_a_s8__avx512;`, needs `lb_a_s8_fn lb_a_s8__avx2;`"),
        ("lb_a_s8_fn", "lb_c_s8_fn", "found `lb_c_s8_fn lb_a_s8__avx2;`, needs `lb_c_s8_fn lb_c_s8__avx2;`"),
        ("lb_a_s8_fn lb_a_s8__avx2;", "", "more_avx2.c: declares no kernel"),
    ],
)
def test_a_file_that_declares_no_kernel_of_its_instruction_set_stops_the_build(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in FIRST
    (tmp_path / "more_avx2.c").write_text(HEAD + FIRST.replace(old, new))
    with pytest.raises(gen.ContractError, match=message):
        gen.kernels_of(tmp_path / "more_avx2.c")


TEMPLATE = HEAD.replace("lb.h", "base/f32_ISA.h") + (FIRST + "\n" + SECOND).replace("avx2", "ISA")


def test_a_template_stands_for_a_file_of_each_instruction_set_that_its_first_line_names(tmp_path: Path) -> None:
    file = tmp_path / "more_ISA.c"
    file.write_text("/* ISA: avx2 avx512 */\n" + TEMPLATE)
    texts = {isa: TEMPLATE.replace("ISA", isa) for isa in ("avx2", "avx512")}
    assert gen.texts_of(file) == texts
    assert set(gen.kernels_of(file)) == {("a_s8", "avx2"), ("b_s8", "avx2"), ("a_s8", "avx512"), ("b_s8", "avx512")}
    assert gen.instances_of(file, ["avx2", "ref"]) == {"more_avx2.c": texts["avx2"]}


def test_a_template_of_kernels_alone_becomes_a_file_for_each_kernel(tmp_path: Path) -> None:
    file = tmp_path / "ISA.c"
    file.write_text("/* ISA: avx2 avx512, each kernel alone */\n" + TEMPLATE)
    head = HEAD.replace("lb.h", "base/f32_avx2.h")
    assert gen.instances_of(file, ["avx2"]) == {"a_s8__avx2.c": head + FIRST, "b_s8__avx2.c": head + SECOND}


def test_the_word_of_a_template_is_a_whole_word(tmp_path: Path) -> None:
    (tmp_path / "ISA.c").write_text("/* ISA: avx2 */\nlb_a_s8_fn lb_a_s8__ISA; ISA_ ISAS VISA LB(ISA)\n")
    assert gen.texts_of(tmp_path / "ISA.c")["avx2"] == "lb_a_s8_fn lb_a_s8__avx2; avx2_ ISAS VISA LB(avx2)\n"


def test_a_template_without_instruction_sets_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "more_ISA.c").write_text(TEMPLATE)
    with pytest.raises(gen.ContractError, match=r"more_ISA\.c: is a template by its name, and its first line names no instruction sets"):
        gen.kernels_of(tmp_path / "more_ISA.c")


def test_a_file_that_is_no_template_has_no_instances(tmp_path: Path) -> None:
    (tmp_path / "more_avx2.c").write_text(HEAD + FIRST)
    assert gen.instances_of(tmp_path / "more_avx2.c", ["avx2"]) == {}
