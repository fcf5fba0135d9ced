"""lowbit serve: a language model behind OpenAI's HTTP interface."""

from __future__ import annotations

import argparse
import sys

from lowbit.cli.common import Group
from lowbit.errors import InputError
