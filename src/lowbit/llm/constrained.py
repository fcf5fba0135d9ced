"""Which tokens may follow, so that a text fits a JSON schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowbit.errors import InputError
from lowbit.llm.grammar import Grammar, Stack
from lowbit.llm.json_schema import grammar_of
from lowbit.llm.scheduler import Allowed
from lowbit.llm.tokenizer import Tokenizer


def tokens_of_schema(tokenizer: Tokenizer, schema: Mapping[str, Any]) -> Allowed:
    """Of the tokens made so far: which may follow. The text ends as soon as nothing more fits."""
    if not tokenizer.ends:
        raise InputError("the file names no token that ends a text, which a schema needs")
    return Constraint(grammar_of(schema), tokenizer.token_bytes(), tokenizer.ends)


class Constraint:
    """Follows one sequence: what was made before is read once."""

    def __init__(self, grammar: Grammar, spelled: Sequence[bytes | None], ends: frozenset[int]) -> None:
        self.grammar, self.spelled, self.ends = grammar, spelled, ends
        self._states: frozenset[Stack] = grammar.begin
        self._read: list[int] = []

    def __call__(self, made: Sequence[int]) -> Callable[[int], bool]:
        if list(made[: len(self._read)]) != self._read:
            self._states, self._read = self.grammar.begin, []
        for token in made[len(self._read) :]:
            self._states = self.grammar.read(self._states, self.spelled[token] or b"")
            self._read.append(token)
        states, grammar = self._states, self.grammar
        first = {b for b in range(256) if grammar.after(states, b)}
        may_end = grammar.accepts(states)

        def allowed(token: int) -> bool:
            if token in self.ends:
                return may_end
            text = self.spelled[token] if token < len(self.spelled) else None
            return bool(text) and text[0] in first and bool(grammar.read(states, text))  # type: ignore[index, arg-type]

        return allowed
