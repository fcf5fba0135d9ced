""".pt2 files: what torch.export.save wrote. torch reads them itself; lowbit forbids it to unpickle objects while it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lowbit.errors import FormatError
from lowbit.files import unreadable

if TYPE_CHECKING:
    from torch.export import ExportedProgram

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_archive(path: Path) -> ExportedProgram:
    try:
        import torch
    except ImportError as e:
        raise FormatError(
            "reading .pt2 files needs torch, which is not installed", where=path.name, hint="pip install 'lowbit[torch]'"
        ) from e
    with _weights_only():
        try:
            return torch.export.load(path)
        except Exception as e:  # zip, JSON, version and pickle errors, all of torch's own kinds
            hint = "a file that torch.export.save of this version of torch wrote"
            raise FormatError(f"it is not a readable .pt2 file ({unreadable(e)})", where=str(path), hint=hint) from e


@contextmanager
def _weights_only() -> Iterator[None]:
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before
