"""What few bits cost a language model: lowbit.llm.quantize beside llama.cpp's quantizer, from the same floats, at the same bytes.

    python benchmarks/llm_quantize.py --llama ~/llamacpp/bin/python [--bits 4.5] [--work FOLDER]
    python benchmarks/llm_quantize.py --llama ~/llamacpp/bin/python --file model.gguf

The floats are those of llm_float_copy.py: SmolLM2-135M with its channels in another order, on no grid. Texts for calibration are the State
of the Union addresses of 2005 to 2011; perplexity is that of 2,048 tokens of the address of 2012, in windows of 256, by lowbit for all
files. llama.cpp gets the same texts as an importance matrix: the mean square of every channel that its layers read.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from llm_float_copy import write_float_copy

from lowbit import llm
from lowbit.blas import one_thread
from lowbit.llm.quantization import make
from lowbit.llm.quantization.block import INPUT_OF, BlockRun, as_raw, moments_of
from lowbit.llm.quantization.source import open_source
from lowbit.llm.quantization.survey import block_of, embedded

sys.path.insert(0, str(Path(__file__).parents[1]))
YEARS = range(2005, 2012)
PEER = """
import ctypes, json, sys
import llama_cpp
import numpy as np

source, target, kind, matrix = sys.argv[1:]
p = llama_cpp.llama_model_quantize_default_params()
p.ftype, p.nthread = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + kind), 2
if matrix:
    found, kept = np.load(matrix), []
    entries = (llama_cpp.llama_cpp.llama_model_imatrix_data * (len(found.files) + 1))()
    for e, name in zip(entries, found.files):
        data = np.ascontiguousarray(found[name], np.float32)
        kept.append(data)
        e.name, e.data, e.size = name.encode(), data.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), data.size
    p.imatrix = ctypes.cast(entries, type(p.imatrix))
sys.exit(llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(p)))
"""


SCORED = """
import json, math, sys
import numpy as np
from llama_cpp import Llama

model, ids, total = Llama(sys.argv[1], n_ctx=512, verbose=False, logits_all=True), json.loads(sys.argv[2]), 0.0
for at in range(0, len(ids) - 1, 256):
    model.reset()
    model.eval(ids[at : at + 257])
    logits = model.scores[:256].astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    total -= (logits[np.arange(256), ids[at + 1 : at + 257]] - np.log(np.exp(logits).sum(axis=1))).sum()
print(math.exp(total / (len(ids) - 1)))
"""


def perplexity(path: Path, count: int = 2048) -> float:
    from zoo import smollm2

    model = llm.load(path)
    ids = model.tokenizer.encode(smollm2.address())[: count + 1]
    scores = [model.score(ids[at : at + 257]) for at in range(0, count, 256)]
    return math.exp(-sum(s.total for s in scores) / sum(len(s.logprobs) for s in scores))


def write_importance(source: Path, target: Path, texts: list[str]) -> None:
    """The mean square of what each matrix reads, in the float network."""
    net = open_source(source)
    ids = make._windows(net, texts)
    x, found = embedded(net, ids), {}
    with one_thread():
        for i in range(net.config.layers):
            block, moments = block_of(net, i), moments_of(net.config)
            x = BlockRun(net.config, i, {n: as_raw(t) for n, t in block.items()}, ids.shape[1], 2, record=True)(x, moments)
            found |= {n: moments[INPUT_OF[n.split(".")[2]]].squares for n, t in block.items() if t.ndim == 2}
    np.savez(target, **found)


def main() -> None:
    from zoo import smollm2

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama", help="a Python with llama-cpp-python")
    parser.add_argument("--formats", default="Q4_K_M", help="of llama.cpp, each beside lowbit at the same bytes")
    parser.add_argument("--bits", default="4.5", help="of further files of lowbit")
    parser.add_argument("--file", type=Path, help="only this file: its perplexity of 1,024 tokens by lowbit and by llama.cpp")
    parser.add_argument("--work", help="a folder for the files, which stay there")
    options = parser.parse_args()
    if options.file is not None:
        ids = llm.load(options.file).tokenizer.encode(smollm2.address())[:1025]
        command = [options.llama or sys.executable, "-c", SCORED, str(options.file), json.dumps(ids)]
        theirs = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        print(f"lowbit {perplexity(options.file, 1024):.3f}  llama.cpp {float(theirs):.3f}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(options.work or temporary)
        work.mkdir(exist_ok=True)
        texts = [smollm2.address(y) for y in YEARS]
        floats, matrix, made = work / "float.gguf", work / "importance.npz", work / "lowbit.gguf"
        if not floats.exists():
            write_float_copy(smollm2.path(), floats)
        weights = sum(math.prod(s) for s in open_source(floats).shapes.values() if len(s) == 2)
        rows = [{"file": "floats", "bytes": floats.stat().st_size, "perplexity": perplexity(floats)}]
        bits = [float(b) for b in options.bits.split(",") if b]
        for kind in options.formats.split(",") if options.llama else []:
            if not matrix.exists():
                write_importance(floats, matrix, texts)
            for given in ("", str(matrix)):
                theirs = work / f"{kind}{'-imatrix' if given else ''}.gguf"
                command = [options.llama, "-c", PEER, str(floats), str(theirs), kind, given]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                name = f"llama.cpp {kind}{', importance matrix' if given else ''}"
                rows.append({"file": name, "bytes": theirs.stat().st_size, "perplexity": perplexity(theirs)})
            others = floats.stat().st_size - 4 * weights  # header, norms
            bits.append(math.floor(1e4 * 8 * (rows[-1]["bytes"] - others) / weights) / 1e4)
        for b in bits:
            for given in (texts, None):
                file = llm.quantize(floats, made, bits=b, texts=given)
                name = f"lowbit, {file.bits:.3f} bits{'' if given else ', no texts'}"
                rows.append({"file": name, "bytes": file.nbytes, "perplexity": perplexity(made), "seconds": round(file.seconds)})
                print(json.dumps({**rows[-1], "counts": file.counts}), flush=True)
        for r in rows:
            print(f"{r['file']:40} {r['bytes']:>12,} bytes   perplexity {r['perplexity']:.3f}", flush=True)


if __name__ == "__main__":
    main()
