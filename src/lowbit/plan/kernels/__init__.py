"""How nodes become kernel calls. A file per family; each says by `kernels_for(op)` what it can, and None where it cannot (yet)."""

from __future__ import annotations

import importlib
import pkgutil

from lowbit.plan.kernels.call import KERNELS, UPDATED, VIEWS, Context, Data, Index, KernelCall, Packed, Scratch, kernels_for, updates, views

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = ["KERNELS", "UPDATED", "VIEWS", "Context", "Data", "Index", "KernelCall", "Packed", "Scratch", "kernels_for", "updates", "views"]
