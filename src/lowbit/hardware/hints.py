"""Recommendations for a machine, each with its reason: from its facts, from a measurement, and from the arithmetic alone.

If a measurement separates two choices by more than its noise, it decides; otherwise the available instruction does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lowbit.dtypes import dtype
from lowbit.hardware.measure import BATCHES, BLOCKS, FLOAT, PAIR_BATCH, Measurement, Product

if TYPE_CHECKING:
    from lowbit.hardware.machine import Hardware

T = TypeVar("T")

SATURATED = 0.9  # a batch is large enough when it reaches this part of the best throughput: the definition of the hint
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Hint(Generic[T]):
    """A preference and its reason. The value None says that the facts do not decide."""

    value: T
    because: str


@dataclass(frozen=True)
class Hints:
    """The recommendations for a machine."""

    activation_dtype: Hint[str]
    weight_dtype: Hint[str]
    activation_scheme: Hint[str]
    weight_scheme: Hint[str]
    block_size: Hint[int]
    batch: Hint[int | None]
    threads: Hint[int]
    weights_near: Hint[int | None]  # how many weights of the preferred dtype a core keeps in L2
    ranking: Hint[tuple[str, ...]]  # dtype pairs, fastest first

    def __iter__(self) -> Iterator[tuple[str, Hint[Any]]]:
        return ((f.name, getattr(self, f.name)) for f in fields(self))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form: name → value and because."""
        return {name: {"value": h.value, "because": h.because} for name, h in self}


def derive_hints(hw: Hardware, m: Measurement | None) -> Hints:
    """The hints that follow from the facts `hw` and, if there is one, the measurement."""
    activation = activation_dtype(hw, m)
    weight = weight_dtype(activation, m)
    return Hints(
        activation_dtype=activation,
        weight_dtype=weight,
        activation_scheme=activation_scheme(activation),
        weight_scheme=weight_scheme(m),
        block_size=block_size(hw, m),
        batch=batch(activation, m),
        threads=threads(hw),
        weights_near=weights_near(hw, weight, m),
        ranking=ranking(m),
    )


def activation_dtype(hw: Hardware, m: Measurement | None) -> Hint[str]:
    """int8 or uint8, by measured speed or else by the instruction's operands; float32 where integers are measured to be slower."""
    i = hw.instruction
    natural = i.pairs[0][0] if i is not None and i.pairs else "int8"
    fact = (
        f"{i.title}: {i.because}"
        if i is not None
        else "no instruction of this CPU multiplies bytes into int32, and no signedness is better"
    )
    if i is not None and i.isa not in hw.isas:
        fact += f" (no kernel of this build uses {i.title} yet)"
    if not (i is not None and i.pairs):
        fact += "; int8 is the default recipe's"
    found = {d: m.product(d, "int8", PAIR_BATCH) for d in ("int8", "uint8")} if m is not None else {}
    signed, unsigned = found.get("int8"), found.get("uint8")
    if m is None or signed is None or unsigned is None:
        return Hint(natural, fact)
    speeds = f"int8 × int8 {_speed(signed)}, uint8 × int8 {_speed(unsigned)}"
    real = m.product(FLOAT, FLOAT, PAIR_BATCH)
    best = max(signed, unsigned, key=lambda p: p.gmacs)
    if real is not None and real.clearly_faster(best):
        ratio = real.gmacs / best.gmacs
        text = f"measured: float32 {_speed(real)} is {ratio:.1f}× as fast as integers ({speeds}, backend {m.backend!r})"
        return Hint(FLOAT, text + "; these pack the weights at every call, a compiled model does so once")
    if real is not None:
        speeds += f", float32 {_speed(real)}"
    other = signed if best is unsigned else unsigned
    if best.clearly_faster(other):
        return Hint(best.case.left, f"measured: {speeds}; {fact}")
    return Hint(natural, f"{fact}; the measurement does not tell them apart: {speeds}")


