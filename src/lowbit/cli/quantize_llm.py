"""lowbit quantize FOLDER|float.gguf -o model.gguf: a language model in few bits, block by block."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from lowbit.cli.common import UsageError, check_out, positive, print_json, say, size
from lowbit.errors import FormatError
from lowbit.files import unreadable

LLM_RECIPES = ("int4", "int8")
MOST_TEXT = 64 << 20  # bytes of one file
# Options of networks that run as graphs, with the values that they have where they are not given.
OTHERS = {
    "shapes": [], "constant": [], "no_simplify": False, "record": None, "rules": None, "no_guard": False, "no_wide": False, "labels": None,
    "metric": None, "max_drop": None, "max_ms": None, "max_bytes": None, "max_ram": None, "minutes": None, "strict": False, "limit": None,
    "image": None, "audio": None, "text": None, "bake": False, "target": None, "output": None, "random_batches": None,
}  # fmt: skip


def add_llm_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--bits", type=positive, metavar="B", help="of a language model: bits a weight, over all matrices (int4: 4.85)")


def is_language_model(args: argparse.Namespace) -> bool:
    return Path(args.model).is_dir() or (args.model.endswith(".gguf") and args.out.endswith(".gguf"))


def need_no_llm(args: argparse.Namespace) -> None:
    """A UsageError where options of language models are given for another network."""
    if args.bits is not None:
        raise UsageError("--bits is for language models", hint="a Hugging Face folder or a .gguf file, and -o model.gguf")
    if args.recipe == "int4":
        raise UsageError("--recipe int4 is for language models", hint="--recipe int4-weights, or w4a8 for integers throughout")


def main_llm(args: argparse.Namespace) -> None:
    from lowbit.llm.quantization import quantize

    if args.out.endswith(".lowbit"):
        raise UsageError(
            "a .lowbit file has one graph; a language model is several, with a tokenizer and a chat template",
            where=args.out,
            hint="-o model.gguf, which lowbit chat, lowbit serve and llama.cpp open",
        )
    check_out(args.out, "a language model", (".gguf",), args.model)
    wrong = next((name for name, value in OTHERS.items() if getattr(args, name, value) != value), None)
    if wrong is not None:
        option = wrong.removesuffix("_batches").replace("_", "-")
        raise UsageError(f"--{option} means nothing for a language model", hint="--recipe, --bits, --data with texts")
    recipe = args.recipe or "int4"
    if recipe not in LLM_RECIPES:
        raise UsageError(f"--recipe {recipe} is not for language models", hint=" or ".join(f"--recipe {r}" for r in LLM_RECIPES))
    made = quantize(args.model, args.out, recipe=recipe, bits=args.bits, texts=texts(args.data) if args.data else None)
    if args.json:
        print_json(
            {"written": args.out, "bytes": made.nbytes, "bits": made.bits, "tokens": made.tokens, "seconds": made.seconds,
             "resumed": made.resumed, "counts": made.counts, "formats": made.formats}
        )  # fmt: skip
        return
    if args.quiet:
        return
    read = f"{made.tokens:,} tokens of the texts" if made.tokens else "no texts: weights alone decided (--data TEXT.txt is better)"
    say(f"{', '.join(f'{n} matrices {f}' for f, n in made.counts.items())}; {read}")
    again = ", gone on from where it was stopped" if made.resumed else ""
    say(f"written: {args.out}, {size(made.nbytes)}, {made.bits:.3f} bits a weight, in {made.seconds:.0f} s{again}")
    say(f"next   lowbit chat {args.out}   ·   lowbit serve {args.out}   ·   lowbit bench {args.out} --against llama.cpp")


def texts(paths: list[str]) -> Iterator[str]:
    """The texts of files, and of all .txt and .md files of folders."""
    for path in map(Path, paths):
        files = sorted(f for f in path.rglob("*") if f.suffix in (".txt", ".md")) if path.is_dir() else [path]
        if not files:
            raise FormatError("the folder has no .txt or .md files", where=str(path), hint="--data TEXT.txt")
        for file in files:
            try:
                if file.stat().st_size > MOST_TEXT:
                    raise FormatError(f"{file.stat().st_size:,} bytes, at most {MOST_TEXT:,} are read", where=str(file))
                yield file.read_text()
            except (OSError, UnicodeDecodeError) as e:
                raise FormatError(unreadable(e), where=str(file), hint="--data with files of plain text") from None
