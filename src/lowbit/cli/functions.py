"""FILE.py:FUNCTION: a function of the user's own, from a Python file that is run for it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowbit.cli.common import UsageError
from lowbit.errors import FormatError, InputError, LowbitError


def is_function(text: str) -> bool:
    """Whether a text names a function in a file.

    >>> is_function("score.py:accuracy"), is_function("samples.npz")
    (True, False)
    """
    file, _, name = text.rpartition(":")
    return file.endswith(".py") and name.isidentifier()


def function_from(text: str, option: str, hint: str) -> Callable[..., Any]:
    """The function that an option names."""
    file, _, name = text.rpartition(":")
    if not is_function(text):
        raise UsageError(f"{option} {text!r} is not FILE.py:FUNCTION", hint=hint)
    path = Path(file)
    if not path.is_file():
        raise FormatError("there is no such file", where=file, hint=hint)
    spec = importlib.util.spec_from_file_location(f"lowbit_{option.strip('-')}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look a module up by its name
    sys.path.insert(0, str(path.resolve().parent))  # its neighbours can be imported, as if it were run itself
    try:
        spec.loader.exec_module(module)
    except LowbitError:
        raise
    except (Exception, SystemExit) as e:
        raise InputError(f"it raised {type(e).__name__}: {e}", where=file, hint=hint) from e
    finally:
        sys.path.remove(str(path.resolve().parent))
    found = getattr(module, name, None)
    if not callable(found):
        own = [n for n, f in vars(module).items() if callable(f) and getattr(f, "__module__", None) == spec.name and not n.startswith("_")]
        raise InputError(f"there is no function {name!r}, it has {', '.join(own) or 'none'}", where=file, hint=hint)
    function: Callable[..., Any] = found
    return function