def weight_dtype(activation: Hint[str], m: Measurement | None) -> Hint[str]:
    """int4 where it is measured to be faster for one row or for many and slower for neither; else int8."""
    if activation.value == FLOAT:
        return Hint(FLOAT, "as the activations: integers were measured to be slower")
    rows = (1, PAIR_BATCH)
    pairs = [(m.product("int8", "int8", b), m.product("int8", "int4", b)) for b in rows] if m is not None else []
    known = [(w8, w4) for w8, w4 in pairs if w8 is not None and w4 is not None]
    if len(known) < len(rows):
        return Hint("int8", f"bytes are what the instructions multiply; int4 halves the memory and is unpacked first ({NOT_MEASURED})")
    text = "measured, int4 against int8 weights: " + ", ".join(
        f"{w4.gmacs / w8.gmacs:.2f}× at batch {w8.case.m}" for w8, w4 in known
    )  # fmt: skip
    if any(w4.clearly_faster(w8) for w8, w4 in known) and not any(w8.clearly_faster(w4) for w8, w4 in known):
        return Hint("int4", text + "; it costs accuracy, which lowbit.compare shows")
    return Hint("int8", text)


def activation_scheme(activation: Hint[str]) -> Hint[str]:
    """asymmetric: its zero point is paid for when weights are packed."""
    text = "Σ(x−zx)·w = Σx·w − zx·Σw, and Σw is known when the weights are packed: a zero point of activations costs nothing at run time"
    if activation.value == "uint8":
        text += ", and uint8 needs one for negative values"
    return Hint("asymmetric", text)


def weight_scheme(m: Measurement | None) -> Hint[str]:
    """symmetric: a zero point of weights needs a sum over the activations at run time."""
    text = "a zero point of weights needs Σx of every row of activations at run time"
    pair = [m.product("int8", "int8", PAIR_BATCH, asymmetric=a) for a in (False, True)] if m is not None else [None, None]
    if pair[0] is None or pair[1] is None:
        return Hint("symmetric", f"{text} ({NOT_MEASURED})")
    ratio = pair[1].gmacs / pair[0].gmacs
    if pair[0].clearly_faster(pair[1]):
        return Hint("symmetric", f"{text}; measured: {ratio:.2f}× the speed of symmetric weights")
    noise = max(pair[0].spread, pair[1].spread)
    return Hint("symmetric", f"{text}; what it costs is within the noise of the measurement ({ratio:.2f}× the speed, noise {noise:.0%})")


def block_size(hw: Hardware, m: Measurement | None) -> Hint[int]:
    """The smallest block, which has the smallest error, that is not measured to be slower; unmeasured, the smallest of whole registers."""
    found = [p for b in BLOCKS if m is not None and (p := m.product("int8", "int4", PAIR_BATCH, block=b)) is not None]
    if found:
        best = max(found, key=lambda p: p.gmacs)
        chosen = next(p for p in found if not best.clearly_faster(p))
        speeds = ", ".join(f"{p.case.block}: {_speed(p)}" for p in found)
        return Hint(chosen.case.block or BLOCKS[0], f"the smallest block that is not slower than the best; measured {speeds}")
    i = hw.instruction
    if i is None:
        return Hint(BLOCKS[0], "the smallest of the recipes' blocks: no register's width asks for a larger one")
    whole = next((b for b in BLOCKS if b % i.width == 0), BLOCKS[-1])
    return Hint(whole, f"the smallest of the recipes' blocks that is whole {i.title} registers of {i.width} int8 ({NOT_MEASURED})")


