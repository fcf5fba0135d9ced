"""lowbit chat: answers on stdout, figures on stderr, Ctrl-C stops an answer and not the program."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import pytest
from llm_networks import saved

from lowbit import llm
from lowbit.cli import main

pytest.importorskip("transformers", reason="it makes the networks")
pytest.importorskip("tokenizers", reason="the extra llm is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("chat")
    saved("llama", path)
    return str(path)


def answer(folder: str, text: str, count: int = 12) -> str:
    return llm.load(folder, threads=1).chat([{"role": "user", "content": text}], max_tokens=count)


def test_one_prompt_gives_one_answer_and_figures_on_stderr(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", folder, "--prompt", "hello", "--max-tokens", "12", "--threads", "1"]) == 0
    out, err = capsys.readouterr()
    from lowbit.cli.chat import visible

    assert out == visible(answer(folder, "hello")) + "\n"
    assert "[12 tokens (max_tokens reached)," in err and "tokens/s; prompt of" in err


def test_json_gives_the_text_and_the_figures(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", folder, "--prompt", "hello", "--max-tokens", "12", "--json", "--threads", "1"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["text"] == answer(folder, "hello") and value["finish"] == "length" and value["tokens"] == 12
    assert main(["chat", folder, "--prompt", "hello", "--raw", "--max-tokens", "3", "--json", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] == len(llm.load(folder, threads=1).tokenizer.encode("hello"))


class Interrupting(io.StringIO):
    """Sends SIGINT with the fifth piece of the first answer."""

    written = 0

    def write(self, text: str) -> int:
        n = super().write(text)
        self.written += 1
        if self.written == 5:
            signal.raise_signal(signal.SIGINT)
        return n


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n\n/new\nhello\n"))
    out = Interrupting()
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["chat", folder, "--max-tokens", "200", "--threads", "1"]) == 0
    err = capsys.readouterr().err.strip().splitlines()
    assert len(err) == 2 and "tokens (stopped)," in err[0] and "(stopped)" not in err[1]
    assert "reused" not in err[1] and out.getvalue().count("\n") >= 2


def test_a_conversation_keeps_what_was_said(folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    real = llm.Model.chat_stream
    monkeypatch.setattr(llm.Model, "chat_stream", lambda self, messages, **o: (seen.append(len(messages)), real(self, messages, **o))[1])
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\nthere\n/new\nhello\n"))
    assert main(["chat", folder, "--system", "short", "--max-tokens", "5", "--threads", "1"]) == 0
    assert seen == [2, 4, 2]
    capsys.readouterr()


def test_a_conversation_that_is_too_long_says_so_and_goes_on(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello " * 200 + "\nhello\n"))
    assert main(["chat", folder, "--context", "96", "--max-tokens", "5", "--threads", "1"]) == 0
    err = capsys.readouterr().err
    assert "the context is 96" in err and "/new begins anew." in err and "[5 tokens (max_tokens reached)" in err


def test_answers_fit_a_schema(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.json").write_text('{"enum": ["yes", "no"]}')
    assert main(["chat", folder, "--prompt", "a", "--schema", str(tmp_path / "s.json"), "--threads", "1"]) == 0
    assert capsys.readouterr().out in ('"yes"\n', '"no"\n')
    (tmp_path / "s.json").write_text("{")
    assert main(["chat", folder, "--prompt", "a", "--schema", str(tmp_path / "s.json")]) == 2
    assert "--schema cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--json"], 2, "usage: --json answers one prompt"),
        (["--raw"], 2, "usage: --raw continues one text"),
        (["--prompt", "a", "--temperature", "-1"], 1, "InputError: temperature=-1.0 is not a number from 0 to 100"),
        (["--prompt", "a", "--context", "100000"], 1, "context=100000: 1 to 512 tokens"),
    ],
)
def test_wrong_arguments_are_said_in_one_line(
    folder: str, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", folder, *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err and (out == "" or message.endswith(json.loads(out)["error"]["message"]))


def test_a_file_that_is_none_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(40))
    assert main(["chat", str(tmp_path / "x.gguf"), "--prompt", "a"]) == 1
    assert "FormatError: x.gguf: not a GGUF file, or a damaged one: version 0" in capsys.readouterr().err


def test_answers_do_not_steer_the_terminal() -> None:
    from lowbit.cli.chat import visible

    assert visible("a\x1b[31m\n\tb\u202e👩‍👧") == "a\\x1b[31m\n\tb\\u202e👩‍👧"
