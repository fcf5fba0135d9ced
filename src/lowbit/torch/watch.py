"""Whether a converted model still is what its graph was made from: its modules, their modes, and the numbers of their parameters."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lowbit.torch.params import version
from lowbit.torch.qtensor import QTensor

SAMPLE = 1024  # numbers of a float tensor that are looked at in every call


class Watch:
    """The state of a model when its graph was made: classes, modes and checksums. Copies and state dicts hold it."""

    def __init__(self, seen: Mapping[str, str] | None = None) -> None:
        self.seen = seen
        self._hooks: Mapping[str, int] | None = None
        self._stamp: tuple[list[Any], list[Any]] | None = None
        self._said: str | None = None
        self._called: str | None = None

    def __deepcopy__(self, memo: Any) -> Watch:
        return Watch(self.seen)

    def __reduce__(self) -> Any:
        return Watch, (self.seen,)

    def settle(self, model: nn.Module) -> None:
        """The model is right as it is now."""
        self.seen, self._hooks, self._stamp, self._said, self._called = look(model), hooks(model), stamp(model), None, None

    def change(self, model: nn.Module) -> str | None:
        """The changes since then, in words. Numbers are read again only if something was written or replaced."""
        self._look_again(model)
        return self._said

    def hooked(self, model: nn.Module) -> str | None:
        """In words, that modules have hooks which they had not: the graph is right, but they would not be called."""
        self._look_again(model)
        return self._called

    def _look_again(self, model: nn.Module) -> None:
        now = stamp(model)
        if self._stamp is None or not same(now, self._stamp):
            found = look(model)
            self.seen = found if self.seen is None else self.seen
            self._hooks = hooks(model) if self._hooks is None else self._hooks
            self._said, self._called, self._stamp = difference(self.seen, found), more_hooks(self._hooks, hooks(model)), now


def stamp(model: nn.Module) -> tuple[list[Any], list[Any]]:
    """Modules, classes and tensors as they stand, and what changes when a tensor is written: cheap, for it is asked at every call."""
    objects: list[Any] = []
    counts: list[Any] = []
    left: list[nn.Module | None] = [model]
    while left:
        m = left.pop()
        if m is None:
            continue
        objects += (m, type(m))
        counts += (m.__dict__.get("quant_mode"), 0 if m is model else len(m._forward_hooks) + len(m._forward_pre_hooks))
        left.extend(m._modules.values())
        for t in (*m._parameters.values(), *m._buffers.values()):
            if isinstance(t, QTensor):  # copy_ writes all of it, and nothing gives its tensors other memory
                objects.append(t._data)
                counts.append(version(t._data))
            elif t is not None:
                objects.append(t)
                counts += (version(t), t.data_ptr(), sample(t))
    return objects, counts


def sample(t: Tensor) -> bytes:
    """Some of a tensor's numbers, all of a small one's: `.data` gives others its memory, and no version tells what they write."""
    if t.device.type != "cpu" or t.layout != torch.strided:
        return b""
    flat = t.detach().reshape(-1) if t.is_contiguous() else t.detach().select(0, 0).reshape(-1)
    some = flat[:: max(1, flat.numel() // SAMPLE)]
    return some.contiguous().view(torch.uint8).numpy().tobytes()


def hooks(model: nn.Module) -> dict[str, int]:
    """How many hooks see each module's forward, by its path: a graph would pass them by. The root's own are called as always."""
    return {path: len(m._forward_hooks) + len(m._forward_pre_hooks) for path, m in model.named_modules() if path}


def more_hooks(before: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    for path, count in now.items():
        if count > before.get(path, 0):
            return f"{path!r} has a hook, which sees its forward"
    return None


def same(a: tuple[list[Any], list[Any]], b: tuple[list[Any], list[Any]]) -> bool:
    return a[1] == b[1] and len(a[0]) == len(b[0]) and all(map(operator.is_, a[0], b[0]))


def parts(t: Tensor | None) -> tuple[Tensor, ...]:
    return () if t is None else (t._data, t._scale, t._zero_point) if isinstance(t, QTensor) else (t,)


def look(model: nn.Module) -> dict[str, str]:
    """Class and mode of each module by its path, and a checksum for each tensor of a state dict."""
    seen = {}
    for path, m in model.named_modules(remove_duplicate=False):
        seen[path] = " ".join([type(m).__name__ if path else "", m.__dict__.get("quant_mode", "")]).strip()
        for name, t in tensors(m):
            seen[f"{path}.{name}" if path else name] = checksum(t)
    return seen


def tensors(m: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, t in (*m._parameters.items(), *m._buffers.items()):
        if t is not None and name not in m._non_persistent_buffers_set:
            yield name, t


def checksum(t: Tensor) -> str:
    made = 0
    for part in parts(t):
        if not part.is_meta:
            memory: Any = part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            made = zlib.crc32(memory, made)
    return f"{made:08x} {list(t.shape)}"


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first difference, in words."""
    for path in (*now, *before):
        a, b = before.get(path), now.get(path)
        if a == b:
            continue
        if a is None or b is None:
            return f"{path!r} is {'new' if a is None else 'gone'}"
        number = a.endswith("]")
        return f"{path!r} has other numbers" if number else f"{path!r} is {b or 'a module'}, and was {a}"
    return None
