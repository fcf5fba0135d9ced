"""The folder of generated C: what lowbit wrote it may replace, and nothing else without being told to."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lowbit.codegen.folder import MANIFEST, write_folder
from lowbit.errors import FormatError

FILES = {"model.c": "new", "kernels/k.c": "kernel"}


def sums(**files: str) -> str:
    """What `sha256sum` prints of them."""
    return "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in files.items())


def test_files_in_a_manifest_of_somebody_else_are_kept(tmp_path: Path) -> None:
    theirs = {"notes.txt": "precious", "model.c": "theirs", MANIFEST: sums(**{"notes.txt": "precious", "model.c": "theirs"})}
    for name, text in theirs.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(FormatError, match=r"MANIFEST\.txt, model\.c would be overwritten, and lowbit did not write it so"):
        write_folder(tmp_path, FILES)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == theirs
    write_folder(tmp_path, FILES, force=True)
    assert (tmp_path / "model.c").read_text() == "new" and (tmp_path / "notes.txt").read_text() == "precious"


def test_a_manifest_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    for text in ("", "a list of my own\n", "# lowbit\n", sums(other="x")):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(FormatError, match=r"MANIFEST\.txt would be overwritten"):
            write_folder(tmp_path, FILES)
        assert [p.name for p in tmp_path.iterdir()] == [MANIFEST] and (tmp_path / MANIFEST).read_text() == text


def test_a_file_that_somebody_adds_to_the_manifest_is_kept(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES)
    (tmp_path / "main.c").write_text("mine")
    (tmp_path / MANIFEST).write_text((tmp_path / MANIFEST).read_text() + sums(**{"main.c": "mine"}))
    with pytest.raises(FormatError, match=r"MANIFEST\.txt.* would be overwritten"):
        write_folder(tmp_path, FILES)
    write_folder(tmp_path, FILES, force=True)
    assert (tmp_path / "main.c").read_text() == "mine"


def test_files_as_they_were_written_are_replaced_and_taken_away(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES)
    (tmp_path / "mine.c").write_text("mine")
    write_folder(tmp_path, {"model.c": "newer"})
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [MANIFEST, "mine.c", "model.c"]
    assert (tmp_path / "model.c").read_text() == "newer"
    write_folder(tmp_path, FILES)
    (tmp_path / "kernels" / "k.c").write_text("changed")
    write_folder(tmp_path, {"model.c": "newer"})
    assert (tmp_path / "kernels" / "k.c").read_text() == "changed"


@pytest.mark.parametrize("target", ["nowhere", "there"])
@pytest.mark.parametrize("name", ["model.c", MANIFEST])
def test_links_are_not_replaced(name: str, target: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, FILES)
    (tmp_path / "there").write_bytes((out / name).read_bytes())
    (out / name).unlink()
    (out / name).symlink_to(tmp_path / target)
    with pytest.raises(FormatError, match=f"{name}.* would be overwritten"):
        write_folder(out, FILES)
    assert os.readlink(out / name) == str(tmp_path / target)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_sha256sum_checks_the_manifest(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES)
    check = ["sha256sum", "--strict", "-c", MANIFEST]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "kernels/k.c: OK\nmodel.c: OK\n", "")
    (tmp_path / "model.c").write_text("changed")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


def test_a_manifest_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    rows = sums(**{"../precious": "data", f"{tmp_path}/precious": "data"})
    write_folder(tmp_path / "c", FILES)
    head = (tmp_path / "c" / MANIFEST).read_text().splitlines()[0].rpartition(" ")[0]
    (tmp_path / "c" / MANIFEST).write_text(f"{head} {hashlib.sha256(rows.encode()).hexdigest()}\n{rows}")
    for name in FILES:
        (tmp_path / "c" / name).unlink()
    write_folder(tmp_path / "c", FILES)
    assert (tmp_path / "precious").read_text() == "data"
