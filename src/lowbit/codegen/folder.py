"""Writes a folder whole or not at all, and never over files of others."""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from lowbit.errors import FormatError
from lowbit.files import try_folder

MANIFEST = "MANIFEST.txt"
OLD, NEW, JOURNAL = "old", "new", "journal"  # in the folder beside, while files take their places
MOST_KEPT = 2000  # files of others that a new folder takes over; one with more is somebody's own, and stays where it is
HEAD = "# written by lowbit emit-c, format 1: "  # and the digest of the lines below: a list that somebody else added to is not lowbit's


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(files: Mapping[str, str]) -> str:
    """SHA-256 and path of every file, as `sha256sum -c` reads it, below a comment that only lowbit writes."""
    rows = "".join(f"{digest(files[path].encode())}  {path}\n" for path in sorted(files))
    return f"{HEAD}{digest(rows.encode())}\n{rows}"


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder's own path; a FormatError when it can surely not be written, before any work."""
    out = Path(os.path.realpath(folder))
    try:
        there = out.exists()
    except OSError as e:  # a name that is too long
        raise FormatError(f"cannot be written ({e.strerror or e})", where=str(folder), hint="another name, or another folder") from e
    if there and not out.is_dir():
        raise FormatError("is a file, a folder is needed", where=str(folder), hint="another path, or take the file away")
    if not out.parent.is_dir():
        raise FormatError("cannot be written (its parent folder does not exist)", where=str(folder), hint=f"mkdir -p {out.parent}")
    try_folder(out.parent, folder)
    return out


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, str], *, force: bool = False) -> None:
    """Writes the files and their manifest. Files of an older manifest that are not written any more are taken away.

    A file that is not as lowbit wrote it is an error, unless forced. Files of other names in the folder stay as they are.
    """
    out = check_folder(folder)
    whole = {**files, MANIFEST: manifest(files)}
    try:
        _recover(out)
    except OSError as e:
        raise FormatError(
            f"cannot be put back as it was before a call that was killed ({e.strerror or e})",
            where=str(folder),
            hint=f"another folder; the old files are in {out.parent}/.{out.name}.lowbit-*/{OLD}",
        ) from e
    old = _written(out)
    foreign = [p for p in sorted(files) if os.path.lexists(out / p) and not _as_written(out / p, old.get(p) if old else None)]
    if old is None and os.path.lexists(out / MANIFEST):
        foreign.insert(0, MANIFEST)
    if foreign and not force:
        raise FormatError(
            f"{', '.join(foreign[:5])}{' …' if len(foreign) > 5 else ''} would be overwritten, and lowbit did not write it so",
            where=str(folder),
            hint="another folder, or --force (force=True)",
        )
    gone = [p for p, known in (old or {}).items() if p not in whole and _as_written(out / p, known)]
    try:
        _replace(out, whole, gone)
    except OSError as e:
        raise FormatError(f"cannot be written ({e.strerror or e})", where=str(folder), hint="a folder that is yours to write to") from e


def _replace(out: Path, files: Mapping[str, str], gone: list[str]) -> None:
    """New files beside the folder first; then the whole folder is swapped, or, where that cannot be, each file takes its place.

    A process that is killed leaves the old folder or the new one. File by file, it leaves a journal beside it, by which the next call puts
    the old files back before it does anything else.
    """
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.lowbit-{os.getpid()}-", dir=out.parent))
    try:
        for path, text in files.items():
            target = fresh / NEW / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        if not out.exists():
            os.rename(fresh / NEW, out)
        elif not _swapped(out, fresh / NEW, {*files, *gone}):
            _one_by_one(out, fresh, files, gone)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swapped(out: Path, new: Path, ours: set[str]) -> bool:
    """Whether the new folder took the place of the old one, in one step, with everything in it that is not lowbit's (by hard links).

    A folder that the process stands in stays the same one, so that the user's shell is not left in a folder that is gone.
    """
    here = Path.cwd()
    if here == out or out in here.parents:
        return False
    kept = [p for p in sorted(out.rglob("*")) if str(p.relative_to(out)) not in ours]
    folders = [p for p in reversed(kept) if p.is_dir() and not p.is_symlink()]  # those inside others first
    if len(kept) > MOST_KEPT:
        return False
    try:
        for path in kept:
            to = new / path.relative_to(out)
            if path in folders:
                to.mkdir(exist_ok=True)
            else:
                os.link(path, to, follow_symlinks=False)
        for path in folders:
            to = new / path.relative_to(out)
            shutil.copystat(path, to)
            if any(path.iterdir()) and not any(to.iterdir()):
                to.rmdir()  # nothing was in it but lowbit's
        shutil.copystat(out, new)
        _exchange(new, out)
    except OSError:
        return False
    return True