def batch(activation: Hint[str], m: Measurement | None) -> Hint[int | None]:
    """The smallest measured batch that reaches SATURATED of the best throughput."""
    d = FLOAT if activation.value == FLOAT else "int8"
    sweep = m.sweep(d, d) if m is not None else ()
    if m is None or not sweep:
        return Hint(None, NOT_MEASURED)
    if [p.case.m for p in sweep] != sorted(BATCHES):
        return Hint(
            None, f"the measurement ended before batch {BATCHES[-1]}: the machine is too slow, or too busy, for {m.seconds:.1f} seconds"
        )
    waited = max(p.waited for p in sweep)
    if waited > 1 - SATURATED:
        return Hint(
            None, f"the machine was busy: threads waited for a CPU {waited:.0%} of the time, which hides where throughput saturates"
        )
    best = max(sweep, key=lambda p: p.gmacs)
    chosen = next(p for p in sweep if p.gmacs >= SATURATED * best.gmacs)
    text = f"measured, {d}: the smallest batch with {SATURATED:.0%} of the best; " + ", ".join(f"{p.case.m}: {_speed(p)}" for p in sweep)
    memory = m.read("memory")
    if memory is not None:
        rows = best.gmacs * dtype(d).bits / 8 / memory
        text += f"; weights beyond the caches come at {memory:.0f} GB/s, so that there below {max(rows, 1):.0f} rows memory is the limit"
    return Hint(chosen.case.m, text)


def threads(hw: Hardware) -> Hint[int]:
    """One for each core that can multiply at the same time."""
    cores = f"{hw.usable_cores} physical cores" if hw.usable_cores else f"{hw.usable_cpus} CPUs (how many cores they are is not known)"
    text = f"the process may use {cores}; two threads of one core share its multipliers"
    if hw.cpu_quota is not None:
        text += f"; control groups allow {hw.cpu_quota:g} CPUs' worth of time"
    return Hint(hw.threads, text)


def weights_near(hw: Hardware, weight: Hint[str], m: Measurement | None) -> Hint[int | None]:
    """How many weights L2 holds: a layer up to this size is read at the speed of L2 at every call."""
    l2 = hw.cache(2)
    if l2 is None:
        return Hint(None, "the system does not say how large L2 is")
    bits = dtype(weight.value).bits
    text = f"L2 has {l2.bytes // 1024} KiB, {weight.value} takes {bits} bits"
    near, far = (m.read("L2"), m.read("memory")) if m is not None else (None, None)
    if near is not None and far is not None:
        text += f"; measured {near:.0f} GB/s from L2, {far:.0f} GB/s from memory"
    return Hint(l2.bytes * 8 // bits, text)


def ranking(m: Measurement | None) -> Hint[tuple[str, ...]]:
    """The dtype pairs by measured speed."""
    if m is None:
        return Hint((), NOT_MEASURED)
    whole = [p for p in m.products if p.case.m == PAIR_BATCH and p.case.block is None and not p.case.asymmetric]
    ordered = sorted(whole, key=lambda p: -p.gmacs)
    text = ", ".join(f"{_pair(p)} {_speed(p)}" for p in ordered)
    return Hint(tuple(map(_pair, ordered)), f"measured at batch {PAIR_BATCH}, backend {m.backend!r}: {text}")


def recommendations(hw: Hardware, hints: Hints) -> tuple[str, ...]:
    """The hints that one acts on, as sentences."""
    h = hints
    if h.activation_dtype.value == FLOAT:
        said = [f"Keep float32 for speed: {h.activation_dtype.because}."]
    else:
        said = [
            f"Use {h.activation_dtype.value} activations ({h.activation_scheme.value}): {h.activation_dtype.because}.",
            f"Use {h.weight_dtype.value} weights ({h.weight_scheme.value}): {h.weight_dtype.because}.",
        ]
    said.append(f"Where scales are per block, use blocks of {h.block_size.value}: {h.block_size.because}.")
    if h.batch.value is not None:
        said.append(f"Give at least {h.batch.value} rows at once if latency allows: {h.batch.because}.")
    said.append(f"Use threads={h.threads.value}: {h.threads.because}.")
    for g in hw.gpus or ():
        said.append(f"GPU {g.name}: {g.because}.")
    return tuple(said)


def _pair(p: Product) -> str:
    return FLOAT if p.case.left == FLOAT else f"{p.case.left} × {p.case.right}"


def _speed(p: Product) -> str:
    return (
        f"{p.gmacs:.3g} GMAC/s"
        + (f" on {p.threads:.1f} cores" if p.threads > 1.2 else "")
        + (f" (waited {p.waited:.0%})" if p.waited > 0.05 else "")
    )
