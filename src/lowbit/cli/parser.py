"""The parser of the command line: verbs with their options and examples, and errors that say what was meant."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

# What is typed most often with each verb: the end of its help.
EXAMPLES = {
    "demo": ("lowbit demo", "lowbit demo --files fashion"),
    "inspect": ("lowbit inspect model.onnx", "lowbit inspect small.lowbit --node conv1"),
    "export": ("lowbit export small.lowbit -o small.onnx", "lowbit export small.lowbit -o small.onnx --safe 7-bit"),
    "emit-c": ("lowbit emit-c small.lowbit -o firmware --target cortex-m4 --shapes batch=1",),
    "calibrate": ("lowbit calibrate model.onnx --data photos/ --image imagenet -o record.json",),
    "quantize": (
        "lowbit quantize model.onnx --data photos/ --image imagenet -o small.onnx",
        "lowbit quantize model.onnx --data samples.npz --labels y.npy -o small.lowbit",
        "lowbit quantize model.onnx --data samples.npz --recipe w4a8 --max-bytes 256k -o small.lowbit",
        "lowbit quantize model.onnx --random 16 -o look.lowbit",
    ),
    "search": ("lowbit search model.onnx --data samples.npz --least-db 30 --cost bytes -o small.lowbit",),
    "recommend": ("lowbit recommend model.onnx --data samples.npz --max-ms 2",),
    "run": ("lowbit run small.lowbit --input photo.jpg", "lowbit run model.onnx --input x=x.npy --out y.npz"),
    "eval": ("lowbit eval small.onnx --data test/", "lowbit eval model.onnx --data x.npz --labels y.npy"),
    "compare": ("lowbit compare model.onnx small.onnx --data test/ -o report.html",),
    "verify": ("lowbit verify small.lowbit --data samples.npz", "lowbit verify small.lowbit --random 4"),
    "bench": ("lowbit bench model.onnx small.lowbit --against ort --data samples.npz", "lowbit bench --ops"),
    "chat": ("lowbit chat model.gguf", 'lowbit chat model.gguf --prompt "Why is the sky blue?"'),
    "serve": ("lowbit serve model.gguf --port 8080",),
    "doctor": ("lowbit doctor", "lowbit doctor --json"),
}


class Parser(argparse.ArgumentParser):
    """Says in two lines what is wrong with the arguments; with --json, as JSON on stdout."""

    words: Sequence[str] = ()  # that were typed

    def error(self, message: str) -> NoReturn:
        stray = re.match(r"unrecognized arguments: (\S+)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        hint = f"{self.prog} -h"
        if stray and re.match(r"\w+=", stray[1]):
            hint = f"--shapes {stray[1]}, one for each dimension; {hint}"
        elif stray and (near := nearest(stray[1].partition("=")[0], self._options())):
            hint = f"{near}; {hint}"
        elif choice:
            names = [name.strip(" '") for name in choice[2].split(",")]
            near = nearest(choice[1], names)
            message = re.sub(r" \(choose from .*\)", "", message) if near and len(names) > 8 else message
            hint = f"{near}; {hint}" if near else hint
        if "--json" in self.words:
            print(json.dumps({"error": {"kind": "usage", "message": message, "hint": hint}}))
        self.exit(2, f"usage: {message}.\n  Try: {hint}\n")

    def _options(self) -> list[str]:
        """The options of the verb that was typed."""
        found = [o for a in self._actions for o in a.option_strings]
        for a in self._actions:
            if isinstance(a, argparse._SubParsersAction):
                found += [o for word in self.words[:1] if word in a.choices for b in a.choices[word]._actions for o in b.option_strings]
        return found


def nearest(word: str, words: list[str]) -> str:
    """The most alike of the words; "" if none is.

    >>> nearest("quantise", ["demo", "quantize"])
    'quantize'
    """
    return next(iter(difflib.get_close_matches(word, words, 1, 0.7)), "")


def parser(verbs: Mapping[str, ModuleType]) -> argparse.ArgumentParser:
    from lowbit import __version__

    top = Parser(prog="lowbit", description="Few-bit networks, with the same bits everywhere.")
    top.add_argument("--version", action="version", version=f"lowbit {__version__}")
    top.add_argument("--completion", choices=("bash", "zsh", "tcsh"), help="print what completes commands in a shell, and stop")
    names = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in verbs.items():
        examples = "examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])
        form = argparse.RawDescriptionHelpFormatter
        p = names.add_parser(name, help=module.HELP, description=module.HELP, epilog=examples, formatter_class=form)
        p.add_argument("--json", action="store_true", help="print one JSON value instead of text, errors too")
        p.add_argument("--debug", action="store_true", help="show the traceback of an error")
        module.add_arguments(p)
    return top


def completion(shell: str, made: argparse.ArgumentParser) -> str:
    """A script for the shell, by shtab; an error where that is not installed."""
    try:
        import shtab
    except ImportError:
        made.error("completion needs shtab, which is not installed (pip install shtab)")
    text: str = shtab.complete(made, shell=shell)
    return text
