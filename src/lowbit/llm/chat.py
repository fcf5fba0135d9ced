"""Messages of a chat as one prompt, by the template in the file: Jinja in its sandbox, with bounds on what it may make."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lowbit.errors import FormatError, InputError
from lowbit.llm.tokenizer import Tokenizer

Message = Mapping[str, Any]
MOST = 16 << 20  # characters of a prompt, and of any text that a template makes on the way
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def render(tokenizer: Tokenizer, messages: Sequence[Message], *, answer: bool = True, **more: Any) -> str:
    """The prompt. `answer` ends it where the assistant's answer begins; `more` are further variables of the template."""
    template = tokenizer.template
    if template is None and tokenizer.id_of("<|im_start|>") is not None:
        template = CHATML
    if template is None:
        raise InputError("the file has no chat template", hint="m.generate(prompt) continues a text")
    given = [checked(m, i) for i, m in enumerate(messages)]
    if not given:
        raise InputError("no messages given", hint='[{"role": "user", "content": "…"}]')
    try:
        compiled = _environment().from_string(template)
        pieces, length = [], 0
        for piece in compiled.generate(messages=given, add_generation_prompt=answer, **tokenizer.named, **more):
            length += len(piece)
            if length > MOST:
                raise FormatError(f"the chat template makes more than {MOST:,} characters")
            pieces.append(piece)
        return "".join(pieces)
    except _Refused as e:
        raise InputError(f"the chat template refuses these messages: {str(e)[:200]}") from None
    except (FormatError, InputError, KeyboardInterrupt):
        raise
    except (Exception, RecursionError) as e:  # whatever a template of a stranger does
        raise FormatError(f"the chat template fails ({type(e).__name__}: {str(e)[:200]})") from None


def checked(message: Message, i: int) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
        raise InputError(
            f"message {i} is no role and content", hint='{"role": "user", "content": "…"}; roles are system, user and assistant'
        )
    return dict(message)


class _Refused(Exception):
    """raise_exception of a template."""


def _refuse(text: str) -> None:
    raise _Refused(text)


def _environment() -> Any:
    try:
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as e:
        raise InputError("chat templates need the package jinja2, which is not installed", hint="pip install 'lowbit[llm]'") from e

    class Bounded(ImmutableSandboxedEnvironment):
        """A sandbox whose operators make no huge texts or numbers."""

        intercepted_binops = frozenset(["*", "**", "%", "+"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or (operator == "%" and isinstance(left, str)):
                raise FormatError(f"the chat template computes {operator!r}, which is not allowed")
            sizes = [len(x) if isinstance(x, str | list | tuple) else abs(x) if isinstance(x, int) else 0 for x in (left, right)]
            if (sizes[0] + sizes[1] if operator == "+" else sizes[0] * sizes[1]) > MOST and not isinstance(left, float):
                raise FormatError("the chat template makes something huge")
            return super().call_binop(context, operator, left, right)

    env = Bounded(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    for name in ("lipsum", "cycler", "joiner"):  # no template of a chat needs them
        env.globals.pop(name, None)
    env.globals["raise_exception"] = _refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    env.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    return env
