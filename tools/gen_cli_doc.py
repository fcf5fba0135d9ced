"""Writes docs/cli-reference.md: every verb with its options, from the parser itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from lowbit.cli import parser

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli-reference.md"
HEAD = "# Every option\n\nMade by `make docs` from the parser. [cli.md](cli.md) shows the verbs at work.\n"


def page() -> str:
    (verbs,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    parts = [HEAD]
    for name, p in verbs.choices.items():
        parts.append(f"\n## lowbit {name}\n\n{sentence(p.description or '')}\n")
        rows = [f"| {option(a)} | {said(a)} |" for a in p._actions if not isinstance(a, argparse._HelpAction)]
        parts.append("\n| option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def option(a: argparse.Action) -> str:
    names = ", ".join(f"`{o}`" for o in a.option_strings) or f"`{(a.metavar or a.dest)}`"
    if not a.option_strings or a.nargs == 0:
        return names
    value = a.metavar or ("{" + ",".join(map(str, a.choices)) + "}" if a.choices else a.dest.upper())
    value = value if isinstance(value, str) else " ".join(value)
    return f"{names} `{value.replace('|', chr(92) + '|')}`"


def said(a: argparse.Action) -> str:
    text = (a.help or "") % {"default": a.default, "prog": "lowbit"} if a.help and "%(" in a.help else (a.help or "").replace("%%", "%")
    return text.replace("|", "\\|").replace("<", "&lt;")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


if __name__ == "__main__":
    PAGE.write_text(page())
