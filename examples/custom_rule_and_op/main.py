"""Two pictures through one network, their distance by an op that lowbit does not have, quantized by a rule that lowbit does not have.

python examples/custom_rule_and_op/main.py
"""

from __future__ import annotations

import abs_difference  # noqa: F401 (makes the op known)
import numpy as np
from long_sums import LongSumsRule

import lowbit
from lowbit.dims import symbol
from lowbit.ir.build import Builder
from lowbit.types import Array


def siamese() -> lowbit.Graph:
    """score = head(|f(left) - f(right)|) with f two linear layers, of 100 and of 32 inputs."""
    rng = np.random.default_rng(0)

    def weight(rows: int, columns: int) -> Array:
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    b = Builder("siamese")
    first, second, head = (b.constant(w, n) for w, n in ((weight(32, 100), "first"), (weight(16, 32), "second"), (weight(1, 16), "head")))
    sides = []
    for side in ("left", "right"):
        x = b.input(side, lowbit.TensorType((symbol("batch"), 100), "float32"))
        hidden = b.add("relu", b.add("linear", x, first, name=f"{side}.first"), name=f"{side}.act")
        sides.append(b.add("linear", hidden, second, name=f"{side}.second"))
    distance = b.add("abs_difference", *sides, name="distance")
    return b.finish({"score": b.add("linear", distance, head, name="head")})


def samples(count: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng(1)
    return [{side: rng.standard_normal((4, 100)).astype(np.float32) for side in ("left", "right")} for _ in range(count)]


def main() -> lowbit.Report:
    graph = siamese()
    rules = [LongSumsRule(".*"), lowbit.CalibratedQuantRule(".*", "int8", because="the rest")]
    quantized = lowbit.quantize(graph, samples(8), rules=rules)
    return lowbit.compare(graph, quantized, samples(4))


if __name__ == "__main__":
    print(main())
