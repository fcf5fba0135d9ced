"""Tokenizers made from GGUF vocabularies give the ids that `transformers` gives, on hard texts."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lowbit.errors import FormatError, InputError, UnsupportedOp
from lowbit.frontends.gguf import Field, GGUFFile
from lowbit.llm.tokenizer import Tokenizer, from_folder, from_gguf
from lowbit.llm.tokenizer.pretokenizers import LLAMA3, QWEN2

tokenizers = pytest.importorskip("tokenizers", reason="the extra llm is not installed")
transformers = pytest.importorskip("transformers", reason="the peer is not installed")
sentencepiece = pytest.importorskip("sentencepiece", reason="the vocabularies of the test are made by it")

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "  two leading spaces, and   three inside, and one at the end ",
    "👩‍👩‍👧 emoji 🎉🇩🇪 with joiners and flags",
    "def f(x):\n\treturn {'a': x[0] ** 2}  # 100% done\n\n\n",
    "中文字符和英文 mixed,還有標點。日本語もある",
    "naïve café Ångström e\u0301 ﬁ ½ №",
    "it's we'll I'D they'Ve 1234567 3.14159 1,000,000",
    "\u202ehidden\u200bcontrols\u0000\u0007\ufeff",
    "<s>special</s> <|end|><|end|> tokens <|start|>in a text<unk>",
    "",
    "ΑΒΓ абв אבג ابج हिन्दी ไทย",
]
CORPUS = [*TEXTS[:8], *TEXTS[9:]] * 3 + [
    "A vocabulary is made of this text; it is short, and so are its words: 'the', 'then', 'there', 'other', 'another'.",
    "return self.value + other.value; for (int i = 0; i < 10; i++) { sum += i * i; }",
] * 5


def gguf(model: str, tokens: list[str], types: list[int], **more: Any) -> GGUFFile:
    fields = {"tokenizer.ggml.model": Field(model, ("STRING",)), "tokenizer.ggml.tokens": Field(tokens, ("ARRAY", "STRING"))}
    fields["tokenizer.ggml.token_type"] = Field(types, ("ARRAY", "INT32"))
    return GGUFFile(fields | {f"tokenizer.ggml.{k}": Field(v, ("",)) for k, v in more.items()}, {}, "vocabulary.gguf")


def same_ids(mine: Tokenizer, theirs: Any, texts: list[str] = TEXTS) -> None:
    for text in texts:
        assert mine.encode(text) == theirs(text).input_ids, text
        assert mine.encode(text, special=False) == theirs(text, add_special_tokens=False).input_ids, text


def spread(tok: Tokenizer, text: str) -> None:
    """Text that comes token by token is the text that comes at once."""
    ids = tok.encode(text, special=False)
    stream = tok.stream()
    assert "".join([*(stream.add(i) for i in ids), stream.rest()]) == tok.decode(ids)


def byte_level(pre: str, **extra: Any) -> tuple[Tokenizer, Any]:
    t = tokenizers
    core = t.Tokenizer(t.models.BPE(**extra))
    p = t.pre_tokenizers
    patterns = {"llama-bpe": LLAMA3, "qwen2": QWEN2}
    if pre in patterns:
        steps = [p.Split(t.Regex(patterns[pre]), "isolated"), p.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        steps = [*([p.Digits(True)] if pre == "smollm" else []), p.ByteLevel(add_prefix_space=False)]
    core.pre_tokenizer, core.decoder = p.Sequence(steps), t.decoders.ByteLevel()
    core.normalizer = t.normalizers.NFC() if pre == "qwen2" else None
    special = ["<|start|>", "<|end|>"]
    trainer = t.trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=p.ByteLevel.alphabet(), show_progress=False, max_token_length=12
    )
    core.train_from_iterator(CORPUS, trainer)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>", bos_token="<|start|>")
    vocabulary = sorted(core.get_vocab().items(), key=lambda item: item[1])
    merges = [" ".join(m) if isinstance(m, list) else m for m in json.loads(core.to_str())["model"]["merges"]]
    tokens = [t for t, _ in vocabulary]
    file = gguf("gpt2", tokens, [3 if t in special else 1 for t in tokens], merges=merges, pre=pre, bos_token_id=0, eos_token_id=1)
    return from_gguf(file), theirs


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_byte_level_vocabularies_give_the_ids_of_transformers(pre: str) -> None:
    mine, theirs = byte_level(pre, ignore_merges=pre == "llama-bpe")
    assert mine.ends == {1} and mine.before == ((0,) if pre == "llama-bpe" else ())  # Llama 3's files do not say that texts begin so
    same_ids(replace(mine, before=()), theirs)
    for text in TEXTS:
        assert mine.decode(mine.encode(text)) == theirs.decode(theirs(text).input_ids, skip_special_tokens=True)
        spread(mine, text)


@pytest.mark.parametrize(
    ("pre", "text", "cut"),
    [
        ("gpt-2", "I'm 1234 ok?!", ["I", "'m", "Ġ1234", "Ġok", "?!"]),
        ("smollm", "a 12", ["a", "Ġ", "1", "2"]),
        ("llama-bpe", "I'M 12345 x\n\n y", ["I", "'M", "Ġ", "123", "45", "Ġx", "ĊĊ", "Ġy"]),
        ("qwen2", "12 ok", ["1", "2", "Ġok"]),
        ("tekken", "HelloWorld 12", ["Hello", "World", "Ġ", "1", "2"]),
        ("gpt-4o", "HelloWorld's 1234/\n", ["Hello", "World's", "Ġ", "123", "4", "/Ċ"]),
    ],
)
def test_pre_tokenizers_cut_as_their_networks_were_trained(pre: str, text: str, cut: list[str]) -> None:
    from lowbit.llm.tokenizer.pretokenizers import pretokenizer

    assert [w for w, _ in pretokenizer(pre, tokenizers).pre_tokenize_str(text)] == cut


@cache
def trained(kind: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in CORPUS for line in text.replace("\0", "").split("\n") if line]),
        model_writer=model,
        vocab_size=420 if kind == "bpe" else 300,
        model_type=kind,
        byte_fallback=kind == "bpe",
        normalization_rule_name="identity" if kind == "bpe" else "nmt_nfkc",
        remove_extra_whitespaces=kind != "bpe",
        hard_vocab_limit=False,
        user_defined_symbols=["<|end|>"],
        minloglevel=2,
    )
    return model.getvalue()


def pieces(model: bytes) -> tuple[list[str], list[float], list[int]]:
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    n = range(sp.vocab_size())
    tokens = [sp.id_to_piece(i) for i in n]
    types = [
        2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if t == "<|end|>" else 1
        for i, t in enumerate(tokens)
    ]
    return tokens, [sp.get_score(i) for i in n], types


def test_a_sentencepiece_bpe_vocabulary_gives_the_ids_of_transformers_and_of_sentencepiece(tmp_path: Path) -> None:
    model = trained("bpe")
    tokens, scores, types = pieces(model)
    mine = from_gguf(gguf("llama", tokens, types, scores=scores, bos_token_id=1, eos_token_id=2, add_bos_token=True))
    (tmp_path / "tokenizer.model").write_bytes(model)
    theirs = transformers.LlamaTokenizer.from_pretrained(str(tmp_path), legacy=True, add_bos_token=True)
    # transformers 5 leaves the dummy prefix out before a text that begins with a space; SentencePiece, below, does not.
    same_ids(mine, theirs, [t for t in TEXTS if "<" not in t and t.strip(" ") == t != ""])
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in TEXTS:
        if "<s>" not in text:
            assert mine.encode(text) == [1, *sp.encode(text)], text
            assert mine.decode(mine.encode(text)) == text, text
            spread(mine, text)
    assert mine.before == (1,) and mine.encode("<s>a</s>")[0] == 1 and mine.encode("<s>a</s>")[-1] == 2


def test_a_unigram_vocabulary_gives_the_ids_of_sentencepiece() -> None:
    model = trained("unigram")
    tokens, scores, types = pieces(model)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    charsmap = list(proto.normalizer_spec.precompiled_charsmap)
    mine = from_gguf(gguf("t5", tokens, types, scores=scores, precompiled_charsmap=charsmap, eos_token_id=2))
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in TEXTS:
        if "<s>" not in text:
            assert mine.encode(text) == [*sp.encode(text), 2], text


def test_a_wordpiece_vocabulary_gives_the_ids_of_transformers() -> None:
    t = tokenizers
    core = t.Tokenizer(t.models.WordPiece(unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = t.normalizers.BertNormalizer(lowercase=True), t.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core.train_from_iterator(CORPUS[:-8], t.trainers.WordPieceTrainer(vocab_size=260, special_tokens=special, show_progress=False))
    tokens = [w for w, _ in sorted(core.get_vocab().items(), key=lambda item: item[1])]
    theirs = transformers.BertTokenizerFast(vocab={w: i for i, w in enumerate(tokens)})
    stored = [w if w in special else w[2:] if w.startswith("##") else "▁" + w for w in tokens]
    types = [2 if w == "[UNK]" else 3 if w in special else 1 for w in tokens]
    mine = from_gguf(gguf("bert", stored, types, cls_token_id=2, seperator_token_id=3, unknown_token_id=1))
    same_ids(mine, theirs, [*TEXTS, "a [MASK] in [SEP] between"])
    assert mine.before == (2,) and mine.after == (3,)


def test_a_folder_gives_the_ids_of_transformers(tmp_path: Path) -> None:
    _, theirs = byte_level("llama-bpe", ignore_merges=True)
    theirs.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    theirs.save_pretrained(str(tmp_path))
    mine = from_folder(tmp_path)
    same_ids(mine, theirs)
    assert mine.template == theirs.chat_template and mine.ends == {1} and mine.named["bos_token"] == "<|start|>"


def test_what_the_post_processor_adds_is_before_and_after_a_text(tmp_path: Path) -> None:
    _, theirs = byte_level("qwen2")
    core = theirs.backend_tokenizer
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|start|> $A <|end|>", special_tokens=[("<|start|>", 0), ("<|end|>", 1)]
    )
    core.save(str(tmp_path / "tokenizer.json"))
    mine = from_folder(tmp_path)
    assert mine.before == (0,) and mine.after == (1,)
    assert mine.encode("hello") == core.encode("hello").ids


def test_vocabularies_that_make_no_tokenizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"2 tokens, 3 types and 2 scores: as many of each are needed"):
        from_gguf(gguf("gpt2", ["a", "b"], [1, 1, 1]))
    with pytest.raises(FormatError, match=r"tokenizer.ggml.tokens is no array of str"):
        from_gguf(gguf("gpt2", ["a", 3], [1, 1]))  # type: ignore[list-item]
    with pytest.raises(FormatError, match="the vocabulary makes no tokenizer"):
        from_gguf(gguf("gpt2", ["a", "b"], [1, 1], merges=["a c"]))
    with pytest.raises(FormatError, match="the vocabulary makes no tokenizer"):
        from_gguf(gguf("gpt2", ["a", "b"], [1, 1], merges=["ab"]))
    with pytest.raises(UnsupportedOp, match="the tokenizer 'rwkv' is not known"):
        from_gguf(gguf("rwkv", ["a"], [1]))
    with pytest.raises(UnsupportedOp, match=r"the pre-tokenizer 'nothing' is not known"):
        from_gguf(gguf("gpt2", ["a"], [1], pre="nothing", merges=[]))
    with pytest.raises(FormatError, match=r"there is no tokenizer.json"):
        from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match=r"tokenizer.json makes no tokenizer"):
        from_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[" * 100_000)
    byte_level("gpt-2")[1].backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(FormatError, match=r"tokenizer_config.json: not JSON"):
        from_folder(tmp_path)


def test_a_text_is_needed() -> None:
    mine, _ = byte_level("gpt-2")
    with pytest.raises(InputError, match="bytes given, a text is needed"):
        mine.encode(b"a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="half of a surrogate pair"):
        mine.encode("\ud800")
