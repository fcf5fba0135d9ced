"""lowbit.llm.quantize: folders and float files become GGUF files of few bits that compute the same network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from llm_gguf import write_gguf
from llm_networks import NETWORKS, VOCABULARY, saved

from lowbit import llm
from lowbit.cli import main
from lowbit.errors import CalibrationError, InputError, LowbitError, QuantError, UnsupportedOp
from lowbit.llm.quantization.block import BlockRun, as_raw, moments_of
from lowbit.llm.quantization.journal import Journal
from lowbit.llm.quantization.scaling import POWERS, scale_block
from lowbit.llm.quantization.source import open_source
from lowbit.llm.quantization.survey import block_of, embedded
from lowbit.llm.weights import open_weights

pytest.importorskip("transformers", reason="it makes the networks")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")

IDS = np.random.default_rng(2).integers(2, VOCABULARY, 60).tolist()
TEXT = "hello there, the other fellow is mellow and another yellow one follows. " * 60


def logits(model: llm.Model) -> np.ndarray[Any, np.dtype[np.float32]]:
    return model.runner.logits(model._hidden(IDS))


def noise(path: Path, folder: Path) -> float:
    """Of the logits, relative to those of the folder's floats."""
    want = logits(llm.load(folder, threads=1))
    return float(np.std(logits(llm.load(path, threads=1)) - want) / np.std(want))


@pytest.mark.parametrize("name", NETWORKS)
def test_eight_bits_of_a_folder_are_nearly_its_floats(name: str, tmp_path: Path) -> None:
    saved(name, tmp_path / "net")
    made = llm.quantize(tmp_path / "net", tmp_path / "m.gguf", recipe="int8", threads=1)
    assert made.bits == 8.5 and set(made.counts) == {"Q8_0"} and made.nbytes == (tmp_path / "m.gguf").stat().st_size
    assert 1e-4 < noise(tmp_path / "m.gguf", tmp_path / "net") < 0.12  # random networks make much of little; a wrong order of rows gives 1
    write_gguf(tmp_path / "net", tmp_path / "float.gguf", architecture="llama" if name == "mistral" else None)
    floats, ours = open_weights(tmp_path / "float.gguf").tensors, open_weights(tmp_path / "m.gguf").tensors
    assert set(floats) <= set(ours) <= {*floats, "rope_freqs.weight"}
    for n, t in floats.items():
        assert np.abs(t.dequantize() - ours[n].dequantize()).max() <= np.abs(t.dequantize()).max() / 250, n
    folder, file = llm.load(tmp_path / "net", threads=1), llm.load(tmp_path / "m.gguf", threads=1)
    assert file.config.windows == folder.config.windows and file.context == folder.context
    for text in ("hello there<|im_end|>", "  12 naïve 👩‍👩‍👧\n"):
        assert file.tokenizer.encode(text) == folder.tokenizer.encode(text)
    assert file.tokenizer.ends == folder.tokenizer.ends


def test_a_float_file_gives_the_bits_that_its_folder_gives(tmp_path: Path) -> None:
    saved("qwen2", tmp_path / "net")
    write_gguf(tmp_path / "net", tmp_path / "float.gguf")
    llm.quantize(tmp_path / "net", tmp_path / "a.gguf", bits=5.0, texts=[TEXT], threads=1)
    llm.quantize(tmp_path / "float.gguf", tmp_path / "b.gguf", bits=5.0, texts=[TEXT], threads=1)
    a, b = (llm.load(tmp_path / n, threads=1).weights.tensors for n in ("a.gguf", "b.gguf"))
    assert set(a) == set(b)
    for n in a:
        assert a[n].format == b[n].format and np.array_equal(a[n].data, b[n].data), n


def saved_with_few_directions(name: str, folder: Path) -> None:
    """A network whose hidden states go with each other, as those of trained ones do, and whose blocks add little."""
    model = saved(name, folder)
    rng = np.random.default_rng(4)
    for n, p in model.named_parameters():
        if "embed_tokens" in n:
            p.data[:] = torch.from_numpy(rng.standard_normal((len(p), 8)) @ rng.standard_normal((8, p.shape[1])))
        elif "o_proj" in n or "down_proj" in n:
            p.data *= 0.1
    model.save_pretrained(str(folder))


