"""What the tests of the PyTorch frontend share: functions as modules, random inputs, and the comparison with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lowbit.frontends.torch import load_torch
from lowbit.ir.graph import Graph
from lowbit.ir.interp import run
from lowbit.ir.verify import verify


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *xs: Tensor) -> Any:
        return self.f(*xs)


def tensors(*specs: Any) -> list[Tensor]:
    """(2, 3) is a float tensor of that shape, a tensor is itself."""
    rng = torch.Generator().manual_seed(0)
    return [s if isinstance(s, Tensor) else torch.randn(s, generator=rng) for s in specs]


def assert_same(graph: Graph, model: nn.Module, inputs: list[Tensor], tolerance: float = 1e-5) -> None:
    with torch.no_grad():
        want = model(*inputs)
    flat = [w for w in torch.utils._pytree.tree_leaves(want) if isinstance(w, Tensor)]
    got = list(run(graph, {v.name: x.numpy() for v, x in zip(graph.inputs, inputs, strict=True)}).values())
    assert len(got) == len(flat)
    for g, w in zip(got, flat, strict=True):
        assert g.dtype == w.numpy().dtype and g.shape == tuple(w.shape)
        if w.dtype.is_floating_point:
            np.testing.assert_allclose(g, w.numpy(), rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(g, w.numpy())


def check(model: nn.Module, *specs: Any, tolerance: float = 1e-5) -> Graph:
    inputs = tensors(*specs)
    graph = verify(load_torch(model, tuple(inputs)))
    assert_same(graph, model.eval(), inputs, tolerance)
    return graph


def with_statistics(m: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for name, t in [*m.named_parameters(), *m.named_buffers()]:
        if t.dtype.is_floating_point:
            nn.init.uniform_(t, 0.5, 1.5) if "var" in name else nn.init.normal_(t, std=0.5)
    return m
