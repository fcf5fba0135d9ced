"""Mutations that keep a file's structure, so that they reach deep code: protobuf fields, words of a graph's text, bytes."""

from __future__ import annotations

import random
import re
from typing import Any

NUMBERS = [0, 1, -1, 2, 3, 7, 8, 127, 128, 255, 256, 1 << 15, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 32, (1 << 63) - 1, -(1 << 63), 10**6]
REALS = [0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"), 0.5]
WORDS = ["", "x", "y", "linear", "constant", "SAME_UPPER", "NOTSET", "int8", "float32", "\ud7ff", "é" * 50, "a" * 300]


def number(rng: random.Random, old: int) -> int:
    """Another whole number: a neighbour, the negative, twice as much, or one of the usual suspects."""
    return rng.choice([old + 1, old - 1, -old, 2 * old, rng.choice(NUMBERS)])


def protobuf(rng: random.Random, message: Any, others: list[Any]) -> None:
    """Changes one place of a message: a field of it, or of a message in it. `others` are models to take nodes from."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if repeated and len(value):
        _repeated(rng, message, field, value, others)
    elif field.message_type is not None and not repeated:
        protobuf(rng, value, others)
    elif not repeated:
        setattr(message, field.name, _scalar(rng, value))


def _repeated(rng: random.Random, message: Any, field: Any, value: Any, others: list[Any]) -> None:
    at = rng.randrange(len(value))
    what = rng.random()
    if field.message_type is not None:
        if what < 0.1:
            del value[at]
        elif what < 0.2:
            value.add().CopyFrom(value[at])
        elif what < 0.25 and field.name == "node" and others:
            theirs = rng.choice(others).graph.node
            if len(theirs):
                node = rng.choice(theirs)
                value[at].op_type = node.op_type
                del value[at].attribute[:]
                value[at].attribute.extend(node.attribute)
        else:
            protobuf(rng, value[at], others)
    elif what < 0.15:
        del value[at]
    elif what < 0.3:
        value.append(value[at])
    else:
        value[at] = _scalar(rng, value[at])


def _scalar(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        new = number(rng, value)
        return new if -(1 << 31) <= new < (1 << 31) or abs(value) >= (1 << 31) else rng.choice([0, 1, 7])
    if isinstance(value, float):
        return rng.choice(REALS)
    if isinstance(value, str):
        return rng.choice([*WORDS, value + "_", value[:-1]])
    return scrambled(rng, bytes(value))


_TOKEN = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z_]\w*|[^\w\s]")


def text(rng: random.Random, source: str) -> str:
    """Changes one word of a text: to another word of it, to another number, or to nothing."""
    found = list(_TOKEN.finditer(source))
    if not found:
        return source
    m = rng.choice(found)
    word = m[0]
    if re.fullmatch(r"-?\d+", word) and rng.random() < 0.7:
        new = str(number(rng, int(word)))
    else:
        new = rng.choice([rng.choice(found)[0], str(rng.choice(NUMBERS)), str(rng.choice(REALS)), "", word + word, '"'])
    return source[: m.start()] + new + source[m.end() :]


def scrambled(rng: random.Random, data: bytes) -> bytes:
    """Changes a few bytes, or cuts the end off."""
    if not data:
        return b"\0"
    new = bytearray(data)
    if rng.random() < 0.1:
        return bytes(new[: rng.randrange(len(new))])
    for _ in range(rng.randint(1, 4)):
        new[rng.randrange(len(new))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(new)
