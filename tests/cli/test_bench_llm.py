"""lowbit bench model.gguf --against llama.cpp: the peer is a process of its own, here one that plays llama-cpp-python."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from llm_networks import saved

from lowbit import llm
from lowbit.cli import main

pytest.importorskip("transformers", reason="it makes the network")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")

PLAYED = """
import time
__version__ = "9.9.played"
class Llama:
    def __init__(self, path, n_ctx, n_threads, n_threads_batch, n_batch, verbose):
        assert path.endswith("m.gguf") and n_threads == n_threads_batch and n_batch == 512 and not verbose
        self.room = n_ctx
        time.sleep(0.02)
    def n_vocab(self):
        return 320
    def reset(self):
        self.used = 0
    def eval(self, ids):
        self.used = getattr(self, "used", 0) + len(ids)
        assert self.used <= self.room and all(0 <= i < 320 for i in ids)
        time.sleep(0.001 * len(ids))
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    saved("llama", tmp_path / "net")
    llm.quantize(tmp_path / "net", tmp_path / "m.gguf", recipe="int8", threads=1)
    return str(tmp_path / "m.gguf")


def test_both_engines_are_measured(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "played").mkdir()
    (tmp_path / "played" / "llama_cpp.py").write_text(PLAYED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "played"))
    line = ["bench", model, "--against", "llama.cpp", "--threads", "1", "--rounds", "2", "--peer-python", sys.executable]
    assert main([*line, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    rows = {r["what"]: r for r in run["rows"]}
    assert list(rows) == ["load to first token", "a token", "prompt of 128", "prompt of 512"] and run["threads"] == 1
    for r in rows.values():
        assert r["ms"]["lowbit"] > 0 and r["ratio"] == pytest.approx(r["ms"]["lowbit"] / r["ms"]["llama.cpp"])
    assert 1 <= rows["a token"]["ms"]["llama.cpp"] < 50 and rows["prompt of 512"]["ms"]["llama.cpp"] >= 512
    assert run["versions"]["llama.cpp"] == "9.9.played"
    assert run["peak_bytes"]["lowbit"] > run["bytes_after_imports"]["lowbit"] > 10 << 20
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "prompt of 128" in said and "peak memory" in said and "llama-cpp-python 9.9.played" in said


@pytest.mark.skipif(importlib.util.find_spec("llama_cpp") is not None, reason="llama-cpp-python is installed")
def test_a_missing_peer_is_said_with_what_to_install(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", model, "--against", "llama.cpp", "--threads", "1", "--rounds", "1"]) == 1
    said = capsys.readouterr().err
    assert "llama.cpp ended: ModuleNotFoundError: No module named 'llama_cpp'" in said and "pip install 'lowbit[bench]'" in said


def test_a_peer_that_is_no_python_is_said(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["bench", model, "--against", "llama.cpp", "--threads", "1", "--peer-python", str(tmp_path / "none")]
    assert main(line) == 1
    assert "llama.cpp cannot be started: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["m.onnx", "--against", "llama.cpp"], "--against llama.cpp measures one .gguf file"),
        (["a.gguf", "b.gguf", "--against", "llama.cpp"], "--against llama.cpp measures one .gguf file"),
        (["a.gguf", "--against", "llama.cpp", "--layers"], "--layers means nothing for a language model"),
        (["a.gguf", "--against", "llama.cpp", "--threads", "999"], "--threads 999, and this process may use"),
        (["m.onnx", "--peer-python", "x"], "--peer-python is for --against llama.cpp"),
    ],
)
def test_usage(line: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *line]) == 2
    assert message in capsys.readouterr().err
