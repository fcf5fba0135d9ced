"""Draws the pictures of docs/concepts.md as SVG files, from the numbers that they speak of."""

from __future__ import annotations

from pathlib import Path

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
STYLE = (
    "<style>text{font:14px system-ui,sans-serif;fill:#24292f}.s{font-size:12px;fill:#57606a}.l{stroke:#57606a;fill:none}"
    ".a{fill:#0969da;stroke:none}.b{fill:#cf222e;stroke:none}.c{fill:#ddf4ff;stroke:#0969da}.d{fill:#ffebe9;stroke:#cf222e}"
    ".m{text-anchor:middle}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.l{stroke:#9198a1}"
    ".c{fill:#121d2f}.d{fill:#25171c}}</style>"
)


def svg(width: int, height: int, title: str, *parts: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", STYLE, *parts, "</svg>\n"])


def text(x: float, y: float, said: str, kind: str = "") -> str:
    said = said.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{said}</text>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="l" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def box(x: float, y: float, w: float, h: float, kind: str, *said: str) -> str:
    lines = [text(x + w / 2, y + h / 2 + 5 + 18 * (i - (len(said) - 1) / 2), s, "m" if i == 0 else "m s") for i, s in enumerate(said)]
    return "\n".join([f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" class="{kind}"/>', *lines])


def scale() -> str:
    """A number line: reals above, codes below, at a scale of 0.25."""
    step, zero, x0, unit = 0.25, 0, 60, 45
    codes = range(-6, 7)
    at = {q: x0 + (q + 6) * unit for q in codes}
    parts = [line(at[-6] - 20, 70, at[6] + 20, 70)]
    for q, x in at.items():
        parts += [line(x, 64, x, 76), text(x, 98, str(q), "m"), text(x, 52, f"{step * (q - zero):g}", "m s")]
    real = 0.87
    x = x0 + (real / step + 6) * unit
    parts += [f'<circle cx="{x:g}" cy="70" r="5" class="b"/>', text(x, 28, f"x = {real}", "m")]
    parts += [f'<circle cx="{at[3]}" cy="70" r="5" class="a"/>', text(at[3], 128, "q = round(0.87 ÷ 0.25) = 3, which stands for 0.75", "m")]
    parts += [text(8, 98, "code", "s"), text(8, 52, "real", "s")]
    return svg(660, 145, "Reals and their integer codes at a scale of 0.25", *parts)


def saturation() -> str:
    """Two products of u8 and s8 and their 16-bit sum."""
    a, w = (255, 240), (127, 120)
    products = [p * q for p, q in zip(a, w, strict=True)]
    total = sum(products)
    parts = []
    for i in range(2):
        y = 20 + 60 * i
        parts += [box(10, y, 90, 40, "c", f"a = {a[i]}"), text(112, y + 25, "×"), box(130, y, 90, 40, "c", f"w = {w[i]}")]
        parts += [text(232, y + 25, "="), box(252, y, 110, 40, "c", f"{products[i]:,}"), line(362, y + 20, 410, 70)]
    parts += [box(410, 30, 220, 34, "d", f"vpmaddubsw: {min(total, 32767):,}"), box(410, 76, 220, 34, "c", f"32-bit sum: {total:,}")]
    parts += [text(10, 150, "A sum of two products needs 17 bits. The instruction keeps 16 and stops at 32,767.", "s")]
    return svg(650, 165, "Two products whose 16-bit sum saturates", *parts)


def proof() -> str:
    """The bound of a layer's sums."""
    parts = [
        box(10, 20, 180, 60, "c", "weights", "known: Σ|w| = 9,412"),
        box(10, 100, 180, 60, "c", "activations", "their type: |a| ≤ 128"),
        line(190, 50, 240, 90),
        line(190, 130, 240, 90),
        box(240, 60, 200, 60, "c", "bound of every sum", f"9,412 × 128 = {9412 * 128:,}"),
        line(440, 90, 490, 90),
        box(490, 60, 150, 60, "c", "fits", "32 bits: yes"),
    ]
    return svg(650, 180, "How the range proof of a layer is made", *parts)


def decision() -> str:
    """The way of a network through quantize."""
    steps = (
        ("plain rules", "every layer int8"),
        ("free repairs", "ranges, biases, rounding"),
        ("costly repairs", "16 bits, float: per ms"),
        ("float for speed", "where integers are slower"),
        ("report", "on rows nothing has seen"),
    )
    parts = []
    for i, (name, said) in enumerate(steps):
        x = 8 + i * 186
        parts.append(box(x, 20, 170, 64, "c", name, said))
        if i:
            parts.append(line(x - 16, 52, x, 52))
    parts.append(text(8, 112, "Each candidate is the network that would run: its integers on held-back rows, its time by the clock.", "s"))
    return svg(930, 125, "How quantize decides", *parts)


def pictures() -> dict[str, str]:
    return {"scale.svg": scale(), "saturation.svg": saturation(), "proof.svg": proof(), "decision.svg": decision()}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, made in pictures().items():
        (PICTURES / name).write_text(made)