def _exchange(a: Path, b: Path) -> None:
    """Swaps two folders in one step, as Linux can; an OSError elsewhere."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    at, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if swap(at, os.fsencode(a), at, os.fsencode(b), exchange):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _one_by_one(out: Path, fresh: Path, files: Mapping[str, str], gone: list[str]) -> None:
    """Each new file takes its place; all are put back when one cannot, or by the next call when the process is killed."""
    (fresh / "writing").write_text(json.dumps([[*files], gone]))
    os.rename(fresh / "writing", fresh / JOURNAL)
    try:
        for path in [*files, *gone]:
            if os.path.lexists(out / path):
                (fresh / OLD / path).parent.mkdir(parents=True, exist_ok=True)
                os.rename(out / path, fresh / OLD / path)
            if path in files:
                (out / path).parent.mkdir(parents=True, exist_ok=True)
                os.rename(fresh / NEW / path, out / path)
    except OSError:
        _put_back(out, fresh, [*files], gone)
        raise
    os.unlink(fresh / JOURNAL)


def _put_back(out: Path, fresh: Path, files: list[str], gone: list[str]) -> None:
    """The old files, wherever the renames stopped: what is still in `new` has not taken its place."""
    for path in [*files, *gone]:
        if os.path.lexists(fresh / OLD / path):
            os.replace(fresh / OLD / path, out / path)
        elif path in files and not os.path.lexists(fresh / NEW / path):
            (out / path).unlink(missing_ok=True)


def _recover(out: Path) -> None:
    """Removes the leftovers of killed calls next to the folder, and restores the old files if a call was killed between two renames."""
    for left in out.parent.glob(f".{glob.escape(out.name)}.lowbit-*"):
        by = re.fullmatch(r"lowbit-(\d+)-\w+", left.name.removeprefix(f".{out.name}."))
        if by is None or not _ours(left) or _runs(int(by[1])):
            continue
        if (left / JOURNAL).is_file():
            journal = _read_journal(left / JOURNAL)
            if journal is None:
                continue  # damaged: nothing says where its files belong, so they stay where they are
            _put_back(out, left, *journal)
        shutil.rmtree(left, ignore_errors=True)


def _ours(left: Path) -> bool:
    """Whether it is a folder that this user made and nobody else may write to, as `_replace` makes it. Others are never followed."""
    found = left.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read_journal(path: Path) -> tuple[list[str], list[str]] | None:
    """Files that were written and files that were taken away; None for a journal that is not whole."""
    try:
        files, gone = json.loads(path.read_text())
        paths = [p for rows in (files, gone) for p in rows]
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    if not all(isinstance(p, str) and _inside(p) for p in paths):
        return None
    return files, gone


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _inside(path: str) -> bool:
    return bool(path) and not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts


def _written(out: Path) -> dict[str, str] | None:
    """Path → digest by the manifest of the folder; None if it has none that is as lowbit wrote it. Paths out of the folder do not count."""
    try:
        head, _, rows = (out / MANIFEST).read_bytes().decode().partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if (out / MANIFEST).is_symlink() or head != HEAD + digest(rows.encode()):
        return None
    listed = [row.partition("  ") for row in rows.splitlines()]
    return {p: d for d, _, p in listed if _inside(p)}


def _as_written(path: Path, known: str | None) -> bool:
    try:
        return known is not None and not path.is_symlink() and digest(path.read_bytes()) == known
    except OSError:
        return False
