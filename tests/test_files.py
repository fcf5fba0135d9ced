"""Files are written whole, where and as the user had them, and only regular files are read or written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import lowbit
from lowbit.errors import FormatError, InputError
from lowbit.files import check_target, write_whole
from lowbit.ir.build import Builder
from lowbit.types import TensorType


@pytest.mark.parametrize("write", [lambda p: write_whole(p, b"new"), check_target])
def test_what_is_no_regular_file_stays_what_it_is(tmp_path: Path, write: object) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(FormatError, match="it is a folder" if path == tmp_path else "it is not a regular file"):
            write(path)  # type: ignore[operator]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "file")
    for data in (b"one", b"two"):  # the link dangles at first
        write_whole(link, data)
        assert link.is_symlink() and (tmp_path / "real" / "file").read_bytes() == data
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to("pipe")
    with pytest.raises(FormatError, match="it is not a regular file"):
        write_whole(tmp_path / "to_pipe", b"x")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FormatError, match="cannot be written"):
        write_whole(tmp_path / "loop", b"x")


def test_rights_stay_and_new_files_have_ordinary_ones(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"old")
    for mode in (0o600, 0o640, 0o755):
        old.chmod(mode)
        write_whole(old, b"new")
        assert stat.S_IMODE(old.stat().st_mode) == mode
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "new", b"new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_paths_that_are_none_are_said_so(tmp_path: Path) -> None:
    for path in ("", ".", "a\0b", str(tmp_path / "none" / "x")):
        for write in (lambda p: write_whole(p, b"x"), check_target):
            with pytest.raises(FormatError, match="cannot be written"):
                write(path)
    with pytest.raises(InputError, match="a path is needed, int given"):
        write_whole(3, b"x")  # type: ignore[arg-type]


def test_a_folder_that_takes_no_files_is_found_out_by_trying(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "kept").write_bytes(b"old")
    with pytest.raises(FormatError, match=r"cannot be written \(its folder is a file\)"):
        check_target(tmp_path / "file" / "x")
    with pytest.raises(FormatError, match="File name too long"):
        check_target(tmp_path / ("n" * 300))
    check_target(tmp_path / "kept")
    assert sorted(os.listdir(tmp_path)) == ["file", "kept"] and (tmp_path / "kept").read_bytes() == b"old"
    long = tmp_path / ("n" * 250)  # a name that the file system takes is one that is written
    write_whole(long, b"x")
    assert long.read_bytes() == b"x"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc here")
def test_rights_are_not_believed() -> None:
    with pytest.raises(FormatError, match=r"^/proc/x.json: cannot be written \(its folder (takes no files|is not)"):
        check_target("/proc/x.json")


def test_a_flipped_bit_in_a_constant_that_stands_in_the_text_is_seen(tmp_path: Path) -> None:
    b = Builder("small")
    x = b.input("x", TensorType((2,), "float32"))
    graph = b.finish({"y": b.add("mul", x, b.constant(np.array([1.5, 2.5], np.float32), "scales"))})
    path = tmp_path / "m.lowbit"
    graph.save(path)
    whole = path.read_bytes()
    at = whole.index(b"0x1.8")  # 1.5 as text
    path.write_bytes(whole[: at + 4] + b"9" + whole[at + 5 :])
    with pytest.raises(FormatError, match="its digest is another one"):
        lowbit.load(path)
