"""One thread makes the steps of all answers; each answer has a queue that its request reads from.

Requests come and go in an event loop. The scheduler's steps take milliseconds to seconds, so they run in a thread of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from lowbit.errors import LowbitError
from lowbit.llm.model import Model
from lowbit.llm.stream import Stream


class Busy(Exception):
    """As many answers wait as the server allows."""


@dataclass
class Totals:
    """Counters for /metrics."""

    requests: int = 0
    refused: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    answer_tokens: int = 0


@dataclass(eq=False)
class Answer:
    """An answer that is being made. Iterate over its pieces, or `await answer.whole()`."""

    stream: Stream
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[str | BaseException | None] = field(default_factory=asyncio.Queue)

    @property
    def prompt_tokens(self) -> int:
        return len(self.stream.sequence.prompt)

    @property
    def answer_tokens(self) -> int:
        return len(self.stream.sequence.made)

    @property
    def finish(self) -> str:
        return self.stream.finish or "cancelled"

    def send(self, item: str | BaseException | None) -> None:
        """Called by the engine's thread."""
        try:
            self.loop.call_soon_threadsafe(self.queue.put_nowait, item)
        except RuntimeError:  # the loop is closed: nobody reads any more
            self.stream.close()

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            item = await self.queue.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    async def whole(self) -> str:
        return "".join([piece async for piece in self])


class Engine:
    """Makes the answers of a model. `start` and `close` once each."""

    def __init__(self, model: Model, most_waiting: int = 256) -> None:
        self.model, self.most_waiting = model, most_waiting
        self.totals = Totals()
        self._answers: list[Answer] = []
        self._beginning = 0  # requests whose prompts are being read
        self._change = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="lowbit-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends all answers and the thread."""
        with self._change:
            self._closed = True
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def active(self) -> int:
        """Answers that are being made or wait, and requests whose prompts are being read."""
        return len(self._answers) + self._beginning

    async def begin(self, make: Callable[[], Stream]) -> Answer:
        """An answer that is queued. `make` reads the prompt and adds the sequence: it runs in a thread of its own."""
        if self.active >= self.most_waiting:
            self.totals.refused += 1
            raise Busy
        self._beginning += 1  # in the event loop's thread alone
        try:
            answer = Answer(await asyncio.to_thread(make), asyncio.get_running_loop())
        finally:
            self._beginning -= 1
        with self._change:
            self._answers.append(answer)
            self.totals.requests += 1
            self._change.notify()
        return answer

    def cancel(self, answer: Answer) -> None:
        """Ends an answer nobody waits for; an answer that ended stays as it is."""
        with self._change:
            if answer not in self._answers:
                return
            self._answers.remove(answer)
            self.totals.cancelled += 1
            self._count(answer)
        threading.Thread(target=answer.stream.close, daemon=True).start()  # a step may hold the scheduler: no request waits for it

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._answers and not self._closed:
                    self._change.wait()
                if self._closed:
                    left, self._answers = self._answers, []
                    break
                answers = list(self._answers)
            try:
                self.model.scheduler.step()
            except Exception as e:  # one bad sequence must not end the server: all answers of this step fail, others go on
                self._fail(answers, e)
                continue
            for answer in answers:
                self._deliver(answer)
        for answer in left:
            answer.stream.close()
            answer.send(None)

    def _deliver(self, answer: Answer) -> None:
        try:
            for piece in answer.stream.ready():
                answer.send(piece)
        except LowbitError as e:
            self._fail([answer], e)
            return
        if answer.stream.finish is not None:
            with self._change:
                if answer in self._answers:
                    self._answers.remove(answer)
                    self._count(answer)
            answer.send(None)

    def _fail(self, answers: list[Answer], why: BaseException) -> None:
        for answer in answers:
            answer.stream.close()
            with self._change:
                if answer in self._answers:
                    self._answers.remove(answer)
                    self.totals.failed += 1
            answer.send(why)

    def _count(self, answer: Answer) -> None:
        self.totals.prompt_tokens += answer.prompt_tokens
        self.totals.reused_tokens += answer.stream.sequence.reused
        self.totals.answer_tokens += answer.answer_tokens
