"""The vocabulary of a Hugging Face folder as fields of a GGUF file. The file's tokenizer must give the folder's ids, or it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lowbit.errors import LowbitError, UnsupportedOp
from lowbit.frontends.gguf.file import GGUFFile
from lowbit.frontends.gguf.header import Field
from lowbit.llm.tokenizer import Tokenizer, from_folder, from_gguf
from lowbit.llm.tokenizer.gguf import BYTE, CONTROL, UNKNOWN, USER_DEFINED
from lowbit.llm.tokenizer.pretokenizers import GPT2, PATTERNS, SINGLE_DIGITS
from lowbit.llm.weights import Weights

NORMAL = 1
TEXTS, WHOLES, REALS = ("ARRAY", "STRING"), ("ARRAY", "INT32"), ("ARRAY", "FLOAT32")
# Texts by which tokenizers differ: spaces, digits, contractions, scripts, signs, lines.
PROBES = (
    "Hello world", "  two  spaces\n\n\nlines\t\ttabs ", "It's we'LL they'd 've", "12345 3.14159 007 1,000,000",
    "naïve café ÅNGSTRÖM ﬁ e\u0301", "中文字符 と かな 한국어", "👩‍👩‍👧 🙂", "def f(x):\n\treturn x ** 2  # ok\n",
    "HTTPServer camelCase snake_case kebab-case", "a/b\\c \r\n end", "عربي עברית हिन्दी ไทย", "!!! ??? ...—“quotes”", "",
)  # fmt: skip
CANDIDATES = ("gpt-2", *SINGLE_DIGITS[:1], "qwen2", "llama-bpe", "tekken", "gpt-4o", *GPT2[1:], *SINGLE_DIGITS[1:], *PATTERNS)


def vocabulary_fields(w: Weights) -> dict[str, Field]:
    """The fields of the folder's tokenizer and chat template."""
    assert w.folder is not None
    ours = from_folder(w.folder)
    settings = json.loads((Path(w.folder) / "tokenizer.json").read_text())
    rows = w.tensors["token_embd.weight"].shape[0]
    common = _common(ours, settings, rows)
    tried = []
    for fields in _models(settings, ours):
        found = {**fields, **common}
        tried.append(str(found.get("tokenizer.ggml.pre", found["tokenizer.ggml.model"]).value))
        if _same(ours, found):
            return {f"tokenizer.{k}" if not k.startswith("tokenizer.") else k: f for k, f in found.items()}
    kind = str(settings.get("model", {}).get("type"))
    raise UnsupportedOp(
        f"no tokenizer of GGUF gives the ids of this {kind} vocabulary (tried {', '.join(tried) or 'none'})",
        where=f"{w.name}/tokenizer.json",
        hint="byte-level BPE, or SentencePiece's BPE with byte fallback",
    )


def _common(t: Tokenizer, settings: dict[str, Any], rows: int) -> dict[str, Field]:
    added = {int(a["id"]): a for a in settings.get("added_tokens", [])}
    spelled = [t.token(i) for i in range(rows)]
    kinds = []
    for i, token in enumerate(spelled):
        if i in added:
            kinds.append(CONTROL if added[i].get("special") else USER_DEFINED)
        elif token is None:
            kinds.append(5)  # unused: the table has more rows than the vocabulary
        elif settings.get("model", {}).get("byte_fallback") and len(token) == 6 and token.startswith("<0x"):
            kinds.append(BYTE)
        else:
            kinds.append(NORMAL)
    unknown = settings.get("model", {}).get("unk_token")
    if isinstance(unknown, str) and (u := t.id_of(unknown)) is not None and u < rows:
        kinds[u] = UNKNOWN
    tokens = [f"[PAD{i}]" if s is None else s for i, s in enumerate(spelled)]
    found = {"tokenizer.ggml.tokens": Field(tokens, TEXTS), "tokenizer.ggml.token_type": Field(kinds, WHOLES)}
    for name in ("bos", "eos", "unk", "pad"):
        spelling = t.named.get(f"{name}_token")
        number = None if spelling is None else t.id_of(spelling)
        if number is not None:
            key = {"unk": "unknown", "pad": "padding"}.get(name, name)
            found[f"tokenizer.ggml.{key}_token_id"] = Field(number, ("UINT32",))
    if "tokenizer.ggml.bos_token_id" not in found and t.before:
        found["tokenizer.ggml.bos_token_id"] = Field(t.before[0], ("UINT32",))
    if "tokenizer.ggml.eos_token_id" not in found and t.ends:
        found["tokenizer.ggml.eos_token_id"] = Field(min(t.ends), ("UINT32",))
    found["tokenizer.ggml.add_bos_token"] = Field(bool(t.before), ("BOOL",))
    found["tokenizer.ggml.add_eos_token"] = Field(bool(t.after), ("BOOL",))
    if t.template is not None:
        found["tokenizer.chat_template"] = Field(t.template, ("STRING",))
    return found


def _models(settings: dict[str, Any], t: Tokenizer) -> list[dict[str, Field]]:
    """What kind of vocabulary it may be: byte-level with each way to cut texts into words, or SentencePiece's."""
    model = settings.get("model", {})
    if model.get("type") != "BPE":
        return []
    merges = [m if isinstance(m, str) else " ".join(m) for m in model.get("merges", [])]
    if model.get("byte_fallback"):
        return [_sentencepiece(model, merges, t, prefix) for prefix in (True, False)]
    text = Field("gpt2", ("STRING",)), Field(merges, TEXTS)
    return [
        {"tokenizer.ggml.model": text[0], "tokenizer.ggml.pre": Field(pre, ("STRING",)), "tokenizer.ggml.merges": text[1]}
        for pre in dict.fromkeys(CANDIDATES)
    ]


def _sentencepiece(model: dict[str, Any], merges: list[str], t: Tokenizer, prefix: bool) -> dict[str, Field]:
    """A token's score is minus the rank of the first merge that makes it: what is merged first has the highest score."""
    first: dict[str, int] = {}
    for rank, merge in enumerate(merges):
        first.setdefault(merge.replace(" ", "", 1), rank)
    scores = [-float(first.get(t.token(i) or "", len(merges))) for i in range(t.size)]
    return {
        "tokenizer.ggml.model": Field("llama", ("STRING",)),
        "tokenizer.ggml.scores": Field(scores, REALS),
        "tokenizer.ggml.add_space_prefix": Field(prefix, ("BOOL",)),
    }


def _same(ours: Tokenizer, fields: dict[str, Field]) -> bool:
    tokens, scores = fields["tokenizer.ggml.tokens"].value, fields.get("tokenizer.ggml.scores")
    if scores is not None:  # the table of embeddings may have more rows
        scores.value.extend([-1e9] * (len(tokens) - len(scores.value)))
        del scores.value[len(tokens) :]
    try:
        theirs = from_gguf(GGUFFile(fields, {}))
    except LowbitError:
        return False
    return all(ours.encode(p) == theirs.encode(p) and ours.encode(f"a{p}") == theirs.encode(f"a{p}") for p in PROBES)
