"""The networks that benchmarks/models.py runs, in full size with seeded weights, and lowbit's quantized graphs of them.

Everything that takes time to make (exports, quantized graphs, expected outputs) is kept under LOWBIT_CACHE (default ~/.cache/lowbit) in
models/, lowbit's under a digest of the sources that decide what is in it.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from zoo.fetch import cache  # noqa: E402 (zoo/ is beside this folder)

Sample = dict[str, NDArray[Any]]
VERSION = 1  # of the networks and their data: another number makes everything anew
CALIBRATION, TEST = 4, 2  # samples
VARIANTS = ("int8", "int8-dynamic", "w4a8", "fp32")
# What lies behind the quantized graph does not decide what is in it.
BEHIND = ("plan", "runtime", "report", "cli", "hardware", "export", "codegen", "search", "torch", "demo", "qarray")


@dataclass(frozen=True)
class Case:
    """A network and what it reads: shapes by argument, with the vocabulary of token ids, or 0 where it reads ones."""

    name: str
    build: Callable[[], Any]
    inputs: dict[str, tuple[tuple[int, ...], int | None]]
    rows: bool = False  # made of linear and recurrent layers: quantizing activations as they come makes sense
    old_exporter: bool = False  # which writes recurrent layers as one node

    @property
    def folder(self) -> Path:
        path = cache() / "models" / f"{self.name}-{VERSION}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(v for v in VARIANTS if self.rows or v != "int8-dynamic")

    def module(self) -> Any:
        import torch

        from zoo import randomize

        torch.manual_seed(0)
        return randomize(self.build()).eval()

    def samples(self) -> list[Sample]:
        """The data: to calibrate with, and behind it to test with."""
        rng = np.random.default_rng(0)

        def array(shape: tuple[int, ...], vocabulary: int | None) -> NDArray[Any]:
            if vocabulary is None:
                return rng.standard_normal(shape, np.float32)
            return rng.integers(0, vocabulary, shape) if vocabulary else np.ones(shape, np.int64)

        return [{k: array(*spec) for k, spec in self.inputs.items()} for _ in range(CALIBRATION + TEST)]

    @property
    def calibration(self) -> list[Sample]:
        return self.samples()[:CALIBRATION]

    @property
    def test(self) -> list[Sample]:
        return self.samples()[CALIBRATION:]

    def onnx(self) -> Path:
        """The network as an ONNX file, simplified by nobody."""
        path = self.folder / "model.onnx"
        if not path.is_file():
            from accuracy_cases import exported

            write(path, exported(self.module(), self.samples()[0], self.old_exporter))
        return path

    def reference(self) -> NDArray[Any]:
        """What PyTorch gives in float32 on the test data."""
        path = self.folder / "float.npy"
        if not path.is_file():
            import torch

            model = self.module()
            with torch.no_grad():
                rows = [model(**{k: torch.from_numpy(v) for k, v in s.items()}).numpy() for s in self.test]
            np.save(path, np.stack(rows))
        found: NDArray[Any] = np.load(path)
        return found


def image(name: str, build: Callable[[], Any], *shape: int, **more: Any) -> Case:
    return Case(name, build, {"x": (shape, None)}, **more)


def tokens(name: str, build: Callable[[], Any], length: int, vocabulary: int, mask: bool = False, **more: Any) -> Case:
    ids: dict[str, tuple[tuple[int, ...], int | None]] = {"ids": ((1, length), vocabulary)}
    return Case(name, build, ids | ({"mask": ((1, length), 0)} if mask else {}), rows=True, **more)


def resnet(bottleneck: bool, depths: tuple[int, ...]) -> Any:
    from zoo import BasicBlock, Bottleneck, ResNet

    return ResNet(Bottleneck if bottleneck else BasicBlock, depths)


def made(name: str, *arguments: Any) -> Callable[[], Any]:
    def build() -> Any:
        import zoo
        import zoo.bert

        return (getattr(zoo, name, None) or getattr(zoo.bert, name))(*arguments)

    return build


CASES = {
    c.name: c
    for c in [
        image("dscnn", made("DSCNN"), 1, 1, 49, 10),
        image("mlp", made("MLP", (784, 512, 512, 10)), 1, 784, rows=True),
        image("mlp-64", made("MLP", (784, 512, 512, 10)), 64, 784, rows=True),
        image("resnet18", lambda: resnet(False, (2, 2, 2, 2)), 1, 3, 224, 224),
        image("mobilenetv2", made("MobileNetV2"), 1, 3, 224, 224),
        image("resnet50", lambda: resnet(True, (3, 4, 6, 3)), 1, 3, 224, 224),
        tokens("lstm", made("RNNLanguageModel", "lstm", 10_000, 512, 512, 2), 35, 10_000, old_exporter=True),
        tokens("minilm", made("SentenceEncoder"), 128, 30_522, mask=True),
        tokens("gpt", made("GPT", 8192, 128, 512, 8, 6), 128, 8192),
    ]
}


def write(path: Path, data: bytes) -> None:
    """The file, whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


@once
def digest() -> str:
    """Of the sources that decide what a quantized graph holds, and what it gives."""
    source = ROOT / "src" / "lowbit"
    files = [p for p in sorted(source.rglob("*.py")) if p.relative_to(source).parts[0] not in BEHIND]
    return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:12]


def graph_path(case: Case, variant: str, guard: bool) -> Path:
    return case.folder / f"lowbit-{variant}{'-guard' if guard and variant != 'fp32' else ''}-{digest()}.lowbit"


def prepare(case: Case, variant: str, guard: bool) -> None:
    """lowbit's graph of the variant and the outputs that it must give, into the cache."""
    path = graph_path(case, variant, guard)
    expected = path.with_suffix(".npy")
    if path.is_file() and expected.is_file():
        return
    import lowbit
    from lowbit.ir.interp import run
    from lowbit.lower import lower

    floats = case.folder / f"lowbit-fp32-{digest()}.lowbit"
    if not floats.is_file():
        forget(case, "fp32", guard)
        graph = lowbit.load(case.module(), inputs=case.samples()[0])
        graph.save(floats)
    else:
        graph = lowbit.load(floats)
    if variant != "fp32":
        forget(case, variant, guard)
        data = case.calibration if variant != "int8-dynamic" else None
        graph = lowbit.quantize(graph, data, recipe=variant, guard=guard)
        graph.save(path)
    integer = lower(graph).graph
    np.save(expected, np.stack([next(iter(run(integer, s).values())) for s in case.test]))


def forget(case: Case, variant: str, guard: bool) -> None:
    """Removes what other sources made, a day after: another tree may be at work with it."""
    stem = graph_path(case, variant, guard).name.removesuffix(f"{digest()}.lowbit")
    for old in case.folder.glob(f"{stem}????????????.*"):
        if time.time() - old.stat().st_mtime > 86400:
            old.unlink()
