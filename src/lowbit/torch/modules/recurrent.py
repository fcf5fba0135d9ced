"""LSTM and GRU on integers (docs/arithmetic.md §7): one recurrent op for each layer, torch's gates put into the graph's order.

Where a gradient is wanted, and for packed sequences and projections, they compute in float with the weights that the integers stand for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from lowbit.dims import Dim
from lowbit.frontends.torch.rnn import GRU as GRU_KIND
from lowbit.frontends.torch.rnn import LSTM as LSTM_KIND
from lowbit.frontends.torch.rnn import Kind
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import find_result, operand
from lowbit.ops.quant import FloatOperand, Operand, RowsOperand
from lowbit.quant_params import PerAxis, PerBlock, QuantParams
from lowbit.ranges import params_from_data
from lowbit.torch.layer import array, bracket, dims, rows
from lowbit.torch.modules.base import HALF, Mode, Plan, Quantized
from lowbit.torch.qtensor import QTensor
from lowbit.types import Array, TensorType


class _Recurrent(Quantized):
    """The common part of LSTM and GRU. `layers` holds, for each layer, the parameters of its input, state and output (static)."""

    kind: Kind
    layers: list[dict[str, QuantParams]]
    input_size: int
    hidden_size: int
    num_layers: int
    bias: Any
    batch_first: bool
    bidirectional: bool
    proj_size: int

    def _begin(self) -> None:
        super()._begin()
        self.layers = []

    @property
    def weights(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(
            self._name(part, k, d) for k in range(self.num_layers) for d in self._directions for part in ("weight_ih", "weight_hh")
        )

    @property
    def _directions(self) -> range:
        return range(2 if self.bidirectional else 1)

    @staticmethod
    def _name(part: str, layer: int, direction: int) -> str:
        return f"{part}_l{layer}{'_reverse' if direction else ''}"

    def attrs(self) -> dict[str, Any]:
        n = len(self._directions)
        direction = "bidirectional" if n == 2 else "forward"
        shared = {"hidden": self.hidden_size, "direction": direction, "activations": self.kind.activations * n, "clip": None}
        return shared | dict(self.kind.options)

    def _weight_shape(self) -> tuple[int, ...]:
        return (len(self._directions), *super()._weight_shape())

    def _weight_params(self, name: str, weight: Tensor, plan: Plan) -> QuantParams:
        by_block = plan.mode == "weights" and isinstance(plan.granularity, int)  # else a scale for each gate's row
        granularity = PerBlock(1, plan.granularity) if by_block else PerAxis(0)  # type: ignore[arg-type]
        return params_from_data(array(weight), plan.decided().weight or "int8", plan.weight_scheme, granularity)

    def finish_calibration(self) -> Any:
        """Dynamic: without the surrounding graph its states at every step are unknown."""
        return self.to_mode("dynamic")

    def _decided_mode(self) -> Mode:
        return "weights" if self.plan.mode == "weights" else "static" if len(self.layers) == self.num_layers else "dynamic"

    # --- the layer as a graph ---

    def _order(self, back: bool = False) -> Array:
        """Which of torch's rows stands at each of the graph's; or the other way."""
        gates = np.argsort(self.kind.gates) if back else np.asarray(self.kind.gates)
        return (gates[:, None] * self.hidden_size + np.arange(self.hidden_size)).reshape(-1)

    def _stacked(self, part: str, layer: int) -> tuple[Array, Array]:
        """Integers (directions, rows, in) and scales (directions, rows, 1)."""
        found = [getattr(self, self._name(part, layer, d)) for d in self._directions]
        order = self._order()
        ints = np.stack([array(q.ints)[order] for q in found])
        return ints, np.stack([q.quant_params.scale[order] for q in found])[:, :, None]

    def graph_constant(self, name: str) -> Array:
        """The integers of `weight_ih:0` (a layer's weights of both directions) as the graph has them."""
        part, layer = name.split(":")
        return self._stacked(part, int(layer))[0]

    def _weight(self, b: Builder, part: str, layer: int) -> Value:
        ints, scale = self._stacked(part, layer)
        q = b.constant(np.ascontiguousarray(ints), f"{part}_l{layer}", getattr(self, self._name(part, layer, 0))._layout.dtype)
        s = b.constant(np.ascontiguousarray(scale), f"{part}_l{layer}:scale")
        return b.add("dequantize_linear", q, s, None, axis=2, block_size=ints.shape[2])

    def _bias(self, b: Builder, layer: int) -> Value | None:
        if not self.bias:
            return None
        order = self._order()
        both = [[array(getattr(self, self._name(p, layer, d)))[order] for p in ("bias_ih", "bias_hh")] for d in self._directions]
        return b.constant(np.stack([np.concatenate(pair) for pair in both]).astype(np.float32), f"bias_l{layer}")

    def graph(self, states: bool) -> Graph:
        """The module as a graph, with its initial states as inputs or zero."""
        b, time, batch = Builder(self.kind.op), *dims("time", "batch")
        static, many = self.quant_mode == "static", len(self._directions)
        lead: tuple[Dim, ...] = (batch, time) if self.batch_first else (time, batch)
        y = b.input("x", TensorType((*lead, self.input_size), "float32"))
        kinds = ("h", "c") if self.kind.op == "lstm" else ("h",)
        size = (self.num_layers * many, batch, self.hidden_size)
        given = [b.input(k, TensorType(size, "float32")) for k in kinds] if states else []
        y = b.add("transpose", y, perm=(1, 0, 2)) if self.batch_first else y
        last: list[list[Value]] = [[] for _ in kinds]
        for k in range(self.num_layers):
            p: Mapping[str, QuantParams] = self.layers[k] if static else {}
            x = bracket(b, y, p["input"]) if static else rows(b, y)
            first: list[Value | None] = [
                b.add("slice", s, axes=(0,), starts=(k * many,), ends=((k + 1) * many,), steps=(1,)) for s in given
            ]
            if static:
                zero: dict[str, Any] = {"shape": (many, batch, self.hidden_size), "value": 0.0, "dtype": "float32"}
                begin = [s if s is not None else b.add("fill", **zero) for s in (first or [None] * len(kinds))]
                first = [bracket(b, begin[0], p["state"]), *begin[1:]]  # cells are reals
            weights = self._weight(b, "weight_ih", k), self._weight(b, "weight_hh", k)
            out = b.add_node(self.kind.op, x, *weights, self._bias(b, k), *first, layout=0, **self.attrs())
            for held, state in zip(last, out[1:], strict=True):
                held.append(state)
            y = bracket(b, out[0], p.get("output"))
            y = b.add("reshape", b.add("transpose", y, perm=(0, 2, 1, 3)), shape=(time, batch, many * self.hidden_size))
        y = b.add("transpose", y, perm=(1, 0, 2)) if self.batch_first else y
        joined = [held[0] if self.num_layers == 1 else b.add("concat", *held, axis=0) for held in last]
        return b.finish({"y": y} | dict(zip(kinds, joined, strict=True)))

    # --- running it ---

    def _on_integers(self, x: Any, hx: Any = None) -> Any:
        given = [x, *(hx if isinstance(hx, tuple) else (hx,))]
        grad = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in given)
        if isinstance(x, PackedSequence) or grad or self.proj_size or x.device.type != "cpu" or x.dtype != torch.float32:
            return self._real(x, hx)
        alone = x.dim() == 2
        batch_axis = 0 if self.batch_first else 1
        states = [] if hx is None else list(hx) if isinstance(hx, tuple) else [hx]
        inputs = [x.unsqueeze(batch_axis), *(s.unsqueeze(1) for s in states)] if alone else [x, *states]
        made = self._compiled.get((self.quant_mode, bool(states)), lambda: self.graph(bool(states)), self._constants())
        results = made(*[t.detach().contiguous().numpy() for t in inputs])
        y, *last = (torch.from_numpy(r) for r in results)
        if alone:
            y, last = y.squeeze(batch_axis), [s.squeeze(1) for s in last]
        return y, tuple(last) if len(last) > 1 else last[0]

    def _real(self, *args: Any) -> Any:
        """In float: torch's kernels want plain weights."""
        if not self.is_quantized:
            return super()._real(*args)
        kept: Any = self._flat_weights
        self.__dict__["_flat_weights"] = [w.dequantize() if isinstance(w, QTensor) else w for w in kept]
        try:
            return super()._real(*args)
        finally:
            self.__dict__["_flat_weights"] = kept

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, Tensor) and input.dtype in HALF and self.is_quantized:
            return self._wide(input, hx)
        if self.training:
            self._for_training()
        if self.is_quantized and (self.training or self.quant_mode in ("float", "weights")):
            return self._real(input, hx)
        return self._forward(input, hx)

    # --- from a quantized graph ---

    def take(self, editor: Editor, node: Node) -> dict[str, str]:
        given = [operand(editor, node.input(i)) for i in range(6)]
        assert node.inputs[1] is not None
        found = re.search(r"weight_ih_l(\d+)", node.inputs[1].name)
        k = int(found[1]) if found else len(self.layers)
        owned = {}
        for part, i in (("weight_ih", 1), ("weight_hh", 2)):
            w, value = given[i], node.inputs[i]
            assert isinstance(w, Operand | FloatOperand) and w.data is not None and value is not None
            self._put(part, k, w)
            before = editor.producer(value)
            if isinstance(w, Operand) and before is not None and before.inputs[0] is not None:
                owned[before.inputs[0].name] = f"{part}:{k}"
        if isinstance(b := given[3], FloatOperand) and b.data is not None and self.bias:
            for d in self._directions:
                for part, half in zip(("bias_ih", "bias_hh"), np.split(b.data[d], 2)):
                    setattr(self, self._name(part, k, d), nn.Parameter(torch.from_numpy(half[self._order(True)].copy())))
        x = given[0]
        self.quant_mode = "static" if isinstance(x, Operand) else "dynamic" if isinstance(x, RowsOperand) else "weights"
        if not isinstance(given[1], Operand):
            self.quant_mode = "float"
        if self.quant_mode == "static":
            out = find_result(editor, Node(node.op, node.inputs, node.attrs, node.name, node.outputs[:1]), False)[1].params
            params = {role: o.params for role, o in (("input", x), ("state", given[4])) if isinstance(o, Operand)}
            self.layers = [*self.layers[:k], params | {"output": out or params["state"]}, *self.layers[k + 1 :]]
            self.input_params = self.layers[0]["input"]
        self._compiled.clear()
        return owned

    def _put(self, part: str, layer: int, w: Operand | FloatOperand) -> None:
        """A layer's weights from a constant (directions, rows, in) in the graph's order."""
        assert w.data is not None
        order = self._order(True)
        for d in self._directions:
            data = torch.from_numpy(np.array(w.data[d][order]))
            name = self._name(part, layer, d)
            if isinstance(w, FloatOperand):
                setattr(self, name, nn.Parameter(data))
                continue
            g, scales = w.params.granularity, w.params.scale
            if isinstance(g, PerBlock) and scales.shape[2] > 1:
                params = QuantParams(w.params.dtype, scales[d][order], None, w.params.scheme, PerBlock(1, g.size))
            else:
                rows_of = scales.reshape(1, -1) if scales.ndim < 2 else scales[:, :, 0]
                scale = np.broadcast_to(rows_of, w.data.shape[:2])[d][order]
                params = QuantParams(w.params.dtype, scale, None, w.params.scheme, PerAxis(0))
            setattr(self, name, nn.Parameter(QTensor.of(data, params), requires_grad=False))

    # --- state ---

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"layers": [{role: p.to_dict() for role, p in each.items()} for each in self.layers]}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        self.layers = [{role: QuantParams.from_dict(p) for role, p in each.items()} for each in state["layers"]]


class LSTM(_Recurrent, nn.LSTM):
    """nn.LSTM that can be quantized.

    >>> layer = LSTM.from_float(nn.LSTM(4, 3)).quantize_weights().eval()
    >>> layer(torch.ones(5, 2, 4))[0].shape
    torch.Size([5, 2, 3])
    """

    op, kind = "lstm", LSTM_KIND


class GRU(_Recurrent, nn.GRU):
    """nn.GRU that can be quantized.

    >>> layer = GRU.from_float(nn.GRU(4, 3)).quantize_weights().eval()
    >>> layer(torch.ones(5, 2, 4))[0].shape
    torch.Size([5, 2, 3])
    """

    op, kind = "gru", GRU_KIND
