"""Writes a file whole or not at all: beside it first, then renamed over the old one. Where the cache is."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from lowbit.arguments import path as needed
from lowbit.errors import FormatError

_HINT = "a folder that exists and is yours to write to"


def cache_folder() -> Path:
    """Where things are kept that can be made or fetched again: LOWBIT_CACHE, or ~/.cache/lowbit."""
    return Path(os.environ.get("LOWBIT_CACHE") or Path.home() / ".cache" / "lowbit")


def unreadable(e: Exception) -> str:
    """Why a file could not be read, without Python's numbers: "there is no such file", "it is a folder", else the reason itself."""
    known = {FileNotFoundError: "there is no such file", IsADirectoryError: "it is a folder", UnicodeDecodeError: "it is no text"}
    return next((text for kind, text in known.items() if isinstance(e, kind)), getattr(e, "strerror", None) or str(e))


def check_target(path: str | PathLike[str]) -> None:
    """A FormatError when the path can surely not be written: told before hours of work, not after.

    It is tried, because rights alone do not tell: root may write to every folder, and /proc takes no file from anybody.
    """
    target = _target(path)
    try_folder(target.parent, path)


def try_folder(folder: Path, path: str | PathLike[str]) -> None:
    """A FormatError that names `path` when the folder takes no new file. Nothing stays in it."""
    if not folder.is_dir():
        what = "does not exist" if not folder.exists() else "is a file"
        raise FormatError(f"cannot be written (its folder {what})", where=str(path), hint=_HINT)
    try:
        os.unlink(_beside(folder / "try"))
    except OSError as e:
        raise FormatError(f"cannot be written (its folder takes no files: {e.strerror or e})", where=str(path), hint=_HINT) from e


def _beside(target: Path) -> str:
    """A new, empty file in the same folder. Its name is short where the target's is long."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    os.close(handle)
    return name


def write_whole(path: str | PathLike[str], data: bytes | Iterable[bytes | memoryview]) -> None:
    """Writes the bytes, or pieces of them in order. When anything fails, the old file (or none) is there as before.

    Links are followed, and rights stay.
    """
    target = _target(path)
    beside = None
    try:
        beside = _beside(target)
        with open(beside, "wb") as f:
            for piece in (data,) if isinstance(data, bytes) else data:
                f.write(piece)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(beside, _rights(target))  # the temporary file is private
        os.replace(beside, target)
    except OSError as e:
        raise FormatError(f"cannot be written ({e.strerror or e})", where=str(path), hint=_HINT) from e
    finally:
        if beside is not None and os.path.exists(beside):
            os.unlink(beside)


def _target(path: str | PathLike[str]) -> Path:
    """The file that the path stands for, links followed. A pipe or a device is none: renaming over it would take it away."""
    needed(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as e:
        raise FormatError(f"cannot be written ({e.strerror or e})", where=str(path), hint="another name, or another folder") from e
    except ValueError as e:
        raise FormatError(f"cannot be written ({e})", where=repr(str(path))) from e
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FormatError(f"cannot be written (it is {what})", where=str(path), hint="the name of a new file, or of one to replace")
    return target


def _rights(target: Path) -> int:
    """Those of the file that is there, or those that a new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
