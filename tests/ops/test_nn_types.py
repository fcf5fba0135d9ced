"""Types of the ops of neural networks: symbols flow through shapes, misfits are named."""

from __future__ import annotations

from typing import Any

import pytest

from lowbit.dims import parse_dim, substitute
from lowbit.errors import DTypeError, LowbitError, ShapeError, UnsupportedOp
from lowbit.ir.bind import bind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.ops import get_op
from lowbit.types import TensorType

Case = tuple[str, list[str], dict[str, Any]]  # op, shapes as text, attributes (dims as text in "<…>")

CONV = {"stride": (2, 1), "pads": (1, 0, 1, 2), "dilation": (1, 2), "groups": 1}
POOL = {"kernel": (3, 2), "stride": (2, 2), "pads": (1, 0, 1, 1), "dilation": (1, 1)}
RNN = {"hidden": 4, "direction": "bidirectional"}
RESIZE = {"scales": (None, None, None, 2.0), "mode": "linear", "coordinate_mode": "half_pixel"}

SYMBOLIC: list[Case] = [
    ("conv", ["b, 3, h, w", "8, 3, 3, 3", "8"], CONV),
    ("conv_transpose", ["b, 3, h, w", "3, 8, 3, 3"], {**CONV, "output_padding": (1, 0)}),
    ("deform_conv", ["b, 4, h, w", "8, 2, 3, 3", "b, 36, (h - 1)//2 + 1, w - 2"], {**CONV, "groups": 2, "offset_groups": 2}),
    ("col2im", ["b, 12, h"], {"image": ("<h + 3>",), "kernel": (4,), "stride": (1,), "pads": (0, 0), "dilation": (1,)}),
    ("matmul", ["b, s, 6", "6, t"], {}),
    ("matmul", ["b, 1, s, 6", "5, 6, s"], {}),
    ("linear", ["b, s, 6", "7, 6", "7"], {}),
    ("einsum", ["b, s, h", "b, t, h"], {"equation": "bsh,bth->bst"}),
    ("einsum", ["b, s, 3", "3, t"], {"equation": "...i,ij->...j"}),
    *[("max_pool", ["b, 3, h, w"], {**POOL, "ceil_mode": c}) for c in (False, True)],
    *[("max_pool_indices", ["b, 3, h, w"], {**POOL, "ceil_mode": c}) for c in (False, True)],
    *[("avg_pool", ["b, 3, h, w"], {**POOL, "ceil_mode": c, "count_include_pad": True}) for c in (False, True)],
    ("lp_pool", ["b, 3, h, w"], {**POOL, "ceil_mode": True, "p": 2}),
    ("adaptive_avg_pool", ["b, 3, h, w"], {"output_size": (2, 5)}),
    ("adaptive_max_pool", ["b, 3, h, w"], {"output_size": (2, 5)}),
    ("batch_norm", ["b, 6, s", "6", "6", "6", "6"], {"eps": 1e-5}),
    ("layer_norm", ["b, s, 6", "6"], {"axis": 2, "eps": 1e-5}),
    ("rms_norm", ["b, s, 6", "6"], {"axis": 2, "eps": 1e-5}),
    ("group_norm", ["b, 6, h"], {"groups": 2, "eps": 1e-5}),
    ("softmax", ["b, s"], {"axis": 1}),
    ("attention", ["b, 2, s, 8", "b, 2, t, 8", "b, 2, t, 6", "s, t"], {"scale": 1.0, "causal": False}),
    ("rotary_embedding", ["b, 2, s, 8", "s, 4", "s, 4"], {"interleaved": False}),
    ("lstm", ["s, b, 3", "2, 16, 3", "2, 16, 4"], {**RNN, "activations": ("sigmoid", "tanh", "tanh") * 2}),
    ("gru", ["b, s, 3", "2, 12, 3", "2, 12, 4"], {**RNN, "activations": ("sigmoid", "tanh") * 2, "layout": 1}),
    ("rnn", ["s, b, 3", "2, 4, 3", "2, 4, 4"], {**RNN, "activations": ("tanh",) * 2}),
    ("linear", ["b, 3*h*w", "10, 462", "10"], {}),
    ("resize", ["b, 3, h, w"], {**RESIZE, "sizes": ("<b>", 3, "<h//2>", "<2*w>")}),
    ("grid_sample", ["b, 3, h, w", "b, s, t, 2"], {"mode": "linear", "padding_mode": "zeros", "align_corners": False}),
    ("affine_grid", ["b, 2, 3"], {"size": ("<2*b>", 5), "align_corners": False}),
    ("depth_to_space", ["b, 12, h, w"], {"block": 2, "mode": "DCR"}),
    ("space_to_depth", ["b, 3, 2*h, 4*w"], {"block": 2}),
]
BINDING = {"b": 2, "h": 11, "w": 14, "s": 5, "t": 7}


