"""Facts from the operating system: caches, cores, quotas, memory. Read from Linux's file trees under a root.

Nothing is guessed: facts missing in a tree are None, and a machine without these trees (another system, a sandbox) has None everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CPUS = "sys/devices/system/cpu"
CGROUPS = "sys/fs/cgroup"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """One cache as one CPU sees it. `shared_by` is the number of logical CPUs that use it together."""

    level: int
    kind: str  # "data", "unified" or "instruction"
    bytes: int
    line: int | None = None
    shared_by: int | None = None


def cpu_name(root: Path) -> str | None:
    """The model name; on Arm, which has none, the implementer's and the part's number.

    >>> cpu_name(Path("/nowhere")) is None
    True
    """
    facts: dict[str, str] = {}
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip().lower(), value.strip())
    if facts.get("model name"):
        return facts["model name"]
    if "cpu implementer" in facts and "cpu part" in facts:
        return f"Arm implementer {facts['cpu implementer']} part {facts['cpu part']}"
    return None


def caches(root: Path, cpu: int) -> tuple[Cache, ...]:
    """The caches of one CPU, nearest first."""
    found = []
    for index in sorted((root / CPUS / f"cpu{cpu}" / "cache").glob("index*")):
        level, kind, size = _int(index / "level"), _text(index / "type"), _size(_text(index / "size"))
        if level is None or kind is None or not size:
            continue
        line = _int(index / "coherency_line_size")
        shared = _text(index / "shared_cpu_list")
        found.append(Cache(level, kind.lower(), size, line or None, len(cpu_list(shared)) if shared else None))
    return tuple(sorted(found, key=lambda c: (c.level, c.kind)))


def physical_cores(root: Path, cpus: Iterable[int] | None = None) -> int | None:
    """How many physical cores these logical CPUs belong to (all of them if None)."""
    cores = set()
    for n in _all_cpus(root) if cpus is None else cpus:
        here = root / CPUS / f"cpu{n}" / "topology"
        siblings = _text(here / "core_cpus_list") or _text(here / "thread_siblings_list")  # the newer name first
        if siblings is None:
            return None
        cores.add(frozenset(cpu_list(siblings)))
    return len(cores) or None


def governor(root: Path, cpu: int) -> tuple[str | None, str | None]:
    """How the frequency is chosen, and by which driver."""
    here = root / CPUS / f"cpu{cpu}" / "cpufreq"
    return _text(here / "scaling_governor"), _text(here / "scaling_driver")


def memory(root: Path) -> int | None:
    """Bytes of memory of the machine."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def load(root: Path) -> float | None:
    """How many processes wanted to run, on average of the last minute."""
    found = re.match(r"\d+(\.\d+)?", _text(root / "proc/loadavg") or "")
    return float(found[0]) if found else None


def cpu_quota(root: Path) -> float | None:
    """How many CPUs' worth of time the process' control groups allow; None is no limit."""
    quotas = []
    for group in _groups(root, "cpu"):
        whole = (_text(group / "cpu.max") or "").split()  # version 2: "150000 100000" or "max 100000"
        quota, period = whole if len(whole) == 2 else (_text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us"))
        if quota and period and quota.isdigit() and period.isdigit() and int(period) and int(quota):  # -1 and "max" are no limit
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit(root: Path) -> int | None:
    """Bytes that the process' control groups allow; None is no limit. Version 1 writes "no limit" as a number near 2^63."""
    limits = []
    for group in _groups(root, "memory"):
        text = _text(group / "memory.max") or _text(group / "memory.limit_in_bytes")
        if text and text.isdigit() and int(text) < 1 << 60:
            limits.append(int(text))
    return min(limits, default=None)


def cpu_list(text: str) -> frozenset[int]:
    """The CPUs of a list as the kernel writes it.

    >>> sorted(cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last if last.isdigit() else first) + 1))
    return frozenset(found)


def _all_cpus(root: Path) -> list[int]:
    return sorted(int(p.name[3:]) for p in (root / CPUS).glob("cpu*") if p.name[3:].isdigit())


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The process' group for a controller and all above it: each of them limits. Version 2 has one tree, version 1 one for each controller.

    In a container the path is often that of the host while the mount is the container's own, so some of these do not exist.
    """
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0":
            tops = [root / CGROUPS, root / CGROUPS / "unified"]
        elif controller in names.split(","):
            tops = [root / CGROUPS / names, root / CGROUPS / controller]  # often a link of one to the other
        else:
            continue
        parts = [p for p in path.split("/") if p]
        for top in tops:
            for depth in range(len(parts), -1, -1):
                yield top.joinpath(*parts[:depth])


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _int(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text and text.isdigit() else None


def _size(text: str | None) -> int | None:
    """ "1024K" in bytes."""
    found = re.fullmatch(r"(\d+)([KMG]?)B?", text or "")
    return int(found[1]) * _UNITS[found[2]] if found else None
