"""llama.cpp's side of the measurement, run by a Python that has llama-cpp-python and need not have lowbit: JSON lines in and out.

["load", path, threads, context, ids] → seconds until the first token after the ids; ["time", rows, begin] → seconds of so many rows after
`begin` others, in one call; ["steps", count, begin] → seconds of so many tokens one by one; ["peak"] → bytes
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any


def ids_of(count: int, vocabulary: int) -> list[int]:
    return [1 + i % min(4000, vocabulary - 1) for i in range(count)]


def peak() -> int:
    with open("/proc/self/status") as f:
        found = re.search(r"VmHWM:\s+(\d+)", f.read())
    return int(found[1]) << 10 if found else 0


def main() -> None:
    import llama_cpp  # type: ignore[import-not-found, unused-ignore]

    print(json.dumps({"version": llama_cpp.__version__, "peak": peak()}), flush=True)
    model: Any = None
    for line in sys.stdin:
        name, *given = json.loads(line)
        start = time.perf_counter()
        if name == "load":
            path, threads, context, count = given
            model = llama_cpp.Llama(path, n_ctx=context, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False)
            model.eval(ids_of(count, model.n_vocab()))
            answer: float = time.perf_counter() - start
        elif name == "time":
            rows, begin = given
            ids = ids_of(begin + rows, model.n_vocab())
            model.reset()
            if begin:
                model.eval(ids[:begin])
            start = time.perf_counter()
            model.eval(ids[begin:])
            answer = time.perf_counter() - start
        elif name == "steps":
            count, begin = given
            ids = ids_of(begin + count, model.n_vocab())
            model.reset()
            model.eval(ids[:begin])
            start = time.perf_counter()
            for i in ids[begin:]:
                model.eval([i])
            answer = time.perf_counter() - start
        else:
            answer = peak()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
