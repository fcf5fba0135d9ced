"""Ctrl-C while processes work: one word, no traceback of theirs, and none of them left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


@pytest.mark.skipif(sys.platform == "win32", reason="a group of processes is interrupted by a POSIX signal")
@pytest.mark.parametrize("when", ["starting", "at work"])
def test_an_interrupt_with_workers_says_one_word_and_leaves_no_process(tmp_path: Path, when: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(script), when], stdout=pipe, stderr=pipe, text=True, start_new_session=True) as ran:
        assert ran.stdout is not None
        children = [int(pid) for pid in ran.stdout.readline().split()]
        os.killpg(ran.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = ran.communicate(timeout=60)
    assert (ran.returncode, err) == (130, "interrupted\n") and len(children) == 2
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
