"""All ops: importing this package imports every file in it, and each file registers its ops."""

from __future__ import annotations

import importlib
import pkgutil

from lowbit.ops.op import OPS, Op, get_op, register

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["OPS", "Op", "get_op", "register"]
