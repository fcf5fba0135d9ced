"""Makes one op of activation functions that exporters write out as arithmetic.

One canonical form each: relu6, hardtanh, min and max with numbers are `clip`; clip from 0 upwards is `relu`.

Results differ from the formula's, but for rounding, in three cases: where(x > 0, x, 0) is 0 at NaN and relu is NaN; log(1 + exp(x)) is
inf from x = 89 on (float32) and softplus is x; log(softmax(x)) is -inf where the softmax is 0 and log_softmax is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.match import Const, Match, Num, Pattern, Var, close, either, match, number, op, times

X = Var("x")
ONE = Num(1.0)
Attrs = Callable[[Match], "dict[str, float | str | None] | None"]

EXP_NEG = op("exp", times(-1.0, X))
CUBE = either(times(0.044715, X, X, X), times(0.044715, op("pow", X, Num(3.0))))
SQUARE = either(times(0.044715, X, X), times(0.044715, op("pow", X, Num(2.0))))
ERF = op("erf", times(math.sqrt(0.5), X))


def _cubic(by: float) -> Pattern:
    """by · √(2/π) (x + 0.044715 x³), the argument of GELU's tanh."""
    c = by * math.sqrt(2 / math.pi)
    return either(times(c, op("add", X, CUBE)), times(c, X, op("add", ONE, SQUARE)))


TANH = op("tanh", _cubic(1.0))
POSITIVE = either(op("greater|greater_equal", X, Num(0.0)), op("less|less_equal", Num(0.0), X))
NEGATIVE = either(op("less|less_equal", X, Num(0.0)), op("greater|greater_equal", Num(0.0), X))
PLAIN_SOFTPLUS = either(op("log", op("add", ONE, op("exp", X))), op("log1p", op("exp", X)))


def _half_of_one_plus(p: Pattern, *negated: Pattern) -> Pattern:
    """x (1 + p) / 2; `negated` are -p."""
    return either(
        times(0.5, X, op("add", ONE, p)),
        times(1.0, X, op("add", Num(0.5), times(0.5, p))),
        *(times(0.5, X, op("sub", ONE, n)) for n in negated),
    )


def _far_limit(m: Match) -> dict[str, float | str | None] | None:
    """torch's softplus is x itself above 20, where log(1 + exp(x)) is x in float32 anyway."""
    return {} if m.numbers["limit"] >= 15 else None


def _none(m: Match) -> dict[str, float | str | None]:
    return {}


def _slope(m: Match) -> dict[str, float | str | None]:
    return {"alpha": m.numbers["alpha"]}


def _small_slope(m: Match) -> dict[str, float | str | None] | None:
    """max(x, alpha x) is a leaky relu for 0 <= alpha <= 1 only."""
    return _slope(m) if 0 <= m.numbers["alpha"] <= 1 else None


def _negated_slope(m: Match) -> dict[str, float | str | None]:
    return {"alpha": -m.numbers["alpha"]}


def _sixths(m: Match) -> dict[str, float | str | None]:
    """clip(x + 3, 0, 6) * c for c = 1/6."""
    return {"alpha": 1 / 6, "beta": 0.5}


# op that is made, pattern, attributes from the match (None: not this op after all); later ones find what earlier ones made
RULES: list[tuple[str, Pattern, Attrs]] = [
    ("sigmoid", either(op("reciprocal", op("add", ONE, EXP_NEG)), op("div", ONE, op("add", ONE, EXP_NEG))), _none),
    ("softplus", PLAIN_SOFTPLUS, _none),
    ("softplus", op("where", op("greater", X, Num("limit")), X, either(PLAIN_SOFTPLUS, op("softplus", X))), _far_limit),
    ("softsign", op("div", X, op("add", ONE, op("abs", X))), _none),
    ("hardsigmoid", times(1 / 6, op("clip", op("add", X, Num(3.0)), min=0.0, max=6.0)), _sixths),
    ("hardswish", times(1 / 6, X, op("clip", op("add", X, Num(3.0)), min=0.0, max=6.0)), _none),
    ("hardswish", times(1.0, X, op("clip", op("add", times(1 / 6, X), Num(0.5)), min=0.0, max=1.0)), _none),
    ("hardswish", times(1.0, X, op("hardsigmoid", X, name="gate")), lambda m: {} if _is_sixth(m.named["gate"]) else None),
    ("silu", either(times(1.0, X, op("sigmoid", X)), op("div", X, op("add", ONE, EXP_NEG))), _none),
    ("mish", times(1.0, X, op("tanh", op("softplus", X))), _none),
    ("gelu", _half_of_one_plus(ERF, op("erf", times(-math.sqrt(0.5), X))), lambda m: {"approximate": "none"}),
    ("gelu", _half_of_one_plus(TANH), lambda m: {"approximate": "tanh"}),
    ("gelu", times(1.0, X, op("sigmoid", _cubic(2.0))), lambda m: {"approximate": "tanh"}),  # (1 + tanh z) / 2 is sigmoid(2 z)
    ("swish", times(1.0, X, op("sigmoid", times("alpha", X))), _slope),
    ("relu", either(op("where", POSITIVE, X, Num(0.0)), op("where", NEGATIVE, Num(0.0), X)), _none),
    ("leaky_relu", either(op("where", POSITIVE, X, times("alpha", X)), op("where", NEGATIVE, times("alpha", X), X)), _slope),
    ("leaky_relu", op("maximum", X, times("alpha", X)), _small_slope),
    ("leaky_relu", op("add", op("relu", X), times("alpha", op("relu", times(-1.0, X)))), _negated_slope),
    ("leaky_relu", op("sub", op("relu", X), times("alpha", op("relu", times(-1.0, X)))), _slope),
    ("elu", op("where", POSITIVE, X, times("alpha", either(op("sub", op("exp", X), ONE), op("expm1", X)))), _slope),
    ("softmax", op("exp", op("log_softmax", X, name="softmax")), lambda m: {"axis": m.named["softmax"].attrs["axis"]}),  # type: ignore[dict-item]
    ("log_softmax", op("log", op("softmax", X, name="softmax")), lambda m: {"axis": m.named["softmax"].attrs["axis"]}),  # type: ignore[dict-item]
]


