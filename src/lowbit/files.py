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


def check_target(path: str | PathLike[str]) -> None:
    """A FormatError when the path can surely not be written: told before hours of work, not after."""
    folder = _target(path).parent
    wrong = "" if folder.is_dir() else "its folder does not exist"
    if not wrong and not os.access(folder, os.W_OK):
        wrong = "its folder is not yours to write to"
    if wrong:
        raise FormatError(f"cannot be written ({wrong})", where=str(path), hint=_HINT)


def write_whole(path: str | PathLike[str], data: bytes | Iterable[bytes | memoryview]) -> None:
    """Writes the bytes, or pieces of them in order. When anything fails, the old file (or none) is there as before.

    Links are followed, and rights stay.
    """
    target = _target(path)
    beside = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as f:
            beside = f.name
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
        mode = target.lstat().st_mode if os.path.lexists(target) else stat.S_IFREG
    except (OSError, ValueError) as e:
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
