"""MultiheadAttention on integers: its projections always; between them attention in integers too where it is static and plain
(self-attention without masks and weights), else in float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Node
from lowbit.ir.rewrite import Editor
from lowbit.lower.integer import find_result, operand
from lowbit.ops.quant import Operand, RowsOperand
from lowbit.quant_params import PerTensor, QuantParams
from lowbit.torch.layer import Layer, array, bracket, constant, dims, run
from lowbit.torch.modules.base import HALF, Mode, Quantized
from lowbit.torch.qtensor import QTensor
from lowbit.types import TensorType

ROLES = ("input", "projected", "attended", "output")


class MultiheadAttention(Quantized, nn.MultiheadAttention):
    """nn.MultiheadAttention that can be quantized. `params`: of its input, projections, attention and output (static).

    >>> layer = MultiheadAttention.from_float(nn.MultiheadAttention(8, 2)).quantize_weights().eval()
    >>> layer(*[torch.ones(5, 2, 8)] * 3)[0].shape
    torch.Size([5, 2, 8])
    """

    op = "linear"  # rules decide about its projections, which are linear layers of its name
    params: dict[str, QuantParams]

    def _begin(self) -> None:
        super()._begin()
        self.params = {}

    @property
    def weights(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("in_proj_weight",) if self.in_proj_weight is not None else ("q_proj_weight", "k_proj_weight", "v_proj_weight")

    def _to_integers(self) -> None:
        super()._to_integers()
        if not isinstance(self.out_proj.weight, QTensor):
            q = QTensor.from_qarray(_quantized(self, self.out_proj.weight), self.out_proj.weight.device)
            self.out_proj.weight = nn.Parameter(q, requires_grad=False)

    def _decided_mode(self) -> Mode:
        return "weights" if self.plan.mode == "weights" else "static" if len(self.params) == len(ROLES) else "dynamic"

    def finish_calibration(self) -> Any:
        """Dynamic: without the surrounding graph the results of its projections are unknown."""
        return self.to_mode("dynamic")

    def _constants(self) -> tuple[Any, ...]:
        return (*super()._constants(), *self.out_proj._parameters.values())

    def _real(self, *args: Any, **options: Any) -> Any:
        """In float, with torch's own code, which reads plain weights."""
        if not self.is_quantized and not isinstance(self.out_proj.bias, QTensor):
            return nn.MultiheadAttention.forward(self, *args, **options)
        held = [(m, n, p) for m in (self, self.out_proj) for n, p in m._parameters.items() if isinstance(p, QTensor)]
        for m, n, p in held:
            m._parameters[n] = p.dequantize()  # type: ignore[union-attr, assignment]
        try:
            return nn.MultiheadAttention.forward(self, *args, **options)
        finally:
            for m, n, p in held:
                m._parameters[n] = p

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        options: dict[str, Any] = {"average_attn_weights": average_attn_weights, "is_causal": is_causal}
        given = (query, key, value, key_padding_mask, need_weights, attn_mask)
        if query.dtype in HALF and self.is_quantized:
            made: tuple[Tensor, Tensor | None] = self._wide(*given, **options)
            return made
        if self.training:
            self._for_training()
        if self.training or self.quant_mode in ("float", "weights"):
            return self._real(*given, **options)
        return self._observed(*given, **options) if self.quant_mode == "calibration" else self._on_integers(*given, **options)

    def _observed(self, x: Tensor, *args: Any, **options: Any) -> Any:
        y = self._real(x, *args, **options)
        assert self.input_observer is not None and self.output_observer is not None
        self.input_observer.observe(array(x.float()))
        self.output_observer.observe(array(y[0].float()))
        return y

    def _on_integers(self, *args: Any, **options: Any) -> Any:
        query, key, value, key_padding_mask, need_weights, attn_mask = args  # as `forward` gives them
        given = (query, key, value)
        grad = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (*given, attn_mask))
        plain = key_padding_mask is None and attn_mask is None and not need_weights and query is key is value and query.dim() == 3
        odd = (
            grad or self.bias_k is not None or self.add_zero_attn or any(t.device.type != "cpu" or t.dtype != torch.float32 for t in given)
        )
        if odd or (self.quant_mode == "static" and not (plain and len(self.params) == len(ROLES))):
            return self._real(*args, **options)
        if self.quant_mode == "static":
            return run(self._compiled.get("static", self.graph, self._constants()), query), None
        alone = query.dim() == 2
        q, k, v = (self._heads(self._projected(i, t), alone) for i, t in enumerate(given))
        mask = merged(attn_mask, key_padding_mask, q, alone)
        weights = None
        if need_weights:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            weights = torch.softmax(scores if mask is None else scores + mask, -1)
            y = weights @ v
            weights = weights.mean(1) if options["average_attn_weights"] else weights
        else:
            y = F.scaled_dot_product_attention(q, k, v, mask)
        flat = y.transpose(1, 2).flatten(2)  # (N, L, E)
        out = self._linear("out_proj", self.out_proj.weight, self.out_proj.bias, flat)
        out = out[0] if alone else out if self.batch_first else out.transpose(0, 1)
        return out, None if weights is None else weights[0] if alone else weights

    def _heads(self, x: Tensor, alone: bool) -> Tensor:
        """(N, H, L, E/H)"""
        x = x[None] if alone else x if self.batch_first else x.transpose(0, 1)
        return x.reshape(*x.shape[:-1], self.num_heads, -1).transpose(1, 2)

    def _projected(self, i: int, x: Tensor) -> Tensor:
        part = slice(i * self.embed_dim, (i + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[part].detach()
        weight = self.in_proj_weight[part] if self.in_proj_weight is not None else getattr(self, self.weights[i])
        return self._linear(f"in_proj_{i}", weight, bias, x)

    def _linear(self, key: str, weight: Any, bias: Any, x: Tensor) -> Tensor:
        """A projection whose rows are quantized at run time."""
        layer = Layer("linear", dims("rows", int(weight.shape[1])), weight, bias, "rows")
        made = self._compiled.get(key, layer.graph, self._constants())
        return run(made, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], weight.shape[0])

    def graph(self) -> Graph:
        """Plain self-attention, static: what the layer is in a quantized graph."""
        b, n, t = Builder("attention"), *dims("batch", "time")
        p, e, h = self.params, self.embed_dim, self.num_heads
        x = b.input("x", TensorType((n, t, e) if self.batch_first else (t, n, e), "float32"))
        x = bracket(b, x if self.batch_first else b.add("transpose", x, perm=(1, 0, 2)), p["input"])
        qkv = b.add("linear", x, constant(b, self.in_proj_weight, "in_proj"), constant(b, self.in_proj_bias, "in_proj_bias"))
        qkv = bracket(b, qkv, p["projected"])
        parts = []
        for i in range(3):
            part = b.add("slice", qkv, axes=(2,), starts=(i * e,), ends=((i + 1) * e,), steps=(1,))
            parts.append(b.add("transpose", b.add("reshape", part, shape=(n, t, h, e // h)), perm=(0, 2, 1, 3)))
        y = bracket(b, b.add("attention", *parts, scale=1 / math.sqrt(e // h), causal=False), p["attended"])
        y = b.add("reshape", b.add("transpose", y, perm=(0, 2, 1, 3)), shape=(n, t, e))
        y = b.add("linear", y, constant(b, self.out_proj.weight, "out_proj"), constant(b, self.out_proj.bias, "out_proj_bias"))
        y = bracket(b, y, p.get("output"))
        return b.finish({"y": y if self.batch_first else b.add("transpose", y, perm=(1, 0, 2))})

    def take(self, editor: Editor, node: Node) -> dict[str, str]:
        """One of its two linear layers, told apart by their weights; projections that were split keep their own integers."""
        x, w, bias = (operand(editor, node.input(i)) for i in range(3))
        value = node.inputs[1]
        assert value is not None
        out = ".out_proj." in value.name or value.name.startswith("out_proj.")
        result = find_result(editor, node, False)[1].params
        self.quant_mode = mode_of(x, w)
        if self.quant_mode == "float" or not (out or tuple(w.type.shape) == (3 * self.embed_dim, self.embed_dim)):  # type: ignore[union-attr]
            if self.quant_mode != "float":
                self._to_integers()
            return {}
        owner, weight, b = (self.out_proj, "weight", "bias") if out else (self, "in_proj_weight", "in_proj_bias")
        owned = {Quantized._take(owner, editor, value, w, weight): f"out_proj.{weight}" if out else weight}  # type: ignore[arg-type]
        if bias is not None:
            owned[Quantized._take(owner, editor, node.input(2), bias, b)] = f"out_proj.{b}" if out else b  # type: ignore[arg-type]
        if isinstance(x, Operand):
            self.params["attended" if out else "input"] = x.params
            if result is not None and isinstance(result.granularity, PerTensor):
                self.params["output" if out else "projected"] = result
            self.input_params = self.params.get("input")
        self._compiled.clear()
        return owned

    def get_extra_state(self) -> dict[str, Any]:
        return super().get_extra_state() | {"params": {role: p.to_dict() for role, p in self.params.items()}}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        super().set_extra_state(state)
        self.params = {role: QuantParams.from_dict(p) for role, p in state["params"].items()}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **options: Any) -> None:
        for name in ("weight", "bias"):
            theirs = state_dict.get(f"{prefix}out_proj.{name}")
            if theirs is not None and (isinstance(theirs, QTensor) or isinstance(getattr(self.out_proj, name), QTensor)):
                kept = nn.Parameter(theirs.detach().clone(), requires_grad=not isinstance(theirs, QTensor))
                self.out_proj._parameters[name] = kept
        super()._load_from_state_dict(state_dict, prefix, *args, **options)


def mode_of(x: Any, w: Any) -> Mode:
    """The mode of a layer by its node in the quantized graph."""
    if not isinstance(w, Operand):
        return "float"
    return "static" if isinstance(x, Operand) else "dynamic" if isinstance(x, RowsOperand) else "weights"


def merged(mask: Tensor | None, padding: Tensor | None, q: Tensor, alone: bool) -> Tensor | None:
    """Both masks as one of floats that is added to the scores (N, H, L, S)."""

    def real(m: Tensor) -> Tensor:
        return torch.zeros(m.shape, dtype=q.dtype).masked_fill(m, -math.inf) if m.dtype == torch.bool else m.to(q.dtype)

    total = None
    if mask is not None:
        total = real(mask)
        total = total.reshape(q.shape[0], -1, *total.shape[1:]) if total.dim() == 3 else total[None, None]
    if padding is not None:
        pad = real(padding[None] if alone else padding)[:, None, None]
        total = pad if total is None else total + pad
    return total


def _quantized(module: Quantized, weight: Tensor) -> Any:
    from lowbit.qarray import quantize_array

    return quantize_array(weight.detach().cpu().numpy(), params=module._weight_params("out_proj", weight.detach(), module.plan))
