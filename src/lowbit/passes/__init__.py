"""Float → float passes that keep a graph's meaning, and `simplify`, which runs them until nothing changes.

The meaning is that of numbers: where a spelled-out formula overflows or makes NaN on the way and the one op does not, the op's answer
counts. `fuse_activations`, `fuse_norms` and `fuse_attention` say where that is.
"""

from __future__ import annotations

from collections.abc import Callable

from lowbit.ir.graph import Graph
from lowbit.passes.cancel_transposes import cancel_transposes
from lowbit.passes.common_subexpressions import common_subexpressions
from lowbit.passes.crop_pads import crop_pads
from lowbit.passes.drop_dead import drop_dead
from lowbit.passes.drop_identities import drop_identities
from lowbit.passes.even_pools import even_pools
from lowbit.passes.fold_affine import fold_affine
from lowbit.passes.fold_batchnorm import fold_batchnorm
from lowbit.passes.fold_constants import fold_constants
from lowbit.passes.fold_masks import fold_masks
from lowbit.passes.fold_movement import fold_movement
from lowbit.passes.fold_pads import fold_pads
from lowbit.passes.fuse_activations import fuse_activations
from lowbit.passes.fuse_attention import fuse_attention
from lowbit.passes.fuse_linear import fuse_linear
from lowbit.passes.fuse_norms import fuse_norms
from lowbit.passes.fuse_pixels import fuse_pixels
from lowbit.passes.group_einsum import group_einsum
from lowbit.passes.keep_axes import keep_axes
from lowbit.passes.pass_linear import pass_linear
from lowbit.passes.shorten_views import shorten_views
from lowbit.progress import progress

Pass = Callable[[Graph], Graph]

# Patterns come before the folding of scales and shifts, which would take a pattern's numbers into a weight; `fuse_linear` comes before
# constants are folded, so that a transposed weight that is tied to an embedding stays one.
PASSES: tuple[Pass, ...] = (
    drop_dead,
    drop_identities,
    fuse_linear,
    fold_constants,
    group_einsum,
    common_subexpressions,
    keep_axes,
    fuse_pixels,
    fuse_activations,
    fuse_norms,
    fuse_attention,
    fold_masks,
    fold_batchnorm,
    fold_affine,
    even_pools,
    crop_pads,
    fold_pads,
    fold_movement,
    pass_linear,
    shorten_views,
    cancel_transposes,
)
ROUNDS = 16  # every pass makes a graph smaller or more canonical, so real networks need three or four


def simplify(graph: Graph, passes: tuple[Pass, ...] = PASSES) -> Graph:
    """The same network in as few ops as these passes can tell it in; the very same object if it already was."""
    for i in range(ROUNDS):
        before = graph
        for p in progress(passes, f"simplifying, round {i + 1}"):
            graph = p(graph)
        if graph is before:
            break
    return graph


__all__ = ["PASSES", "Pass", "simplify"]
