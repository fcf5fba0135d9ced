"""The folder of generated C: what lowbit wrote it may replace, and nothing else without being told to."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from lowbit.codegen import folder as module
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


OTHERS = {"model.c": "other", "kernels/other.c": "other", "weights.c": "other", "Makefile": "other"}


def held(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def killed(out: Path, at: int) -> bool:
    """Whether a process that writes OTHERS was killed: before the folders are swapped (-1), after it (-2), or at a rename of a file."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    rename, exchange, left = os.rename, module._exchange, [at]

    def counted(a: Path, b: Path) -> None:
        left[0] -= 1
        rename(a, b) if left[0] >= 0 else os.kill(os.getpid(), signal.SIGKILL)

    def swapping(a: Path, b: Path) -> None:
        if at >= 0:
            raise OSError(38, "Function not implemented")
        if at == -2:
            exchange(a, b)
        os.kill(os.getpid(), signal.SIGKILL)

    try:
        module._exchange = swapping
        os.rename = counted if at >= 0 else rename  # type: ignore[assignment]
        write_folder(out, OTHERS)
    finally:
        os._exit(0)


def folders(tmp_path: Path) -> tuple[Path, dict[str, bytes], dict[str, bytes]]:
    """A folder with a file of the user's in it, and what it holds before and after OTHERS are written."""
    out = tmp_path / "c"
    write_folder(out, OTHERS)
    (out / "kernels" / "mine.c").write_text("mine")
    after = held(out)
    shutil.rmtree(out)
    write_folder(out, FILES)
    (out / "kernels" / "mine.c").write_text("mine")
    return out, held(out), after


def test_a_process_killed_while_the_folder_is_swapped_leaves_the_old_or_the_new_one(tmp_path: Path) -> None:
    out, before, after = folders(tmp_path)
    mine = (out / "kernels" / "mine.c").stat().st_ino
    assert killed(out, -1) and held(out) == before
    assert killed(out, -2) and held(out) == after
    write_folder(out, OTHERS)
    assert held(out) == after and [p.name for p in tmp_path.iterdir()] == ["c"]  # and what they left is taken away
    assert (out / "kernels" / "mine.c").stat().st_ino == mine and (out / "kernels" / "mine.c").stat().st_nlink == 1


def test_where_folders_cannot_be_swapped_the_next_call_puts_the_old_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, before, after = folders(tmp_path)
    monkeypatch.setattr(module, "_runs", lambda process: False)
    mixed, at = 0, 0
    while killed(out, at):
        mixed += held(out) not in (before, after)
        module._recover(out)
        assert held(out) == before and [p.name for p in tmp_path.iterdir()] == ["c"], at
        at += 1
    assert held(out) == after and at >= 7 and mixed >= 5  # the journal, two renames of each file that is there, one of the others


def test_the_folder_that_the_user_stands_in_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _, after = folders(tmp_path)
    inode = out.stat().st_ino
    monkeypatch.chdir(out)
    write_folder(".", OTHERS)
    assert out.stat().st_ino == inode and held(out) == after
    monkeypatch.chdir(tmp_path)
    write_folder(out, FILES)
    assert out.stat().st_ino != inode and (out / "kernels" / "mine.c").read_text() == "mine" and not (out / "weights.c").exists()


def test_what_a_running_process_has_beside_the_folder_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "c"
    beside = tmp_path / f".c.lowbit-{os.getpid()}-abc"
    beside.mkdir()
    write_folder(out, FILES)
    write_folder(out, OTHERS)
    assert beside.is_dir()


def left_behind(out: Path, journal: str) -> Path:
    """A folder beside `out` as a killed call leaves it, whose journal says so much."""
    left = out.parent / f".{out.name}.lowbit-999999999-abcd"
    (left / "old").mkdir(parents=True)
    left.chmod(0o700)
    (left / "journal").write_text(journal)
    return left


def test_a_journal_of_somebody_else_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "c"
    write_folder(out, {"a.c": "one"})
    left = left_behind(out, json.dumps([["a.c"], []]))  # followed, it takes a.c away: it is neither in old nor in new
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    write_folder(out, {"b.c": "two", "a.c": "one"})
    assert left.is_dir() and (out / "a.c").read_text() == "one"
    monkeypatch.undo()
    left.chmod(0o777)  # ours, but anybody may have written the journal
    write_folder(out, {"a.c": "one"})
    assert left.is_dir() and (out / "a.c").read_text() == "one"


@pytest.mark.parametrize("journal", ["", "[]", "{", '[["../x"], []]', "[[1], []]", '[["a.c"]]', "null", "[" * 100_000])
def test_a_damaged_journal_stops_nobody(tmp_path: Path, journal: str) -> None:
    out = tmp_path / "c"
    write_folder(out, {"a.c": "one"})
    left = left_behind(out, journal)
    write_folder(out, {"a.c": "two"})
    assert (out / "a.c").read_text() == "two" and left.is_dir()
