"""A tokenizer: ids of a text, the text of ids, and which ids begin and end one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lowbit.errors import FormatError, InputError, LowbitError
from lowbit.llm.tokenizer.detokenizer import Detokenizer

if TYPE_CHECKING:
    import tokenizers

T = TypeVar("T")


@dataclass(frozen=True)
class Tokenizer:
    """`before` and `after` are the ids that a whole text has around it; `ends` end a reply.

    >>> from lowbit.llm import load
    >>> tokenizer = load(path, threads=1).tokenizer
    >>> ids = tokenizer.encode("hello", special=False)
    >>> len(ids) > 0, tokenizer.size > max(ids)
    (True, True)
    """

    core: tokenizers.Tokenizer
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    ends: frozenset[int] = frozenset()
    template: str | None = None  # of chats, in Jinja's language
    named: dict[str, str] = field(default_factory=dict)  # bos_token, eos_token …: what templates call special tokens

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of a text. Special tokens written in it are taken as such; `special` adds those that begin and end a text."""
        if not isinstance(text, str):
            raise InputError(f"{type(text).__name__} given, a text is needed")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("the text has half of a surrogate pair, which no encoding holds") from None
        ids = list(self.core.encode(text, add_special_tokens=False).ids)
        if not special:
            return ids
        begins = tuple(ids[: len(self.before)]) == self.before  # a template may have written it
        return [*(() if begins else self.before), *ids, *self.after]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; `special` keeps the names of special tokens in it."""
        return str(self.core.decode(list(ids), skip_special_tokens=not special))

    def stream(self) -> Detokenizer:
        """Turns ids into text one by one."""
        return Detokenizer(self.decode)

    @property
    def size(self) -> int:
        """Ids are below this."""
        return int(self.core.get_vocab_size(with_added_tokens=True))

    def token_bytes(self) -> list[bytes | None]:
        """The bytes that each token stands for; None for special tokens and for those without a spelling."""
        settings = json.loads(self.core.to_str())
        special = {int(t["id"]) for t in settings.get("added_tokens", []) if t.get("special")}
        byte_level = '"ByteLevel"' in json.dumps(settings.get("decoder"))
        letters = {letter: byte for byte, letter in byte_letters().items()}
        found: list[bytes | None] = []
        for i in range(self.size):
            token = self.token(i)
            if token is None or i in special:
                found.append(None)
            elif byte_level:
                raw = [letters.get(c) for c in token]
                found.append(token.encode() if None in raw else bytes(b for b in raw if b is not None))
            elif re.fullmatch(r"<0x[0-9A-Fa-f]{2}>", token):
                found.append(bytes([int(token[3:5], 16)]))
            else:
                found.append(token.replace("▁", " ").encode())
        return found

    def id_of(self, token: str) -> int | None:
        """The id of a token's text; None if it is none."""
        found = self.core.token_to_id(token)
        return None if found is None else int(found)

    def token(self, i: int) -> str | None:
        """The token's own spelling in the vocabulary."""
        return self.core.id_to_token(i)


def byte_letters() -> dict[int, str]:
    """The letter by which byte-level vocabularies write each byte: visible ones stand for themselves, the others for U+0100 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in visible]
    return {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(others)}


END_NAMES = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<EOT>")


def reply_ends(core: tokenizers.Tokenizer, ids: Iterable[int | None]) -> frozenset[int]:
    """The ids that a file names as ends, and the tokens that are ends by their names."""
    named = (core.token_to_id(n) for n in END_NAMES)
    return frozenset(int(i) for i in (*ids, *named) if i is not None)


def guarded(make: Callable[[], T], what: str) -> T:
    """What `make` gives; errors of the library, and its panics, are FormatErrors."""
    try:
        return make()
    except (KeyboardInterrupt, SystemExit, MemoryError, LowbitError):
        raise
    except BaseException as e:  # the library's panics are no Exceptions
        if not isinstance(e, Exception) and type(e).__name__ != "PanicException":
            raise
        raise FormatError(f"{what} makes no tokenizer: {str(e)[:200]}", hint="another file of the same network") from None


def library() -> Any:
    """The package tokenizers."""
    try:
        import tokenizers
    except ImportError as e:
        raise InputError("language models need the package tokenizers, which is not installed", hint="pip install 'lowbit[llm]'") from e
    return tokenizers