def build(op: str, shapes: list[str], attrs: dict[str, Any], binding: dict[str, int]) -> Graph:
    def dim(text: str) -> Any:
        return substitute(parse_dim(text.strip()), binding)

    def bound(a: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(map(bound, a))
        return dim(a[1:-1]) if isinstance(a, str) and a.startswith("<") else a

    b = Builder()
    inputs = [b.input(f"x{i}", TensorType([dim(d) for d in s.split(",")], "float32")) for i, s in enumerate(shapes)]
    outputs = b.add_node(op, *inputs, **{k: bound(a) for k, a in attrs.items()})
    return b.finish({f"y{i}": o for i, o in enumerate(outputs)})


@pytest.mark.parametrize(("op", "shapes", "attrs"), SYMBOLIC)
def test_binding_symbols_after_inference_is_inference_with_numbers(op: str, shapes: list[str], attrs: dict[str, Any]) -> None:
    symbolic, numbers = build(op, shapes, attrs, {}), build(op, shapes, attrs, BINDING)
    assert symbolic.symbols
    bound = bind(symbolic, {s: BINDING[s] for s in symbolic.symbols})
    assert bound == numbers
    # and the formulas themselves, not only the shapes inferred again, give these numbers
    for name, value in symbolic.outputs.items():
        assert tuple(substitute(d, BINDING) for d in value.shape) == numbers.outputs[name].shape
    macs = get_op(op).macs
    if macs is not None:
        counted = macs(*(v.type for v in symbolic.inputs), **symbolic.nodes[0].attrs)
        assert substitute(counted, BINDING) == macs(*(v.type for v in numbers.inputs), **numbers.nodes[0].attrs) > 0


MISFITS: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("conv", ["1, 3, 8, 8", "16, 4, 3, 3"], CONV, "input has 3 channels, weight (16, 4, 3, 3) needs 4"),
    ("conv", ["1, 3, 8, 8", "16, 2, 3, 3"], {**CONV, "groups": 2}, "input has 3 channels, weight (16, 2, 3, 3) needs 4 (2 groups of 2)"),
    ("conv", ["1, 4, 8, 8", "3, 2, 3, 3"], {**CONV, "groups": 2}, "3 output channels cannot be split into 2 groups"),
    ("conv", ["1, 4, 8, 8", "16, 4, 3, 3", "8"], CONV, "bias (8) given, (16) needed"),
    ("conv", ["1, 4, 8", "16, 4, 3, 3"], CONV, "must both be (N, C, spatial…) of the same rank, 3 or more"),
    ("conv", ["1, 4, 1, 2", "16, 4, 3, 3"], {**CONV, "dilation": (1, 3)}, "a window of 7 does not fit spatial size 2 with padding 0 + 2"),
    ("conv", ["1, 4, 8, 8", "16, 4, 3, 3"], {**CONV, "stride": (2,)}, "stride (2,) has 1 entries, 2 spatial dimensions need 2"),
    ("conv", ["1, 4, 8, 8", "16, 4, 3, 3"], {**CONV, "stride": (0, 1)}, "stride (0, 1) has an entry below 1"),
    (
        "conv_transpose",
        ["1, 3, 8, 8", "4, 2, 3, 3"],
        {**CONV, "output_padding": (0, 0)},
        "input has 3 channels, weight (4, 2, 3, 3) needs 4",
    ),
    (
        "max_pool",
        ["1, 3, 1, 8"],
        {**POOL, "pads": (0,) * 4, "ceil_mode": False},
        "a window of 3 does not fit spatial size 1 with padding 0 + 0",
    ),
    ("matmul", ["2, 3", "4, 5"], {}, "(2, 3) @ (4, 5): 3 columns on the left, 4 rows on the right"),
    ("einsum", ["2, 3", "4, 5"], {"equation": "ij,jk"}, "'j' of 'ij,jk' is 3 and 4"),
    ("einsum", ["2, 3"], {"equation": "ij->k"}, "output letter 'k' of 'ij->k' is in no input"),
    ("einsum", ["2, 3"], {"equation": "ij,jk"}, "equation 'ij,jk' is not one of 1 inputs"),
    ("einsum", ["2, 3"], {"equation": "ijk->i"}, "input (2, 3) does not have the dimensions of 'ijk'"),
    ("einsum", ["2, 3"], {"equation": "ij->ii"}, "'ij->ii' names an output dimension twice"),
    ("batch_norm", ["2, 3, 4", "3", "3", "4", "3"], {"eps": 0.0}, "mean (4) given, (3) needed"),
    ("layer_norm", ["2, 3", "4"], {"axis": 1, "eps": 0.0}, "scale (4) does not broadcast to the normalized dimensions (3)"),
    ("group_norm", ["2, 3, 4"], {"groups": 2, "eps": 0.0}, "3 channels cannot be split into 2 groups"),
    ("softmax", ["2, 3"], {"axis": 2}, "axis 2 is outside a tensor of rank 2"),
    ("attention", ["1, 2, 8", "1, 3, 4", "1, 3, 8"], {"scale": 1.0, "causal": False}, "q and k must have the same number of features"),
    ("attention", ["1, 2, 8", "1, 3, 8", "1, 4, 8"], {"scale": 1.0, "causal": False}, "k and v must have the same length"),
    ("attention", ["2, 8", "3, 8", "3, 8", "2, 4"], {"scale": 1.0, "causal": False}, "mask (2, 4) does not broadcast to (2, 3)"),
    (
        "lstm",
        ["5, 1, 3", "1, 16, 2", "1, 16, 4"],
        {**RNN, "direction": "forward", "activations": ("tanh",) * 3},
        "weight (1, 16, 2) given, (1, 16, 3) needed",
    ),
    ("rnn", ["5, 1, 3", "2, 4, 3", "2, 4, 4"], {**RNN, "activations": ("tanh",)}, "1 activations given, 2 needed"),
    ("rnn", ["5, 1, 3", "2, 4, 3", "2, 4, 4"], {**RNN, "activations": ("sine",) * 2}, "activation 'sine' is not supported"),
    ("resize", ["1, 3, 4, 4"], {**RESIZE, "sizes": (1, 3, 8)}, "3 sizes and 4 scales given, input (1, 3, 4, 4) needs 4 of each"),
    ("resize", ["1, 3, 4, 4"], {**RESIZE, "sizes": (1, 3, 8, 8), "mode": "lanczos"}, "mode 'lanczos' is not supported"),
    ("resize", ["1, 3, 0, 4"], {**RESIZE, "sizes": (1, 3, 8, 8)}, "has no elements to make (1, 3, 8, 8) of"),
    ("depth_to_space", ["1, 6, 2, 2"], {"block": 2, "mode": "DCR"}, "with C a multiple of 4 needed"),
    ("space_to_depth", ["1, 3, 3, 4"], {"block": 2}, "with H and W multiples of 2 needed"),
]


@pytest.mark.parametrize(("op", "shapes", "attrs", "text"), MISFITS)
def test_a_misfit_says_what_was_found_and_what_is_needed(op: str, shapes: list[str], attrs: dict[str, Any], text: str) -> None:
    with pytest.raises(LowbitError) as e:
        build(op, shapes, attrs, {})
    assert text in e.value.message
    assert isinstance(e.value, UnsupportedOp if "not supported" in text else ShapeError)
    assert e.value.where == op


def test_different_element_types_are_refused() -> None:
    b = Builder()
    x, w = b.input("x", TensorType((2, 3), "float32")), b.input("w", TensorType((3, 4), "float16"))
    with pytest.raises(DTypeError, match=r"matmul 'fc': a is float32, b is float16: one type is needed\.\n  Try: cast before"):
        b.add("matmul", x, w, name="fc")
    with pytest.raises(DTypeError, match="int32 given, a float type needed"):
        b.add("softmax", b.input("i", TensorType((2, 3), "int32")), axis=1)
