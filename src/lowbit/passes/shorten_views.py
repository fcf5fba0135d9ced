"""Tells any chain of reshapes and transposes as at most one reshape, one transpose and one reshape.

Every dimension is a product of factors. A reshape regroups factors, a transpose reorders groups; so a chain is an order of factors.

    (5, 8, 4) transposed to (8, 4, 5), reshaped to (2, 4, 4, 5), transposed to (2, 4, 5, 4)     is
    (5, 8, 4) transposed to (8, 5, 4), reshaped to (2, 4, 5, 4)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from lowbit.dims import Dim, product
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.attrs import dims, ints
from lowbit.types import Shape

VIEWS = ("reshape", "transpose")


@dataclass(eq=False)
class Factor:
    """A factor of the source's size; when it must be taken apart it holds its parts, in order."""

    size: Dim
    parts: tuple[Factor, ...] = ()

    def leaves(self) -> list[Factor]:
        return [leaf for p in self.parts for leaf in p.leaves()] if self.parts else [self]


Groups = list[list[Factor]]


def shorten_views(graph: Graph) -> Graph:
    """The graph in which no chain of reshapes and transposes is longer than it must be."""
    return rewrite(graph, _shorten, *VIEWS)


def _shorten(editor: Editor, node: Node) -> None:
    behind = editor.only_user(node.output)
    if behind is not None and behind.op in VIEWS:
        return  # the end of the chain sees all of it
    chain = [node]
    while True:
        before = editor.producer(chain[-1].inputs[0])
        if before is None or before.op not in VIEWS or editor.only_user(before.output) is None:
            break
        chain.append(before)
    source = chain[-1].inputs[0]
    steps = _steps(source.shape, chain[::-1]) if source is not None and len(chain) > 1 else None
    if source is None or steps is None or len(steps) >= len(chain):
        return
    value: Value = source
    for op, attrs in steps[:-1]:
        value = editor.add(op, value, name=node.name, **attrs)
    if steps:
        editor.become(node, steps[-1][0], value, **steps[-1][1])
    else:
        editor.replace(node.output, value)


def _steps(shape: Shape, chain: list[Node]) -> list[tuple[str, dict[str, Any]]] | None:
    """The shortest way to say the chain; None when sizes do not divide in a way that can be followed."""
    start = [Factor(d) for d in shape]
    groups = [[f] if f.size != 1 else [] for f in start]
    for node in chain:
        if node.op == "transpose":
            groups = [groups[p] for p in ints(node, "perm")]
        else:
            regrouped = _regroup([leaf for g in groups for f in g for leaf in f.leaves()], dims(node, "shape"))
            if regrouped is None:
                return None
            groups = regrouped
    final = dims(chain[-1], "shape") if chain[-1].op == "reshape" else chain[-1].output.shape
    before = [f.leaves() if f.size != 1 else [] for f in start]
    after = [[leaf for f in g for leaf in f.leaves()] for g in groups]
    return _plainest(shape, final, before, after)


def _plainest(shape: Shape, final: Shape, before: Groups, after: Groups) -> list[tuple[str, dict[str, Any]]]:
    """The fewest steps from the factors grouped as before to the factors grouped as after."""
    source, target = [f for g in before for f in g], [f for g in after for f in g]
    if all(a is b for a, b in zip(source, target, strict=True)):
        return [("reshape", {"shape": final})] if final != shape else []
    moved = _as_units(before, target)
    if moved is not None:  # the dimensions stay whole: transpose them, then regroup
        perm = _with_ones(moved, shape, final)
        turned = tuple(shape[p] for p in perm)
        return [("transpose", {"perm": perm}), *([("reshape", {"shape": final})] if turned != final else [])]
    made = _as_units(after, source)
    if made is not None:  # the dimensions of the result are whole before: make them, then transpose
        order = _with_ones(made, final, ())
        return [
            ("reshape", {"shape": tuple(final[d] for d in order)}),
            ("transpose", {"perm": tuple(order.index(d) for d in range(len(order)))}),
        ]
    runs = _runs(source, target)
    by_start = sorted(range(len(runs)), key=lambda r: source.index(runs[r][0]))
    sizes = tuple(product(f.size for f in runs[r]) for r in by_start)
    perm = tuple(by_start.index(r) for r in range(len(runs)))
    return [("reshape", {"shape": sizes}), ("transpose", {"perm": perm}), ("reshape", {"shape": final})]


def _as_units(groups: Groups, line: list[Factor]) -> list[int] | None:
    """The order in which whole groups (but empty ones, of size 1) make up the line of factors; None when a group is torn apart in it."""
    place = {id(f): i for i, f in enumerate(line)}
    found = []
    for d, g in enumerate(groups):
        places = [place[id(f)] for f in g]
        if places and places != list(range(places[0], places[0] + len(places))):
            return None
        if places:
            found.append((places[0], d))
    return [d for _, d in sorted(found)]


def _with_ones(order: list[int], shape: Shape, wish: Shape) -> tuple[int, ...]:
    """The order with the dimensions of size 1 put in: where the wished-for shape has its 1s if that fits, else in front."""
    ones = [d for d, size in enumerate(shape) if size == 1]
    if len(wish) == len(shape) and sum(size == 1 for size in wish) == len(ones):
        rest, free = iter(order), iter(ones)
        return tuple(next(free) if size == 1 else next(rest) for size in wish)
    return (*ones, *order)


def _runs(source: list[Factor], target: list[Factor]) -> Groups:
    """The target in pieces whose factors are neighbours in the source too: each is moved as one."""
    behind = {id(a): b for a, b in itertools.pairwise(source)}
    runs: Groups = []
    for f in target:
        if runs and behind.get(id(runs[-1][-1])) is f:
            runs[-1].append(f)
        else:
            runs.append([f])
    return runs


def _regroup(factors: list[Factor], shape: Shape) -> list[list[Factor]] | None:
    """The factors in the groups of a new shape, taken apart where a group ends inside one."""
    left = list(factors)
    groups: list[list[Factor]] = []
    for size in shape:
        group: list[Factor] = []
        rest: Dim = size
        while rest != 1:
            if not left:
                return None
            f = left.pop(0)
            share = _divide(rest, f.size)
            if share is None:
                inside = _divide(f.size, rest)
                if inside is None:
                    return None
                f.parts = (Factor(rest), Factor(inside))
                left.insert(0, f.parts[1])
                f, share = f.parts[0], 1
            group.append(f)
            rest = share
        groups.append(group)
    return groups if not left else None


def _divide(a: Dim, b: Dim) -> Dim | None:
    """a / b if that is a whole number for every value of the symbols."""
    if b == 0:
        return None
    share = a // b
    return share if share * b == a else None
