"""Which of several ways computes a layer. A way never changes a bit of the result, only how long it takes.

Families ask (`Context.choose`) with the answer that their cost model gives; a tuner that has measured may know better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lowbit.ir.graph import Attr, Node

Option = str | int
O = TypeVar("O", str, int)  # noqa: E741 (an option)
Answers = Mapping[str, Option]  # by question
VALUES = ("lo", "hi", "bound")  # attributes, beside zero points, that no way's time depends on


@dataclass(frozen=True)
class Choices:
    """Answers by a layer's signature. `asked` collects the questions that have several options, the default first, for who measures."""

    made: Mapping[str, Answers] = field(default_factory=dict)
    asked: dict[str, tuple[Option, ...]] | None = None

    def answer(self, node: Node, question: str, options: Sequence[O], default: O) -> O:
        """The option that was chosen, if it is one for this node (options depend on its weights); else the default."""
        if self.asked is not None and len(options) > 1:
            self.asked.setdefault(question, (default, *(o for o in options if o != default)))
        if not self.made:
            return default
        chosen = self.made.get(signature(node), {}).get(question)
        return next((o for o in options if o == chosen and type(o) is type(chosen)), default)


def signature(node: Node) -> str:
    """What the time of a node depends on: op, shapes and dtypes, geometry. The same for layers that differ in weights only."""
    kinds = (f"{v.type.dtype.name}{list(v.shape)}" if v is not None else "-" for v in (*node.inputs, *node.outputs))
    attrs = (f"{k}={v}" for k, v in sorted(node.attrs.items()) if k not in VALUES and not k.endswith("_zero") and _counts(v))
    return " ".join([node.op, *kinds, *attrs])


def _counts(value: Attr) -> bool:
    """Whether it is a number of things or a word: real numbers are values of the network."""
    return isinstance(value, int | str) or (isinstance(value, tuple) and all(isinstance(v, int) for v in value))
