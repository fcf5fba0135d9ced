"""Arguments that a caller gave: as they are needed, or an InputError that names them, what was given and what is needed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.errors import FormatError, InputError


def shown(value: object) -> str:
    """A value in an error: itself where that is short and on one line, else its type."""
    if isinstance(value, str | bytes | int | float | tuple | list | dict | set) or value is None:
        text = repr(value)
        if len(text) <= 60 and "\n" not in text:
            return text
    return value.__name__ if isinstance(value, type) else f"of type {type(value).__name__}"


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that only behaves like it: "no" is no False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name}={shown(value)}, True or False is needed")
    return bool(value)


def whole(name: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InputError(f"{name}={shown(value)}, a whole number from {least} to {most:,} is needed")
    return int(value)


def is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool) and math.isfinite(value)


def text(name: str, value: object, hint: str | None = None) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}={shown(value)}, a text is needed", hint=hint)
    return value


def items(what: str, value: Any, hint: str | None = None) -> Iterable[Any]:
    """Something to iterate over that is neither a text nor a mapping, which would give characters or keys."""
    iterates = hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__")
    if not iterates or isinstance(value, str | bytes | dict):
        raise InputError(f"{what} is {shown(value)}, a list (or another iterable) is needed", hint=hint)
    return value


def path(value: object, what: str = "a path") -> Path:
    if not isinstance(value, str | PathLike):
        raise InputError(f"{what} is needed, {type(value).__name__} given")
    try:
        found = Path(value)
    except TypeError as e:  # a PathLike whose path is bytes
        raise InputError(f"{what} is needed as text, bytes given") from e
    if "\0" in str(found):
        raise FormatError("it cannot be read and cannot be written (a path holds no character 0)", where=repr(str(found)))
    return found
