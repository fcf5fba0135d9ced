"""The parser: what was meant is proposed, errors come as JSON where JSON is asked for, every verb shows examples."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from lowbit.cli import VERBS, main, parser
from lowbit.cli.parser import EXAMPLES


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as e:
        main(list(words))
    assert e.value.code == 2
    found = capsys.readouterr()
    return found.out, found.err


def test_what_was_meant_is_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "quantise")[1] == "usage: argument VERB: invalid choice: 'quantise'.\n  Try: quantize; lowbit -h\n"
    assert (
        said(capsys, "run", "m.onnx", "--imput", "x.npy")[1] == "usage: unrecognized arguments: --imput x.npy.\n  Try: --input; lowbit -h\n"
    )
    assert "Try: speed; lowbit quantize -h" in said(capsys, "quantize", "m.onnx", "--prefer", "sped", "-o", "q.lowbit")[1]
    assert said(capsys, "xyz")[1].endswith("Try: lowbit -h\n")


def test_errors_are_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    error = json.loads(said(capsys, "run", "--json", "m.onnx", "--nope")[0])["error"]
    assert error["kind"] == "usage" and error["message"] == "unrecognized arguments: --nope"
    assert main(["inspect", "none.onnx", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {
        "kind": "FormatError",
        "where": "none.onnx",
        "message": "there is no such file",
        "hint": "the path of an .onnx, .gguf or .lowbit file",
    }


def test_every_verb_shows_examples_that_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(EXAMPLES) == set(VERBS)
    for name, lines in EXAMPLES.items():
        with pytest.raises(SystemExit):
            main([name, "-h"])
        page = capsys.readouterr().out
        for line in lines:
            assert line in page and line.split()[1] == name
            parser().parse_args(shlex.split(line)[1:])


def test_shells_complete(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="completion is made by shtab")
    assert main(["--completion", "bash"]) == 0
    assert "quantize" in capsys.readouterr().out


def test_the_version_is_said_without_imports() -> None:
    line = "import sys; sys.argv = ['lowbit', '--version']; from lowbit.__main__ import main; main(); print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.startswith("lowbit ") and found.stdout.endswith("False\n")
