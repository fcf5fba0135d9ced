"""python -m lowbit: the command line."""

import sys

from lowbit.cli import main

sys.exit(main())
