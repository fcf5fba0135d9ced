"""SmolLM2-135M by lowbit.llm: perplexity beside floats, memory, the same text on every instruction set, 2,000 tokens without a leak."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from lowbit import llm
from lowbit.frontends.gguf import load_module, read
from lowbit.kernels import native
from zoo import smollm2

PROMPT = "The President of the United States said that"


@cache
def model() -> llm.Model:
    return llm.load(smollm2.path(), threads=2)


def test_the_tokens_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="the peer is not installed")
    path = smollm2.path()
    theirs = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    texts = [
        "  Hello 👩‍👩‍👧 world 12345",
        "def f(x):\n\treturn x ** 2\n\n\n",
        "中文字符 mixed, naïve",
        "<|im_start|>user\nhi<|im_end|>",
        "",
    ]
    for text in [*texts, smollm2.address()[:20_000]]:
        assert model().tokenizer.encode(text) == theirs(text).input_ids
        assert model().tokenizer.decode(model().tokenizer.encode(text), special=True) == text


def test_perplexity_is_at_most_half_a_percent_above_that_of_floats() -> None:
    ids = model().tokenizer.encode(smollm2.address())[:2049]
    floats = smollm2.perplexity(load_module(read(smollm2.path())), ids)
    scores = [model().score(ids[at : at + 257]) for at in range(0, 2048, 256)]
    found = math.exp(-sum(s.total for s in scores) / sum(len(s.logprobs) for s in scores))
    print(f"floats {floats:.3f}, lowbit.llm {found:.3f}")
    assert floats == pytest.approx(22.98, abs=0.02) and found < 1.005 * floats


def test_the_first_tokens_of_a_greedy_text_are_those_of_the_float_module() -> None:
    """Activations are rounded to eight bits in blocks of 32, so that an undecided choice may fall the other way later."""
    ids = model().tokenizer.encode(PROMPT)
    want = load_module(read(smollm2.path())).generate(torch.tensor([ids]), 12)[0].tolist()
    stream = model().stream(ids, max_tokens=12)
    list(stream)
    assert stream.tokens == want


RUN = """
import json, re, sys
from lowbit import llm
m = llm.load(sys.argv[1], threads=int(sys.argv[2]), context=2048)
s = m.stream(sys.argv[3], max_tokens=int(sys.argv[4]), temperature=0.8, top_p=0.95, seed=7)
for _ in s:
    pass
status = open("/proc/self/status").read()
print(json.dumps({"tokens": s.tokens, "peak": int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) << 10}))
"""


def run(count: int, threads: int = 1, **environment: str) -> dict[str, object]:
    command = [sys.executable, "-c", RUN, str(smollm2.path()), str(threads), PROMPT, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return dict(json.loads(done.stdout))


def test_the_same_seed_gives_the_same_text_on_every_instruction_set_and_with_two_threads() -> None:
    want = run(40)["tokens"]
    assert run(40, threads=2)["tokens"] == want
    for isa in (i for i in ("avx2", "avx512") if i in {k.isa for k in native.kernels()}):
        assert run(40, LOWBIT_ISA=isa)["tokens"] == want, isa
    assert run(3, LOWBIT_ISA="ref")["tokens"] == want[:3]  # type: ignore[index]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_memory_is_the_file_the_cache_and_little_more() -> None:
    few = run(8)["peak"]
    cache_bytes = 64 * 64 * 3 * 2 * 30 * 2  # 64 positions of keys and values
    assert isinstance(few, int) and few < 1.15 * smollm2.path().stat().st_size + cache_bytes + (100 << 20)
    many = run(1800)["peak"]
    per_token = 64 * 3 * 2 * 30 * 2
    assert isinstance(many, int) and many - few < 2048 * per_token + (16 << 20)
