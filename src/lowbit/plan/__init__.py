"""From an integer graph to kernel calls on one arena: layout, choice of kernels, memory. The native session and the C printer read it."""

from lowbit.ir.graph import Graph
from lowbit.plan.batch import batch_symbol, rows_at_once
from lowbit.plan.build import build
from lowbit.plan.fuse import fuse
from lowbit.plan.kernels import Packed
from lowbit.plan.layout import channels_last
from lowbit.plan.nibbles import in_bytes
from lowbit.plan.plan import Place, Plan, Slot, Step, Target
from lowbit.plan.segments import Segment, segments, unsupported
from lowbit.plan.stored import real_weights
from lowbit.plan.tables import join_tables

__all__ = [
    "Packed",
    "Place",
    "Plan",
    "Segment",
    "Slot",
    "Step",
    "Target",
    "batch_symbol",
    "build",
    "channels_last",
    "fuse",
    "join_tables",
    "physical",
    "real_weights",
    "rows_at_once",
    "segments",
    "unsupported",
]


def physical(graph: Graph) -> Graph:
    """The graph as kernels want it: channels last, four bits in bytes, clips fused into the ops before them, chains of lookups joined.

    Every value stays the same.
    """
    return fuse(join_tables(channels_last(in_bytes(graph))))
