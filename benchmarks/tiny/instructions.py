"""Instructions that one inference takes on an emulated core.

    from instructions import count
    lowbit.emit_c(q, folder, target="cortex-m4")
    count(folder, "cortex-m4")

or `python benchmarks/tiny/instructions.py FOLDER TARGET`. QEMU counts them: exact, and the same each time. One inference is what two take
more than one, on the self test's vectors. Targets: those of tools/boards (cortex-m0plus to cortex-m55, aarch64).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from boards import count  # tools/ is no package: it is found by its path

__all__ = ["count"]

if __name__ == "__main__":
    print(count(Path(sys.argv[1]), sys.argv[2]))
