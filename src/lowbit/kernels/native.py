"""The compiled kernels: which there are, which this CPU can run, and how to call one with NumPy arrays.

Everything here is derived from `csrc/lb.h` by the build: contracts, field offsets, argument types. Params are given by name.
`LOWBIT_ISA` caps the dispatch: `LOWBIT_ISA=ref` runs portable C only, `LOWBIT_ISA=avx2` nothing better than AVX2.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from lowbit import _native
from lowbit.arguments import shown
from lowbit.errors import InputError

# a kernel, its params, its addresses, and for contracts with items how many
Step = tuple[int, bytes, tuple[int, ...]] | tuple[int, bytes, tuple[int, ...], int]
Scalar = int | float | Sequence[int] | Sequence[float]
_NUMBER = (int, float, np.number)
_STRUCT = {"float32": "f", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}
_NUMPY = {"float": "float32"} | {f"{u}int{b}_t": f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Arg:
    """One pointer of a contract. `dtype` is None for `void`: packed data that only the kernel understands."""

    name: str
    dtype: np.dtype[Any] | None
    is_input: bool


@dataclass(frozen=True)
class Contract:
    """The signature of all kernels of an operation: params (a struct of `layout`), pointers, and (`ranged`) the items to compute."""

    name: str
    layout: np.dtype[np.void]
    args: tuple[Arg, ...]
    ranged: bool = False

    @cached_property
    def _struct(self) -> struct.Struct:
        """The layout in the words of `struct`, which packs small integers an order of magnitude faster than a NumPy record."""
        text, end = "=", 0
        for name in self.layout.names or ():
            field, offset = self.layout.fields[name][:2]  # type: ignore[index]  # a record has fields
            text += f"{offset - end}x{field.itemsize // field.base.itemsize}{_STRUCT[field.base.name]}"
            end = offset + field.itemsize
        return struct.Struct(f"{text}{self.layout.itemsize - end}x")

    def pack(self, params: Mapping[str, Scalar]) -> bytes:
        """The bytes of the params struct; every field must be given, and nothing else."""
        names = self.layout.names or ()
        if len(params) != len(names) or not all(map(params.__contains__, names)):
            raise InputError(f"params {sorted(params)}, needs {sorted(names)}", where=f"kernel {self.name}")
        values: list[Any] = []
        for name in names:
            value = params[name]
            if isinstance(value, _NUMBER) != (self.layout[name].shape == ()):
                raise self._misfit(name, value)
            values += [value] if isinstance(value, _NUMBER) else value
        try:
            return self._struct.pack(*values)
        except (struct.error, OverflowError):
            raise next(self._misfit(n, params[n]) for n in names if not _fits(params[n], self.layout[n])) from None

    def _misfit(self, name: str, value: object) -> InputError:
        return InputError(f"param {name} = {value!r} does not fit {self.layout[name]}", where=f"kernel {self.name}")


@dataclass(frozen=True)
class Kernel:
    """One implementation of a contract. `index` is its place in the compiled table."""

    contract: Contract
    isa: str
    available: bool
    index: int

    def __call__(self, params: Mapping[str, Scalar], *arrays: np.ndarray[Any, Any], items: int | None = None) -> None:
        """Runs the kernel on C-contiguous arrays of the contract's dtypes; outputs are written in place. Releases the GIL.

        A contract with items needs to be told how many there are.

        Sizes are the caller's duty: lb.h says how many elements each pointer needs.
        """
        where = f"kernel {self.contract.name}__{self.isa}"
        if not self.available:
            raise InputError(f"this CPU has no {self.isa}", where=where, hint="lowbit doctor")
        if len(arrays) != len(self.contract.args):
            names = ", ".join(a.name for a in self.contract.args)
            raise InputError(f"{len(arrays)} arrays, needs {len(self.contract.args)} ({names})", where=where)
        for arg, array in zip(self.contract.args, arrays):
            if arg.dtype is not None and array.dtype != arg.dtype:
                raise InputError(f"{arg.name} is {array.dtype}, needs {arg.dtype}", where=where)
            if not array.flags.c_contiguous or not array.flags.aligned:
                raise InputError(f"{arg.name} is not contiguous and aligned", where=where, hint="np.ascontiguousarray")
            if not arg.is_input and not array.flags.writeable:
                raise InputError(f"{arg.name} is read-only", where=where)
        self.at(params, *(a.ctypes.data for a in arrays), items=items)

    def at(self, params: Mapping[str, Scalar], *addresses: int, items: int | None = None) -> None:
        """Runs the kernel on memory that the caller vouches for: parts of arrays with strides, arenas."""
        _native.call(*self.step(params, *addresses, items=items))

    def step(self, params: Mapping[str, Scalar], *addresses: int, items: int | None = None) -> Step:
        """The same for `run`, later."""
        if self.contract.ranged != (items is not None):
            what = "needs items=" if self.contract.ranged else "has no items"
            raise InputError(what, where=f"kernel {self.contract.name}")
        packed = self.contract.pack(params)
        return (self.index, packed, addresses) if items is None else (self.index, packed, addresses, items)


def run(sequences: Iterable[Sequence[Step]], threads: int) -> None:
    """Runs sequences of steps on up to `threads` threads: each sequence in order on one of them. Releases the GIL.

    One caller at a time has the threads; another one meanwhile runs its sequences by itself.
    """
    _native.run(tuple(map(tuple, sequences)), threads)


def address(array: np.ndarray[Any, Any]) -> int:
    """Where its first element is; `array.ctypes.data` takes ten times as long."""
    return _native.address(array)


@cache
def contracts() -> Mapping[str, Contract]:
    """Every contract of lb.h by name."""
    rows = {}
    ranged = set(_native.ranged())
    for name, size, fields, args in _native.contracts():
        layout = np.dtype({
            "names": [field for field, _, _, _ in fields],
            "formats": [(_NUMPY[t], (count,)) if count else _NUMPY[t] for _, t, _, count in fields],
            "offsets": [offset for _, _, offset, _ in fields],
            "itemsize": size,
        })  # fmt: skip
        pointers = tuple(Arg(a, np.dtype(_NUMPY[t]) if t != "void" else None, i) for a, t, i in args)
        rows[name] = Contract(name, layout, pointers, name in ranged)
    return MappingProxyType(rows)


@cache
def kernels() -> tuple[Kernel, ...]:
    """Every compiled kernel; those of one contract stand together, the best instruction set last."""
    return tuple(Kernel(contracts()[c], isa, available, i) for i, (c, isa, available) in enumerate(_native.kernels()))


def forget() -> None:
    """The table is read again: kernels were added."""
    for known in (contracts, kernels, _best):
        known.cache_clear()


@cache
def cpu_features() -> tuple[str, ...]:
    """The CPU features that the operating system supports, among those that lowbit knows."""
    return _native.cpu_features()


def isas() -> tuple[str, ...]:
    """The instruction sets with at least one compiled kernel, worst first."""
    return _native.isas()


def isas_on_this_cpu() -> tuple[str, ...]:
    """Of them, those that this CPU runs."""
    return tuple(isa for isa in isas() if any(k.available for k in kernels() if k.isa == isa))


def runs(isa: str) -> bool:
    """Whether kernels of an instruction set run here: this CPU has it, and LOWBIT_ISA allows it."""
    cap = os.environ.get("LOWBIT_ISA")
    check_isa(isa)
    return isa in isas_on_this_cpu() and (not cap or isas().index(isa) <= isas().index(cap))


def check_isa(isa: object) -> None:
    """An InputError unless `isa` (or None) and LOWBIT_ISA are instruction sets of this build."""
    for what, limit in (("LOWBIT_ISA", os.environ.get("LOWBIT_ISA") or None), ("isa", isa)):
        if limit is not None and (not isinstance(limit, str) or limit not in isas()):
            raise InputError(
                f"{what}={limit if isinstance(limit, str) and limit else shown(limit)} is not an instruction set of this build",
                hint="one of " + ", ".join(isas()),
            )


def best(contract: str, isa: str | None = None) -> Kernel:
    """The kernel that runs: the best that the CPU has, and LOWBIT_ISA and `isa` allow."""
    return _best(contract, os.environ.get("LOWBIT_ISA"), isa)


@cache
def _best(contract: str, cap: str | None, isa: str | None) -> Kernel:
    check_isa(isa)
    allowed = isas()
    for limit in (cap, isa):
        if not limit:
            continue
        allowed = tuple(i for i in isas()[: isas().index(limit) + 1] if i in allowed)
    return [k for k in of(contract) if k.available and k.isa in allowed][-1]


def having(contract: str, isa: str) -> Kernel:
    """The implementation for an instruction set; `ref`, if it has none in this build."""
    return next((k for k in of(contract) if k.isa == isa), of(contract)[0])


def of(contract: str) -> tuple[Kernel, ...]:
    """All implementations of a contract, `ref` first."""
    found = tuple(k for k in kernels() if k.contract.name == contract)
    if not found:
        near = get_close_matches(str(contract), contracts(), n=3)
        meant = f"{' or '.join(near)}; or " if near else ""
        stale = "the built library is older than the sources: build it anew (pip install . of lowbit's folder)"
        raise InputError(f"no kernel has the contract {contract!r}", hint=meant + f"if lowbit itself asked for it, {stale}")
    return found


def _fits(value: Scalar, field: np.dtype[Any]) -> bool:
    """Whether a field can hold the value, number by number."""
    given = np.asarray(value)
    if given.shape != field.shape:
        return False
    if field.base.kind == "f":
        return given.dtype.kind in "iuf" and not np.any(np.isfinite(given) & (np.abs(given) > np.finfo(field.base).max))
    limits = np.iinfo(field.base)
    return given.dtype.kind in "iu" and bool(np.all((given >= limits.min) & (given <= limits.max)))
