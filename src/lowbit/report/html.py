"""A report as a page: one file, no script, nothing fetched, readable in light and dark. Every name is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lowbit.report.text import counted, decibels, size, times_smaller

if TYPE_CHECKING:
    from lowbit.report.compare import LayerRow, OutputRow, Report

FULL_DB = 60.0  # what fills a bar: 10 bits' worth of signal
STYLE = """
.lowbit { --ink: #1c2430; --dim: #68738a; --line: #dfe4ee; --card: #f6f8fc; --good: #2f8f6b; --fair: #c58a1b; --poor: #c0453c;
  color: var(--ink); font: 14px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 0 auto; padding: 24px; }
@media (prefers-color-scheme: dark) { .lowbit { --ink: #e4e8f0; --dim: #94a0b8; --line: #333b4a; --card: #1b212c; }
  html { background: #12161d; } }
.lowbit h1 { font-size: 22px; margin: 0 0 4px; } .lowbit .dim { color: var(--dim); }
.lowbit .cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.lowbit .card { background: var(--card); border-radius: 10px; padding: 12px 18px; min-width: 130px; }
.lowbit .card b { display: block; font-size: 22px; font-weight: 600; }
.lowbit table { border-collapse: collapse; width: 100%; } .lowbit td, .lowbit th { text-align: left; padding: 6px 10px 6px 0;
  border-bottom: 1px solid var(--line); vertical-align: top; background: none; color: inherit; }
.lowbit th { color: var(--dim); font-weight: 500; } .lowbit .n { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.lowbit .bar { display: inline-block; height: 8px; border-radius: 4px; margin-left: 6px; }
.lowbit .good { background: var(--good); } .lowbit .fair { background: var(--fair); } .lowbit .poor { background: var(--poor); }
.lowbit .inside td { color: var(--dim); } .lowbit small { color: var(--dim); display: block; }
"""


def page(report: Report) -> str:
    """The report as a whole HTML document."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(report.name)} · lowbit</title></head><body>{fragment(report)}</body></html>\n"
    )


def fragment(report: Report) -> str:
    """The report as a part of a page, e.g. of a notebook."""
    r = report
    smaller = times_smaller(r.bytes_before, r.bytes_after) if r.bytes_after else ""
    cards = [
        (f"{r.integer_macs:.1%}", f"of {r.macs:,} MACs on integers"),
        (size(r.bytes_after), f"was {size(r.bytes_before)}, {smaller}"),
        (f"{r.quantized_ms:.2f} ms", f"a batch; float {r.float_ms:.2f} ms ({r.backend})"),
        *((decibels(o.sqnr_db) if o.sqnr_db is not None else f"{o.equal:.1%}", _output_text(o)) for o in r.outputs),
    ]
    if r.score is not None:
        shown = "{:.2%}" if r.score.rows is not None else "{:.6g}"
        cards.append((shown.format(r.score.score), str(r.score)))
    parts = [f'<div class="lowbit"><style>{STYLE}</style><h1>{escape(r.name)}</h1><div class="dim">{escape(r.coverage)}</div>']
    parts.append('<div class="cards">' + "".join(f'<div class="card"><b>{escape(a)}</b>{escape(b)}</div>' for a, b in cards) + "</div>")
    parts += [f'<p class="dim">{escape(r.proof)}</p>'] if r.proof else []
    parts += [f'<p class="dim">a batch: {escape(r.times)}</p>'] if r.slower else []
    parts += [f'<p class="dim">note: {escape(text)}</p>' for text in r.remarks]
    headings = "".join(
        f'<th class="{c}">{h}</th>'
        for h, c in (("layer", ""), ("became", ""), ("why", ""), ("local", "n"), ("accumulated", "n"), ("MACs", "n"), ("bytes", "n"))
    )
    parts.append(f"<table><thead><tr>{headings}</tr></thead><tbody>{''.join(map(_row, r.layers))}</tbody></table>")
    parts.append(
        f'<p class="dim">{counted(r.batches, "batch")}. Local: the float layer fed with what the quantized network feeds it. '
        "Accumulated: against the float network. Decibels of signal over noise; 6 dB are one bit.</p></div>"
    )
    return "".join(parts)


def _row(r: LayerRow) -> str:
    became = escape(r.now) + f"<small>{escape(', '.join(t for t in (r.types, r.weights) if t))}</small>"
    why = escape(r.because) + (f"<small>{escape(r.proof)}</small>" if r.proof else "")
    stored = f"{r.bytes_before:,} → {r.bytes_after:,}" if r.bytes_before or r.bytes_after else ""
    return (
        f'<tr class="{r.kind}"><td>{escape(r.layer)}<small>{escape(r.op)}</small></td><td>{became}</td><td>{why}</td>'
        f'<td class="n">{_bar(r.local_db)}</td><td class="n">{_bar(r.accumulated_db)}</td>'
        f'<td class="n">{f"{r.macs:,}" if r.macs else ""}</td><td class="n">{stored}</td></tr>'
    )


def _bar(db: float | None) -> str:
    if db is None:
        return ""
    share = min(max(db, 0.0), FULL_DB) / FULL_DB
    how = "good" if db >= 30 else "fair" if db >= 15 else "poor"
    return f'{escape(decibels(db))}<span class="bar {how}" style="width:{max(4, round(60 * share))}px"></span>'


def _output_text(o: OutputRow) -> str:
    if o.sqnr_db is None:
        return f"of {o.name} equal{', ' + o.said_db if o.said_db else ''}"
    same = f", argmax the same {o.same_argmax:.1%}" if o.same_argmax is not None else ""
    before = f" after the {o.before}, {decibels(o.before_db)} before it" if o.before_db is not None else ""
    return f"{o.name}{before}: largest error {o.max_error:.3g}, cosine {o.cosine:.6f}{same}"
