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


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(files: Mapping[str, str]) -> str:
    """SHA-256 and path of every file, as `sha256sum -c` reads it."""
    return "".join(f"{digest(files[path].encode())}  {path}\n" for path in sorted(files))


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
    foreign = sorted(p for p in whole if (out / p).is_file() and p != MANIFEST and not _as_written(out / p, old.get(p)))
    foreign += sorted(p for p in whole if (out / p).is_dir())
    if foreign and not force:
        raise FormatError(
            f"{', '.join(foreign[:5])}{' …' if len(foreign) > 5 else ''} would be overwritten, and lowbit did not write it so",
            where=str(folder),
            hint="another folder, or --force (force=True)",
        )
    gone = [p for p in old if p not in whole and _as_written(out / p, old[p])]
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


def _written(out: Path) -> dict[str, str]:
    """Path → digest by the manifest of the folder; none if it has none that can be read. Paths out of the folder do not count."""
    try:
        lines = (out / MANIFEST).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    rows = [line.partition("  ") for line in lines]
    inside = [(d, p) for d, _, p in rows if p and not PurePosixPath(p).is_absolute() and ".." not in PurePosixPath(p).parts]
    return {p: d for d, p in inside}


def _as_written(path: Path, known: str | None) -> bool:
    try:
        return known is not None and not path.is_symlink() and digest(path.read_bytes()) == known
    except OSError:
        return False
