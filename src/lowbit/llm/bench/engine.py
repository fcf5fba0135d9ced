"""lowbit's side of the measurement: the same JSON lines as peer_llama_cpp.py. Logits are made for the last row of a call."""

from __future__ import annotations

import json
import sys
import time

from lowbit import __version__
from lowbit.llm.bench.peer_llama_cpp import ids_of, peak
from lowbit.llm.cache import Pages
from lowbit.llm.model import Model, load
from lowbit.llm.runner import MOST_ROWS


class Run:
    """One sequence, read from its beginning."""

    def __init__(self, model: Model) -> None:
        self.runner = model.runner
        self.row, self.at = 0, 0
        self.pages = Pages(self.runner.pool, self.runner.table, self.row)

    def read(self, ids: list[int]) -> None:
        for begin in range(0, len(ids), MOST_ROWS):
            part = ids[begin : begin + MOST_ROWS]
            self.pages.reserve(len(part))
            hidden = self.runner.hidden(part, range(self.at, self.at + len(part)), [self.row] * len(part))
            self.at += len(part)
        self.runner.logits(hidden[-1:])

    def close(self) -> None:
        self.pages.close()


def main() -> None:
    print(json.dumps({"version": __version__, "peak": peak()}), flush=True)
    model: Model | None = None
    for line in sys.stdin:
        name, *given = json.loads(line)
        start = time.perf_counter()
        if name == "peak":
            print(json.dumps(peak()), flush=True)
            continue
        if name == "load":
            path, threads, context, count = given
            model = load(path, threads=threads, context=context, sequences=1)
            begin, rows, steps = 0, count, False
        else:
            (rows, begin), steps = given, name == "steps"
        assert model is not None
        ids = ids_of(begin + rows, model.config.vocabulary)
        run = Run(model)
        if begin:
            run.read(ids[:begin])
        if name != "load":
            start = time.perf_counter()
        for part in [[i] for i in ids[begin:]] if steps else [ids[begin:]]:
            run.read(part)
        answer = time.perf_counter() - start
        run.close()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
