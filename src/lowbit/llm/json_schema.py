"""A JSON schema as a grammar of the texts that fit it. Keywords that are not known are refused, not ignored.

Properties are written in the schema's order, and no others than those it names. Numbers have at most 15 digits before and after the point.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lowbit.errors import InputError, UnsupportedOp
from lowbit.llm.grammar import Either, Grammar, One, Row, Rule, Term, Text, Times

NOTHING = Text(b"")
DIGIT, HEX = One(frozenset(b"0123456789")), One(frozenset(b"0123456789abcdefABCDEF"))
SPACE = Either((NOTHING, Text(b" "), Row((Text(b"\n"), Times(Text(b" "), 0, 24)))))
WHOLE = Row((Times(Text(b"-"), 0, 1), Either((Text(b"0"), Row((One(frozenset(b"123456789")), Times(DIGIT, 0, 14)))))))
NUMBER = Row(
    (
        WHOLE,
        Times(Row((Text(b"."), DIGIT, Times(DIGIT, 0, 14))), 0, 1),
        Times(Row((One(frozenset(b"eE")), Times(One(frozenset(b"+-")), 0, 1), DIGIT, Times(DIGIT, 0, 1))), 0, 1),
    )
)


def _between(low: int, high: int) -> One:
    return One(frozenset(range(low, high + 1)))


_TAIL = _between(0x80, 0xBF)
CHARACTER = Either(
    (
        One(frozenset(range(0x20, 0x80)) - frozenset(b'"\\')),
        Row((Text(b"\\"), Either((One(frozenset(b'"\\/bfnrt')), Row((Text(b"u"), HEX, HEX, HEX, HEX)))))),
        Row((_between(0xC2, 0xDF), _TAIL)),  # UTF-8, without over-long forms and surrogates
        Row((Text(b"\xe0"), _between(0xA0, 0xBF), _TAIL)),
        Row((Either((_between(0xE1, 0xEC), _between(0xEE, 0xEF))), _TAIL, _TAIL)),
        Row((Text(b"\xed"), _between(0x80, 0x9F), _TAIL)),
        Row((Text(b"\xf0"), _between(0x90, 0xBF), _TAIL, _TAIL)),
        Row((_between(0xF1, 0xF3), _TAIL, _TAIL, _TAIL)),
        Row((Text(b"\xf4"), _between(0x80, 0x8F), _TAIL, _TAIL)),
    )
)


def string(least: int = 0, most: int | None = None) -> Term:
    return Row((Text(b'"'), Times(CHARACTER, least, most), Text(b'"')))


ANY: dict[str, Term] = {
    "any": Either((Rule("any object"), Rule("any array"), string(), NUMBER, Text(b"true"), Text(b"false"), Text(b"null"))),
    "any member": Row((string(), SPACE, Text(b":"), SPACE, Rule("any"))),
    "any object": Row((Text(b"{"), SPACE, Either((NOTHING, Row((Rule("any member"), Rule("any members"))))), SPACE, Text(b"}"))),
    "any members": Times(Row((SPACE, Text(b","), SPACE, Rule("any member")))),
    "any array": Row(
        (Text(b"["), SPACE, Either((NOTHING, Row((Rule("any"), Times(Row((SPACE, Text(b","), SPACE, Rule("any")))))))), SPACE, Text(b"]"))
    ),
}
SAYS_NOTHING = frozenset(
    ["title", "description", "default", "examples", "$schema", "$id", "$defs", "definitions", "format", "$comment", "additionalProperties"]
)
KEYWORDS = {
    "object": {"properties", "required"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength"},
    "integer": set[str](),
    "number": set[str](),
    "boolean": set[str](),
    "null": set[str](),
}
MOST_TIMES = 1 << 12


def grammar_of(schema: Mapping[str, Any] | bool) -> Grammar:
    """The texts that fit a schema."""
    return _Maker(schema).run()


class _Maker:
    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.rules: dict[str, Term] = dict(ANY)

    def run(self) -> Grammar:
        self.rules["root"] = NOTHING
        self.rules["root"] = self.term(self.schema, "#")
        return Grammar(self.rules)

    def term(self, schema: Any, at: str) -> Term:
        if schema is True or schema == {}:
            return Rule("any")
        if not isinstance(schema, Mapping):
            raise InputError(f"a schema is an object, not {json.dumps(schema, default=str)[:60]}", where=f"schema {at}")
        known = set(schema) - SAYS_NOTHING
        if "$ref" in schema:
            self.need(known, {"$ref"}, at)
            return self.reference(schema["$ref"], at)
        if "const" in schema or "enum" in schema:
            self.need(known, {"const", "enum", "type"}, at)
            values = [schema["const"]] if "const" in schema else schema["enum"]
            if not isinstance(values, list) or not values:
                raise InputError("enum is a list of values", where=f"schema {at}")
            return Either(tuple(Text(written(v)) for v in values))
        if "anyOf" in schema:
            self.need(known, {"anyOf"}, at)
            return Either(tuple(self.term(s, f"{at}/anyOf/{i}") for i, s in enumerate(schema["anyOf"])))
        kinds = schema.get("type")
        if kinds is None and not known:
            return Rule("any")
        if kinds is None:
            kinds = next((k for k, words in KEYWORDS.items() if known & words), None)
        kinds = kinds if isinstance(kinds, list) else [kinds]
        wrong = [k for k in kinds if k not in KEYWORDS]
        if wrong:
            raise UnsupportedOp(f"type {wrong[0]!r} is not known", where=f"schema {at}", hint=f"one of {', '.join(KEYWORDS)}")
        self.need(known, {"type"}.union(*(KEYWORDS[k] for k in kinds)), at)
        return Either(tuple(getattr(self, f"_{k}")(schema, at) for k in kinds))

    def need(self, found: set[str], known: set[str], at: str) -> None:
        unknown = sorted(found - known)
        if unknown:
            raise UnsupportedOp(
                f"the keyword {unknown[0]!r} is not known here", where=f"schema {at}", hint=f"one of {', '.join(sorted(known))}"
            )

    def reference(self, to: Any, at: str) -> Term:
        if not isinstance(to, str) or not to.startswith("#"):
            raise UnsupportedOp(f"$ref {to!r} leads outside the schema", where=f"schema {at}", hint="#/$defs/name")
        if to in ("#", "#/"):
            return Rule("root")
        if to not in self.rules:
            target = self.schema
            for part in to[2:].split("/"):
                if not isinstance(target, Mapping) or part not in target:
                    raise InputError(f"$ref {to!r} leads nowhere", where=f"schema {at}")
                target = target[part]
            self.rules[to] = NOTHING  # it may refer to itself
            self.rules[to] = self.term(target, to)
        return Rule(to)

    def count(self, schema: Mapping[str, Any], word: str, otherwise: int | None, at: str) -> int | None:
        value = schema.get(word, otherwise)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TIMES):
            raise InputError(f"{word} is {value!r}, a whole number from 0 to {MOST_TIMES:,} is needed", where=f"schema {at}")
        return value

    def _string(self, schema: Mapping[str, Any], at: str) -> Term:
        return string(self.count(schema, "minLength", 0, at) or 0, self.count(schema, "maxLength", None, at))

    def _integer(self, schema: Mapping[str, Any], at: str) -> Term:
        return WHOLE

    def _number(self, schema: Mapping[str, Any], at: str) -> Term:
        return NUMBER

    def _boolean(self, schema: Mapping[str, Any], at: str) -> Term:
        return Either((Text(b"true"), Text(b"false")))

    def _null(self, schema: Mapping[str, Any], at: str) -> Term:
        return Text(b"null")

    def _array(self, schema: Mapping[str, Any], at: str) -> Term:
        item = self.term(schema.get("items", True), f"{at}/items")
        least, most = self.count(schema, "minItems", 0, at) or 0, self.count(schema, "maxItems", None, at)
        if most is not None and most < least:
            raise InputError(f"minItems is {least}, maxItems {most}", where=f"schema {at}")
        more = Times(Row((SPACE, Text(b","), SPACE, item)), max(least - 1, 0), None if most is None else max(most - 1, 0))
        some = Row((item, more, SPACE))
        inside = NOTHING if most == 0 else some if least else Either((NOTHING, some))
        return Row((Text(b"["), SPACE, inside, Text(b"]")))

    def _object(self, schema: Mapping[str, Any], at: str) -> Term:
        properties, required = schema.get("properties"), schema.get("required", [])
        if properties is None:
            if required:
                raise UnsupportedOp("required properties without properties", where=f"schema {at}")
            return Rule("any object")
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not set(required) <= set(properties):
            raise InputError("properties is an object, and required a list of its names", where=f"schema {at}")
        names = list(properties)
        # Rule (i, comma): the properties from i on; `comma` whether one was written before them.
        for i in range(len(names), -1, -1):
            for comma in (False, True):
                self.rules[f"{at} {i} {comma}"] = self._members(schema, names, i, comma, at)
        return Row((Text(b"{"), SPACE, Rule(f"{at} 0 False")))

    def _members(self, schema: Mapping[str, Any], names: list[str], i: int, comma: bool, at: str) -> Term:
        if i == len(names):
            return Row((SPACE, Text(b"}"))) if comma else Text(b"}")
        name = names[i]
        value = f"{at}/properties/{name}"
        if value not in self.rules:
            self.rules[value] = NOTHING
            self.rules[value] = self.term(schema["properties"][name], value)
        before = Row((SPACE, Text(b","), SPACE)) if comma else NOTHING
        member = Row((before, Text(written(name)), SPACE, Text(b":"), SPACE, Rule(value), Rule(f"{at} {i + 1} True")))
        return member if name in schema.get("required", []) else Either((member, Rule(f"{at} {i + 1} {comma}")))


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
