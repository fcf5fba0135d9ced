"""A fixed number of mutated files of each format: only LowbitErrors come out, no process dies. `make fuzz` runs more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("format", ["onnx", "lowbit", "gguf"])
def test_mutated_files_end_in_lowbit_errors(format: str) -> None:
    words = [sys.executable, "-m", "fuzz", "--format", format, "--cases", "1000", "--seed", "7"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": "tools"}, timeout=300)
    assert done.returncode == 0 and f"{format}: 1,000 cases, 0 findings" in done.stdout, done.stdout + done.stderr
