"""The texts about a decision: the verdict line, and notes that travel with the network."""

from __future__ import annotations

from collections.abc import Sequence

from lowbit.decide.decision import Decision
from lowbit.decide.points import Point, find_points
from lowbit.ir.graph import Graph
from lowbit.report.ends import last_function
from lowbit.report.text import times_smaller

SHOWN = 4  # layers that are named at most


def verdict(graph: Graph, found: Decision) -> str:
    """One line: the score or the agreement, times faster, times smaller, and the layers that stayed float or have 16 bits."""
    parts = [quality_text(graph, found)]
    if found.times is not None:
        parts.append(f"{found.times.reference / found.times.made:.2f}× as fast as float ({found.times.made:.3g} ms a batch, one thread)")
    parts += size_text(graph, found)
    parts += [*kept_wide(graph, found)]
    parts.append(f"measured on {found.measured_on}")
    text = "; ".join(parts)
    return text if found.met else f"{text}; NOT MET: {found.unmet}"


def size_text(graph: Graph, found: Decision) -> list[str]:
    """["parameters 3.6× smaller"]; [] if there are none."""
    before, after = graph.parameter_bytes, found.graph.parameter_bytes
    as_float = " as float's" if times_smaller(before, after) == "as large" else ""
    return [f"parameters {times_smaller(before, after)}{as_float}"] if before and after else []


def quality_text(graph: Graph, found: Decision) -> str:
    """The score, the agreement of answers, and the dB. Class numbers have an agreement and no dB."""
    q, points = found.quality, find_points(graph)
    score, same = score_text(found), "" if q.agreement is None else f"{q.answers}, "
    if all(p.kind == "integers" for p in points):
        return f"{score}{same}".removesuffix(", ")
    rows = f"{len(q.noise):,} sample{'s' if len(q.noise) != 1 else ''}"
    sure = "" if q.db_error is None or not any(q.noise) else f" tell the dB to ±{q.db_error:.1f}"
    few = f" (only {rows}{sure}: other data may differ)" if q.few else f" on {rows}"
    silent = f"; {', '.join(q.silent)} {'is' if len(q.silent) == 1 else 'are'} 0 on all of them" if q.silent else ""
    return f"{score}{same}{q.db:.1f} dB, worst tenth {q.worst_db:.1f} dB{before_text(graph, points)}{few}{silent}"


def before_text(graph: Graph, points: Sequence[Point]) -> str:
    """ " before the softmax": where the dB are those of the input of a final function; "" if they are those of the outputs.

    Of several outputs, those that have such a function are named.
    """
    ends = {p.output: last_function(graph, p.output) for p in points if graph.outputs[p.output].name != p.value}
    said = dict.fromkeys(f"{e.op}{f' of {name}' if len(graph.outputs) > 1 else ''}" for name, e in ends.items() if e is not None)
    return f" before the {' and the '.join(said)}" if said else ""


def score_text(found: Decision) -> str:
    """top-1 93.4 % (float 93.6 %) on 500 labelled rows, ; "" without a score."""
    if found.score is None or found.float_score is None:
        return ""
    made, in_float = (f"{100 * x:.4g} %" if found.score_name == "top-1" else f"{x:.6g}" for x in (found.score, found.float_score))
    on = f" on {found.scored}" if found.scored else ""
    return f"{found.score_name} {made} (float {in_float}){on}, "


def kept_wide(graph: Graph, found: Decision) -> list[str]:
    """The layers that do not have the recipe's bits, and why."""
    said = []
    kinds = [(what, names - found.faster) for what, names in found.widths.named]
    for what, names in [*kinds, ("float because it is faster", found.widths.floats & found.faster)]:
        if not names:
            continue
        share = found.share(names)
        of = f" ({share:.0%} of the multiplications)" if share >= 0.005 else ""
        said.append(f"{what}{of}: {named(graph, names)}")
    return said


def named(graph: Graph, names: frozenset[str]) -> str:
    layers = list(dict.fromkeys(n.name or n.output.name for n in graph.nodes if n.output.name in names))
    return ", ".join(layers[:SHOWN]) + (f" and {len(layers) - SHOWN} more" if len(layers) > SHOWN else "")


def notes_of(graph: Graph, found: Decision) -> dict[str, str]:
    """Notes for the report: each step, and the result. They hold no times: the same data gives the same notes."""
    said = {f"decided {i + 1}": str(step) for i, step in enumerate(found.steps)}
    weakest = sorted(found.quality.layers.items(), key=lambda item: (item[1], item[0]))[:3]
    names = {o.name: n.name or n.output.name for n in graph.nodes for o in n.outputs}
    shown = ", ".join(f"{names.get(name, name)} {db:.1f} dB" for name, db in weakest if db < float("inf"))
    result = f"{quality_text(graph, found)}, measured on {found.measured_on}"
    for part in [*size_text(graph, found), *kept_wide(graph, found)]:
        result += f"; {part}"
    result += f"; weakest layers: {shown}" if shown else ""
    return {**said, "decided": result, **({"not met": found.unmet} if found.unmet else {})}