@pytest.mark.parametrize("name", ["llama", "qwen3", "phi3"])
def test_texts_make_the_error_smaller(name: str, tmp_path: Path) -> None:
    saved_with_few_directions(name, tmp_path / "net")
    text = llm.load(tmp_path / "net", threads=1).tokenizer.decode(np.random.default_rng(8).integers(2, VOCABULARY, 6000).tolist())
    llm.quantize(tmp_path / "net", tmp_path / "plain.gguf", bits=4.5, threads=1)
    made = llm.quantize(tmp_path / "net", tmp_path / "fitted.gguf", bits=4.5, texts=[text], threads=1)
    assert made.tokens > 3000 and made.bits == 4.5
    plain, fitted = (noise(tmp_path / f"{n}.gguf", tmp_path / "net") for n in ("plain", "fitted"))
    print(f"{name}: noise of logits {plain:.3f} by weights alone, {fitted:.3f} by texts")
    assert fitted < 0.8 * plain


def test_more_bits_make_the_error_smaller(tmp_path: Path) -> None:
    saved("llama", tmp_path / "net")
    found = []
    for bits in (4.5, 5.5, 7.0):
        made = llm.quantize(tmp_path / "net", tmp_path / "m.gguf", bits=bits, texts=[TEXT], threads=1)
        assert bits - 0.5 < made.bits <= bits
        found.append(noise(tmp_path / "m.gguf", tmp_path / "net"))
    assert found[0] > 1.3 * found[1] > 1.3 * 1.3 * found[2]


@pytest.mark.parametrize("name", ["llama, tied, biases", "qwen3", "gemma2", "phi3"])
def test_scaled_channels_compute_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(name, tmp_path)
    source = open_source(tmp_path)
    c, x = source.config, embedded(source, np.array([IDS]))
    block, moments = block_of(source, 0), moments_of(source.config)
    before = {n: t.copy() for n, t in block.items()}
    want = BlockRun(c, 0, {n: as_raw(t) for n, t in block.items()}, len(IDS), 1, record=True)(x, moments)
    monkeypatch.setattr("lowbit.llm.quantization.scaling.POWERS", (POWERS[-1],))  # so that all groups are scaled
    scale_block(block, 0, c, dict.fromkeys(block, "IQ4_NL"), moments)
    changed = {n.split(".")[2] for n in block if not np.array_equal(block[n], before[n])}
    assert {"attn_norm", "ffn_norm", "attn_output", "ffn_down", "ffn_up"} <= changed and ("attn_v" in changed or "attn_qkv" in changed)
    again = moments_of(c)
    got = BlockRun(c, 0, {n: as_raw(t) for n, t in block.items()}, len(IDS), 1, record=True)(x, again)
    assert np.abs(got - want).max() < 4e-4 * np.ptp(want)  # values in the cache are float16, and their scales are others now
    for group, m in moments.items():  # they are the moments of the inputs that the scaled block has
        assert np.allclose(m.second, again[group].second, rtol=2e-3, atol=1e-3 * np.abs(m.second).max())


def test_an_interrupted_file_is_continued_and_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved("llama", tmp_path / "net")
    options: dict[str, Any] = {"bits": 5.0, "texts": [TEXT], "threads": 1}
    whole = llm.quantize(tmp_path / "net", tmp_path / "whole.gguf", **options)
    assert not whole.resumed
    keep, target = Journal.keep, tmp_path / "m.gguf"

    def stopped(self: Journal, part: str, arrays: Any) -> None:
        if part == "blk.1":
            raise KeyboardInterrupt
        keep(self, part, arrays)

    monkeypatch.setattr(Journal, "keep", stopped)
    with pytest.raises(KeyboardInterrupt):
        llm.quantize(tmp_path / "net", target, **options)
    assert not target.exists() and (tmp_path / "m.gguf.unfinished" / "blk.0.npz").is_file()
    written: list[str] = []

    def noted(self: Journal, part: str, arrays: Any) -> None:
        written.append(part)
        keep(self, part, arrays)

    monkeypatch.setattr(Journal, "keep", noted)
    made = llm.quantize(tmp_path / "net", target, **options)
    assert made.resumed and written == ["hidden.2", "blk.1", "hidden.3", "blk.2", "token_embd.weight", "output.weight"]
    assert target.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    assert not (tmp_path / "m.gguf.unfinished").exists()


