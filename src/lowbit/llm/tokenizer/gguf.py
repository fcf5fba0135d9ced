"""The tokenizer of a GGUF file, made from its vocabulary: byte-level BPE, SentencePiece (BPE and unigram) and WordPiece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowbit.errors import FormatError, LowbitError, UnsupportedOp
from lowbit.frontends.gguf.file import GGUFFile
from lowbit.llm.tokenizer.pretokenizers import COMPOSED, WHOLE_WORDS, pretokenizer
from lowbit.llm.tokenizer.tokenizer import Tokenizer, guarded, library, reply_ends

UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6  # tokenizer.ggml.token_type
SPACE = "▁"  # SentencePiece's


@dataclass(frozen=True)
class Vocabulary:
    """The file's tables, checked: as many types (and scores) as tokens."""

    tokens: list[str]
    types: list[int]
    scores: list[float]
    merges: list[tuple[str, str]]

    @property
    def ids(self) -> dict[str, int]:
        return {t: i for i, t in enumerate(self.tokens)}

    def of_type(self, *types: int) -> list[str]:
        return [t for t, kind in zip(self.tokens, self.types) if kind in types]


def from_gguf(file: GGUFFile) -> Tokenizer:
    try:
        return _made(file)
    except LowbitError as e:
        raise e.at(file.name) from None


def _made(file: GGUFFile) -> Tokenizer:
    kind, v = file["tokenizer.ggml.model"], _vocabulary(file)
    if kind not in MODELS:
        raise UnsupportedOp(f"the tokenizer {str(kind)[:60]!r} is not known", hint=f"one of {', '.join(MODELS)}")
    core = guarded(lambda: MODELS[kind](file, v, library()), "the vocabulary")
    added = library().AddedToken
    controls = [t for t in v.of_type(CONTROL, UNKNOWN) if t]
    core.add_special_tokens([added(t, special=True, normalized=False) for t in controls])
    core.add_tokens([added(t, special=False, normalized=False) for t in v.of_type(USER_DEFINED) if t])

    def special(name: str) -> int | None:
        found = file.get(f"tokenizer.ggml.{name}_token_id")
        return found if isinstance(found, int) and 0 <= found < len(v.tokens) else None

    bert = kind == "bert"
    first, last = (special("cls") if bert and special("bos") is None else special("bos")), special("eos")
    if bert:
        last = special("seperator") if special("seperator") is not None else last  # the format's own spelling
    begins = kind in ("llama", "bert") or (kind == "gpt2" and file.get("tokenizer.ggml.pre") in WHOLE_WORDS)  # as llama.cpp has it
    begin = file.get("tokenizer.ggml.add_bos_token", begins)
    end = file.get("tokenizer.ggml.add_eos_token", kind in ("t5", "bert"))
    template = file.get("tokenizer.chat_template")
    return Tokenizer(
        core,
        (first,) if begin and first is not None else (),
        (last,) if end and last is not None else (),
        reply_ends(core, (special("eos"), special("eot"), special("eom"))),
        template if isinstance(template, str) else None,
        {f"{n}_token": v.tokens[i] for n in ("bos", "eos", "unk") if (i := special(n if n != "unk" else "unknown")) is not None},
    )


def _vocabulary(file: GGUFFile) -> Vocabulary:
    tokens = _table(file, "tokens", str)
    types = _table(file, "token_type", int) if "tokenizer.ggml.token_type" in file.fields else [1] * len(tokens)
    scores = _table(file, "scores", float) if "tokenizer.ggml.scores" in file.fields else [0.0] * len(tokens)
    if not tokens or len(types) != len(tokens) or len(scores) != len(tokens):
        raise FormatError(f"{len(tokens):,} tokens, {len(types):,} types and {len(scores):,} scores: as many of each are needed")
    if len(set(tokens)) != len(tokens):
        seen: dict[str, int] = {}
        for i, t in enumerate(tokens):  # files fill up with equal names: the later ones can never be written
            tokens[i] = t if t not in seen else f"{t}<{i}>"
            seen[t] = i
    merges = [m.partition(" ") for m in _table(file, "merges", str)] if "tokenizer.ggml.merges" in file.fields else []
    # A merge's parts may themselves hold spaces in no known vocabulary: bytes are written as letters.
    return Vocabulary(tokens, types, scores, [(a, b) for a, _, b in merges])


