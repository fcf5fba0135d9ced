"""lowbit serve MODEL: a language model behind OpenAI's HTTP interface, with a chat page at /."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lowbit.cli.common import UsageError, say, whole

HELP = "serve a language model over HTTP, as OpenAI's API does; a chat page is at /"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
KEY = "LOWBIT_API_KEY"


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("model", help="a .gguf file, or a folder with config.json, safetensors and tokenizer.json")
    p.add_argument("--host", default="127.0.0.1", help="address to listen at (default 127.0.0.1: this machine alone)")
    p.add_argument("--port", type=whole(0), default=8080, help="default 8080; 0 takes a free one")
    p.add_argument("--name", help="the model's name in the API (default: the file's)")
    p.add_argument("--api-key-file", metavar="FILE", help=f"a file with the key that requests must carry; or set {KEY}")
    p.add_argument("--context", type=whole(1), help="tokens of the longest conversation")
    p.add_argument("--sequences", type=whole(1), default=16, help="answers that are made at once (default 16)")
    p.add_argument("--max-waiting", type=whole(1), default=256, help="answers that may wait beside them (default 256)")
    p.add_argument("--max-body", type=whole(1), default=4 << 20, metavar="BYTES", help="of a request (default 4 MiB)")
    p.add_argument("--threads", type=whole(1), help="default: all")


def api_key(args: argparse.Namespace) -> str | None:
    if args.api_key_file is None:
        return os.environ.get(KEY) or None
    try:
        key = Path(args.api_key_file).read_text().strip()
    except OSError as e:
        raise UsageError(f"--api-key-file {args.api_key_file}: cannot be read ({e.strerror or e})", hint="a file with one line") from e
    if not key:
        raise UsageError(f"--api-key-file {args.api_key_file}: the file is empty", hint="a file with one line")
    return key


def main(args: argparse.Namespace) -> None:
    try:
        import uvicorn
    except ImportError as e:
        raise UsageError("the server needs starlette and uvicorn, which are not installed", hint="pip install 'lowbit[serve]'") from e
    from lowbit.llm import load
    from lowbit.llm.serve import Settings, app

    key = api_key(args)
    model = load(args.model, threads=args.threads, context=args.context, sequences=args.sequences)
    settings = Settings(args.name or Path(args.model).stem, key, args.sequences + args.max_waiting, args.max_body)
    if args.host not in LOOPBACK:
        guard = "with the API key" if key is not None else "WITHOUT an API key"
        say(f"listening at {args.host}: other machines can reach this server, {guard}", file=sys.stderr)
    say(f"{model!r}\nhttp://{args.host}:{args.port}/ (chat), /v1 (OpenAI), /health, /metrics. Ctrl-C ends.", file=sys.stderr)
    uvicorn.run(app(model, settings), host=args.host, port=args.port, log_level="warning", timeout_graceful_shutdown=3)
