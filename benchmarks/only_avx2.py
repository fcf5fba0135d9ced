"""Any other benchmark as on a CPU that has AVX2 and nothing beyond it, for every engine alike.

    python benchmarks/only_avx2.py benchmarks/models.py --threads 1,2 --json run.json

LOWBIT_ISA=avx2 tells lowbit alone; here CPUID itself answers so (only_avx2.c): to ONNX Runtime, OpenVINO, LiteRT, PyTorch, OpenBLAS, too.
Needs Linux on x86-64, a C compiler and a CPU whose CPUID can be made to fault (cpuid_fault in /proc/cpuinfo). glibc asks before anyone can
answer for the CPU: its memcpy keeps what it has, for all engines. A program that handles SIGSEGV itself (-X faulthandler) ends here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    compiler = shutil.which("cc") or shutil.which("gcc") or sys.exit("only_avx2: no C compiler (cc or gcc) found")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "only_avx2.so"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, Path(__file__).with_suffix(".c")], check=True)
        return subprocess.run(
            [sys.executable, *sys.argv[1:]], env=os.environ | {"LD_PRELOAD": f"{library} {os.environ.get('LD_PRELOAD', '')}".strip()}
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
