"""The ASGI application: OpenAI's routes, a chat page, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from lowbit.errors import InputError, LowbitError
from lowbit.llm.model import Model
from lowbit.llm.serve.engine import Answer, Busy, Engine
from lowbit.llm.serve.metrics import metrics_text
from lowbit.llm.serve.requests import Ask, BadRequest, ask, messages_of, prompts_of
from lowbit.llm.stream import Stream

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Event = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How a model is served.

    name          what /v1/models calls it
    api_key       requests to /v1 must carry it ("Authorization: Bearer …"); None: nobody is asked
    most_waiting  answers that are being made or wait; beyond them requests get 429
    most_bytes    of a request's body
    """

    name: str = "lowbit"
    api_key: str | None = None
    most_waiting: int = 256
    most_bytes: int = 4 << 20


def app(model: Model, settings: Settings | None = None) -> Starlette:
    """An ASGI application that serves the model. Its lifespan starts and ends the engine."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as e:
        raise InputError("the server needs starlette and uvicorn, which are not installed", hint="pip install 'lowbit[serve]'") from e
    s = settings or Settings()
    server = Server(model, s)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.engine.start()
        try:
            yield
        finally:
            await asyncio.to_thread(server.engine.close)

    routes = [
        Route("/", server.page),
        Route("/health", server.health),
        Route("/metrics", server.metrics),
        Route("/v1/models", server.guarded(server.models)),
        Route("/v1/chat/completions", server.guarded(server.chat), methods=["POST"]),
        Route("/v1/completions", server.guarded(server.completions), methods=["POST"]),
        Route("/v1/embeddings", server.guarded(server.embeddings), methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


class Server:
    """The handlers of the routes."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model, self.settings = model, settings
        self.engine = Engine(model, settings.most_waiting)
        self.created = int(time.time())

    # -- around every request ----------------------------------------------------------------------------------------------

    def guarded(self, handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """The handler behind the API key, with errors as OpenAI tells them."""

        async def run(request: Request) -> Response:
            try:
                self.check_key(request)
                done: Response = await handle(request)
                return done
            except BadRequest as e:
                return failure(e.status, str(e), e.field, e.code)
            except Busy:
                busy = failure(429, "too many requests wait already", code="rate_limit_exceeded")
                busy.headers["Retry-After"] = "1"
                return busy
            except LowbitError as e:
                return failure(400, str(e))

        return run

    def check_key(self, request: Request) -> None:
        if self.settings.api_key is None:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.settings.api_key.encode()):
            raise BadRequest("the API key is missing or wrong", status=401, code="invalid_api_key")

    async def body(self, request: Request) -> Mapping[str, Any]:
        """The JSON object of a request, not longer than allowed."""
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > self.settings.most_bytes:
                raise BadRequest(f"the body is longer than {self.settings.most_bytes:,} bytes", status=413)
        try:
            found = json.loads(bytes(data))
        except (ValueError, RecursionError) as e:
            raise BadRequest(f"the body is no JSON ({e})"[:300]) from None
        if not isinstance(found, dict):
            raise BadRequest("the body must be a JSON object")
        named = found.get("model")
        if named is not None and not isinstance(named, str):
            raise BadRequest("'model' must be a text", "model")
        return found

    # -- routes ------------------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        from starlette.responses import HTMLResponse

        text = resources.files("lowbit.llm.serve").joinpath("page.html").read_text("utf-8")
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'"
        return HTMLResponse(text, headers={"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"})

    async def health(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "active": self.engine.active})

    async def metrics(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(metrics_text(self.engine), media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        row = {"id": self.settings.name, "object": "model", "created": self.created, "owned_by": "lowbit"}
        return JSONResponse({"object": "list", "data": [row]})

    async def chat(self, request: Request) -> Response:
        body = await self.body(request)
        wanted, messages = ask(body), messages_of(body)
        make = [partial(self.model.chat_stream, messages, **o) for o in variants(wanted)]
        return await self.answer(request, Told("chatcmpl", "chat.completion", self.settings.name), wanted, make)

    async def completions(self, request: Request) -> Response:
        body = await self.body(request)
        if body.get("echo"):
            raise BadRequest("'echo' is not supported by this server", "echo")
        wanted, prompts = ask(body), prompts_of(body)
        make = [partial(self.model.stream, p, **o) for p in prompts for o in variants(wanted)]
        return await self.answer(request, Told("cmpl", "text_completion", self.settings.name), wanted, make)

    async def embeddings(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        body = await self.body(request)
        inputs = prompts_of(body, "input")
        form = body.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise BadRequest("'encoding_format' must be float or base64", "encoding_format")
        if body.get("dimensions") not in (None, self.model.config.width):
            raise BadRequest(f"'dimensions' must be {self.model.config.width}", "dimensions")
        ids = [self.model.tokenizer.encode(t) if isinstance(t, str) else t for t in inputs]
        vectors = await asyncio.to_thread(lambda: self.model.embed(ids))
        rows = [{"object": "embedding", "index": i, "embedding": written(v, form)} for i, v in enumerate(vectors)]
        used = sum(map(len, ids))
        usage = {"prompt_tokens": used, "total_tokens": used}
        return JSONResponse({"object": "list", "data": rows, "model": self.settings.name, "usage": usage})

    # -- answers -----------------------------------------------------------------------------------------------------------

    async def answer(self, request: Request, told: Told, wanted: Ask, make: Sequence[Callable[[], Stream]]) -> Response:
        from starlette.responses import JSONResponse, StreamingResponse

        answers: list[Answer] = []
        try:
            for m in make:
                answers.append(await self.engine.begin(m))
        except BaseException:
            self.cancel(answers)
            raise
        if wanted.stream:
            return StreamingResponse(
                self.chunks(told, wanted, answers),
                media_type="text/event-stream",
                headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
            )
        try:
            texts = await self.unless_gone(request, answers)
        finally:
            self.cancel(answers)
        if texts is None:
            return failure(499, "the client left")
        choices = [told.choice(i, text, a.finish) for i, (text, a) in enumerate(zip(texts, answers, strict=True))]
        return JSONResponse(told.head() | {"choices": choices, "usage": usage_of(answers)})

    async def unless_gone(self, request: Request, answers: list[Answer]) -> list[str] | None:
        """The texts; None, and nothing goes on, when the client leaves first."""
        everything = asyncio.ensure_future(asyncio.gather(*(a.whole() for a in answers)))
        try:
            while not everything.done():
                await asyncio.wait([everything], timeout=0.5)
                if not everything.done() and await request.is_disconnected():
                    return None
            return list(everything.result())
        finally:
            everything.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await everything

    async def chunks(self, told: Told, wanted: Ask, answers: list[Answer]) -> AsyncIterator[str]:
        """Server-sent events. A client that leaves ends its answers: this generator is closed then."""
        try:
            for i in range(len(answers)):
                if told.is_chat:
                    yield event(told.head(chunk=True) | {"choices": [told.delta(i, {"role": "assistant", "content": ""})]})
            async for i, piece in merged(answers):
                yield event(told.head(chunk=True) | {"choices": [told.piece(i, piece)]})
            for i, a in enumerate(answers):
                yield event(told.head(chunk=True) | {"choices": [told.end(i, a.finish)]})
            if wanted.usage:
                yield event(told.head(chunk=True) | {"choices": [], "usage": usage_of(answers)})
            yield "data: [DONE]\n\n"
        except LowbitError as e:
            yield event({"error": {"message": str(e), "type": "server_error", "param": None, "code": None}})
        finally:
            self.cancel(answers)

    def cancel(self, answers: list[Answer]) -> None:
        for a in answers:
            self.engine.cancel(a)


@dataclass(frozen=True)
class Told:
    """The frames in which an answer is told: of chats, or of texts."""

    prefix: str
    kind: str
    model: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "_id", f"{self.prefix}-{secrets.token_hex(12)}")
        object.__setattr__(self, "_created", int(time.time()))

    @property
    def is_chat(self) -> bool:
        return self.kind == "chat.completion"

    def head(self, chunk: bool = False) -> Event:
        kind = f"{self.kind}.chunk" if chunk and self.is_chat else self.kind
        return {"id": self.__dict__["_id"], "object": kind, "created": self.__dict__["_created"], "model": self.model}

    def choice(self, index: int, text: str, finish: str) -> Event:
        content: Event = {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return {"index": index, **content, "logprobs": None, "finish_reason": finish}

    def delta(self, index: int, delta: Event) -> Event:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, index: int, text: str) -> Event:
        if self.is_chat:
            return self.delta(index, {"content": text})
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None}

    def end(self, index: int, finish: str) -> Event:
        last: Event = {"delta": {}} if self.is_chat else {"text": ""}
        return {"index": index, **last, "logprobs": None, "finish_reason": finish}


def variants(wanted: Ask) -> list[dict[str, Any]]:
    """The options of each of n answers: they differ in their seeds."""
    return [{**wanted.options, "seed": (wanted.options["seed"] + i) % (1 << 63)} for i in range(wanted.count)]


async def merged(answers: list[Answer]) -> AsyncIterator[tuple[int, str]]:
    """The pieces of several answers as they come."""
    if len(answers) == 1:
        async for piece in answers[0]:
            yield 0, piece
        return
    queue: asyncio.Queue[tuple[int, str] | BaseException | None] = asyncio.Queue()

    async def pump(i: int, a: Answer) -> None:
        try:
            async for piece in a:
                queue.put_nowait((i, piece))
            queue.put_nowait(None)
        except LowbitError as e:
            queue.put_nowait(e)

    tasks = list(itertools.starmap(lambda i, a: asyncio.ensure_future(pump(i, a)), enumerate(answers)))
    try:
        left = len(answers)
        while left:
            item = await queue.get()
            if item is None:
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        for t in tasks:
            t.cancel()


def usage_of(answers: list[Answer]) -> Event:
    prompt = {id(a): a.prompt_tokens for a in answers}
    asked, made = sum(prompt.values()), sum(a.answer_tokens for a in answers)
    reused = sum(a.stream.sequence.reused for a in answers)
    return {
        "prompt_tokens": asked,
        "completion_tokens": made,
        "total_tokens": asked + made,
        "prompt_tokens_details": {"cached_tokens": reused},
    }


def written(vector: np.ndarray[Any, np.dtype[np.float32]], form: str) -> Any:
    """A vector as numbers, or as the base64 of its float32 bytes."""
    if form == "float":
        return [float(x) for x in vector]
    import base64

    return base64.b64encode(np.ascontiguousarray(vector, "<f4").tobytes()).decode()


def event(body: Event) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def failure(status: int, message: str, field: str | None = None, code: str | None = None) -> Response:
    from starlette.responses import JSONResponse

    kind = "authentication_error" if status == 401 else "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": field, "code": code}}, status_code=status)
