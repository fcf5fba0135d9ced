"""lowbit chat MODEL: a conversation with a language model, or one answer to --prompt. Ctrl-C stops an answer, not the program."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lowbit.cli.common import UsageError, number, print_json, say, whole
from lowbit.errors import InputError
from lowbit.report.text import printable

HELP = "talk with a language model from a .gguf file or a Hugging Face folder"


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("model", help="a .gguf file, or a folder with config.json, safetensors and tokenizer.json")
    p.add_argument("--prompt", metavar="TEXT", help="answer this and end")
    p.add_argument("--system", metavar="TEXT", help="the system message")
    p.add_argument("--raw", action="store_true", help="continue the prompt's text as it is, without the chat template")
    p.add_argument("--max-tokens", type=whole(1), default=512, help="of an answer (default 512)")
    p.add_argument("--temperature", type=number, default=0.0, help="0 takes the likeliest token (default 0)")
    p.add_argument("--top-k", type=whole(0), default=0, help="draw from so many of the likeliest tokens (default 0: all)")
    p.add_argument("--top-p", type=number, default=1.0, help="draw from the fewest tokens of this probability (default 1)")
    p.add_argument("--min-p", type=number, default=0.0, help="draw from tokens of this part of the likeliest one's probability (default 0)")
    p.add_argument("--repetition-penalty", type=number, default=1.0, help="above 1: tokens that were there are less likely (default 1)")
    p.add_argument("--seed", type=whole(0), default=0, help="the same seed gives the same text (default 0)")
    p.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end an answer before this text; may be repeated")
    p.add_argument("--schema", metavar="FILE.json", help="a JSON schema that answers fit")
    p.add_argument("--context", type=whole(1), help="tokens of the longest conversation")
    p.add_argument("--threads", type=whole(1), help="default: all")


def options(args: argparse.Namespace) -> dict[str, Any]:
    names = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop")
    return {name: getattr(args, name) for name in names}


def main(args: argparse.Namespace) -> None:
    from lowbit.llm import load
    from lowbit.llm.sampler import Sampling

    given = options(args)
    if args.schema is not None:
        given["schema"] = read_schema(args.schema)
    Sampling(**{k: v for k, v in given.items() if k not in ("max_tokens", "stop", "schema")})  # said before the file is read
    if args.json and args.prompt is None:
        raise UsageError("--json answers one prompt", hint="--json --prompt TEXT")
    if args.raw and args.prompt is None:
        raise UsageError("--raw continues one text", hint="--raw --prompt TEXT")
    model = load(args.model, threads=args.threads, context=args.context)
    system = [{"role": "system", "content": args.system}] if args.system else []
    if args.prompt is None:
        talk(model, system, given)
        return
    ids = args.prompt if args.raw else model.prompt([*system, {"role": "user", "content": args.prompt}])
    stream = model.stream(ids, **given)
    if args.json:
        text = "".join(stream)
        print_json({"text": text, "finish": stream.finish, **figures(stream)})
        return
    show(stream)
    say(summary(stream), file=sys.stderr)


def read_schema(path: str) -> Any:
    from lowbit.llm.json_schema import grammar_of

    try:
        schema = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError) as e:
        raise UsageError(f"--schema cannot be read: {str(e)[:200]}", where=path) from None
    grammar_of(schema)  # said before the file is read
    return schema


def talk(model: Any, system: list[dict[str, str]], given: dict[str, Any]) -> None:
    """Questions from stdin until it ends."""
    messages = list(system)
    terminal = sys.stdin.isatty()
    if terminal:
        say(f"{model!r}\nCtrl-C stops an answer, Ctrl-D ends. /new begins anew.", file=sys.stderr)
    while True:
        try:
            if terminal:
                print("> ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            if not terminal:
                raise
            print(file=sys.stderr)
            continue
        if not line:
            return
        text = line.strip()
        if text == "/new":
            messages = list(system)
        if not text or text == "/new":
            continue
        messages.append({"role": "user", "content": text})
        try:
            stream = model.chat_stream(messages, **given)
            answer = show(stream)
        except InputError as e:  # a conversation that has become too long, for one
            say(f"{e}\n/new begins anew.", file=sys.stderr)
            messages.pop()
            continue
        say(summary(stream), file=sys.stderr)
        messages.append({"role": "assistant", "content": answer})


def show(stream: Any) -> str:
    """Prints an answer as it is made; what Ctrl-C left of it is the answer."""
    with stream:
        try:
            for piece in stream:
                print(visible(piece), end="", flush=True)
        except KeyboardInterrupt:
            stream.close()
    print(flush=True)
    return str(stream.text)


def visible(text: str) -> str:
    """The text without characters that steer a terminal; lines and tabs stay."""
    return "".join(c if c in "\n\t\u200c\u200d" else printable(c) for c in text)


def figures(stream: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": len(stream.sequence.prompt),
        "reused_tokens": stream.sequence.reused,
        "tokens": len(stream.tokens),
        "prefill_seconds": round(stream.prefill_seconds, 4),
        "tokens_per_second": round(stream.tokens_per_second, 2),
    }


def summary(stream: Any) -> str:
    f = figures(stream)
    read = f["prompt_tokens"] - f["reused_tokens"]
    end = " (stopped)" if stream.finish == "cancelled" else " (max_tokens reached)" if stream.finish == "length" else ""
    return (
        f"[{f['tokens']} tokens{end}, {f['tokens_per_second']:.1f} tokens/s; "
        f"prompt of {f['prompt_tokens']}, {read} read in {f['prefill_seconds']:.2f} s]"
    )
