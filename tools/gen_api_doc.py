"""Writes docs/api/: every public name with its signature, docstring and example, grouped by what users do. `make docs` makes it, a test
keeps it fresh. Needs the extras torch and llm.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "api"
GROUPS: dict[str, tuple[str, str, str]] = {  # page: title, module, names
    "networks": ("Load, quantize, run", "lowbit",
        "load calibrate quantize compile Session emit_c export_onnx streaming Streaming search SearchResult insert_q_dq",
    ),
    "reports": ("Measure and compare", "lowbit",
        "inspect compare Report evaluate Evaluation verify_backends sqnr_db mse max_error cosine",
    ),
    "rules": ("Rules", "lowbit",
        "QuantRule CalibratedQuantRule StaticQuantRule DynamicQuantRule WeightOnlyRule FloatRule RuleMatcher QuantNode "
        "CustomQuantNode QuantizationTransform load_rules save_rules",
    ),
    "calibration": ("Calibration", "lowbit",
        "CalibrationRecord CalibrationEntry calibrate_from_samples register_method Observer MinMaxObserver "
        "MovingAverageMinMaxObserver PercentileObserver EntropyObserver MSEObserver AdaptiveObserver",
    ),
    "arrays": ("Arrays and parameters", "lowbit",
        "QArray array quantize_array quantize_int8 quantize_uint8 empty full zeros load_array save_array QuantParams "
        "PerTensor PerAxis PerBlock params_from_range params_from_data auto_quantize optimal_params "
        "estimate_memory_savings",
    ),
    "system": ("The machine and its advice", "lowbit",
        "QuantizationSystem Workload auto_tune bench_ops Hardware Limits",
    ),
    "graphs": ("Graphs, ops and kernels of your own", "lowbit",
        "Graph Node Value TensorType Op register load_kernels",
    ),
    "errors": ("Errors", "lowbit",
        "LowbitError UnsupportedOp ShapeError DTypeError QuantError CalibrationError FormatError GraphError InputError "
        "LowbitWarning",
    ),
    "torch": ("PyTorch", "lowbit.torch", ""),
    "llm": ("Language models", "lowbit.llm", ""),
}  # fmt: skip


def names_of(page: str) -> list[str]:
    """The public names of a page, in its order; all of a package where none are given."""
    _, module, names = GROUPS[page]
    return names.split() or sorted(importlib.import_module(module).__all__)


def signature(thing: Any) -> str:
    """The parameters with annotations and defaults, one a line where they are many."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    parts, star = [], False
    for p in found.parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        kind = "" if p.annotation is p.empty else f": {annotation(p.annotation)}"
        default = "" if p.default is p.empty else re.sub(r" at 0x[0-9a-f]+", "", f" = {p.default!r}" if kind else f"={p.default!r}")
        parts.append(f"{mark}{p.name}{kind}{default}")
    after = "" if found.return_annotation is found.empty or isinstance(thing, type) else f" -> {annotation(found.return_annotation)}"
    short = f"({', '.join(parts)}){after}"
    return short if len(short) <= 100 else "(\n    " + ",\n    ".join(parts) + f",\n){after}"


def annotation(kind: Any) -> str:
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class of lowbit's defines itself, with a docstring of their own."""
    for name, found in vars(cls).items():
        if name.startswith("_"):
            continue
        target = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if (callable(target) or isinstance(found, property)) and (getattr(target, "__doc__", None) or "").strip():
            yield name, found


def entry(module: str, name: str) -> Iterator[str]:
    """One name: heading, signature, docstring with its example, methods."""
    thing = getattr(importlib.import_module(module), name)
    yield f"## {module}.{name}"
    yield ""
    kind = "class " if isinstance(thing, type) else ""
    yield f"```text\n{kind}{name}{signature(thing)}\n```"
    yield ""
    own = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
    yield from docstring(inspect.cleandoc(own or ""))
    found = list(methods(thing)) if isinstance(thing, type) else []
    if found:
        yield "| member | |"
        yield "|---|---|"
        for member, value in found:
            target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            first = inspect.cleandoc(target.__doc__ or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            call = "" if isinstance(value, property) else "()"
            yield f"| `{member}{call}` | {first} |"
        yield ""


def docstring(text: str) -> Iterator[str]:
    """Words as they are, examples as code; aligned lists keep their lines."""
    words, _, example = text.partition(">>>")
    for block in filter(None, re.split(r"\n\n+", words.strip())):
        aligned = re.search(r"^\S+  +\S", block, re.M) or re.search(r"^ {2,}\S", block, re.M)
        yield f"```text\n{block}\n```" if aligned else block
        yield ""
    if example:
        yield f"```pycon\n>>>{example.rstrip()}\n```"
        yield ""


def page(name: str) -> str:
    title, module, _ = GROUPS[name]
    lines = [f"# {title}", "", f"Made by `make docs` from the docstrings of `{module}`; every example runs in the tests.", ""]
    for public in names_of(name):
        lines += list(entry(module, public))
    return "\n".join(lines).rstrip() + "\n"


def index() -> str:
    lines = [
        "# API reference",
        "",
        "Made by `make docs`. Every public name, with an example that runs.",
        "",
        "| page | names |",
        "|---|---|",
    ]
    for name, (title, module, _) in GROUPS.items():
        linked = ", ".join(f"[`{n}`]({name}.md#{module.replace('.', '')}{n.lower()})" for n in names_of(name))
        lines.append(f"| [{title}]({name}.md) | {linked} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Each file of docs/api by its name."""
    return {"README.md": index(), **{f"{name}.md": page(name) for name in GROUPS}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
