"""Rules from a TOML file: one [[rule]] table each, in order, first match wins.

    [[rule]]
    kind = "float"             # static, calibrated, dynamic, weights or float
    pattern = "^head"
    because = "two classes are close"

The keys are the arguments of the rule's class; an unknown key or kind is an error that names the table and its line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import MISSING, fields
from os import PathLike
from typing import Any

from lowbit.arguments import path as needed
from lowbit.errors import FormatError, LowbitError
from lowbit.files import unreadable, write_whole
from lowbit.quantization.rules import CalibratedQuantRule, DynamicQuantRule, FloatRule, QuantRule, StaticQuantRule, WeightOnlyRule, as_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS: dict[str, type[QuantRule]] = {
    "static": StaticQuantRule,
    "calibrated": CalibratedQuantRule,
    "dynamic": DynamicQuantRule,
    "weights": WeightOnlyRule,
    "float": FloatRule,
}


def load_rules(path: str | PathLike[str]) -> list[QuantRule]:
    """The rules of a file.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_rules([FloatRule("^head")], Path(folder) / "rules.toml")
    ...     load_rules(Path(folder) / "rules.toml")[0].pattern
    '^head'
    """
    path = needed(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise FormatError(f"not a readable rules file ({unreadable(e)})", where=str(path), hint="a TOML file as examples/rules.toml") from e
    try:
        return parse_rules(text)
    except LowbitError as e:
        raise e.at(path.name) from None


def parse_rules(text: str) -> list[QuantRule]:
    """The rules of a TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise FormatError(f"not TOML ({e})", hint="examples/rules.toml") from e
    tables = document.pop("rule", None)
    if document:
        raise FormatError(f"{next(iter(document))!r} is not known here", hint="a rules file holds [[rule]] tables and nothing else")
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        raise FormatError("there are no rules in it", hint="[[rule]] with kind and pattern; see examples/rules.toml")
    lines = [i for i, line in enumerate(text.split("\n"), 1) if line.strip().replace(" ", "").startswith("[[rule]]")]
    rules = []
    for i, table in enumerate(tables):
        try:
            rules.append(as_rule(table))
        except LowbitError as e:
            line = f", line {lines[i]}" if len(lines) == len(tables) else ""  # a header inside a string: then no line is better
            raise e.at(f"rule {i}{line}") from None
    return rules


def save_rules(rules: Iterable[QuantRule], path: str | PathLike[str]) -> None:
    """Writes rules so that `load_rules` reads them back, whole or not at all.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_rules([FloatRule("^head")], Path(folder) / "rules.toml")
    ...     (Path(folder) / "rules.toml").read_text().splitlines()
    ['[[rule]]', 'kind = "float"', 'pattern = "^head"']
    """
    write_whole(path, rules_text(rules).encode())


def rules_text(rules: Iterable[QuantRule]) -> str:
    """The rules as TOML. Those of your own classes have no kind, and are refused."""
    tables = []
    for i, rule in enumerate(as_rules(rules)):
        kind = next((name for name, made in KINDS.items() if type(rule) is made), None)
        if kind is None:
            raise FormatError(f"{type(rule).__name__} has no kind in a rules file", where=f"rule {i}", hint="one of " + ", ".join(KINDS))
        said = {"kind": kind}
        for f in fields(rule):
            value = getattr(rule, f.name)
            if f.name == "pattern" or (value is not None and (f.default is MISSING or not _same(value, f.default))):
                said[f.name] = value
        tables.append("\n".join(["[[rule]]", *(f"{name} = {_toml(value)}" for name, value in said.items())]))
    return "\n\n".join(tables) + "\n"


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _toml(value: Any) -> str:
    """A value of a rule as TOML; arrays and NumPy's numbers as lists and numbers."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


def as_rule(table: dict[str, Any]) -> QuantRule:
    """The rule of one table."""
    given = dict(table)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise FormatError(f"kind {kind!r} is not known" if kind is not None else "kind is missing", hint="one of " + ", ".join(KINDS))
    legal = [f.name for f in fields(KINDS[kind])]
    unknown = [k for k in given if k not in legal]
    if unknown:
        raise FormatError(f"{unknown[0]!r} is not known in a rule of kind {kind!r}", hint="kind, " + ", ".join(legal))
    if "pattern" not in given:
        raise FormatError("pattern is missing", hint='pattern = ".*" matches every layer')
    for name, value in given.items():
        _check(name, value)
    given |= {name: tuple(given[name]) for name in ("ops", "values") if name in given}
    return KINDS[kind](**given)


def _check(name: str, value: Any) -> None:
    """A FormatError when a key has a value of another kind than its rule takes."""
    numbers = value if isinstance(value, list) else [value]
    fits, need = {
        "granularity": (value in ("tensor", "channel") or (type(value) is int and value > 0), '"tensor", "channel" or a block size'),
        "ops": (isinstance(value, list) and all(isinstance(v, str) for v in value), "a list of op names"),
        "values": (isinstance(value, list) and all(isinstance(v, str) for v in value), "a list of the names of values"),
        "scale": (type(value) in (int, float), "a number"),
        "offset": (type(value) is int, "a whole number"),
        "weight_scale": (all(type(v) in (int, float) for v in numbers), "a number or a list of them"),
        "per_channel": (isinstance(value, bool), "true or false"),
        "offsets": (isinstance(value, bool), "true or false"),
    }.get(name, (isinstance(value, str), "a text"))
    if not fits:
        raise FormatError(f"{name} = {value!r}, {need} is needed", hint="examples/rules.toml has every key")
