"""The end of a command while processes work: one word, no traceback of theirs, and none of them left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SCRIPT = """
import multiprocessing, sys, time
from lowbit.cli import VERBS, main
from lowbit.cli.calibrate import workers

def work(args):
    with workers(2) as pool:
        if sys.argv[1] == "at work":
            pool.submit(abs, 1).result()
        tasks = [pool.submit(time.sleep, 300) for _ in range(4)]
        print(*[p.pid for p in multiprocessing.active_children()], flush=True)
        tasks[0].result()

if __name__ == "__main__":
    VERBS["doctor"].main = work
    sys.exit(main(["doctor"]))
"""


@contextmanager
def started(folder: Path, when: str) -> Iterator[subprocess.Popen[str]]:
    """The script in a group of its own, which ends with the test, and which may be interrupted even where a shell started the tests in the
    background: there SIGINT is ignored, and processes inherit that."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    pipe = subprocess.PIPE
    ran = subprocess.Popen(
        [sys.executable, str(script), when],
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield ran
    finally:
        with suppress(ProcessLookupError):
            os.killpg(ran.pid, signal.SIGKILL)
        ran.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="a group of processes is interrupted by a POSIX signal")
@pytest.mark.parametrize("when", ["starting", "at work"])
def test_an_interrupt_with_workers_says_one_word_and_leaves_no_process(tmp_path: Path, when: str) -> None:
    with started(tmp_path, when) as ran:
        assert ran.stdout is not None
        children = [int(pid) for pid in ran.stdout.readline().split()]
        os.killpg(ran.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = ran.communicate(timeout=60)
    assert (ran.returncode, err) == (130, "interrupted\n") and len(children) == 2
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are ended by a POSIX signal")
def test_workers_end_with_a_parent_that_was_told_to_stop(tmp_path: Path) -> None:
    with started(tmp_path, "at work") as ran:
        assert ran.stdout is not None
        children = [int(pid) for pid in ran.stdout.readline().split()]
        os.kill(ran.pid, signal.SIGTERM)  # to the parent alone
        ran.wait(60)
    end = time.monotonic() + 30
    while (left := [pid for pid in children if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(children) == 2 and not left


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
