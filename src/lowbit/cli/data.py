"""--data: arrays, pictures, sounds, texts, a table, or a function of the user's own; --random: no data at all."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from lowbit.cli.common import UsageError, whole
from lowbit.cli.functions import function_from, is_function
from lowbit.cli.run import random_array
from lowbit.data.image_preprocessing import EXAMPLE as IMAGE
from lowbit.data.image_preprocessing import ImagePreprocessing
from lowbit.data.opened import How, open_data
from lowbit.data.sound_files import EXAMPLE as AUDIO
from lowbit.data.sound_files import SoundPreprocessing
from lowbit.data.text_files import EXAMPLE as TEXT
from lowbit.data.text_files import TextPreprocessing
from lowbit.dims import Sym
from lowbit.errors import FormatError, InputError, warn
from lowbit.ir.beside import BATCH
from lowbit.ir.bind import bind
from lowbit.ir.graph import Graph

FUNCTION = "--data data.py:batches, with def batches() in data.py that returns a loader, a dataset or a list of batches"


def add_data_arguments(p: argparse.ArgumentParser, *, random: bool = True) -> None:
    p.add_argument(
        "--data",
        nargs="+",
        default=[],
        metavar="PATH",
        help="samples: .npy or .npz files, a folder of pictures, sounds or texts, a .csv, or FILE.py:FUNCTION (docs/data.md)",
    )
    p.add_argument("--image", metavar="SETTINGS", help=f"how pictures become arrays, e.g. {IMAGE}, or imagenet")
    p.add_argument("--audio", metavar="SETTINGS", help=f"how sounds become arrays, e.g. {AUDIO}")
    p.add_argument("--text", metavar="SETTINGS", help=f"how texts become tokens, e.g. {TEXT}")
    if random:
        p.add_argument(
            "--random",
            dest="random_batches",
            type=whole(1),
            metavar="N",
            help="N batches of random numbers in place of data: accuracy means nothing",
        )
    p.add_argument(
        "--batch", type=whole(1), default=BATCH, metavar="N", help=f"rows in a batch, where the network leaves that open ({BATCH})"
    )
    p.add_argument("--limit", type=whole(1), default=None, metavar="N", help="stop after N batches of the data")


def has_data(args: argparse.Namespace) -> bool:
    return bool(args.data) or getattr(args, "random_batches", None) is not None


def data_from(args: argparse.Namespace, graph: Graph) -> Any:
    """The data that the arguments name, for a network."""
    if args.data and getattr(args, "random_batches", None) is not None:
        raise UsageError("--data and --random are both given", hint="one of them")
    if getattr(args, "random_batches", None) is not None:
        warn("the data are random numbers: times and sizes are right, and nothing that is said of accuracy means anything")
        return random_batches(graph, args.random_batches, args.batch)
    if not args.data:
        raise UsageError("--data is missing", hint="--data photos/ or --data samples.npz; --random 16 for a first look")
    if len(args.data) == 1 and is_function(args.data[0]):
        return own_data(args)
    how = How(
        ImagePreprocessing.parse(args.image) if args.image is not None else None,
        SoundPreprocessing.parse(args.audio) if args.audio is not None else None,
        TextPreprocessing.parse(args.text) if args.text is not None else None,
        args.batch,
        args.limit,
    )
    if "" in args.data:
        raise FormatError("the path is empty", where="--data", hint="--data photos/ or --data samples.npz")
    return open_data(args.data, graph, how)


def random_batches(graph: Graph, count: int, batch: int) -> list[dict[str, Any]]:
    """Random numbers for every input; an open first axis has the rows of a batch."""
    rows = {str(v.shape[0]): batch for v in graph.inputs if v.shape and isinstance(v.shape[0], Sym)}
    bound, rng = bind(graph, rows), np.random.default_rng(0)
    return RandomBatches({v.name: random_array(v.name, v.type, rng) for v in bound.inputs} for _ in range(count))


def own_data(args: argparse.Namespace) -> Any:
    function = function_from(args.data[0], "--data", FUNCTION)
    try:
        found = function()
    except Exception as e:
        raise InputError(f"it raised {type(e).__name__}: {e}", where=args.data[0], hint=FUNCTION) from e
    if not hasattr(found, "for_graph") and not hasattr(type(found), "__iter__") and not hasattr(type(found), "__getitem__"):
        raise InputError(f"it returned {type(found).__name__}, something to iterate over is needed", where=args.data[0], hint=FUNCTION)
    if args.limit is not None:
        raise UsageError("--limit is for files", hint="a function that returns fewer batches")
    return found


def labels_in(args: argparse.Namespace, data: Any) -> bool:
    """Whether the data may bring labels: folders of classes and tables say so, loaders show it when they are read."""
    if getattr(args, "random_batches", None) is not None:
        return False
    return getattr(data, "labels", None) is not None if hasattr(data, "whole_rows") else True


class RandomBatches(list[dict[str, Any]]):
    said = "random numbers, which tell nothing of other data"
