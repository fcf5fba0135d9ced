"""Writes docs/ops.md from the op table and the frontends' tables: `make docs`. A test keeps the page fresh."""

from __future__ import annotations

import inspect
from pathlib import Path

from lowbit.frontends.onnx.importer import HANDLERS
from lowbit.ops import OPS
from lowbit.ops.op import REQUIRED
from lowbit.ops.quant import QUANTIZABLE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ops.md"


def signature(name: str) -> str:
    s = OPS[name].signature
    inputs = [f"*{i}" if s.variadic and i == s.inputs[-1] else i if k < s.required else f"{i}?" for k, i in enumerate(s.inputs)]
    attrs = [a if d is REQUIRED else f"{a}={d!r}" for a, d in s.attrs.items()]
    return f"{name}({', '.join(inputs)}" + (f" · {', '.join(attrs)}" if attrs else "") + ")"


def integer_form(name: str) -> str:
    if name not in QUANTIZABLE:
        return ""
    return "the same op" if QUANTIZABLE[name].lower is None else "yes"


def page() -> str:
    """The whole page."""
    import lowbit.frontends.onnx  # noqa: F401 (fills the table)

    lines = [
        "# Ops",
        "",
        f"{len(OPS)} ops. Made by `make docs` from the code; inputs stand before the dot (`?`: may be left out), attributes behind it.",
        "",
        "| op | file | integer form |",
        "|---|---|---|",
    ]
    for name in sorted(OPS):
        file = Path(inspect.getsourcefile(inspect.unwrap(OPS[name].infer)) or "").name
        lines.append(f"| `{signature(name)}` | {file} | {integer_form(name)} |")
    lines += ["", "## ONNX operators that are read", ""]
    domains = sorted({d for d, _ in HANDLERS})
    for d in domains:
        names = sorted(op for dd, op in HANDLERS if dd == d)
        lines.append(f"**{d or 'ai.onnx'}** ({len(names)}): {', '.join(names)}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
