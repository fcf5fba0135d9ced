"""uint8 becomes int8: the same reals, every code and zero point less by 128.

Kernels exist for signed bytes alone. Between brackets nothing sees the codes themselves, so the shift costs nothing there; integers that
come from elsewhere, or are read as integers, pass through a requantize that shifts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, renamed
from lowbit.types import Array

HALF = 128  # of the codes of a byte


def signed(graph: Graph) -> Graph:
    """The graph whose brackets hold int8 wherever they held uint8 with constant zero points. Integers keep their names."""
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
    """Whether it is a bracket around uint8."""
    if node.op not in ("quantize_linear", "dequantize_linear"):
        return False
    codes = node.output if node.op == "quantize_linear" else node.inputs[0]
    return codes is not None and codes.type.dtype.name == "uint8"


def _known(editor: Editor, node: Node) -> bool:
    """Whether a bracket's zero point is a constant."""
    return node.input(2) is None or editor.constant_data(node.input(2)) is not None


def shifted(codes: Array) -> Array:
    """Codes of uint8 as those of int8."""
    return (codes.astype(np.int16) - HALF).astype(np.int8)


def _quantize(editor: Editor, node: Node) -> Value:
    """int8 codes for the brackets after it; whatever else reads its codes gets them shifted back."""
    old, attrs = node.output, {**node.attrs, "to": "int8"}
    new = editor.add("quantize_linear", *node.inputs[:2], _zero(editor, node), name=node.name, out=f"{old.name}:signed", **attrs)
    for user in editor.users(old):
        if user.op == "dequantize_linear" and user.inputs[0] == old and _known(editor, user):
            _dequantize(editor, user, new)
    if editor.users(old) or editor.is_output(old):
        editor.replace(old, _moved(editor, new, HALF, "uint8"), inherit=True)
    return new


def _dequantize(editor: Editor, node: Node, codes: Value) -> None:
    attrs: dict[str, Any] = dict(node.attrs)
    real = editor.add("dequantize_linear", codes, node.inputs[1], _zero(editor, node), name=node.name, **attrs)
    editor.replace(node.output, real, inherit=True)


def _codes(editor: Editor, old: Value | None, constants: dict[str, Value]) -> Value:
    """The int8 codes of a value that no quantize made: an input of the graph, a constant, integers that were moved."""
    assert old is not None
    if old.name not in constants:
        data, name = editor.constant_data(old), f"{old.name}:signed"
        constants[old.name] = _moved(editor, old, -HALF, "int8") if data is None else editor.constant(shifted(data), name=name)
    return constants[old.name]


def _moved(editor: Editor, value: Value, by: int, to: str) -> Value:
    """Codes plus a number: a requantize to the same scale."""
    limits: dict[str, Any] = {"lo": -HALF, "hi": HALF - 1} if to == "int8" else {"lo": 0, "hi": 2 * HALF - 1}
    return editor.add("requantize", value, out=f"{value.name}:{to}", x_zero=0, y_zero=by, multiplier=1.0, to=to, **limits)


def _zero(editor: Editor, node: Node) -> Value:
    """The zero point of a bracket, shifted; one that was not given is 0."""
    zero, scale = editor.constant_data(node.input(2)), node.inputs[1]
    assert scale is not None
    given = np.zeros([int(d) for d in scale.shape], np.uint8) if zero is None else zero
    return editor.constant(shifted(given), name=f"{node.output.name}:zero")
