"""Generated folders as they are: `make test` and ctest run the self test on the emulated machine, and fail when it does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from boards import BOARDS, USER, missing
from target_networks import emitted, need


@pytest.mark.parametrize("no_float", [False, True])
@pytest.mark.parametrize("target", [*BOARDS, *USER])
def test_make_test_runs_in_the_folder_as_it_is(target: str, no_float: bool, tmp_path: Path) -> None:
    need(*missing(target), "make")
    folder = emitted("net", target, tmp_path / "c", no_float=no_float)
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
    assert done.returncode == 0 and "model: 0 of 6 outputs differ" in done.stdout, done.stdout + done.stderr
    (folder / "selftest.c").write_text((folder / "selftest.c").read_text().replace("int wrong = 0", "int wrong = 1"))
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
    assert done.returncode == 2 and "model: 1 of 6 outputs differ" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", list(BOARDS))
def test_ctest_runs_with_the_toolchain_file_of_the_folder(target: str, tmp_path: Path) -> None:
    need(*missing(target), "cmake", "ctest")
    folder, out = emitted("net", target, tmp_path / "c"), str(tmp_path / "build")
    for command in (
        ["cmake", "-S", str(folder), "-B", out, "--toolchain", str(folder / "board/toolchain.cmake")],
        ["cmake", "--build", out],
    ):
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(["ctest", "--test-dir", out, "-V"], capture_output=True, text=True)
    assert done.returncode == 0 and "model: 0 of 6 outputs differ" in done.stdout, done.stdout + done.stderr
