"""Loading: GGUF files and folders are the same network; files that are none are refused with the reason."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_gguf import write_gguf
from llm_networks import VOCABULARY, saved

from lowbit import llm
from lowbit.errors import FormatError, InputError, LowbitError, UnsupportedOp
from lowbit.frontends.gguf.header import read_header
from lowbit.llm.folder import mapped_safetensors

pytest.importorskip("transformers", reason="it makes the networks")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")
gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")

MUTATIONS = int(os.environ.get("LOWBIT_MUTATIONS", "80"))
IDS = np.random.default_rng(2).integers(2, VOCABULARY, 60).tolist()


def logits(model: llm.Model) -> np.ndarray[Any, np.dtype[np.float32]]:
    return model.runner.logits(model._hidden(IDS))


@pytest.mark.parametrize("name", ["llama", "llama, tied, biases", "mistral", "qwen2", "qwen3", "gemma2", "phi3"])
def test_a_gguf_file_is_the_network_of_the_folder(name: str, tmp_path: Path) -> None:
    saved(name, tmp_path)
    write_gguf(tmp_path, tmp_path / "m.gguf", architecture="llama" if name == "mistral" else None)
    folder, file = llm.load(tmp_path, threads=1), llm.load(tmp_path / "m.gguf", threads=1)
    want = logits(folder)  # rows in another order sum up in another one, and some float16 of the cache round the other way
    assert np.abs(logits(file) - want).max() < (2e-4 if file.config.rope.neighbours else 1e-6) * np.ptp(want)
    assert file.tokenizer.encode("hello there<|im_end|>") == folder.tokenizer.encode("hello there<|im_end|>")
    assert file.tokenizer.ends == folder.tokenizer.ends == {1}


def test_gemma_3_has_rotations_of_its_own_where_it_has_a_window(tmp_path: Path) -> None:
    saved("gemma3", tmp_path)
    write_gguf(tmp_path, tmp_path / "m.gguf", more={"rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
    folder, file = llm.load(tmp_path, threads=1), llm.load(tmp_path / "m.gguf", threads=1)
    assert folder.config.windows == file.config.windows == (24, 24, 24, 24, 24, 0)
    want = logits(folder)
    assert np.abs(logits(file) - want).max() < 1e-5 * np.ptp(want)


def test_scaled_rotations_of_a_gguf_file(tmp_path: Path) -> None:
    saved("llama, linear", tmp_path)
    write_gguf(tmp_path, tmp_path / "m.gguf", more={"rope.scaling.type": "linear", "rope.scaling.factor": 2.0})
    want = logits(llm.load(tmp_path, threads=1))
    assert np.abs(logits(llm.load(tmp_path / "m.gguf", threads=1)) - want).max() < 2e-4 * np.ptp(want)


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_1", "Q4_0"])
def test_weights_of_few_bits_compute_what_their_floats_compute_but_for_rounded_activations(kind: str, tmp_path: Path) -> None:
    saved("qwen2", tmp_path)
    write_gguf(tmp_path, tmp_path / "few.gguf", kind=kind)
    few = llm.load(tmp_path / "few.gguf", threads=1)
    assert few.weights.tensors["blk.0.ffn_up.weight"].format == kind
    write_gguf(tmp_path, tmp_path / "floats.gguf", floats_of=few.weights)
    want = logits(llm.load(tmp_path / "floats.gguf", threads=1))
    assert 1e-4 < np.std(logits(few) - want) / np.std(want) < 0.05


def test_a_part_of_a_split_network_is_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m-00001-of-00003.gguf", "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UnsupportedOp, match="the network is split into 3 files"):
        llm.load(tmp_path / "m-00001-of-00003.gguf")


def edited(folder: Path, **settings: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "bert"}, "the architecture 'bert' is not known"),
        ({"model_type": None}, "config.json says no model_type"),
        ({"hidden_size": 32}, "is (320, 64), the settings say (320, 32)"),
        ({"num_hidden_layers": 4}, "there is no tensor 'blk.3.attn_norm.weight'"),
        ({"num_hidden_layers": 2}, "9 tensors have no meaning in the architecture 'llama', the first is 'blk.2.attn_k.weight'"),
        ({"num_hidden_layers": 1 << 40}, "the setting 'block_count' is 1099511627776, a whole number from 1 to 1,024"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 heads of keys"),
        ({"rms_norm_eps": "x"}, "the setting 'attention.layer_norm_rms_epsilon' is x, a number is needed"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rotations of type 'longrope' are not known"),
        ({"rope_parameters": {"rope_type": "linear", "factor": -1}}, "the rotations' setting 'factor' is -1"),
        ({"rope_parameters": [1]}, "rope_parameters is no object"),
        ({"quantization_config": {"a": 1}}, "the weights were quantized by another library"),
        ({"layer_types": ["full_attention"]}, "layer_types names 1 layers"),
        ({"head_dim": 15}, "15 of 15 features are rotated: an even number of them is needed"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    saved("llama", tmp_path)
    with pytest.raises(LowbitError) as error:
        llm.load(edited(tmp_path, **settings), threads=1)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 513}, "context=513: 1 to 512 tokens, for which the network was trained"),
        ({"context": 0}, "context=0: 1 to 512"),
        ({"cache": "int3"}, "cache='int3' is not known"),
        ({"sequences": 0}, "sequences=0, a whole number from 1"),
        ({"cache_tokens": 5}, "cache_tokens=5, a whole number from 512"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    saved("llama", tmp_path)
    with pytest.raises(InputError) as error:
        llm.load(tmp_path, **{"threads": 1, **options})
    assert message in str(error.value)


def test_paths_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        llm.load(tmp_path / "none.gguf")
    with pytest.raises(FormatError, match=r"config.json: there is no such file"):
        llm.load(tmp_path)
    with pytest.raises(InputError, match="int given, a path is needed"):
        llm.load(3)  # type: ignore[arg-type]
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(FormatError, match=r"there are no .safetensors files"):
        llm.load(tmp_path)


def mutated(data: bytes, end: int, rng: np.random.Generator) -> bytes:
    """Some bytes of the header changed, or some values of fields, or the end cut off."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(4, end))
        size = int(rng.integers(1, 9))
        out[at : at + size] = bytes(rng.choice([0, 1, 2, 7, 31, 127, 255], size).tolist())
    return bytes(out)


