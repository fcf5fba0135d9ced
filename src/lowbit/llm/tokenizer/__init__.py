"""Text to token ids and back, by the `tokenizers` library: from a GGUF file's vocabulary or a folder's tokenizer.json."""

from __future__ import annotations

from lowbit.llm.tokenizer.detokenizer import Detokenizer
from lowbit.llm.tokenizer.folder import from_folder
from lowbit.llm.tokenizer.gguf import from_gguf
from lowbit.llm.tokenizer.tokenizer import Tokenizer

__all__ = ["Detokenizer", "Tokenizer", "from_folder", "from_gguf"]