def _table(file: GGUFFile, name: str, kind: type) -> list[Any]:
    found = file[f"tokenizer.ggml.{name}"]
    if not isinstance(found, list) or not all(type(x) is kind for x in found):
        raise FormatError(f"tokenizer.ggml.{name} is no array of {kind.__name__}")
    return list(found)


def _byte_level(file: GGUFFile, v: Vocabulary, lib: Any) -> Any:
    pre = str(file.get("tokenizer.ggml.pre", "default"))
    core = lib.Tokenizer(lib.models.BPE(vocab=v.ids, merges=v.merges, ignore_merges=pre in WHOLE_WORDS))
    core.pre_tokenizer = pretokenizer(pre, lib)
    if pre in COMPOSED:
        core.normalizer = lib.normalizers.NFC()
    core.decoder = lib.decoders.ByteLevel()
    return core


def merges_of_scores(tokens: Sequence[str], scores: Sequence[float], skip: frozenset[str]) -> list[tuple[str, str]]:
    """SentencePiece's BPE joins the two neighbours whose token has the highest score: every way to cut a token in two, best token first."""
    ids = {t: i for i, t in enumerate(tokens) if t not in skip}
    found = []
    for token, i in ids.items():
        for at in range(1, len(token)):
            left, right = ids.get(token[:at]), ids.get(token[at:])
            if left is not None and right is not None:
                found.append((-scores[i], left, right))
    return [(tokens[left], tokens[right]) for _, left, right in sorted(found)]


LONGEST = 128  # characters of a token that is made by merges: the ways to cut one are as many


def _sentencepiece(file: GGUFFile, v: Vocabulary, lib: Any) -> Any:
    skip = frozenset(v.of_type(UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)) | {t for t in v.tokens if len(t) > LONGEST}
    unknown = next(iter(v.of_type(UNKNOWN)), None)
    merges = merges_of_scores(v.tokens, v.scores, skip)
    core = lib.Tokenizer(lib.models.BPE(vocab=v.ids, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=bool(v.of_type(BYTE))))
    prefix = bool(file.get("tokenizer.ggml.add_space_prefix", True))
    n, d = lib.normalizers, lib.decoders
    core.normalizer = n.Sequence([*([n.Prepend(SPACE)] if prefix else []), n.Replace(" ", SPACE)])
    core.decoder = d.Sequence([d.Replace(SPACE, " "), d.ByteFallback(), d.Fuse(), *([d.Strip(" ", 1, 0)] if prefix else [])])
    return core


def _unigram(file: GGUFFile, v: Vocabulary, lib: Any) -> Any:
    unknown = next((i for i, t in enumerate(v.types) if t == UNKNOWN), None)
    core = lib.Tokenizer(lib.models.Unigram(list(zip(v.tokens, v.scores)), unk_id=unknown, byte_fallback=bool(v.of_type(BYTE))))
    n, charsmap = lib.normalizers, file.get("tokenizer.ggml.precompiled_charsmap")
    steps = [n.Precompiled(bytes(c & 255 for c in charsmap))] if charsmap else []
    if file.get("tokenizer.ggml.remove_extra_whitespaces", True):
        steps += [n.Strip(left=True, right=True), n.Replace(lib.Regex(" {2,}"), " ")]
    core.normalizer = n.Sequence(steps)
    prefix = "always" if file.get("tokenizer.ggml.add_space_prefix", True) else "never"
    core.pre_tokenizer = lib.pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=prefix)
    core.decoder = lib.decoders.Metaspace(replacement=SPACE, prepend_scheme=prefix)
    return core


def _wordpiece(file: GGUFFile, v: Vocabulary, lib: Any) -> Any:
    special = {*v.of_type(CONTROL, UNKNOWN)}
    spelled = [t if t in special else t.removeprefix(SPACE) if t.startswith(SPACE) else f"##{t}" for t in v.tokens]
    unknown = next(iter(v.of_type(UNKNOWN)), "[UNK]")
    core = lib.Tokenizer(lib.models.WordPiece({t: i for i, t in enumerate(spelled)}, unk_token=unknown))
    core.normalizer = lib.normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = lib.pre_tokenizers.BertPreTokenizer()
    core.decoder = lib.decoders.WordPiece()
    return core


MODELS = {"gpt2": _byte_level, "llama": _sentencepiece, "t5": _unigram, "bert": _wordpiece}