def test_mutated_files_load_or_end_in_a_lowbit_error(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    write_gguf(tmp_path, tmp_path / "m.gguf", kind="Q4_0")
    good = (tmp_path / "m.gguf").read_bytes()
    head = read_header(np.frombuffer(good, np.uint8))
    end, rng = min(t.offset for t in head.tensors.values()), np.random.default_rng(0)
    settings = good.index(b"llama.block_count"), good.index(b"tokenizer.ggml.model")
    refused = 0
    for i in range(MUTATIONS):
        data = mutated(good, end, rng)
        if i % 2:  # of the settings alone
            part = good[slice(*settings)]
            data = good[: settings[0]] + mutated(part, len(part) - 8, rng) + good[settings[1] :]
        (tmp_path / "bad.gguf").write_bytes(data)
        try:
            llm.load(tmp_path / "bad.gguf", threads=1, sequences=2)
        except LowbitError:
            refused += 1
    assert MUTATIONS // 4 < refused < MUTATIONS


def safetensors(header: Any, data: int = 16, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


GOOD = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        (safetensors({}, length=1 << 63), "a header of 9,223,372,036,854,775,808 bytes"),
        (safetensors(b"{"), "the header is not JSON"),
        (safetensors(b"[" * 100_000), "the header is not JSON"),
        (safetensors([1]), "the header is no JSON object"),
        (safetensors({"t": 1}), "tensors of kind None are not read"),
        (safetensors({"t": {**GOOD, "dtype": "I64"}}), "tensors of kind I64 are not read"),
        (safetensors({"t": {**GOOD, "shape": [-2, -2]}}), "has the shape [-2, -2]"),
        (safetensors({"t": {**GOOD, "shape": [1 << 40, 1 << 40]}}), "does not fit into bytes 0 to 16"),
        (safetensors({"t": {**GOOD, "data_offsets": [0]}}), "has the shape"),
        (safetensors({"t": {**GOOD, "data_offsets": [8, 24]}}), "does not fit into bytes 8 to 24"),
        (safetensors({"t": GOOD, "u": {**GOOD, "data_offsets": [8, 24]}}, 24), "does not fit into bytes 8 to 24"),
        (safetensors({"t": {**GOOD, "shape": "22"}}), "has the shape 22"),
    ],
)
def test_safetensors_that_lie_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises((FormatError, UnsupportedOp)) as error:
        mapped_safetensors(tmp_path / "m.safetensors")
    assert message in str(error.value)


def test_safetensors_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(safetensors({"__metadata__": {"format": "pt"}, "t": GOOD}))
    t = mapped_safetensors(tmp_path / "m.safetensors")["t"]
    assert t.shape == (2, 2) and not t.data.flags.owndata and not t.data.flags.writeable
