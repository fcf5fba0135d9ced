"""The command line: one file per verb. Results on stdout, all else on stderr; exit 0 fine, 1 the model or its data, 2 usage."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from lowbit.cli import calibrate, compare, demo, doctor, export, inspect, quantize, run, verify
from lowbit.errors import LowbitError, LowbitWarning

VERBS = {
    "demo": demo,
    "inspect": inspect,
    "export": export,
    "calibrate": calibrate,
    "quantize": quantize,
    "run": run,
    "compare": compare,
    "verify": verify,
    "doctor": doctor,
}


def parser() -> argparse.ArgumentParser:
    from lowbit import __version__

    top = argparse.ArgumentParser(prog="lowbit", description="Few-bit networks, with the same bits everywhere.")
    top.add_argument("--version", action="version", version=f"lowbit {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in VERBS.items():
        p = verbs.add_parser(name, help=module.HELP, description=module.HELP)
        p.add_argument("--json", action="store_true", help="print one JSON value instead of text")
        p.add_argument("--debug", action="store_true", help="show the traceback of an error")
        module.add_arguments(p)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; the exit code."""
    args = parser().parse_args(argv)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", LowbitWarning)
            try:
                VERBS[args.verb].main(args)
            finally:
                for warning in said:
                    print(f"warning: {warning.message}", file=sys.stderr)
    except LowbitError as e:
        if args.debug:
            raise
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `lowbit inspect m.onnx | head`
        sys.stderr.close()
        return 0
    return 0
