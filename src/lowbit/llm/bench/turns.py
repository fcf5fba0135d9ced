"""Takes the times of both engines in turns, so that they meet the same neighbours on the machine. The least time of all rounds counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lowbit.errors import InputError

PEER = "llama.cpp"
INSTALL = "pip install 'lowbit[bench]' (llama-cpp-python), or --peer-python PATH of a Python that has it"
FIRST = 16  # tokens of the prompt of the first token
STEPS = 16  # tokens that are made one by one
DECODE_AT = 128  # tokens before them
PREFILLS = (128, 512)
LOAD, LOADS = "load to first token", 3


class Engine:
    """A process that is asked by JSON lines."""

    def __init__(self, name: str, command: Sequence[str], hint: str) -> None:
        self.name, self.hint = name, hint
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except OSError as e:
            raise InputError(f"{name} cannot be started: {e.strerror or e}", where=command[0], hint=hint) from None
        self.about: dict[str, Any] = self._answer()

    def ask(self, *what: object) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # its answer says why
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        said = self.process.stderr.read().strip().splitlines()
        raise InputError(f"{self.name} ended: {said[-1][:300] if said else 'it said nothing'}", hint=self.hint)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def engines(peer_python: str | None) -> Iterator[list[Engine]]:
    """lowbit, and llama.cpp by a Python that has it."""
    with ExitStack() as stack:
        found = []
        script = str(Path(__file__).with_name("peer_llama_cpp.py"))
        commands = {"lowbit": [sys.executable, "-m", "lowbit.llm.bench.engine"], PEER: [peer_python or sys.executable, script]}
        for name, command in commands.items():
            engine = Engine(name, command, INSTALL if name == PEER else "lowbit doctor")
            stack.callback(engine.close)
            found.append(engine)
        yield found


def measured(path: str, threads: int, rounds: int, context: int, peer_python: str | None) -> dict[str, Any]:
    """Milliseconds (the least), ratios lowbit / llama.cpp, peak memory and the time from load to the first token."""
    prefills = [n for n in PREFILLS if n <= context]
    at = min(DECODE_AT, context // 2)
    steps = min(STEPS, context - at)
    cases = {"a token": ("steps", steps, at, steps), **{f"prompt of {n}": ("time", n, 0, 1) for n in prefills}}
    times: dict[str, dict[str, float]] = {case: {} for case in (LOAD, *cases)}

    def take(case: str, name: str, ms: float) -> None:
        times[case][name] = min(ms, times[case].get(name, ms))

    for _ in range(min(LOADS, rounds) - 1):  # a process loads once, so that the peak of memory is that of one load
        with engines(peer_python) as both:
            for e in both:
                take(LOAD, e.name, 1e3 * e.ask("load", path, threads, context, min(FIRST, at)))
    with engines(peer_python) as both:
        for e in both:
            take(LOAD, e.name, 1e3 * e.ask("load", path, threads, context, min(FIRST, at)))
        for _ in range(rounds):
            for case, (what, rows, begin, count) in cases.items():
                for e in both:
                    take(case, e.name, 1e3 * e.ask(what, rows, begin) / count)
        peaks = {e.name: e.ask("peak") for e in both}
        about = {e.name: e.about for e in both}
    found = [{"what": case, "ms": t, "ratio": t["lowbit"] / t[PEER]} for case, t in times.items()]
    return {
        "threads": threads,
        "rows": found,
        "peak_bytes": peaks,
        "peak_ratio": peaks["lowbit"] / peaks[PEER] if peaks[PEER] else None,
        "bytes_after_imports": {n: a["peak"] for n, a in about.items()},
        "versions": {n: a["version"] for n, a in about.items()},
    }
