"""Shared parts of the verbs: the model argument, --shapes, and printing."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from lowbit.dims import symbols
from lowbit.errors import InputError, LowbitError, ShapeError
from lowbit.files import check_target
from lowbit.ir.graph import Graph
from lowbit.ir.shapes import Shapes
from lowbit.kernels import native, threads
from lowbit.pipeline import load
from lowbit.report.text import plain, printable
from lowbit.report.text import size as size
from lowbit.types import TensorType


class UsageError(InputError):
    """Arguments of the command line that are wrong in themselves: exit code 2."""


def whole(least: int) -> Callable[[str], int]:
    """An argparse type: whole numbers from `least` on."""

    def read(text: str) -> int:
        value = int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
        if value is None or value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return value

    return read


WIDE = 120  # columns of a terminal from which on tables have all details
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def memory(text: str) -> int:
    """An argparse type: bytes, "256k" or "1.5M".

    >>> memory("256k"), memory("1.5M"), memory("65536")
    (262144, 1572864, 65536)
    """
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmgKMG]?)(i?[bB])?", text)
    if found is None or ("." in found[1] and not found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; 65536, 64k or 1.5M are")
    return int(float(found[1]) * UNITS[found[2].lower()])


def number(text: str) -> float:
    """An argparse type: a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def positive(text: str) -> float:
    """An argparse type: a finite number above 0."""
    if not (value := number(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def add_model_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("model", help="an .onnx, .gguf, .pt2 or .lowbit file")
    binding_arguments(p)
    p.add_argument("--no-simplify", action="store_true", help="keep the graph as the file spells it")


def binding_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="bind an input's shape, or a dimension by its name (batch=1); may be repeated",
    )
    p.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="give an input of an .onnx file its value once and for all (sr=16000, or 1,2,3); may be repeated",
    )


def load_model(args: argparse.Namespace) -> Graph:
    """The graph the arguments name."""
    shapes = parse_shapes(args.shapes)
    try:
        return load(args.model, shapes=shapes, constants=parse_constants(args.constant), simplify=False if args.no_simplify else None)
    except (InputError, ShapeError) as e:
        e.message = e.message.replace("shapes=", "--shapes").replace("constants=", "--constant")
        if ("--shapes" in e.message or "--constant" in e.message) and isinstance(e, InputError):  # names that the model does not have
            raise UsageError(e.message, where=e.where, hint=e.hint) from e
        raise


def load_beside(args: argparse.Namespace, path: str) -> Graph:
    """Another network with the same arguments. --constant applies only if the network has such an input: a derived network may not."""
    own = argparse.Namespace(**vars(args) | {"model": path})
    try:
        return load_model(own)
    except UsageError as e:
        if "which is no input" not in e.message and "--constant is for ONNX files" not in e.message:
            raise
    own.constant = []
    return load_model(own)


def check_out(path: str, what: str, kinds: tuple[str, ...], *models: str) -> None:
    """Checks the output path before any work: a wrong suffix is a usage error, and so is a path that is also read."""
    if not path.endswith(kinds):
        raise UsageError(f"{what} is written as {' or '.join(kinds)}", where=path, hint=f"-o {what.split()[-1]}{kinds[0]}")
    if any(os.path.exists(m) and os.path.exists(path) and os.path.samefile(m, path) for m in models):
        raise UsageError("the network that is read would be overwritten", where=path, hint="another name for -o")
    check_target(path)


def parse_shapes(texts: list[str]) -> Shapes | None:
    """{"x": [1, 3, 224, 224], "batch": 1} from ["x=1,3,224,224", "batch=1"].

    One number without a comma binds a dimension; "x=8," is a shape of rank 1.

    >>> parse_shapes(["x=1,3,n", "batch=2"])
    {'x': [1, 3, 'n'], 'batch': 2}
    """
    shapes: dict[str, list[int | str] | int] = {}
    for text in texts:
        name, found, dims = text.rpartition("=")
        several = re.fullmatch(r"\w+=\d+(,\s*\w+=\d+)+", text)
        if several:  # batch=1,height=64
            raise UsageError(f"--shapes {text!r} names several dimensions", hint=" ".join(f"--shapes {t.strip()}" for t in text.split(",")))
        by_comma = re.sub(r"(?<=\d)\s*x\s*(?=\d)", ",", dims)  # 3x224x224, but not maxlen
        parts = [d.strip() for d in by_comma.split(",")] if found else []
        if not name or not parts or not any(parts):
            raise UsageError(f"--shapes {text!r} is not NAME=DIMS", hint="--shapes x=1,3,224,224 or --shapes batch=1")
        values: list[int | str] = [int(d) if re.fullmatch(r"\d+", d) else d for d in parts if d]
        bad = [v for v in values if isinstance(v, str) and not v.isidentifier()]
        if bad:
            if re.fullmatch(r"-\d+", str(bad[0])):
                raise UsageError(f"--shapes {text!r}: {bad[0]} is no size, they are from 0 on", hint=f"--shapes {text.replace('-', '')}")
            raise UsageError(f"--shapes {text!r}: {bad[0]!r} is neither a number nor a name", hint="--shapes x=1,3,224,224")
        if name in shapes:
            raise UsageError(f"--shapes names {name!r} twice")
        shapes[name] = values[0] if len(parts) == 1 and isinstance(values[0], int) else values
    return shapes or None


