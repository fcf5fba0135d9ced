"""Writes and executes examples/quantization_demo.ipynb: `make notebook`. The cells stand here; the notebook has their outputs.

python tools/make_notebook.py [--out FILE]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "quantization_demo.ipynb"

CELLS: list[tuple[str, str]] = [
    ("text", """# Quantization with lowbit

A quantized number is an integer and what it stands for: **real = scale × (q − zero_point)**. Weights are rounded once. Activations are
rounded with scales that are known beforehand (*static*, learned from calibration data) or computed at run time (*dynamic*)."""),
    ("code", """%matplotlib inline
import time, warnings
import numpy as np, torch, matplotlib.pyplot as plt
import lowbit, lowbit.torch as lt
from examples.common.networks import NAMES, networks
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
print(lowbit.QuantizationSystem())"""),
    ("text", "## Arrays: there and back\n\nThe error of a round trip is at most half a step; its histogram is flat."),
    ("code", """x = rng.standard_normal((256, 256)).astype(np.float32)
fig, axes = plt.subplots(1, 3, figsize=(10, 2.5))
for ax, dtype in zip(axes, ("int8", "uint8", "int4")):
    q = lowbit.quantize_array(x, dtype)
    ax.hist((x - q.dequantize()).ravel(), bins=60)
    ax.set_title(f"{dtype}: {q.sqnr_db:.1f} dB, {q.nbytes:,} bytes", fontsize=9)
    ax.set_xlabel(f"error (step {float(q.quant_params.scale):.3g})", fontsize=8)
plt.tight_layout()
lowbit.array(x).quantize_uint8(0.03, 128).quant_params, lowbit.array(x).astype("int4").original_dtype.name"""),
    ("text", "## Products\n\nTwo quantized arrays multiply as integers, exactly; the result is float32."),
    ("code", """a, b = lowbit.quantize_array(x), lowbit.quantize_array(x.T, granularity=lowbit.PerAxis(1))
exact = a.ints.astype(np.int64) @ b.ints.astype(np.int64)
print("integers exact:", np.allclose(a @ b, exact * (a.quant_params.scale * b.quant_params.scale), rtol=1e-6))
for dtype in ("int8", "int4", "binary"):
    qa, qb = lowbit.quantize_array(x, dtype), lowbit.quantize_array(x.T, dtype)
    print(f"{dtype:7} product {lowbit.sqnr_db(x @ x.T, qa @ qb):5.1f} dB")"""),
    ("text", "## Automatic dequantization\n\nEvery other function sees the floats."),
    ("code", """q = lowbit.quantize_array(x[:2, :4])
print(type(q + 1).__name__, np.mean(q).dtype, np.concatenate([q, x[:1, :4]]).shape)
t = lt.quantize_int8(torch.from_numpy(x[:2, :4]))
print(torch.softmax(t, 1).dtype, type(t.T).__name__)"""),
    ("text", "## Layers\n\nA layer decides by itself: integers in eval, float32 with gradients in training."),
    ("code", """torch.manual_seed(0)
layer = lt.Linear(256, 64).eval()
batch = torch.randn(16, 256)
want = layer(batch).detach()
weight = layer.weight
layer.quantize_weights()
print("dynamic:", layer.quant_mode, f"{lowbit.sqnr_db(want.numpy(), layer(batch).detach().numpy()):.1f} dB")
layer.dequantize_weights(); layer.start_calibration(); layer(batch); layer.quantize_weights()
print("static: ", layer.quant_mode, f"{lowbit.sqnr_db(want.numpy(), layer(batch).detach().numpy()):.1f} dB")
layer.train()(batch).sum().backward()
print("training has the very weights again:", layer.weight is weight, "with a gradient:", weight.grad is not None)"""),
    ("text", """## Four networks

MLP on MNIST, ResNet-9 on CIFAR-10, an LSTM and a Transformer on Penn Treebank, each with its trained weights: float, dynamic int8, static
int8 (calibrated on six batches, without repairs) and w4a8. Scores are of the first part of the test set, so that the notebook is quick;
docs/results.md has the whole sets. Times are the least of seven runs on one thread of the machine that ran this notebook."""),
    ("code", """ROWS = {"mlp_mnist": 4, "resnet9_cifar10": 4, "lstm_ptb": 2, "transformer_ptb": 2}   # test batches
WAYS = {"float": None, "int8-dynamic": None, "int8": "static", "w4a8": "static"}

def graph_of(net):
    return lowbit.load(net.model, inputs=(net.train()[0][0],), dynamic={net.argument: {0: "batch"}})

def made(graph, way, samples, **options):
    if way == "float":
        return graph
    if WAYS[way] is None:
        return lowbit.quantize(graph, recipe=way)
    return lowbit.quantize(graph, samples, recipe=way, guard=False, **options)

def measured(net, graph, batches):
    session = lowbit.compile(graph, threads=1)
    score = net.score(lambda t: torch.from_numpy(session(t.numpy())), batches)
    one = batches[0][0][:net.timed].numpy()
    times = []
    for _ in range(7):
        start = time.perf_counter(); session(one); times.append(1e3 * (time.perf_counter() - start))
    return score, min(times), graph.parameter_bytes

