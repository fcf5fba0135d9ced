"""Text as it is made: tokens of a sequence become text, a stop text ends it, closing the stream ends the sequence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from lowbit.errors import InputError
from lowbit.llm.scheduler import Scheduler, TokenSequence
from lowbit.llm.tokenizer import Tokenizer


class Stream(Iterator[str]):
    """Pieces of an answer. `close()` (or leaving a `with`) stops it; `finish` says why it ended: "stop", "length", "cancelled" or "error".

    Several streams may be read in turns or by several threads: their steps are made together.

    >>> from lowbit.llm import load
    >>> with load(path, threads=1).stream([5, 6, 7], max_tokens=2) as stream:
    ...     pieces = list(stream)
    >>> len(stream.tokens) <= 2
    True
    """

    def __init__(self, scheduler: Scheduler, sequence: TokenSequence, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.sequence, self._scheduler = sequence, scheduler
        self._tokens, self._text = tokenizer.stream(), StopTexts(stop)
        self._pieces: list[str] = []
        self.text = ""
        self.finish: str | None = None
        self._begin = time.perf_counter()
        self._first = self._last = self._begin

    def __next__(self) -> str:
        while not self._pieces and self.finish is None:
            while not self.sequence.events and self.sequence.finish is None:
                self._scheduler.step()
            self._read()
        if not self._pieces:
            if self.sequence.error is not None:
                raise self.sequence.error
            raise StopIteration
        piece = self._pieces.pop(0)
        self.text += piece
        return piece

    def ready(self) -> list[str]:
        """The pieces that are there, without making a step: for those who drive the scheduler themselves."""
        self._read()
        pieces, self._pieces = self._pieces, []
        self.text += "".join(pieces)
        return pieces

    def _read(self) -> None:
        """Takes the events that are there."""
        while self.sequence.events and self.finish is None:
            event = self.sequence.events.popleft()
            if event.token is not None:
                self._last = time.perf_counter()
                self._first = self._last if len(self.sequence.made) == 1 else self._first
                self._put(self._text.add(self._tokens.add(event.token)))
            if event.finish is not None and not self._text.found:
                self._put(self._text.add(self._tokens.rest()) + self._text.rest())
                self.finish = "stop" if self._text.found else event.finish
            if self._text.found and self.finish is None:
                self._scheduler.cancel(self.sequence)
                self.finish = "stop"

    def _put(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)

    def close(self) -> None:
        """Ends the answer here."""
        self._scheduler.cancel(self.sequence)
        if self.finish is None:
            self.finish = "cancelled"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "finish", "") is None:
            self.close()

    @property
    def tokens(self) -> list[int]:
        """The ids that were made."""
        return list(self.sequence.made)

    @property
    def prefill_seconds(self) -> float:
        """Until the first token."""
        return self._first - self._begin

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first; 0 where there are none."""
        return (len(self.sequence.made) - 1) / (self._last - self._first) if self._last > self._first else 0.0


class StopTexts:
    """Cuts a text off before the first stop text. What may be the beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.stop = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(s, str) and s for s in self.stop):
            raise InputError(f"stop={stop!r} is no text, or has an empty one", hint='stop=["\\n\\n"]')
        self.found = False
        self._held = ""

    def add(self, text: str) -> str:
        if self.found:
            return ""
        self._held += text
        at = min((i for i in (self._held.find(s) for s in self.stop) if i >= 0), default=-1)
        if at >= 0:
            self.found = True
            out, self._held = self._held[:at], ""
            return out
        most = max((len(s) - 1 for s in self.stop), default=0)
        keep = next((n for n in range(min(most, len(self._held)), 0, -1) if any(s.startswith(self._held[-n:]) for s in self.stop)), 0)
        end = len(self._held) - keep
        out, self._held = self._held[:end], self._held[end:]
        return out

    def rest(self) -> str:
        out, self._held = self._held, ""
        return out
