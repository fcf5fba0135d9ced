"""Token ids to text one by one. A character may be spread over several tokens: it is given when it is whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]


class Detokenizer:
    """`add` gives the text that has become certain by a token, `rest` what is left at the end.

    Texts of tokens do not add up (a space may be dropped at the beginning), so a few tokens are decoded with and without the new ones.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._begin = 0  # decoding begins here …
        self._given = 0  # … and the text of the ids before this was given

    def add(self, token: int) -> str:
        self._ids.append(token)
        return self._new(whole=True)

    def rest(self) -> str:
        """What was held back: the replacement character for bytes that are no character."""
        return self._new(whole=False)

    def _new(self, whole: bool) -> str:
        old = self._decode(self._ids[self._begin : self._given])
        now = self._decode(self._ids[self._begin :])
        if len(now) <= len(old) or (whole and now.endswith("\ufffd") and len(self._ids) - self._given < 8):
            return ""
        self._begin, self._given = self._given, len(self._ids)
        return now[len(old) :]