def _is_sixth(gate: Node) -> bool:
    return close(gate.attrs["alpha"], 1 / 6) and close(gate.attrs["beta"], 0.5)  # type: ignore[arg-type]


def _roots(pattern: Pattern) -> set[str]:
    """The ops that the last node of a match can have."""
    if hasattr(pattern, "options"):
        return {r for p in pattern.options for r in _roots(p)}
    return set(pattern.ops) if hasattr(pattern, "ops") else {"mul", "div", "neg"}


BY_ROOT: dict[str, list[tuple[str, Pattern, Attrs]]] = {}
for _rule in RULES:
    for _root in _roots(_rule[1]):
        BY_ROOT.setdefault(_root, []).append(_rule)

BOUNDS = ("clip", "relu", "relu6", "maximum", "minimum")


def fuse_activations(graph: Graph) -> Graph:
    """The graph with hard-swish, GELU, SiLU, mish … as one op each, and bounds as one clip."""
    return rewrite(graph, _fuse, *BY_ROOT, *BOUNDS, "prelu", "hardsigmoid")


def _fuse(editor: Editor, node: Node) -> None:
    for made, pattern, attrs in BY_ROOT.get(node.op, ()):
        found = match(editor, node, pattern)
        given = attrs(found) if found is not None else None
        if found is not None and given is not None and editor.become(node, made, found["x"], name=found.layer, **given) is not None:
            return
    if node.op in ("add", "sub") and _prelu(editor, node):
        return
    if node.op in BOUNDS:
        _bound(editor, node)
    elif node.op == "prelu":
        slope = number(editor, node.inputs[1])
        if slope is not None:
            editor.become(node, "leaky_relu", node.inputs[0], alpha=slope)


NEGATIVE_PART = op("relu", times(-1.0, X))
SLOPE = Const("slope")
# relu(x) - slope · relu(-x); Keras negates the slope, others use (x - |x|) / 2. The number is the slope's sign.
PRELU = (
    (op("sub", op("relu", X), op("mul", SLOPE, NEGATIVE_PART)), 1.0),
    (op("add", op("relu", X), op("mul", SLOPE, times(-1.0, NEGATIVE_PART))), 1.0),
    (op("add", op("relu", X), op("mul", SLOPE, NEGATIVE_PART)), -1.0),
    (op("add", op("relu", X), times(0.5, SLOPE, op("sub", X, op("abs", X)))), 1.0),
)


def _prelu(editor: Editor, node: Node) -> bool:
    for pattern, sign in PRELU:
        found = match(editor, node, pattern)
        if found is None:
            continue
        slope = found["slope"]
        data = editor.constant_data(slope)
        assert data is not None
        if sign < 0:
            slope = editor.constant(-data, name=slope.name, dtype=slope.type.dtype)
        if editor.become(node, "prelu", found["x"], slope, name=found.layer) is not None:
            return True
    return False


def bounds(editor: Editor, node: Node) -> tuple[Value, float | None, float | None] | None:
    """(x, min, max) of a node that limits x to a range; None for any other node."""
    x = node.inputs[0]
    assert x is not None
    if node.op == "relu":
        return x, 0.0, None
    if node.op == "relu6":
        return x, 0.0, 6.0
    if node.op == "clip":
        return x, node.attrs["min"], node.attrs["max"]  # type: ignore[return-value]
    for value, constant in (node.inputs, node.inputs[::-1]):
        n = number(editor, constant)
        if n is not None and value is not None:
            return (value, n, None) if node.op == "maximum" else (value, None, n)
    return None


def _bound(editor: Editor, node: Node) -> None:
    """Writes limits in their canonical form, with limits before it taken in: min(relu(x), 6) is clip(x, 0, 6)."""
    found = bounds(editor, node)
    if found is None:
        return
    x, low, high = found
    layer = editor.producer(x)
    inner = bounds(editor, layer) if layer is not None and layer.op in BOUNDS and editor.only_user(x) is not None else None
    name = node.name
    if inner is not None and layer is not None:
        source, low0, high0 = inner
        new_low, new_high = _larger(low0, low), _smaller(high0, high)
        if new_low is None or new_high is None or new_low <= new_high:  # limits that cross keep their order of application
            x, low, high = source, new_low, new_high
            name = layer.name or name
    if not x.type.dtype.is_float:
        low, high = (None if b is None else int(b) for b in (low, high))
    if low == 0 and high is None:
        if node.op != "relu" or x.name != node.inputs[0].name:  # type: ignore[union-attr]
            editor.become(node, "relu", x, name=name)
    elif (node.op, node.inputs[0], node.attrs.get("min"), node.attrs.get("max")) != ("clip", x, low, high):
        editor.become(node, "clip", x, name=name, min=low, max=high)


def _larger(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)
