"""Mutated files against lowbit: `PYTHONPATH=tools python -m fuzz --format onnx --cases 10000`. Exit code 1 where something was found.

Cases run in a process of their own that is limited in memory, so that a crash is a finding too. Case k of a seed is always the same file.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from fuzz.formats import FORMATS, Format

SECONDS = 10.0  # of one case
BYTES = 3 << 30  # address space beside what the interpreter and its libraries have
STEP = 500  # cases of one process


def case(form: Format, seeds: list[bytes], seed: int, k: int) -> bytes:
    """The k-th file of a seed."""
    rng = random.Random(f"{form.name} {seed} {k}")
    return form.mutate(rng, rng.choice(seeds))


def work(form: Format, seed: int, first: int, last: int, keep: Path | None) -> None:
    """Runs cases and prints a line for each finding: its number, and where the exception comes from."""
    import warnings

    import lowbit

    warnings.simplefilter("ignore")
    seeds = form.seeds()
    resource.setrlimit(resource.RLIMIT_AS, (_size() + BYTES,) * 2)
    for k in range(first, last):
        data = case(form, seeds, seed, k)
        print(f"at {k}", flush=True)
        begin = time.process_time()
        try:
            form.use(data)
        except lowbit.LowbitError:
            pass
        except Exception as e:
            frames = [f for f in traceback.extract_tb(e.__traceback__) if "lowbit/" in f.filename]
            at = f"{frames[-1].filename.rpartition('lowbit/')[2]}:{frames[-1].lineno}" if frames else "?"
            _finding(k, f"{type(e).__name__} at {at}: {str(e)[:90]}", data, keep)
        if time.process_time() - begin > SECONDS:
            _finding(k, f"slow: {time.process_time() - begin:.0f} s", data, keep)


def _finding(k: int, what: str, data: bytes, keep: Path | None) -> None:
    print(f"found {k} {' '.join(what.split())}", flush=True)
    if keep is not None:
        (keep / f"{k}.bin").write_bytes(data)


def _size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--format", choices=sorted(FORMATS), action="append", help="default: all")
    parser.add_argument("--cases", type=int, default=1000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for the files of findings")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.keep is not None:
        a.keep.mkdir(parents=True, exist_ok=True)
    if a.worker:
        work(FORMATS[a.format[0]], a.seed, a.first, a.cases, a.keep)
        return 0
    worst = 0
    for name in a.format or sorted(FORMATS):
        found = run(name, a)
        print(f"{name}: {a.cases:,} cases, {sum(found.values()):,} findings")
        for what, n in found.most_common():
            print(f"  {n:5}  {what}")
        worst |= bool(found)
    return worst


def run(name: str, a: argparse.Namespace) -> Counter[str]:
    """Findings of a format, counted by where they come from; a process that dies is one, and the next goes on after its case."""
    found: Counter[str] = Counter()
    k = a.first
    while k < a.first + a.cases:
        last = min(k + STEP, a.first + a.cases)
        words = [sys.executable, "-m", "fuzz", "--worker", "--format", name, "--seed", str(a.seed), "--first", str(k), "--cases", str(last)]
        words += ["--keep", str(a.keep)] if a.keep is not None else []
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=60 + STEP * 2)
            out, code = done.stdout, done.returncode
            if code and "at " not in out:
                raise SystemExit(f"the worker did not begin:\n{done.stderr}")
        except subprocess.TimeoutExpired as e:
            out, code = (e.stdout or b"").decode(), -1
        at = k
        for line in out.splitlines():
            kind, _, rest = line.partition(" ")
            number, _, what = rest.partition(" ")
            if kind == "at":
                at = int(number)
            elif kind == "found":
                found[what.partition(": ")[0] + f"  (first: case {number})" if what not in found else what] += 1
        if code:
            found[f"process ended with {code} at case {at}"] += 1
            last = at + 1
        k = last
    return _grouped(found)


def _grouped(found: Counter[str]) -> Counter[str]:
    """The findings without the numbers of their cases but the first."""
    first: dict[str, str] = {}
    total: Counter[str] = Counter()
    for what, n in found.items():
        place = what.partition("  (first")[0]
        total[first.setdefault(place, what)] += n
    return total


if __name__ == "__main__":
    sys.exit(main())
