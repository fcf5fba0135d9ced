"""Counters in the text format that Prometheus reads."""

from __future__ import annotations

from lowbit.llm.serve.engine import Engine


def metrics_text(engine: Engine) -> str:
    t = engine.totals
    scheduler = engine.model.scheduler
    rows = [
        ("requests_total", "counter", "Requests whose answers were begun.", t.requests),
        ("requests_refused_total", "counter", "Requests that found too many waiting.", t.refused),
        ("requests_cancelled_total", "counter", "Answers that ended because the client left.", t.cancelled),
        ("requests_failed_total", "counter", "Answers that ended in an error.", t.failed),
        ("prompt_tokens_total", "counter", "Tokens of prompts.", t.prompt_tokens),
        ("prompt_tokens_reused_total", "counter", "Tokens of prompts that the cache had.", t.reused_tokens),
        ("answer_tokens_total", "counter", "Tokens that were made.", t.answer_tokens),
        ("answers_running", "gauge", "Answers in the batch.", len(scheduler.running)),
        ("answers_waiting", "gauge", "Answers that wait for their turn.", len(scheduler.waiting)),
        ("cache_pages", "gauge", "Pages of the cache.", scheduler.runner.pool.count),
        ("cache_pages_free", "gauge", "Pages that nobody holds.", scheduler.runner.pool.available),
    ]
    return "".join(f"# HELP lowbit_{name} {told}\n# TYPE lowbit_{name} {kind}\nlowbit_{name} {value}\n" for name, kind, told, value in rows)
