"""--labels and --metric: the sources of a score.

--labels Y.npy            one class number for each row of the data
--labels Y.npz:name       an array of a .npz (without :name, its only one)
--labels Y.csv:name       a column of a .csv by its heading; without :name, the only column (.txt: one number a line)
--labels name             an array of that name in each file of --data
--metric FILE.py:function function(session) gives a number, higher is better; it brings its own data
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lowbit.cli.common import UsageError, number
from lowbit.cli.functions import function_from, is_function
from lowbit.data.arrays import UNREADABLE, files
from lowbit.decide.labelled import MAX_DROP
from lowbit.errors import FormatError, InputError
from lowbit.files import unreadable
from lowbit.report.scores import as_labels
from lowbit.runtime.session import Session
from lowbit.types import Array

KINDS = (".npy", ".npz", ".csv", ".txt")
_HINT = ".npy, .npz, .csv or .txt with one whole number for each row, or the name of an array in the files of --data"


def add_score_arguments(p: argparse.ArgumentParser, what: str) -> None:
    p.add_argument(
        "--labels", metavar="Y.npy|Y.npz:NAME|Y.csv|NAME", help=f"the class of each row of {what}, from 0 on: top-1 is the score"
    )
    p.add_argument("--output", metavar="NAME", help="the output whose classes the labels are, where the network has several")
    p.add_argument(
        "--metric", metavar="FILE.py:FUNCTION", help="function(session) gives the score, higher is better; it brings its own data"
    )


def need_one(args: argparse.Namespace) -> None:
    if args.labels and args.metric:
        raise UsageError("--labels and --metric are both given", hint="one of them: a metric brings its own data and labels")
    if args.output is not None and not args.labels and (args.metric or not args.data):
        raise UsageError("--output is for --labels, and there are none", hint="--labels y.npy; files are written to -o")


def is_labelled(paths: list[str]) -> bool:
    """Whether the data may bring labels by themselves: a folder, a table, a function."""
    return any(Path(p).is_dir() or Path(p).suffix == ".csv" or is_function(p) for p in paths)


def max_drop_argument(p: argparse.ArgumentParser) -> None:
    p.add_argument("--max-drop", type=number, metavar="X", help=f"with --labels or --metric: how far the score may fall ({MAX_DROP})")


def need_max_drop(args: argparse.Namespace, otherwise: str = "") -> None:
    if args.max_drop is not None and not (args.labels or args.metric or is_labelled(args.data)):
        hint = f"--labels y.npy{otherwise}"
        raise UsageError("--max-drop is for a score, and there are neither --labels nor --metric", hint=hint)
    if args.max_drop is not None and args.labels and args.max_drop > 1:
        points = f"--max-drop {args.max_drop / 100:g}" + (f" for {args.max_drop:g} points" if args.max_drop <= 100 else "")
        raise UsageError(f"--max-drop {args.max_drop:g}, and top-1 goes from 0 to 1: anything would do", hint=points)
    if args.max_drop is not None and args.max_drop < 0:
        raise UsageError(f"--max-drop {args.max_drop:g}, 0 or more is needed", hint=f"--max-drop {MAX_DROP}")


def labels_from(args: argparse.Namespace, data: Any, where: str = "--data") -> Array:
    """The labels of the data's rows. With --limit, labels of the rows that are left out are left out as well."""
    if getattr(data, "classes", ()):
        raise UsageError("the folders of --data are classes already", where=args.labels, hint="without --labels, or pictures in one folder")
    found = read_labels(args.labels, args.data)
    if not getattr(data, "whole_rows", False):
        return found  # how many rows there are shows when they are read
    rows = data.rows
    if len(found) < rows or (len(found) > rows and args.limit is None):
        raise InputError(f"{len(found):,} labels for {rows:,} rows of {where}", where=args.labels, hint="one label for each row")
    return found[:rows]


def read_labels(text: str, paths: list[str]) -> Array:
    """The labels that --labels names; `paths` are those of the data."""
    file, _, name = text.rpartition(":")
    if not file or Path(file).suffix not in KINDS:
        file, name = text, ""
    kind = Path(file).suffix
    if kind in KINDS and not Path(file).exists():
        raise FormatError("there is no such file", where=file, hint=_HINT)
    if kind in (".csv", ".txt"):
        return as_labels(read_table(file, name), where=text)
    if kind in KINDS:
        return as_labels(read_array(file, name), where=text)
    if Path(file).exists():
        raise FormatError(f"labels are not read from files of kind '{kind}'", where=file, hint=_HINT)
    return np.concatenate([as_labels(read_array(str(path), text), where=f"{path}: {text}") for path in files([Path(p) for p in paths])])


def read_array(file: str, name: str) -> Array:
    """An array of a .npy or .npz file; of a .npz its only one, or that of the name."""
    try:
        found: Any = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            if name:
                raise InputError(f"a .npy has no names, {name!r} is asked for", where=file, hint=f"--labels {file}, or a .npz")
            return found
        with found:
            if not name and len(found.files) == 1:
                name = found.files[0]
            if name in found.files:
                return np.asarray(found[name])
            names = list(found.files)
    except UNREADABLE as e:
        raise FormatError(f"not a readable {Path(file).suffix} file ({unreadable(e)})", where=file, hint=_HINT) from e
    has = f"it has {', '.join(names) or 'none'}"
    if name:
        raise InputError(f"there is no array {name!r}, {has}", where=file, hint=_HINT)
    raise InputError(f"which array holds the labels? {has}", where=file, hint=f"--labels {file}:{names[0] if names else 'y'}")


def read_table(file: str, name: str) -> Array:
    """One column of whole numbers of a .csv or .txt: that of the heading, or the only one. A first line without numbers has headings."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as f:
            lines = [[cell.strip() for cell in row] for row in csv.reader(f) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error) as e:
        raise FormatError(f"not a readable {Path(file).suffix} file ({unreadable(e)})", where=file, hint=_HINT) from e
    headings = lines.pop(0) if lines and not any(is_whole(cell) for cell in lines[0]) else []
    if not lines:
        raise InputError("it has no numbers", where=file, hint=_HINT)
    at = 0
    if name:
        if name not in headings:
            raise InputError(f"there is no column {name!r}, it has {', '.join(headings) or 'no headings'}", where=file, hint=_HINT)
        at = headings.index(name)
    elif len(lines[0]) > 1:
        hint = f"--labels {file}:{headings[-1]}" if headings else "one column, or a first line with headings"
        raise InputError(f"which column holds the labels? There are {len(lines[0])}", where=file, hint=hint)
    for line, row in enumerate(lines, 1 + bool(headings)):
        if len(row) <= at or not is_whole(row[at]):
            what = repr(row[at]) if len(row) > at else "nothing"
            raise InputError(f"line {line} has {what}, a whole number is needed", where=file, hint="classes as numbers from 0 on")
    return np.array([int(row[at]) for row in lines], np.int64)


def is_whole(cell: str) -> bool:
    return cell.removeprefix("-").isdecimal() and len(cell) <= 18


def metric_from(text: str) -> Callable[[Session], Any]:
    """The function that --metric names."""
    return function_from(text, "--metric", "--metric score.py:accuracy, with def accuracy(session) in score.py")
