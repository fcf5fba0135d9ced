"""Writes a folder whole or not at all, and nothing over what somebody else wrote."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from lowbit.errors import FormatError

MANIFEST = "MANIFEST.txt"
HEAD = "# written by lowbit emit-c, format 1: "  # and the digest of the lines below: a list that somebody else added to is not lowbit's


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(files: Mapping[str, str]) -> str:
    """SHA-256 and path of every file, as `sha256sum -c` reads it, below a comment that only lowbit writes."""
    rows = "".join(f"{digest(files[path].encode())}  {path}\n" for path in sorted(files))
    return f"{HEAD}{digest(rows.encode())}\n{rows}"


def write_folder(folder: str | os.PathLike[str], files: Mapping[str, str], *, force: bool = False) -> None:
    """Writes the files and their manifest. Files of an older manifest that are not written any more are taken away.

    A file that is not as lowbit wrote it is an error, unless forced. Files of other names in the folder stay as they are.
    """
    out = Path(os.path.realpath(folder))
    whole = {**files, MANIFEST: manifest(files)}
    if out.exists() and not out.is_dir():
        raise FormatError("is a file, a folder is needed", where=str(folder))
    if not out.parent.is_dir():
        raise FormatError("cannot be written (its parent folder does not exist)", where=str(folder), hint=f"mkdir -p {out.parent}")
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
    """New files beside the folder first; then each takes its place, and all are put back when one cannot."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        for path, text in files.items():
            target = fresh / "new" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        if not out.exists():
            os.rename(fresh / "new", out)
            return
        done: list[str] = []
        try:
            for path in [*files, *gone]:
                done.append(path)
                if os.path.lexists(out / path):
                    (fresh / "old" / path).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(out / path, fresh / "old" / path)
                if path in files:
                    (out / path).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(fresh / "new" / path, out / path)
        except OSError:
            for path in reversed(done):
                if os.path.lexists(fresh / "old" / path):
                    os.replace(fresh / "old" / path, out / path)
                elif not os.path.lexists(fresh / "new" / path) and path in files:
                    os.unlink(out / path)
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _written(out: Path) -> dict[str, str] | None:
    """Path → digest by the manifest of the folder; None if it has none that is as lowbit wrote it. Paths out of the folder do not count."""
    try:
        head, _, rows = (out / MANIFEST).read_bytes().decode().partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if (out / MANIFEST).is_symlink() or head != HEAD + digest(rows.encode()):
        return None
    listed = [row.partition("  ") for row in rows.splitlines()]
    inside = [(d, p) for d, _, p in listed if p and not PurePosixPath(p).is_absolute() and ".." not in PurePosixPath(p).parts]
    return {p: d for d, p in inside}


def _as_written(path: Path, known: str | None) -> bool:
    try:
        return known is not None and not path.is_symlink() and digest(path.read_bytes()) == known
    except OSError:
        return False
