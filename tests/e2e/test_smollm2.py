"""SmolLM2-135M from its GGUF file: the text it writes and what it makes of a text, in integers and in floats. Fetches 100 MB once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

import lowbit
from lowbit.frontends.gguf import GGUFFile, load_gguf, load_module, read, write
from lowbit.frontends.gguf.module import LlamaModule
from zoo import smollm2

TOKENS = 40


@cache
def loaded() -> tuple[GGUFFile, LlamaModule]:
    file = read(smollm2.path())
    return file, load_module(file)


def prompt() -> list[int]:
    return smollm2.tokens(loaded()[0], "The President of the United States said that")


def test_the_file_is_written_back_to_the_same_bytes(tmp_path: Path) -> None:
    write(loaded()[0], tmp_path / "back.gguf")
    assert (tmp_path / "back.gguf").read_bytes() == smollm2.path().read_bytes()


def test_the_integers_of_the_file_write_the_text_that_the_float_module_writes() -> None:
    _, model = loaded()
    begin = prompt()
    want = model.generate(torch.tensor([begin]), TOKENS)[0].tolist()
    # Tokens behind the last one cannot change what is before it: one length, and so one plan, does for every step.
    session = lowbit.compile(lowbit.load(smollm2.path(), shapes={"ids": [1, len(begin) + TOKENS]}))
    assert any(n.op == "dequantize_linear" for n in session.graph.nodes)
    ids = np.zeros((1, len(begin) + TOKENS), np.int64)
    ids[0, : len(begin)] = begin
    for at in range(len(begin), ids.shape[1]):
        ids[0, at] = np.asarray(session(ids))[0, at - 1].argmax()
    assert ids[0, len(begin) :].tolist() == want and len(set(want)) > 10


def test_four_bits_in_blocks_of_32_made_anew_cost_less_than_three_percent_of_perplexity() -> None:
    file, model = loaded()
    text = smollm2.tokens(file, smollm2.address())[:2049]
    before = smollm2.perplexity(model, text)
    assert 15 < before < 40
    session = lowbit.compile(lowbit.quantize(load_gguf(file, integers=False), recipe="int4-weights"))
    after = smollm2.perplexity(lambda ids: torch.from_numpy(np.asarray(session(ids.numpy()))), text)
    assert abs(after / before - 1) < 0.03
