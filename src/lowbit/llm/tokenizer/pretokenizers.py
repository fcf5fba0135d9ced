"""How byte-level BPE cuts a text into words before it merges bytes: by name, as GGUF files say it in tokenizer.ggml.pre."""

from __future__ import annotations

from typing import Any

from lowbit.errors import UnsupportedOp

_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English contractions
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str) -> str:
    return rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"


def _cased(digits: str, short: str) -> str:
    begin = r"[^\r\n\p{L}\p{N}]?"
    return rf"{begin}{_UPPER}*{_LOWER}+{short}|{begin}{_UPPER}+{_LOWER}*{short}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_REST}"


LLAMA3 = _words(r"\p{N}{1,3}")
QWEN2 = _words(r"\p{N}")
PATTERNS = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe", "falcon3"), LLAMA3),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez"), QWEN2),
    "tekken": _cased(r"\p{N}", ""),
    "gpt-4o": _cased(r"\p{N}{1,3}", _SHORT + "?"),
}
GPT2 = ("gpt-2", "gpt2", "default", "phi-2", "mpt", "olmo", "jina-en", "jina-es", "jina-de", "gigachat")
SINGLE_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "minerva-7b")
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "tekken")  # a word of the vocabulary is a token, whatever merges say
COMPOSED = ("qwen2", "deepseek-r1-qwen")  # texts in Unicode's form NFC


def pretokenizer(name: str, tokenizers: Any) -> Any:
    """The library's pre-tokenizer of that name."""
    p = tokenizers.pre_tokenizers
    if name in GPT2:
        return p.ByteLevel(add_prefix_space=False)
    if name in SINGLE_DIGITS:
        return p.Sequence([p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False)])
    if name in PATTERNS:
        cut = p.Split(tokenizers.Regex(PATTERNS[name]), behavior="isolated", invert=False)
        return p.Sequence([cut, p.ByteLevel(add_prefix_space=False, use_regex=False)])
    known = ", ".join(sorted({*GPT2, *SINGLE_DIGITS, *PATTERNS}))
    raise UnsupportedOp(f"the pre-tokenizer {name[:60]!r} is not known", hint=f"one of {known}")
