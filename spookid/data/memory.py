"""How much memory there is."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
_CACHED = (
    ("/sys/fs/cgroup/memory.stat", "inactive_file"),
    ("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"),
)
"""Files that the system holds in memory until that is needed: where they stand, and by what name."""


def available() -> float:
    """Memory that this process may take, with what it holds [bytes]; infinite where the system does not tell."""
    held = (_text("/proc/self/statm").split() or ["0", "0"])[:2]
    size, resident = (float(pages) * mmap.PAGESIZE for pages in held)
    return resident + min(_left(size), default=math.inf)


def _left(size: float) -> Iterator[float]:
    """What the system, the container and the process have left, of which the last has a size of addresses [bytes]."""
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield 1024.0 * float(line.split()[1])
    for limit, used, cached in zip(map(_text, _LIMITS), map(_text, _USED), _CACHED, strict=True):
        if limit.strip().isdigit() and used.strip().isdigit():
            yield max(float(limit) - float(used) + _entry(*cached), 0.0)
    try:
        import resource  # not on Windows
    except ImportError:
        return
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and size:
        yield max(allowed - size, 0.0)


def _entry(path: str, name: str) -> float:
    """A number of a file of names and numbers, 0 if there is none."""
    found = dict(line.split(maxsplit=1) for line in _text(path).splitlines() if " " in line)
    return float(found.get(name, "0"))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
