"""The command line: one file per verb. Results on stdout, all else on stderr; exit 0 fine, 1 the model or its data, 2 usage."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence

from lowbit.calibration.run import IGNORE
from lowbit.cli import (
    bench,
    calibrate,
    chat,
    compare,
    demo,
    doctor,
    emit_c,
    eval,
    export,
    inspect,
    quantize,
    recommend,
    run,
    search,
    serve,
    verify,
)
from lowbit.cli.common import UsageError, environment_error, print_json, printed, say
from lowbit.cli.parser import Parser, completion
from lowbit.cli.parser import parser as made_parser
from lowbit.errors import LowbitError, LowbitWarning

VERBS = {
    "demo": demo,
    "inspect": inspect,
    "export": export,
    "emit-c": emit_c,
    "calibrate": calibrate,
    "quantize": quantize,
    "search": search,
    "recommend": recommend,
    "run": run,
    "eval": eval,
    "compare": compare,
    "verify": verify,
    "bench": bench,
    "chat": chat,
    "serve": serve,
    "doctor": doctor,
}


# Errors speak of the API; here the same is an option of a verb.
OPTIONS = {
    IGNORE: "lowbit calibrate --ignore-nonfinite",
    "strict=False only warns": "without --strict it is a warning",
    'recipe="int8", or wide=True': "--recipe int8, or without --no-wide",
    "data or a calibration record": "--data samples.npz or --record record.json",
}


def parser() -> argparse.ArgumentParser:
    return made_parser(VERBS)


def _shapes_options(found: re.Match[str]) -> str:
    """shapes={"batch": 1, "h": 64} as options."""
    return "by " + " ".join(re.sub(r'"([^"]+)": (\d+)', r"--shapes \1=\2", part.strip()) for part in found[1].split(","))


def check_environment() -> None:
    """A UsageError where LOWBIT_ISA or LOWBIT_THREADS is wrong: verbs that measure nothing would else not see it."""
    wrong = environment_error()
    if wrong is not None:
        raise UsageError(wrong.message, hint=wrong.hint)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names and → on a stream that has no room for them
    words = sys.argv[1:] if argv is None else list(argv)
    made, Parser.words = parser(), words
    printed.clear()
    if words[:1] == ["--completion"] and len(words) > 1 and words[1] in ("bash", "zsh", "tcsh"):
        print(completion(words[1], made))
        return 0
    args = made.parse_args(words)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", LowbitWarning)
            try:
                if args.verb != "doctor":  # which says this as a problem of the machine
                    check_environment()
                VERBS[args.verb].main(args)
            finally:
                for warning in said:
                    say(f"warning: {warning.message}", file=sys.stderr)
        sys.stdout.flush()
    except LowbitError as e:
        if args.debug:
            raise
        for call, option in OPTIONS.items():
            e.hint = e.hint and e.hint.replace(call, option)
        e.hint = e.hint and re.sub(r'constants=\{"([^"]+)": …\}', r"--constant \1=…", e.hint)
        e.hint = e.hint and re.sub(r'\boutput="([^"]+)"', r"--output \1", e.hint)
        e.hint = e.hint and re.sub(r"when loading: shapes=\{([^}…]*)\}", _shapes_options, e.hint)
        kind = "usage" if isinstance(e, UsageError) else type(e).__name__
        if args.json and not printed:
            print_json({"error": {"kind": kind, "where": e.where, "message": e.message, "hint": e.hint}})
        say(f"{kind}: {e}", file=sys.stderr)
        return 2 if isinstance(e, UsageError) else 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `lowbit inspect m.onnx | head`
        _forget_output()
        return 0
    except OSError as e:
        if args.debug:
            raise
        _forget_output()
        say(f"the output cannot be written: {e.strerror or e}", file=sys.stderr)
        return 1
    return 0


def _forget_output() -> None:
    """Sends what is still buffered for stdout nowhere, so that leaving does not fail on it again."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