results, graphs = {}, {}
for name in NAMES:
    (net,) = networks([name])
    graph = graph_of(net)
    samples = [{graph.inputs[0].name: x.numpy()} for x, _ in net.train()[:6]]
    batches = net.test()[:ROWS[name]]
    print(f"{net.name} ({net.metric})")
    for way in WAYS:
        q = made(graph, way, samples)
        results[net.name, way] = measured(net, q, batches)
        score, ms, size = results[net.name, way]
        print(f"  {way:13} {score:8.2f}   {ms:7.3f} ms   {size / 1e6:6.2f} MB")
    graphs[name] = graph, samples, batches, net"""),
    ("code", """nets = list(dict.fromkeys(n for n, _ in results))
fig, axes = plt.subplots(1, 3, figsize=(12, 3.2))
for ax, i, title in zip(axes, (1, 2, 0), ("latency ÷ float", "memory ÷ float", "score ÷ float")):
    for k, way in enumerate(WAYS):
        ax.bar(np.arange(len(nets)) + 0.2 * k, [results[n, way][i] / results[n, "float"][i] for n in nets], 0.2, label=way)
    ax.set_xticks(np.arange(len(nets)) + 0.3, [n.split(",")[0] for n in nets], fontsize=8)
    ax.set_title(title + (" (perplexities: lower is better)" if i == 0 else ""), fontsize=9); ax.axhline(1, lw=0.5, c="k")
axes[0].legend(fontsize=7); plt.tight_layout()"""),
    ("text", "## Calibration methods\n\nThe MLP with static int8, by each method, and by a function of one's own."),
    ("code", """graph, samples, batches, net = graphs["mlp_mnist"]
def inner(values):
    return float(np.quantile(values, 0.001)), float(np.quantile(values, 0.999))
for method in ("minmax", "moving-average", "percentile", "entropy", "mse", "adaptive", inner):
    q = made(graph, "int8", samples, method=method)
    x0 = batches[0][0].numpy()
    db = lowbit.sqnr_db(lowbit.compile(graph)(x0), lowbit.compile(q)(x0))
    print(f"{getattr(method, '__name__', method):15} {measured(net, q, batches)[0]:6.2f} %   {db:5.1f} dB")"""),
    ("text", "## A GPU, where there is one"),
    ("code", """def on_gpu(way):   # float, dynamic or static: milliseconds and the most bytes
    model = networks(["mlp_mnist"])[0].model.eval()
    if way != "float":
        model = lt.quantize_(model, {"dynamic": "int8-dynamic", "static": "int8"}[way])
    if way == "static":
        lt.calibrate(model, [batches[0][0]])
    model, x = model.cuda(), batches[0][0].cuda()
    with torch.no_grad():
        model(x); torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()
        t = time.perf_counter()
        for _ in range(20): model(x)
        torch.cuda.synchronize()
    return (time.perf_counter() - t) * 50, torch.cuda.max_memory_allocated()
if torch.cuda.is_available():
    for way in ("float", "dynamic", "static"):
        print("{:8} {:8.3f} ms   {:12,} bytes at most".format(way, *on_gpu(way)))
else:
    print("no GPU was there: nothing was measured on one")"""),
    ("text", "## The same bits in C\n\nThe static MLP as C, compiled with every warning an error, and compared with the session."),
    ("code", """import ctypes, pathlib, subprocess, tempfile
from lowbit.ir.bind import bind
q = bind(made(graph, "int8", samples), {"batch": 1})
folder = pathlib.Path(tempfile.mkdtemp()) / "mlp"
emitted = lowbit.emit_c(q, folder, float_io=True, measure=False)
files = [str(p) for p in folder.rglob("*.c") if p.name != "selftest.c" and p.parent.name != "board"]
flags = "-std=c11 -O2 -Wall -Wextra -Werror -ffp-contract=off -shared -fPIC".split()
subprocess.run(["cc", *flags, *files, "-o", str(folder / "m.so")], check=True)
run = ctypes.CDLL(str(folder / "m.so")).model_run_in
arena = np.zeros(emitted.arena_bytes + 64, np.uint8)
start = -arena.ctypes.data % 64
session = lowbit.compile(q)
same = 0
for image in batches[0][0][:100].numpy():
    y = np.zeros((1, 10), np.float32)
    x1 = np.ascontiguousarray(image[None])
    run(ctypes.c_void_p(arena.ctypes.data + start), x1.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p))
    same += np.array_equal(y, session(x1))
print(f"{same} of 100 images have the same bits; {emitted.weight_bytes:,} bytes of weights, {emitted.arena_bytes:,} of RAM")
assert same == 100"""),
]  # fmt: skip


def notebook() -> nbformat.NotebookNode:
    """The notebook without outputs; the same text gives the same bytes."""
    made = nbformat.v4.new_notebook()
    make = {"text": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    made.cells = [make[kind](text) for kind, text in CELLS]
    for i, cell in enumerate(made.cells):
        cell["id"] = f"cell-{i}"
    made.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return made


def execute(made: nbformat.NotebookNode) -> float:
    """Runs every cell from the top in the repository's folder; the seconds it took."""
    start = time.monotonic()
    NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    for cell in made.cells:
        cell.get("metadata", {}).pop("execution", None)
    return time.monotonic() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=NOTEBOOK)
    out = parser.parse_args().out
    book = notebook()
    seconds = execute(book)
    nbformat.write(book, out)
    print(f"{out}: {len(book.cells)} cells in {seconds:.0f} s")
