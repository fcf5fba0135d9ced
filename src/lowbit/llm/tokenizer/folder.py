"""The tokenizer of a Hugging Face folder: tokenizer.json, with names and the chat template from the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lowbit.errors import FormatError
from lowbit.llm.tokenizer.tokenizer import Tokenizer, guarded, library, reply_ends

MOST_BYTES = 128 << 20


def read_json(path: Path, *, needed: bool = False) -> dict[str, Any]:
    """A JSON object; an empty one where the file is not there and not needed."""
    if not path.is_file():
        if needed:
            raise FormatError("there is no such file", where=str(path), hint="a folder with config.json, safetensors and tokenizer.json")
        return {}
    if path.stat().st_size > MOST_BYTES:
        raise FormatError(f"{path.stat().st_size:,} bytes, at most {MOST_BYTES:,} are read", where=path.name)
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as e:
        raise FormatError(f"not JSON: {str(e)[:200]}", where=path.name) from None
    if not isinstance(found, dict):
        raise FormatError(f"a JSON {type(found).__name__}, an object is needed", where=path.name)
    return found


def from_folder(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise FormatError("there is no tokenizer.json", where=str(folder), hint="AutoTokenizer.from_pretrained(…).save_pretrained(folder)")
    core = guarded(lambda: library().Tokenizer.from_file(str(path)), path.name)
    settings, generation = read_json(folder / "tokenizer_config.json"), read_json(folder / "generation_config.json")
    config = read_json(folder / "config.json")
    named = {k: v for k in ("bos_token", "eos_token", "unk_token", "pad_token") if (v := _name(settings.get(k))) is not None}
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    ends = [e for e in (eos if isinstance(eos, list) else [eos]) if isinstance(e, int)]
    around = core.encode("", add_special_tokens=True).ids
    core.no_truncation()
    core.no_padding()
    before, after = _around(core, around)
    named_end = core.token_to_id(named["eos_token"]) if "eos_token" in named else None
    return Tokenizer(core, before, after, reply_ends(core, [*ends, named_end]), _template(folder, settings), named)


def _around(core: Any, empty: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What the post-processor puts before and after a text: seen by a text of one letter."""
    bare, whole = core.encode("a", add_special_tokens=False).ids, core.encode("a", add_special_tokens=True).ids
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return tuple(whole[:at]), tuple(whole[at + len(bare) :])
    return tuple(empty), ()


def _name(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file() and file.stat().st_size < 1 << 20:
        return file.read_text(errors="replace")
    found = settings.get("chat_template")
    if isinstance(found, list):  # several by name
        byname = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}
        found = byname.get("default")
    return found if isinstance(found, str) else None
