"""Chat templates: the text that transformers renders, and templates of strangers that try to do harm."""

from __future__ import annotations

from typing import Any

import pytest
from llm_networks import tokenizer_json

from lowbit.errors import FormatError, InputError
from lowbit.llm.chat import render
from lowbit.llm.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers", reason="the extra llm is not installed")
pytest.importorskip("jinja2", reason="the extra llm is not installed")

CHAT = [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": " ok "}, {"role": "user", "content": "go\n"}]
TEMPLATES = [
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] | trim }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}",
    "{{ bos_token }}{%- for m in messages %}\n    {%- if m.role == 'user' %}\n[{{ m.content }}]\n{%- else %}{{ m | tojson }}{% endif %}\n"
    "{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
    "{% if loop.last %}{% break %}{% endif %}{% endfor %}",
    "{{ messages[0].content ~ 1 ~ 'x' | upper }}{{ 'a-b'.replace('-', '+') }}{{ ['x', 'y'] | join('; ') }}{{ 'a\nb' | indent(2) }}",
    "{% if messages[0].role == 'system' %}x{% endif %}{{ messages[-1].content.split('\n')[0] }}{{ '%s' }}",
]


def with_template(template: str | None, named: dict[str, str] | None = None) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(tokenizer_json()), template=template, named=named or {"bos_token": "<s>"})


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_gives_the_text_that_transformers_gives(template: str) -> None:
    transformers = pytest.importorskip("transformers", reason="the peer is not installed")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=with_template(None).core, bos_token="<s>")
    want = theirs.apply_chat_template(CHAT, chat_template=template, tokenize=False, add_generation_prompt=True)
    assert render(with_template(template), CHAT) == want


HARMFUL = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append(1) }}",
    "{{ 'a' * 10000000000 }}",
    "{{ 'a' * 5000000 * 5000000 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ '%999999999d' % 1 }}",
    "{% for i in range(1000000) %}x{% endfor %}",
    "{% for i in range(90000) %}{{ messages[0].content * 1000 }}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ 1 / 0 }}",
    "{% if %}",
    "{{ lipsum(n=1000000000) }}",
    "{{ messages[0].nothing.at_all }}",
    "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(9) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='aa') %}{% for i in range(9) %}{% set ns.s = ns.s | replace('a', ns.s) %}{% endfor %}",
    "{{ 'a'.center(1000000000) }}",
    "{{ 'a' | center(1000000000) }}",
    "{{ 'a\n' | indent(1000000000) }}",
    "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
    "{{ '{:1000000000}'.format(1) }}",
]


@pytest.mark.parametrize("template", HARMFUL)
def test_a_template_can_do_no_harm(template: str) -> None:
    with pytest.raises(FormatError, match=r"the chat template (fails|makes|computes)"):
        render(with_template(template), CHAT)


def test_a_template_may_refuse_messages() -> None:
    with pytest.raises(InputError, match="the chat template refuses these messages: roles must alternate"):
        render(with_template("{{ raise_exception('roles must alternate') }}"), CHAT)


def test_without_a_template_chatml_is_taken_where_its_tokens_are_there() -> None:
    assert render(with_template(None), CHAT[:1]) == "<|im_start|>user\nHi <b><|im_end|>\n<|im_start|>assistant\n"
    bare = tokenizers.Tokenizer(tokenizers.models.BPE())
    with pytest.raises(InputError, match="the file has no chat template"):
        render(Tokenizer(bare), CHAT)


@pytest.mark.parametrize("messages", [["a"], [{"role": 3, "content": ""}], [{"role": "user", "content": ["x"]}]])
def test_messages_are_roles_and_contents(messages: Any) -> None:
    with pytest.raises(InputError, match="message 0 is no role and content"):
        render(with_template(None), messages)
