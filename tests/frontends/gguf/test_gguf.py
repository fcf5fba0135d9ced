"""GGUF files: every number is the file's, written back it has the same bytes, and a Llama network means the same in all its forms."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import lowbit
from lowbit.errors import FormatError, QuantError, UnsupportedOp
from lowbit.frontends.gguf import BlockTensor, Field, GGUFFile, encode, from_ints, load_gguf, load_module, read, write
from lowbit.frontends.gguf.blocks import KINDS, from_bytes
from lowbit.ir.interp import run
from lowbit.ir.verify import verify
from lowbit.qarray import QArray
from lowbit.quant_params import PerBlock, QuantParams
from lowbit.quantization.rules import WeightOnlyRule

KIND_NAMES = list(KINDS)


def some_bytes(kind: str, rows: int = 5, columns: int = 96) -> NDArray[np.uint8]:
    """Random codes under scales of both signs and zero: all that a file may hold."""
    rng = np.random.default_rng(len(kind) + rows)
    k = KINDS[kind]
    raw = rng.integers(0, 256, (rows, columns // 32, k.block_bytes), np.uint8)
    scales = rng.standard_normal((rows, columns // 32, 2 if k.offset else 1)).astype(np.float16)
    scales[0, 0], scales[1, 1], scales[2, 0, 0] = 0, -0.0, np.float16(6e-8)  # zeros of both signs, the smallest number above
    raw[..., : 4 if k.offset else 2] = scales.view(np.uint8)
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_blocks_become_the_bytes_they_were_read_from(kind: str) -> None:
    raw = some_bytes(kind)
    assert np.array_equal(from_bytes(kind, raw, (5, 96)).to_bytes(), raw)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_blocks_stand_for_the_numbers_that_the_gguf_package_gives(kind: str) -> None:
    raw = some_bytes(kind)
    want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(from_bytes(kind, raw, (5, 96)).dequantize(), want)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0"])
def test_blocks_without_offsets_are_quantized_arrays_exactly(kind: str) -> None:
    t = from_bytes(kind, some_bytes(kind), (5, 96))
    params, codes, offset = t.affine()
    assert offset is None and params.granularity == PerBlock(1, 32) and (params.scale > 0).all()
    assert np.array_equal(QArray(codes, params).dequantize(), t.dequantize())


def test_a_scale_that_is_not_finite_is_refused() -> None:
    raw = some_bytes("Q4_0")
    raw[0, :2] = np.array([np.inf], np.float16).view(np.uint8)
    with pytest.raises(FormatError, match="a Q4_0 block has a scale that is not finite"):
        from_bytes("Q4_0", raw, (5, 96)).affine()


@pytest.mark.parametrize(("dtype", "kind"), [("int4", "Q4_0"), ("int8", "Q8_0")])
def test_integers_with_float16_scales_are_written_exactly(dtype: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    params = QuantParams(dtype, rng.uniform(0.01, 1, (4, 2)).astype(np.float16).astype(np.float32), granularity=PerBlock(1, 32))
    low, high = params.code_range
    q = QArray(rng.integers(low, high + 1, (4, 64)), params)
    t = from_ints(params, q.ints)
    assert t.kind.name == kind and np.array_equal(t.dequantize(), q.dequantize())


def test_integers_that_no_format_holds_are_refused_with_the_reason() -> None:
    ints, scale = np.zeros((4, 64), np.int8), np.full((4, 2), 0.1, np.float32)
    with pytest.raises(QuantError, match="scales are float16, and these are not"):
        from_ints(QuantParams("int8", scale, granularity=PerBlock(1, 32)), ints)
    with pytest.raises(QuantError, match="blocks of 32 along the last axis, not per block of 64"):
        from_ints(QuantParams("int8", scale[:, :1], granularity=PerBlock(1, 64)), ints)
    with pytest.raises(QuantError, match="int16 with these zero points has no GGUF format"):
        from_ints(QuantParams("int16", np.ones((4, 2)), granularity=PerBlock(1, 32)), ints)
    with pytest.raises(QuantError, match=r"shape \(4, 33\): the last dimension is no multiple of 32"):
        encode(np.zeros((4, 33), np.float32), "Q4_0")
    with pytest.raises(QuantError, match="'Q2_K' is not a block format that is written"):
        encode(np.zeros((4, 32), np.float32), "Q2_K")


def tiny(kind: str = "Q4_1", tied: bool = True) -> GGUFFile:
    """A Llama of two blocks: four heads share two heads of keys."""
    rng = np.random.default_rng(0)
    width, hidden, heads, kv, head, vocabulary = 64, 96, 4, 2, 16, 100
    shapes = {
        "attn_q": (heads * head, width),
        "attn_k": (kv * head, width),
        "attn_v": (kv * head, width),
        "attn_output": (width, heads * head),
    }
    shapes |= {"ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden)}

    def matrix(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32)

    tensors: dict[str, BlockTensor | NDArray[np.float16] | NDArray[np.float32]] = {
        "token_embd.weight": encode(matrix(vocabulary, width), "Q8_0")
    }
    for i in range(2):
        tensors |= {f"blk.{i}.{n}.weight": rng.uniform(0.5, 1.5, width).astype(np.float32) for n in ("attn_norm", "ffn_norm")}
        tensors |= {f"blk.{i}.{n}.weight": encode(matrix(*s), kind) for n, s in shapes.items()}
    tensors["blk.0.attn_v.weight"] = matrix(*shapes["attn_v"]).astype(np.float16)
    tensors["output_norm.weight"] = rng.uniform(0.5, 1.5, width).astype(np.float32)
    if not tied:
        tensors["output.weight"] = encode(matrix(vocabulary, width), kind)
    sizes = {"block_count": 2, "context_length": 64, "embedding_length": width, "feed_forward_length": hidden, "rope.dimension_count": head}
    sizes |= {"attention.head_count": heads, "attention.head_count_kv": kv}
    fields = {"general.architecture": Field("llama", ("STRING",)), "general.name": Field("tiny", ("STRING",))}
    fields |= {f"llama.{n}": Field(v, ("UINT32",)) for n, v in sizes.items()}
    fields |= {"llama.attention.layer_norm_rms_epsilon": Field(1e-5, ("FLOAT32",)), "llama.rope.freq_base": Field(1e4, ("FLOAT32",))}
    fields["tokenizer.ggml.tokens"] = Field([f"ä{i}" for i in range(vocabulary)], ("ARRAY", "STRING"))
    fields["tokenizer.ggml.scores"] = Field([0.5] * vocabulary, ("ARRAY", "FLOAT32"))
    return GGUFFile(fields, tensors, "tiny.gguf")


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_file_read_and_written_again_has_the_same_bytes(kind: str, tmp_path: Path) -> None:
    write(tiny(kind), tmp_path / "a.gguf")
    again = read(tmp_path / "a.gguf")
    write(again, tmp_path / "b.gguf")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert list(again.tensors) == list(tiny(kind).tensors) and again["tokenizer.ggml.tokens"][3] == "ä3"
    for name in again.tensors:
        assert np.array_equal(again.real(name), tiny(kind).real(name)), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gguf", "b.gguf"]


IDS = np.random.default_rng(3).integers(0, 100, (2, 9))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", KIND_NAMES)
def test_a_network_of_integers_computes_what_the_float_network_and_the_module_compute(kind: str, tied: bool) -> None:
    file = tiny(kind, tied)
    with torch.no_grad():
        want = load_module(file)(torch.from_numpy(IDS)).numpy()
    for integers in (True, False):
        got = run(verify(load_gguf(file, integers=integers)), {"ids": IDS})["logits"]
        assert got.shape == want.shape and np.ptp(want) > 1
        assert np.abs(got - want).max() < 1e-5 * np.ptp(want)


def test_the_weights_of_a_loaded_graph_are_the_integers_of_the_file(tmp_path: Path) -> None:
    write(tiny("Q4_0"), tmp_path / "tiny.gguf")
    graph = lowbit.load(tmp_path / "tiny.gguf", shapes={"ids": [2, 9]})
    params, codes, _ = tiny("Q4_0").tensors["blk.1.ffn_up.weight"].affine()  # type: ignore[union-attr]
    assert np.array_equal(graph.constants["blk.1.ffn_up.ints"].data, codes)
    assert np.array_equal(graph.constants["blk.1.ffn_up.scale"].data, params.scale)
    assert str(graph.constants["blk.1.ffn_up.ints"].value.type) == "uint4[96, 64]"


def test_a_session_multiplies_stored_weights_in_native_code() -> None:
    graph = lowbit.load(torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)), inputs=(torch.zeros(3, 64),))
    stored = lowbit.quantize(graph, recipe="int4-weights")
    session = lowbit.compile(stored, threads=1)
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    assert session.backend == "native" and any(n.op == "dequantize_linear" for n in session.graph.nodes)
    (want,) = run(stored, {graph.inputs[0].name: x}).values()
    assert np.abs(session(x) - want).max() < 1e-5 * np.ptp(want)


@pytest.mark.parametrize("block", [32, 64, 128])
def test_any_linear_layer_can_have_int4_weights_in_blocks(block: int) -> None:
    graph = load_gguf(tiny("Q8_0"), integers=False)
    small = lowbit.quantize(graph, rules=[WeightOnlyRule("ffn_down", "int4", granularity=block)])
    (node,) = [n for n in small.nodes if n.op == "dequantize_linear" and n.output.name.startswith("blk.0.ffn_down")]
    assert node.attrs["block_size"] == block and str(node.inputs[0].type) == "int4[64, 96]"  # type: ignore[union-attr]


def test_greedy_text_is_the_same_with_and_without_cached_keys() -> None:
    model = load_module(tiny())
    ids = torch.from_numpy(IDS)
    made = model.generate(ids, 8)
    for _ in range(8):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(ids[:, IDS.shape[1] :], made)


def changed(file: GGUFFile, **fields: Field) -> GGUFFile:
    return GGUFFile({**file.fields, **{k.replace("__", "."): v for k, v in fields.items()}}, file.tensors, file.name)


def test_what_is_not_a_plain_llama_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOp, match="the architecture 'bert' is not read"):
        load_gguf(changed(tiny(), general__architecture=Field("bert", ("STRING",))))
    with pytest.raises(FormatError, match=r"tensor 'output_norm.weight' is \(64,\), the fields say \(32,\)"):
        load_gguf(changed(tiny(), llama__embedding_length=Field(32, ("UINT32",))))
    file = tiny()
    with pytest.raises(FormatError, match=r"there is no tensor 'output_norm.weight'"):
        load_gguf(GGUFFile(file.fields, {n: t for n, t in file.tensors.items() if n != "output_norm.weight"}, file.name))
    with pytest.raises(UnsupportedOp, match=r"'rope_freqs.weight' has no meaning here"):
        load_gguf(GGUFFile(file.fields, {**file.tensors, "rope_freqs.weight": np.ones(8, np.float32)}, file.name))


def test_files_that_are_none_and_tensors_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        read(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes(b"not a gguf file at all" * 9)
    with pytest.raises(FormatError, match="not a GGUF file, or a damaged one"):
        read(tmp_path / "bad.gguf")
    write(tiny(), tmp_path / "good.gguf")
    (tmp_path / "short.gguf").write_bytes((tmp_path / "good.gguf").read_bytes()[:3000])
    with pytest.raises(FormatError, match="not a GGUF file, or a damaged one"):
        read(tmp_path / "short.gguf")
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "llama")
    writer.add_tensor("t", np.zeros((2, 54), np.uint8), raw_dtype=gguf.GGMLQuantizationType.TQ1_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedOp, match=r"other.gguf: tensor 't': tensors of kind TQ1_0 are not read"):
        read(tmp_path / "other.gguf")
