"""Texts that fit a JSON schema: the grammar against json and by hand, and random networks that cannot help but fit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lowbit.errors import InputError, UnsupportedOp
from lowbit.llm.json_schema import grammar_of

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "height": {"type": "number"},
        "tags": {"type": "array", "items": {"enum": ["a", "b\n", 3, None]}, "minItems": 1, "maxItems": 3},
        "married": {"type": "boolean"},
        "of": {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
    },
    "required": ["name", "tags"],
}


def fits(schema: Any, text: str | bytes) -> bool:
    grammar = grammar_of(schema)
    return grammar.accepts(grammar.read(grammar.begin, text if isinstance(text, bytes) else text.encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"name": "", "tags": ["a"]},
        {"name": 'Zoë "q" \\ 漢', "age": -12, "height": 1.5e-3, "tags": [None, 3, "b\n"], "married": False},
        {"name": "x", "tags": ["a"], "of": {"name": "y", "tags": [3], "of": None}},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("escaped", [True, False])
def test_what_json_writes_of_a_fitting_value_is_a_text_of_the_schema(value: Any, indent: int | None, escaped: bool) -> None:
    assert fits(PERSON, json.dumps(value, indent=indent, ensure_ascii=escaped))
    assert fits({}, json.dumps(value, indent=indent, ensure_ascii=escaped))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "x"}',
        '{"name": "x", "tags": []}',
        '{"name": "x", "tags": ["a","a","a","a"]}',
        '{"tags": ["a"], "name": "x"}',
        '{"name": "x", "tags": ["c"]}',
        '{"name": "x", "age": 1.5, "tags": ["a"]}',
        '{"name": "x", "tags": ["a"], "other": 1}',
        '{"name": "1234567890123", "tags": ["a"]}',
        '{"name": "x", "tags": ["a"],}',
        '{"name": "a\nb", "tags": ["a"]}',
        '{"name": "x", "tags": ["a"]} ',
        '{"name": "x", "age": 01, "tags": ["a"]}',
        b'{"name": "\xff", "tags": ["a"]}',
        b'{"name": "\xed\xa0\x80", "tags": ["a"]}',
        "",
    ],
)
def test_what_does_not_fit_is_no_text_of_the_schema(text: str | bytes) -> None:
    assert not fits(PERSON, text)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("schema", [PERSON, {}, {"type": "array", "items": {"type": ["number", "null"]}}], ids=["person", "any", "numbers"])
def test_whatever_bytes_may_follow_the_text_is_json(seed: int, schema: Any) -> None:
    """A random walk through the grammar that ends as soon as it may, after some bytes."""
    grammar, rng = grammar_of(schema), np.random.default_rng(seed)
    states, text = grammar.begin, bytearray()
    while not (grammar.accepts(states) and len(text) > 10):
        may = [b for b in range(256) if grammar.after(states, b)]
        if not may:
            break
        closing = [b for b in may if b in b'"}]'] if len(text) > 60 else []
        text.append(int(rng.choice(closing or may)))
        states = grammar.after(states, text[-1])
        assert len(text) < 5000
    if grammar.accepts(states):
        value = json.loads(bytes(text))
        if schema is PERSON:
            assert {"name", "tags"} <= set(value) and all(t in ["a", "b\n", 3, None] for t in value["tags"])
    assert len(text) < 5000


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "a"}, "schema #: the keyword 'pattern' is not known here"),
        ({"type": "object", "properties": {"a": {"type": "date"}}}, "schema #/properties/a: type 'date' is not known"),
        ({"$ref": "#/$defs/a"}, "$ref '#/$defs/a' leads nowhere"),
        ({"$ref": "http://x"}, "leads outside the schema"),
        ({"type": "array", "minItems": 3, "maxItems": 1}, "minItems is 3, maxItems 1"),
        ({"type": "string", "minLength": -1}, "minLength is -1, a whole number"),
        ({"enum": []}, "enum is a list of values"),
        ([1], "a schema is an object, not [1]"),
        ({"oneOf": [{}]}, "not known"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required a list of its names"),
    ],
)
def test_schemas_that_are_not_understood_are_refused(schema: Any, message: str) -> None:
    with pytest.raises((InputError, UnsupportedOp)) as error:
        grammar_of(schema)
    assert message in str(error.value)
