"""What is finished of a long piece of work, in a folder beside the file to be written: begun again, it goes on from there."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.errors import FormatError
from lowbit.files import write_whole
from lowbit.types import Array


class Journal:
    """Parts by name, each written whole or not at all. Parts of other settings are thrown away.

    settings: all that the parts depend on, as JSON has it
    """

    def __init__(self, target: Path, settings: Mapping[str, Any]) -> None:
        self.folder = target.with_name(target.name + ".unfinished")
        self.resumed = False
        self.name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        try:
            if self.folder.is_dir() and self._settings() == self.name:
                self.resumed = True
                return
            if self.folder.is_dir() and (self.folder / "settings").is_file():
                shutil.rmtree(self.folder)
            self.folder.mkdir()
        except OSError as e:
            raise FormatError(f"the folder of unfinished work cannot be made ({e.strerror or e})", where=str(self.folder)) from None
        write_whole(self.folder / "settings", self.name.encode())

    def _settings(self) -> str:
        file = self.folder / "settings"
        return file.read_text(errors="replace") if file.is_file() else ""

    def __contains__(self, part: str) -> bool:
        return (self.folder / f"{part}.npz").is_file()

    def keep(self, part: str, arrays: Mapping[str, Array]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_whole(self.folder / f"{part}.npz", buffer.getvalue())

    def load(self, part: str) -> dict[str, Array]:
        try:
            with np.load(self.folder / f"{part}.npz") as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError, EOFError) as e:
            raise FormatError(f"the part {part!r} cannot be read ({e})", where=str(self.folder), hint="remove the folder") from None

    def drop(self, part: str) -> None:
        (self.folder / f"{part}.npz").unlink(missing_ok=True)

    def close(self) -> None:
        """The work is done: nothing of the folder is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
