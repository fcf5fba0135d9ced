"""Makes `linear` of a matmul by a constant, of an einsum that is one, and of reshapes around it."""

from __future__ import annotations

import re

import numpy as np

from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor, rewrite
from lowbit.passes.match import Var, match, op, same_shape


def fuse_linear(graph: Graph) -> Graph:
    """The graph in which x @ W with a constant W of two dimensions is linear(x, Wᵀ). Biases after it are folded by `fold_affine`."""
    turned: dict[str, Value] = {}  # one transposed weight for all users of a weight

    def rule(editor: Editor, node: Node) -> None:
        if node.op == "reshape":
            _drop_reshapes(editor, node)
            return
        x, w = _operands(node)
        if x is None or w is None:
            return
        before = editor.producer(w)
        if node.op == "matmul" and before is not None and before.op == "transpose" and before.attrs["perm"] == (1, 0):
            source = before.inputs[0]
            if editor.constant_data(source) is not None:  # tied to an embedding, say: it is already as linear wants it
                editor.become(node, "linear", x, source)
            return
        data = editor.constant_data(w)
        if data is None or data.ndim < 2 or any(d != 1 for d in data.shape[:-2]):
            return
        if editor.is_output(w) or not all(_reads(u, w) and _by_rows(u) == _by_rows(node) for u in editor.users(w)):
            return  # it would be there twice, as it was and transposed
        if w.name not in turned:
            rows = data.reshape(data.shape[-2:])
            turned[w.name] = editor.constant(
                np.ascontiguousarray(rows if _by_rows(node) else rows.T),
                name=f"{node.name}.weight" if node.name else w.name,
                dtype=w.type.dtype,
            )
        editor.become(node, "linear", x, turned[w.name])

    return rewrite(graph, rule, "matmul", "einsum", "reshape")


def _by_rows(node: Node) -> bool:
    """Whether the second operand already is (out, in)."""
    return node.op == "einsum" and not _equation(node)[1].endswith(_equation(node)[2][-1])


def _reads(node: Node, w: Value) -> bool:
    """Whether the node is x @ w (or x @ wᵀ) of a result that linear gives, and reads w in no other place."""
    x, right = _operands(node)
    if x is None or x.type.rank == 0 or right != w or x == w:
        return False
    return same_shape(node.output.shape, (*x.shape[:-1], w.shape[-2] if _by_rows(node) else w.shape[-1]))


def _operands(node: Node) -> tuple[Value | None, Value | None]:
    if node.op == "einsum":
        return _einsum_matmul(node)
    return (node.inputs[0], node.inputs[1]) if node.op == "matmul" else (None, None)


def _equation(node: Node) -> tuple[str, str, str]:
    inputs, _, out = re.sub(r"\s", "", str(node.attrs["equation"])).partition("->")
    a, _, b = inputs.partition(",")
    return a, b, out


def _einsum_matmul(node: Node) -> tuple[Value | None, Value | None]:
    """The operands of an einsum like "bik,kn->bin" or "...k,nk->...n"; (None, None) for any other."""
    a, b, out = _equation(node)
    inner, outer = a[-1:], out[-1:]
    matmul = inner.isalpha() and outer.isalpha() and inner != outer and inner not in out and outer not in a
    if matmul and len(node.inputs) == 2 and out == a[:-1] + outer and b in (inner + outer, outer + inner):
        return node.inputs[0], node.inputs[1]
    return None, None


FLATTENED = op("reshape", op("linear", op("reshape", Var("x")), Var("w"), name="linear"))
FLATTENED_BIAS = op("reshape", op("linear", op("reshape", Var("x")), Var("w"), Var("b"), name="linear"))


def _drop_reshapes(editor: Editor, node: Node) -> None:
    """x reshaped to (B*S, K), multiplied, and reshaped to (B, S, N) is a linear of x reshaped to (B, S, K)."""
    for pattern in (FLATTENED, FLATTENED_BIAS):
        found = match(editor, node, pattern)
        if found is None:
            continue
        linear, x = found.named["linear"], found["x"]
        features, out = linear.inputs[0].shape[-1], linear.output.shape[-1]  # type: ignore[union-attr]
        if node.output.shape[-1:] != (out,):
            return
        shape = (*node.output.shape[:-1], features)
        flat = x if same_shape(x.shape, shape) else editor.add("reshape", x, name=node.name, shape=shape)
        editor.become(node, "linear", flat, *linear.inputs[1:], name=linear.name)
        return