def example_shapes(types: Iterable[TensorType]) -> str:
    """Options that bind all open dimensions of some inputs: one row, and sizes of other axes that a window fits into.

    >>> from lowbit.dims import symbol
    >>> example_shapes([TensorType((symbol("batch"), 3, symbol("h"), symbol("w")), "float32")])
    '--shapes batch=1 --shapes h=64 --shapes w=64'
    """
    sizes: dict[str, int] = {}
    for t in types:
        for axis, d in enumerate(t.shape):
            sizes |= {s: 64 if axis else 1 for s in sorted(symbols(d)) if s not in sizes}
    return " ".join(f"--shapes {name}={size}" for name, size in sizes.items())


def parse_constants(texts: list[str]) -> dict[str, Any] | None:
    """{"sr": 16000} from ["sr=16000"]; several numbers are an array of one axis, "x=8," is one of one element.

    >>> parse_constants(["sr=16000", "on=true", "sizes=1,2.5"])
    {'sr': 16000, 'on': True, 'sizes': [1, 2.5]}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, is_given, value = text.rpartition("=")
        parts = [v.strip() for v in value.split(",")]
        if not name or not is_given or not any(parts):
            raise UsageError(f"--constant {text!r} is not NAME=VALUE", hint="--constant sr=16000")
        if name in found:
            raise UsageError(f"--constant names {name!r} twice")
        numbers = [_number(v, text) for v in parts if v]
        found[name] = numbers if len(parts) > 1 else numbers[0]
    return found or None


def _number(value: str, text: str) -> int | float | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return int(value) if re.fullmatch(r"[+-]?\d{1,18}", value) else float(value)
    except ValueError:
        raise UsageError(f"--constant {text!r}: {value!r} is neither a number nor true or false", hint="--constant sr=16000") from None


printed: list[bool] = []  # whether a JSON value was printed: there is one at most


def print_json(value: Any) -> None:
    """One JSON value: NaN and infinities as texts; characters that steer a terminal, or that stdout cannot write, as \\uXXXX."""
    printed.append(True)
    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=not (sys.stdout.encoding or "").lower().startswith("utf"))
    print(re.sub(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", lambda m: f"\\u{ord(m.group()):04x}", text))


def say(text: object, *, file: TextIO | None = None) -> None:
    """Prints for a person."""
    print(printable(str(text)), file=file)


def narrow() -> bool:
    """Whether the output goes to a terminal without room for wide tables."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < WIDE


def tell(text: object) -> None:
    """Prints sentences for a person: on a terminal, lines end between words."""
    if not sys.stdout.isatty():
        say(text)
        return
    width = max(40, shutil.get_terminal_size().columns)
    for line in str(text).splitlines():
        say("\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")))


def table(title: str, columns: dict[str, str], rows: list[list[str]]) -> None:
    """Prints a table. `columns` maps headings to "left" or "right"."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    t = Table(title=Text(printable(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in columns.items():
        right = justify == "right"  # numbers, which are not cut in two
        t.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        t.add_row(*(Text(printable(cell)) for cell in row))  # Text: names from a file are never read as markup
    console = Console()
    console = console if console.is_terminal else Console(width=160)
    console.print(t)


def count(n: int | str) -> str:
    """1234567 as 1,234,567; symbolic numbers as they are; 0 as nothing."""
    return (f"{n:,}" if n else "") if isinstance(n, int) else n


def environment_error() -> LowbitError | None:
    """The error in LOWBIT_ISA or LOWBIT_THREADS, which stops all kernels."""
    try:
        native.check_isa(None)
        threads.cap()
    except LowbitError as e:
        return e
    return None