def test_unfinished_work_of_other_settings_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved("llama", tmp_path / "net")
    monkeypatch.setattr("lowbit.llm.quantization.make.write_file", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        llm.quantize(tmp_path / "net", tmp_path / "m.gguf", bits=5.0, threads=1)
    monkeypatch.undo()
    made = llm.quantize(tmp_path / "net", tmp_path / "m.gguf", bits=4.5, threads=1)
    assert not made.resumed and made.bits == 4.5


def test_what_cannot_be_quantized_is_refused(tmp_path: Path) -> None:
    saved("qwen2", tmp_path / "net")
    write_gguf(tmp_path / "net", tmp_path / "few.gguf", kind="Q8_0")
    with pytest.raises(UnsupportedOp, match="is Q8_0 already: weights that were rounded before lose twice"):
        llm.quantize(tmp_path / "few.gguf", tmp_path / "m.gguf")
    with pytest.raises(QuantError, match=r"3 bits a weight are asked for, 4.5 are the least"):
        llm.quantize(tmp_path / "net", tmp_path / "m.gguf", bits=3)
    with pytest.raises(CalibrationError, match="the texts have 1 tokens, 32 are the least"):
        llm.quantize(tmp_path / "net", tmp_path / "m.gguf", texts=["h"])
    with pytest.raises(InputError, match="recipe='int3' is not known for language models"):
        llm.quantize(tmp_path / "net", tmp_path / "m.gguf", recipe="int3")
    tokenizer = json.loads((tmp_path / "net" / "tokenizer.json").read_text())
    tokenizer["pre_tokenizer"] = {"type": "Whitespace"}
    (tmp_path / "net" / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(LowbitError, match="no tokenizer of GGUF gives the ids of this BPE vocabulary"):
        llm.quantize(tmp_path / "net", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("qwen2", tmp_path / "net")
    (tmp_path / "text.txt").write_text(TEXT)
    net, out, data = str(tmp_path / "net"), str(tmp_path / "m.gguf"), str(tmp_path / "text.txt")
    assert main(["quantize", net, "-o", out, "--recipe", "int4", "--bits", "5", "--data", data]) == 0
    said = capsys.readouterr().out
    assert "bits a weight" in said and "tokens of the texts" in said and f"lowbit chat {out}" in said
    assert llm.load(out, threads=1).generate("hello", max_tokens=3) is not None
    assert main(["quantize", net, "-o", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bits"] <= 4.85 and found["tokens"] == 0 and sum(found["counts"].values()) == len(found["formats"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["-o", "m.lowbit"], "a .lowbit file has one graph; a language model is several"),
        (["-o", "m.gguf", "--recipe", "w4a8"], "--recipe w4a8 is not for language models"),
        (["-o", "m.gguf", "--max-ms", "3"], "--max-ms means nothing for a language model"),
        (["-o", "m.onnx"], "a language model is written as .gguf"),
    ],
)
def test_usage_of_the_command(more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", str(tmp_path), *more]) == 2
    assert message in capsys.readouterr().err


def test_options_of_language_models_mean_nothing_for_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    assert main(["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.lowbit"), "--bits", "5"]) == 2
    assert "--bits is for language models" in capsys.readouterr().err
    assert main(["quantize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.lowbit"), "--recipe", "int4"]) == 2
    assert "--recipe int4 is for language models" in capsys.readouterr().err
