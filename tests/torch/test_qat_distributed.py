"""Two processes that train one network (torch.distributed, gloo): their scales stay in step."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process saved; both have ended."""
    folder = tmp_path_factory.mktemp("ddp")
    worker = Path(__file__).parent / "qat_worker.py"
    said = [folder / f"said{rank}.txt" for rank in range(2)]  # files, which never fill up: a pipe that nobody reads would halt its writer
    processes = []
    for rank in range(2):
        with said[rank].open("w") as out:
            command = [sys.executable, str(worker), str(rank), str(folder)]
            processes.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder))
    end = time.monotonic() + 300  # for both together
    try:
        for p in processes:
            p.wait(max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass  # what each of them was doing is said below
    finally:
        codes = [p.poll() for p in processes]
        for p in processes:
            p.kill()
            p.wait()
    assert codes == [0, 0], "\n".join(
        f"--- process {r}: {'still running after 300 s' if c is None else f'ended with {c}'} ---\n{said[r].read_text()}"
        for r, c in enumerate(codes)
    )
    load = [
        torch.load(folder / f"rank{r}.pt", weights_only=True) | {"warm": torch.load(folder / f"warm{r}.pt", weights_only=True)}
        for r in (0, 1)
    ]
    return load


def test_scales_and_weights_are_the_same_bits_in_both_processes(runs: list[dict[str, Any]]) -> None:
    one, two = (r["state"] for r in runs)
    steps = [k for k in one if k.endswith((".step", ".unit", ".zero_point"))]
    assert len(steps) > 10
    for k in one:
        if "running_" not in k:  # batch statistics are each process's own, until the first one's are sent around
            assert torch.equal(one[k], two[k]), k


def test_ranges_are_those_of_all_processes_together(runs: list[dict[str, Any]]) -> None:
    (a, b), warm = (r["seen"] for r in runs), runs[0]["warm"]
    low = 0.9 * min(a[0][0], b[0][0]) + 0.1 * min(a[1][0], b[1][0])
    high = 0.9 * max(a[0][1], b[0][1]) + 0.1 * max(a[1][1], b[1][1])
    assert float(warm["fakes.0.low"]) == pytest.approx(low, rel=1e-6) and float(warm["fakes.0.high"]) == pytest.approx(high, rel=1e-6)


def test_after_the_warm_up_steps_learn_from_both(runs: list[dict[str, Any]]) -> None:
    state, warm = runs[0]["state"], runs[0]["warm"]
    learned = [k for k in state if k.endswith(".step")]
    assert all(bool((warm[k] == 1).all()) for k in learned)
    assert all(not torch.equal(state[k], warm[k]) for k in learned)
    assert all(torch.equal(state[k], warm[k]) for k in state if k.endswith((".unit", ".low", ".high")))
