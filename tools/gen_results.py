"""Writes the table of results in README.md from the pages of measurements: `make docs`. A test keeps the table fresh."""

from __future__ import annotations

from pathlib import Path

from pages import with_part

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "README.md"
BEGIN, END = "<!-- results: made by `make docs` -->\n", "<!-- end of results -->\n"

# The networks of README.md, by their names in the pages: some of each kind, and one where ONNX Runtime has the better score.
DEFAULTS = {
    "resnet9-cifar10": "ResNet-9, CIFAR-10",
    "lstm-ptb": "LSTM, Penn Treebank",
    "transformer-ptb": "transformer, Penn Treebank",
    "silero": "Silero, voice detection",
    "magika": "Magika, file types",
}
SPEED = {"ResNet-50, 224²": "ResNet-50", "MobileNetV2, 224²": "MobileNetV2", "MiniLM-L6, 128 tokens": "MiniLM-L6"}
CPUS = {"speed.md": "AMD, AVX2", "speed-avx512.md": "Intel, AVX-512"}
CHIPS = {"DS-CNN, keyword spotting, 49 x 10": "DS-CNN, keywords", "ResNet-8, image classification, 32 x 32 x 3": "ResNet-8, images"}


def rows(page: str, heading: str) -> dict[str, dict[str, str]]:
    """The rows of a page's tables after a heading, by their first cell. A column that occurs twice keeps its first value."""
    found: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in (ROOT / "docs" / page).read_text().partition(heading)[2].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif not set(line) <= set("|-: "):
            row = {name: cell for name, cell in reversed(list(zip(header, cells)))}
            found.setdefault(cells[0], row)
    return found


def table() -> str:
    """The whole table. A network that a page has not is an error (KeyError): the page and this file are changed together."""
    lines = ["| network | lowbit int8, ms (score) | others, ms (score) | page |", "|---|---|---|---|"]
    page = rows("defaults.md", "## int8")
    for name, title in DEFAULTS.items():
        r = page[name]
        fp32 = f"{r['ONNX Runtime fp32']} ort fp32 ({r['float']})"
        int8 = f"{r['ONNX Runtime int8'].strip('()').split()[0]} ort int8 ({r['ONNX Runtime'].strip('()')})"
        lines.append(f"| {title}: {r['score']} | {r['ms']} ({r['lowbit']}) | {int8}, {fp32} | [defaults](docs/defaults.md) |")
    for file, cpu in CPUS.items():
        page = rows(file, "## 1 thread")
        for name, title in SPEED.items():
            r = page[name]
            wrong = " (answers off)" if r["right"] == "no" else ""
            other = f"{r['fastest int8 peer']}{wrong}, {r['fastest fp32']}"
            lines.append(f"| {title} | {r['lowbit int8']} | {other} | [{cpu}](docs/{file}) |")
    page = rows("tiny.md", "## Memory")
    for name, title in CHIPS.items():
        ram, arena = page[name]["RAM"], page[name]["TFLM's arena"]
        lines.append(f"| {title} | {ram} bytes of RAM | TensorFlow Lite Micro: {arena} | [Cortex-M](docs/tiny.md) |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """README.md with the table as the pages have it now."""
    return with_part(PAGE, BEGIN, table(), END)


if __name__ == "__main__":
    PAGE.write_text(page())
