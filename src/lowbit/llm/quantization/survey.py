"""How much noise each matrix brings into the network when it alone is rounded: measured block by block on a few texts.

The noise of a block's matrix is the mean, over tokens, of ‖y' − y‖² / ‖y‖² for the hidden states y after the block, with that matrix
rounded (y') and without. A table of tokens is measured where it is read and where it makes logits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lowbit.llm.quantization.block import INPUT_OF, BlockRun, Moments, as_raw, moments_of
from lowbit.llm.quantization.budget import Matrix
from lowbit.llm.quantization.encode import fit
from lowbit.llm.quantization.source import Source
from lowbit.numerics import F32
from lowbit.progress import progress

TOKENS = 512  # that the survey reads
TABLE_ROWS = 2048  # of a table of tokens that are measured
# Noise of matrices where no texts are given, relative to each other: what this survey found for SmolLM2-135M, on average.
USUAL = {"attn_q": 0.2, "attn_k": 0.2, "attn_v": 0.9, "attn_output": 0.3, "ffn_gate": 0.6, "ffn_up": 1.0, "ffn_down": 1.0}
OTHERS = 80.0  # tables of tokens


def without_texts(source: Source) -> dict[str, Matrix]:
    """Relative noise by the layers' names."""
    return {name: Matrix(shape, USUAL.get(name.split(".")[-2], OTHERS)) for name, shape in source.shapes.items() if len(shape) == 2}


def survey(source: Source, ids: np.ndarray, threads: int) -> dict[str, Matrix]:
    """The noise of every matrix on texts ids (windows, length)."""
    length = ids.shape[1]
    few = ids[: max(1, TOKENS // length)]
    x = embedded(source, few)
    found: dict[str, Matrix] = {}
    for i in progress(range(source.config.layers), "measuring blocks"):
        x = _block(source, i, x, threads, found)
    last = normalized(source, x).reshape(-1, source.config.width)
    moments = Moments(source.config.width)
    moments.add_all(last)
    tied = "output.weight" not in source.shapes
    for name in ("token_embd.weight", "output.weight"):
        if name in source.shapes:
            shape = source.shapes[name]
            rows = source.rows(name, 0, shape[0])[:: max(1, shape[0] // TABLE_ROWS)]
            grid = fit(Matrix(shape, 0).formats[0], rows, moments.squares)
            error = grid.real(grid.round(rows)) - rows
            read = float((np.square(error).sum(axis=1) / np.maximum(np.square(rows).sum(axis=1), 1e-30)).mean())
            made, whole = (float(np.square(m @ last.T).sum()) for m in (error, rows - rows.mean(axis=0)))
            noise = (read if name == "token_embd.weight" else 0.0) + (made / whole if tied or name == "output.weight" else 0.0)
            found[name] = Matrix(shape, noise)
    return found


def _block(source: Source, i: int, x: F32, threads: int, found: dict[str, Matrix]) -> F32:
    tensors = block_of(source, i)
    raw = {n: as_raw(t) for n, t in tensors.items()}
    moments = moments_of(source.config)
    y = BlockRun(source.config, i, raw, x.shape[1], threads, record=True)(x, moments)
    size = np.maximum(np.square(y).sum(axis=-1), 1e-30)
    for name, t in tensors.items():
        if t.ndim == 2:
            grid = fit(Matrix(t.shape, 0).formats[0], t, moments[INPUT_OF[name.split(".")[2]]].squares)
            rounded = {**raw, name: as_raw(grid.real(grid.round(t)))}
            z = BlockRun(source.config, i, rounded, x.shape[1], threads)(x)
            found[name] = Matrix(t.shape, float((np.square(z - y).sum(axis=-1) / size).mean()))
    return y


def block_of(source: Source, i: int) -> dict[str, F32]:
    """The tensors of block i, as floats."""
    return {n: source.real(n) for n in source.shapes if n.startswith(f"blk.{i}.")}


def embedded(source: Source, ids: np.ndarray, table: F32 | None = None) -> F32:
    """The hidden states that the first block reads, from the source's table or from rows that are given for the ids in order."""
    c = source.config
    if table is None:
        rows = {int(i): source.rows("token_embd.weight", int(i), int(i) + 1)[0] for i in _distinct(ids)}
        table = np.stack([rows[int(i)] for i in ids.reshape(-1)])
    return (table.reshape(*ids.shape, c.width) * np.float32(c.embedding_scale)).astype(np.float32)


def _distinct(ids: np.ndarray) -> Iterable[int]:
    return (int(i) for i in np.unique(ids))


def normalized(source: Source, x: F32) -> F32:
    """The last hidden states after the last norm."""
    w = source.real("output_norm.weight")
    return np.asarray(x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(source.config.eps)) * w, np.float32)
