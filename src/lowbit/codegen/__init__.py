"""Self-contained C from a network: prints its plan. The printer knows no op; calls follow from contracts."""

from lowbit.codegen.emit import EmittedC, emit
from lowbit.codegen.targets import TARGETS, CTarget, target

__all__ = ["TARGETS", "CTarget", "EmittedC", "emit", "target"]
