"""Which format each matrix gets under a budget of bytes: more bits where they take away the most noise for each byte.

Every matrix begins with the least. Then the step to a larger format that lowers the network's noise most per byte is taken, again and
again, as long as it fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from lowbit.block_formats import block_format
from lowbit.errors import QuantError

# Formats by bits a weight. Those of 256 neighbours are for rows of a multiple of that.
SMALL = ("IQ4_NL", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
LARGE = ("Q4_K", "Q5_K", "Q6_K", "Q8_0")
ODD = ("F16",)  # rows of no multiple of 32
# Squared error of a format, relative to that of IQ4_NL, on weights of a bell-shaped distribution (tests/llm/test_quantize_formats.py).
NOISE = {"IQ4_NL": 1.0, "Q4_K": 0.93, "Q4_1": 0.89, "Q5_0": 0.3, "Q5_1": 0.21, "Q5_K": 0.23, "Q6_K": 0.058, "Q8_0": 0.0051, "F16": 0.0}


@dataclass(frozen=True)
class Matrix:
    """A matrix and the noise that it brings into the network at the error of IQ4_NL."""

    shape: tuple[int, ...]
    noise: float

    @property
    def formats(self) -> tuple[str, ...]:
        return ODD if self.shape[-1] % 32 else SMALL if self.shape[-1] % 256 else LARGE

    def nbytes(self, name: str) -> int:
        return prod(self.shape[:-1]) * block_format(name).row_bytes(self.shape[-1])


def least_bits(matrices: Mapping[str, Matrix]) -> float:
    return 8 * sum(m.nbytes(m.formats[0]) for m in matrices.values()) / sum(prod(m.shape) for m in matrices.values())


def formats_under(matrices: Mapping[str, Matrix], bits: float) -> dict[str, str]:
    """The format of each matrix, of at most so many bits a weight together."""
    weights = sum(prod(m.shape) for m in matrices.values())
    chosen = {name: m.formats[0] for name, m in matrices.items()}
    left = bits * weights / 8 - sum(m.nbytes(chosen[name]) for name, m in matrices.items())
    if left < -0.5:
        raise QuantError(
            f"{bits:g} bits a weight are asked for, {least_bits(matrices):.4g} are the least that formats here have",
            hint=f"--bits {least_bits(matrices):.4g}",
        )
    while True:
        step = max(_steps(matrices, chosen, left), default=None)
        if step is None:
            return chosen
        _, name, larger = step
        left -= matrices[name].nbytes(larger) - matrices[name].nbytes(chosen[name])
        chosen[name] = larger


def _steps(matrices: Mapping[str, Matrix], chosen: Mapping[str, str], left: float) -> list[tuple[float, str, str]]:
    """(noise taken away per byte, matrix, format) of all larger formats that fit."""
    found = []
    for name, m in matrices.items():
        for larger in m.formats[m.formats.index(chosen[name]) + 1 :]:
            cost = m.nbytes(larger) - m.nbytes(chosen[name])
            gain = m.noise * (NOISE[chosen[name]] - NOISE[larger])
            if 0 < cost <= left and gain > 0:
                found.append((gain / cost, name, larger))
    return found
