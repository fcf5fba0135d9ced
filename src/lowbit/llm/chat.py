"""Messages of a chat as one prompt, by the template in the file: Jinja in its sandbox, with bounds on what it may make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowbit.errors import FormatError, InputError
from lowbit.llm.sandbox import MOST, Refused, environment
from lowbit.llm.tokenizer import Tokenizer

Message = Mapping[str, Any]
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
        compiled = environment().from_string(template)
        pieces, length = [], 0
        for piece in compiled.generate(messages=given, add_generation_prompt=answer, **tokenizer.named, **more):
            length += len(piece)
            if length > MOST:
                raise FormatError(f"the chat template makes more than {MOST:,} characters")
            pieces.append(piece)
        return "".join(pieces)
    except Refused as e:
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
