"""One process of distributed training (test_qat_distributed.py): python qat_worker.py <rank> <folder>."""

from __future__ import annotations

import faulthandler
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lowbit.torch.qat import prepare_qat

STEPS, WARMUP = 5, 2


class Joined(nn.Module):
    """Two convolutions whose results are joined: their grid is one, seen twice in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.bn, self.b = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(8 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(torch.cat([torch.relu(self.bn(self.a(x))), self.b(x)], 1).flatten(1))
        return y


def main(rank: int, folder: Path) -> None:
    faulthandler.dump_traceback_later(240)  # where it waits, if it waits
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(0)
    qat = prepare_qat(Joined(), inputs=(torch.zeros(2, 3, 6, 6),), dynamic={"x": {0: "batch"}}, warmup=WARMUP, freeze_bn=3)
    network = DistributedDataParallel(qat.train())
    optimizer = torch.optim.SGD(network.parameters(), 0.05)
    seen = []
    for i in range(STEPS):
        torch.manual_seed(100 * rank + i)
        x, y = torch.randn(4, 3, 6, 6) * (1 + rank), torch.randint(0, 3, (4,))
        seen.append((float(x.min()), float(x.max())))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
        if i == WARMUP - 1:
            torch.save({k: v.clone() for k, v in qat.state_dict().items()}, folder / f"warm{rank}.pt")
    torch.save({"state": qat.state_dict(), "seen": seen}, folder / f"rank{rank}.pt")
    # A process that leaves while the other still holds the connection can make it wait for ever: both let go together.
    del network, optimizer
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
