"""Writes a file whole or not at all: beside it first, then renamed over the old one."""

from __future__ import annotations

import os
import tempfile
from os import PathLike
from pathlib import Path

from lowbit.errors import FormatError


def check_target(path: str | PathLike[str]) -> None:
    """A FormatError when the path can surely not be written: told before hours of work, not after."""
    folder = Path(path).parent
    wrong = "its folder does not exist" if not folder.is_dir() else "it is a folder" if Path(path).is_dir() else ""
    if not wrong and not os.access(folder, os.W_OK):
        wrong = "its folder is not yours to write to"
    if wrong:
        raise FormatError(f"cannot be written ({wrong})", where=str(path), hint="a folder that exists and is yours to write to")


def write_whole(path: str | PathLike[str], data: bytes) -> None:
    """Writes the bytes; when anything fails, the old file (or none) is there as before."""
    target = Path(path)
    beside = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as f:
            beside = f.name
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(beside, 0o666 & ~umask)  # the temporary file is private; the result has ordinary rights
        os.replace(beside, target)
    except OSError as e:
        raise FormatError(
            f"cannot be written ({e.strerror or e})", where=str(path), hint="a folder that exists and is yours to write to"
        ) from e
    finally:
        if beside is not None and os.path.exists(beside):
            os.unlink(beside)
