"""Jinja for templates of strangers: its sandbox, and bounds on the sizes that operators, filters and methods may make."""

from __future__ import annotations

import datetime
import json
from typing import Any

from lowbit.errors import FormatError, InputError

MOST = 16 << 20  # characters of any text
MOST_TURNS = 100_000  # of all loops over range together
FILTERS = frozenset(
    [
        "trim",
        "length",
        "count",
        "join",
        "upper",
        "lower",
        "capitalize",
        "title",
        "list",
        "items",
        "map",
        "select",
        "selectattr",
        "reject",
        "rejectattr",
        "first",
        "last",
        "default",
        "d",
        "string",
        "int",
        "float",
        "abs",
        "replace",
        "indent",
        "safe",
        "e",
        "escape",
        "unique",
        "sort",
        "dictsort",
        "reverse",
        "sum",
        "min",
        "max",
        "groupby",
        "round",
        "wordcount",
    ]
)  # what templates of chats use


class Refused(Exception):
    """raise_exception of a template."""


def huge() -> FormatError:
    return FormatError("the chat template makes something huge")


def size(x: Any) -> int:
    return len(x) if isinstance(x, str | bytes | list | tuple | dict) else abs(x) if isinstance(x, int) else 0


def bounded(text: str, *given: Any) -> None:
    """Refuses a method or filter on a text that may make more than MOST characters of it: replace, center, join, indent …"""
    parts = [size(x) + (sum(map(size, x)) if isinstance(x, list | tuple) else 0) for x in given]
    if (len(text) + 1) * (1 + max(parts, default=0)) > MOST:
        raise huge()


def environment() -> Any:
    """An environment for one template; loops are counted in it."""
    try:
        from jinja2 import nodes
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.visitor import NodeTransformer
    except ImportError as e:
        raise InputError("chat templates need the package jinja2, which is not installed", hint="pip install 'lowbit[llm]'") from e

    class Sums(NodeTransformer):
        """a ~ b as a + b of texts, which is bounded."""

        def visit_Concat(self, node: Any) -> Any:
            texts = [nodes.Filter(self.visit(n), "string", [], [], None, None, lineno=node.lineno) for n in node.nodes]
            out: Any = texts[0]
            for text in texts[1:]:
                out = nodes.Add(out, text, lineno=node.lineno)
            return out

    class Bounded(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(["*", "**", "%", "+"])
        turns = 0

        def _parse(self, source: str, name: str | None, filename: str | None) -> Any:
            return Sums().visit(super()._parse(source, name, filename))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or (operator == "%" and isinstance(left, str)):
                raise FormatError(f"the chat template computes {operator!r}, which is not allowed")
            made = size(left) + size(right) if operator == "+" else size(left) * size(right)
            if made > MOST and not isinstance(left, float) and not isinstance(right, float):
                raise huge()
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
            owner = getattr(obj, "__self__", None)
            if isinstance(owner, str):
                if getattr(obj, "__name__", "") in ("format", "format_map"):  # widths are in the text
                    raise FormatError("the chat template computes a format, which is not allowed")
                bounded(owner, *args, *kwargs.values())
            return super().call(context, obj, *args, **kwargs)

    env = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def turns(*args: int) -> range:
        found = range(*args)
        env.turns += len(found)
        if env.turns > MOST_TURNS:
            raise FormatError(f"the chat template computes more than {MOST_TURNS:,} turns of loops")
        return found

    for name in set(env.filters) - FILTERS:
        del env.filters[name]
    for name in ("replace", "indent", "join"):
        env.filters[name] = _checked(env.filters[name])
    env.filters["tojson"] = lambda value, ensure_ascii=False, **options: json.dumps(value, ensure_ascii=ensure_ascii, **options)
    env.globals = {
        "range": turns,
        "namespace": env.globals["namespace"],
        "dict": dict,
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.datetime.now().strftime(form[:100]),
    }
    return env


def _checked(filter: Any) -> Any:
    """The filter, refused where its result may be huge. Filters that want the environment get it first, so only values are looked at."""
    from functools import wraps

    @wraps(filter)
    def run(*args: Any, **kwargs: Any) -> Any:
        values = [a for a in (*args, *kwargs.values()) if isinstance(a, str | list | tuple | int)]
        text = next((v for v in values if isinstance(v, str)), "")
        bounded(text, *values)
        return filter(*args, **kwargs)

    return run


def _refuse(text: str) -> None:
    raise Refused(text)
