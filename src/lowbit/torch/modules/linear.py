"""Linear on integers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowbit.errors import QuantError
from lowbit.ir.graph import Node, Value
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import operand
from lowbit.quant_params import PerAxis, PerTensor
from lowbit.quantization.params import offset_params
from lowbit.ranges import params_from_data
from lowbit.torch import kernels
from lowbit.torch.layer import Layer, array, dims
from lowbit.torch.modules.base import HALF, INTEGERS, Mode, Plan, Quantized, StraightThrough, faked
from lowbit.torch.qtensor import QTensor, quantize


class Linear(Quantized, nn.Linear):
    """nn.Linear that can be quantized: y = x Wᵀ + b, docs/arithmetic.md §2.

    Weights in blocks may have offsets, W = d q + m: then `weight` is d q, and `weight_offset` (rows, blocks) is m.

    >>> layer = Linear.from_float(nn.Linear(4, 3)).quantize_weights().eval()
    >>> layer(torch.ones(2, 4)).shape, layer.quant_mode
    (torch.Size([2, 3]), 'dynamic')
    """

    op = "linear"
    weight_offset: Tensor | None

    def _begin(self) -> None:
        super()._begin()
        self.register_parameter("weight_offset", None)

    def unswapped(self) -> nn.Module:
        del self.weight_offset
        return super().unswapped()

    def forward(self, input: Tensor) -> Tensor:
        if input.dtype in HALF and self.is_quantized:
            made: Tensor = self._wide(input)
            return made
        y = self._product(input)
        offset = self._parameters["weight_offset"]  # without the way round by __getattr__, which takes a microsecond
        if offset is None:
            return y
        count = offset.shape[1]
        sums = input.reshape(*input.shape[:-1], count, self.in_features // count).sum(-1)  # of blocks: their offsets are multiplied by them
        return y + F.linear(sums, offset)

    def _product(self, x: Tensor) -> Tensor:
        if self.quant_mode in INTEGERS and not self.training:
            return self._on_integers(x)
        if self.quant_mode == "weights" and not self.training and x.dtype == torch.float32:
            plain = torch.compiler.is_compiling() or (x.requires_grad and torch.is_grad_enabled())
            y = None if plain else kernels.run("weight_only", x, self.weight, self.bias)
            if y is not None:
                return y
        return self._forward(x)

    def _quantize(self, name: str, plan: Plan) -> None:
        if not plan.offsets or isinstance(self.weight, QTensor):
            return super()._quantize(name, plan)
        assert isinstance(plan.granularity, int)
        params, offset = offset_params(array(self.weight), plan.granularity)
        m = torch.from_numpy(offset).to(self.weight.device)
        q = quantize(self.weight.detach() - m.repeat_interleave(plan.granularity, 1), params=params)
        self.weight, self.weight_offset = nn.Parameter(q, requires_grad=False), nn.Parameter(m, requires_grad=False)

    def _stands_for(self, q: QTensor) -> Tensor:
        m = self.weight_offset
        return q.dequantize() if m is None or q is not self.weight else q.dequantize() + m.repeat_interleave(q.shape[1] // m.shape[1], 1)

    def _to_floats(self) -> None:
        super()._to_floats()
        self.weight_offset = None

    def to_mode(self, mode: Mode) -> Any:
        if mode == "static" and (self.weight_offset is not None or self.plan.offsets):
            raise QuantError("weights with offsets are multiplied as floats", where=type(self).__name__, hint="mode 'weights'")
        return super().to_mode(mode)

    def _on_integers(self, x: Tensor) -> Tensor:
        if x.requires_grad and torch.is_grad_enabled():
            return StraightThrough.of(x, self)
        return self._exact(x)

    def _exact(self, x: Tensor) -> Tensor:
        if kernels.kind(x) != "cpu":
            return self._elsewhere(x)
        rows = x if x.dim() == 2 else x.reshape(-1, self.in_features)
        y = self._compiled.run(self.quant_mode, self.layer, self._parameters.values(), rows)
        return y if rows is x else y.reshape(*x.shape[:-1], self.out_features)

    def layer(self) -> Any:
        """The graph of the layer alone."""
        assert isinstance(self.weight, QTensor)
        static = self.quant_mode == "static"
        given = self.input_params if static else "rows"
        return Layer(
            "linear", dims("rows", self.in_features), self.weight, self.bias, given, self.output_params if static else None
        ).graph()

    def _elsewhere(self, x: Tensor) -> Tensor:
        """On another device, by its kernels; where there are none, in float with the same quantized numbers."""
        y = None
        if self.quant_mode == "dynamic":
            y = kernels.run("linear_rows", x, self.weight, self.bias)
            return super()._real(x) if y is None else y
        if kernels.find(kernels.kind(x), "linear_static") is not None:
            y = kernels.run("linear_static", x, self.weight, self._compiled.lowered(self.layer, self._parameters.values()))
        return faked(super()._real(faked(x, self.input_params)), self.output_params) if y is None else y


class Embedding(Quantized, nn.Embedding):
    """nn.Embedding whose table is integers: rows are dequantized as they are looked up.

    >>> layer = Embedding.from_float(nn.Embedding(10, 4)).quantize_weights().eval()
    >>> layer(torch.tensor([1, 2])).shape
    torch.Size([2, 4])
    """

    op = "gather"

    def forward(self, input: Tensor) -> Tensor:
        return self._forward(input)

    def attrs(self) -> dict[str, Any]:
        return {"axis": 0}

    def share(self, layer: Quantized) -> Embedding:
        """Its table is the layer's weight, the very integers: a table that is also multiplied by is stored once."""
        self.weight, self.plan, self.quant_mode = layer.get_parameter("weight"), layer.plan, "weights"
        return self

    def _inputs(self, x: Value, w: Value) -> tuple[Value, ...]:
        return (w, x)

    def _weight_params(self, name: str, weight: Tensor, plan: Any) -> Any:
        whole = plan.granularity == "tensor" or plan.mode == "static"
        return params_from_data(weight.cpu().numpy(), plan.weight, plan.weight_scheme, PerTensor() if whole else PerAxis(0))

    def take(self, editor: Editor, node: Node) -> dict[str, str]:
        table = operand(editor, node.inputs[0])
        owned = {self._take(editor, node.inputs[0], table, "weight"): "weight"}
        self.quant_mode = "weights" if isinstance(self.weight, QTensor) else "float"
        return owned

    def _observed(self, x: Tensor, *args: Any, **options: Any) -> Any:
        y = nn.Embedding.forward(self, x)
        assert self.output_observer is not None
        self.output_observer.observe(y.detach().cpu().numpy())
        return y

    def finish_calibration(self) -> Embedding:
        """Its table has the range of the table: nothing needs to be seen."""
        return self.to_mode("weights")

    def _decided_mode(self) -> Mode:
        return "weights"

    def _on_integers(self, x: Tensor) -> Tensor:
        return nn.Embedding.forward(self, x)  # the dispatch of F.embedding moves integers, and dequantizes what it moved
