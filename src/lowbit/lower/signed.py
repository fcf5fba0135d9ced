"""uint8 becomes int8, uint16 int16: the same reals, every code and zero point less by 128 (32,768).

Kernels exist for signed integers alone. Between brackets nothing sees the codes themselves, so the shift costs nothing there; integers that
come from elsewhere, or are read as integers, pass through a requantize that shifts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.dtypes import dtype
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, renamed
from lowbit.types import Array

SIGNED = {"uint8": "int8", "uint16": "int16"}


def signed(graph: Graph) -> Graph:
    """The graph whose brackets hold signed integers where they held unsigned ones with constant zero points. Integers keep their names."""
    if not any(map(is_unsigned, graph.nodes)):
        return graph
    editor, constants, names = Editor(graph), dict[str, Value](), dict[str, str]()
    for node in editor.nodes():
        if not is_unsigned(node) or not _known(editor, node):
            continue
        if node.op == "quantize_linear":
            new = _quantize(editor, node)
            names[new.name] = node.output.name
        else:
            _dequantize(editor, node, _codes(editor, node.inputs[0], constants))
    made = editor.done()
    return renamed(made, {new: old for new, old in names.items() if new in made.values and old not in made.values})


def is_unsigned(node: Node) -> bool:
    """Whether it is a bracket around uint8 or uint16."""
    return node.op in ("quantize_linear", "dequantize_linear") and kind_of(node) in SIGNED


def kind_of(node: Node) -> str:
    """The dtype of a bracket's codes."""
    codes = node.output if node.op == "quantize_linear" else node.inputs[0]
    return "" if codes is None else codes.type.dtype.name


def half(kind: str) -> int:
    """Half of the codes of a dtype."""
    return 1 << (dtype(kind).bits - 1)


def _known(editor: Editor, node: Node) -> bool:
    """Whether a bracket's zero point is a constant."""
    return node.input(2) is None or editor.constant_data(node.input(2)) is not None


def shifted(codes: Array, kind: str) -> Array:
    """Codes of an unsigned dtype as those of the signed one."""
    return (codes.astype(np.int32) - half(kind)).astype(dtype(SIGNED[kind]).numpy)


def _quantize(editor: Editor, node: Node) -> Value:
    """Signed codes for the brackets after it; whatever else reads its codes gets them shifted back."""
    kind = kind_of(node)
    old, attrs = node.output, {**node.attrs, "to": SIGNED[kind]}
    new = editor.add("quantize_linear", *node.inputs[:2], _zero(editor, node), name=node.name, out=f"{old.name}:signed", **attrs)
    for user in editor.users(old):
        if user.op == "dequantize_linear" and user.inputs[0] == old and _known(editor, user):
            _dequantize(editor, user, new)
    if editor.users(old) or editor.is_output(old):
        editor.replace(old, _moved(editor, new, half(kind), kind), inherit=True)
    return new


def _dequantize(editor: Editor, node: Node, codes: Value) -> None:
    attrs: dict[str, Any] = dict(node.attrs)
    real = editor.add("dequantize_linear", codes, node.inputs[1], _zero(editor, node), name=node.name, **attrs)
    editor.replace(node.output, real, inherit=True)


def _codes(editor: Editor, old: Value | None, constants: dict[str, Value]) -> Value:
    """The signed codes of a value that no quantize made: an input of the graph, a constant, integers that were moved."""
    assert old is not None
    if old.name not in constants:
        data, name, kind = editor.constant_data(old), f"{old.name}:signed", old.type.dtype.name
        moved = data is None
        made = _moved(editor, old, -half(kind), SIGNED[kind]) if moved else editor.constant(shifted(np.asarray(data), kind), name=name)
        constants[old.name] = made
    return constants[old.name]


def _moved(editor: Editor, value: Value, by: int, to: str) -> Value:
    """Codes plus a number: a requantize to the same scale."""
    limits: dict[str, Any] = {"lo": dtype(to).min, "hi": dtype(to).max}
    return editor.add("requantize", value, out=f"{value.name}:{to}", x_zero=0, y_zero=by, multiplier=1.0, to=to, **limits)


def _zero(editor: Editor, node: Node) -> Value:
    """The zero point of a bracket, shifted; one that was not given is 0."""
    zero, scale = editor.constant_data(node.input(2)), node.inputs[1]
    assert scale is not None
    given = np.zeros([int(d) for d in scale.shape], np.uint16) if zero is None else zero
    return editor.constant(shifted(given, kind_of(node)), name=f"{node.output.name}:zero")
