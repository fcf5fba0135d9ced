"""python -m lowbit, and the command lowbit."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; its imports take long enough to be interrupted."""
    if sys.argv[1:] == ["--version"]:  # at once: without the imports
        from lowbit import __version__

        print(f"lowbit {__version__}")
        return 0
    try:
        from lowbit.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
