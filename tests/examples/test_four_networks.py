"""The trained networks of `examples/`, static int8: PyTorch, the interpreter, the native session and the generated C give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from codegen_tools import Compiled, has
from torch import Tensor

import lowbit
from examples.common.networks import WEIGHTS
from examples.common.training import load_weights
from examples.lstm_ptb import model as lstm
from examples.mlp_mnist import model as mlp
from examples.resnet9_cifar10 import model as resnet9
from examples.transformer_ptb import model as transformer
from lowbit.ir.interp import run
from lowbit.lower import lower
from lowbit.torch import quantize_

COUNT = 2


def images(*shape: int) -> Callable[[int], Tensor]:
    """As the networks see them: mean 0, variance 1, neighbours alike."""
    return lambda seed: torch.randn(COUNT, *shape, generator=torch.Generator().manual_seed(seed)).cumsum(-1) / shape[-1] ** 0.5


def words(length: int) -> Callable[[int], Tensor]:
    return lambda seed: torch.randint(0, 10000, (COUNT, length), generator=torch.Generator().manual_seed(seed))


NETWORKS: dict[str, tuple[Any, str, Callable[[int], Tensor]]] = {
    "mlp_mnist": (mlp, "x", images(784)),
    "resnet9_cifar10": (resnet9, "x", images(3, 32, 32)),
    "lstm_ptb": (lstm, "ids", words(6)),
    "transformer_ptb": (transformer, "ids", words(6)),
}


@pytest.mark.skipif(not has("gcc"), reason="no C compiler")
@pytest.mark.parametrize("name", NETWORKS)
def test_all_backends_give_the_bits_of_the_module(name: str, tmp_path: Path) -> None:
    example, argument, sample = NETWORKS[name]
    data, x, batch = [sample(0), sample(1)], sample(2), {argument: {0: "batch"}}
    model = load_weights(example.build(), WEIGHTS[name])
    graph = lowbit.quantize(
        lowbit.load(model, inputs=(data[0],), dynamic=batch), [{argument: d.numpy()} for d in data], recipe="int8", guard=False
    )
    module = quantize_(load_weights(example.build(), WEIGHTS[name]), "int8", data=data, guard=False, dynamic=batch)
    with torch.no_grad():
        want = module(x).numpy()
    assert lowbit.load(module) == graph  # the module's road and the graph's are one
    session = lowbit.compile(graph)
    assert np.asarray(session(x.numpy())).tobytes() == want.tobytes() and session.backend == "native"
    (interpreted,) = run(lower(graph).graph, {argument: x.numpy()}).values()
    assert interpreted.tobytes() == want.tobytes()
    emitted = lowbit.emit_c(lowbit.load(module, shapes={"batch": COUNT}), tmp_path / "c", float_io=True, measure=False)
    (c,) = Compiled(tmp_path / "c", emitted).run([x.numpy()], [(want.shape, np.float32)])
    assert c.tobytes() == want.tobytes()
