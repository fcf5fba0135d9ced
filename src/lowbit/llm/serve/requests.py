"""What a request asks for, read from OpenAI's JSON. A field that cannot be kept is an error that names it: nothing is ignored silently."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_ANSWERS = 16
# Fields that change the answer and that lowbit does not have, with the value that changes nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "logprobs": (None, False, 0),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "frequency_penalty": (None, 0, 0.0),
    "presence_penalty": (None, 0, 0.0),
    "tools": (None, []),
    "functions": (None, []),
    "best_of": (None, 1),
    "suffix": (None, ""),
    "audio": (None,),
}


class BadRequest(Exception):
    """A request that cannot be answered: what to say, and which field it is about."""

    def __init__(self, message: str, field: str | None = None, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.field, self.status, self.code = field, status, code


@dataclass(frozen=True)
class Ask:
    """Options of an answer, as `Model.stream` takes them, and how it is to be told."""

    options: Mapping[str, Any]
    stream: bool
    usage: bool  # a stream ends with a chunk that counts tokens
    count: int  # answers to the same prompt


def ask(body: Mapping[str, Any]) -> Ask:
    """The options of a request for text."""
    for name, neutral in NEUTRAL.items():
        if name in body and not any(body[name] == n and type(body[name]) is type(n) for n in neutral):
            raise BadRequest(f"'{name}' is not supported by this server", name)
    count = number(body, "n", 1, low=1, high=MOST_ANSWERS, whole=True)
    limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    options: dict[str, Any] = {
        "temperature": number(body, "temperature", 1.0, low=0, high=2),
        "top_p": number(body, "top_p", 1.0, low=0, high=1),
        "top_k": number(body, "top_k", 0, low=0, high=1 << 30, whole=True),
        "min_p": number(body, "min_p", 0.0, low=0, high=1),
        "repetition_penalty": number(body, "repetition_penalty", 1.0, low=0.01, high=100),
        "seed": number(body, "seed", None, low=0, high=(1 << 63) - 1, whole=True),
        "max_tokens": number(body, limit, 1024, low=1, high=1 << 30, whole=True),
        "stop": texts(body, "stop"),
    }
    if options["seed"] is None:
        options["seed"] = secrets.randbits(63)
    schema = schema_of(body.get("response_format"))
    if schema is not None:
        options["schema"] = schema
    told = body.get("stream_options") or {}
    if not isinstance(told, Mapping):
        raise BadRequest("'stream_options' must be an object", "stream_options")
    return Ask(options, flag(body, "stream"), bool(told.get("include_usage", False)), count)


def number(body: Mapping[str, Any], name: str, default: Any, *, low: float, high: float, whole: bool = False) -> Any:
    value = body.get(name)
    if value is None:
        return default
    kind = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        raise BadRequest(f"'{name}' must be a {'whole ' if whole else ''}number from {low:g} to {high:g}, {value!r} given"[:300], name)
    return value if whole else float(value)


def flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRequest(f"'{name}' must be true or false", name)
    return value


def texts(body: Mapping[str, Any], name: str) -> list[str]:
    """A text or a list of texts; none where the field is left out."""
    value = body.get(name)
    found = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(t, str) and t for t in found) or len(found) > 64:
        raise BadRequest(f"'{name}' must be a text or a list of at most 64 texts that are not empty", name)
    return found


def schema_of(form: Any) -> Mapping[str, Any] | None:
    """The JSON schema that an answer must fit; None for free text."""
    if form is None:
        return None
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema":
        described = form.get("json_schema")
        schema = described.get("schema") if isinstance(described, Mapping) else None
        if isinstance(schema, Mapping):
            return schema
        raise BadRequest("'response_format.json_schema.schema' is missing", "response_format")
    raise BadRequest("'response_format.type' must be text, json_object or json_schema", "response_format")


def messages_of(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages of a chat. Contents may be texts or lists of text parts, which are joined."""
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise BadRequest("'messages' must be a list of at least one message", "messages")
    out = []
    for i, m in enumerate(given):
        if not isinstance(m, Mapping) or not isinstance(m.get("role"), str):
            raise BadRequest(f"'messages[{i}]' must be an object with role and content", f"messages[{i}]")
        content = m.get("content")
        if isinstance(content, list):
            parts = [p.get("text") if isinstance(p, Mapping) and p.get("type") == "text" else None for p in content]
            if any(not isinstance(p, str) for p in parts):
                raise BadRequest(f"'messages[{i}].content' has a part that is no text", f"messages[{i}].content")
            content = "".join(p for p in parts if p is not None)
        if not isinstance(content, str):
            raise BadRequest(f"'messages[{i}].content' must be a text", f"messages[{i}].content")
        role = "system" if m["role"] == "developer" else m["role"]
        out.append({"role": role, "content": content})
    return out


def prompts_of(body: Mapping[str, Any], name: str = "prompt") -> list[str | list[int]]:
    """Texts or lists of token ids, one or several."""
    given = body.get(name)
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and given:
        if all(isinstance(t, str) for t in given):
            return list(given)
        if all(_ids(t) for t in given):
            return [list(t) for t in given]
        if _ids(given):
            return [list(given)]
    raise BadRequest(f"'{name}' must be a text, a list of texts, or a list of token ids", name)


def _ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(t, int) and not isinstance(t, bool) for t in value)
