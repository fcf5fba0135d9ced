"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowbit.cli import main


def ran(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> str:
    """The stdout of a command line (with {} for the folder), which succeeds and writes nothing to stderr."""
    code = main(text.format(folder).split())
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out
