"""The machine that figures are of."""

import os
import platform
from pathlib import Path


def machine() -> str:
    """Its processor, where the system tells, and how many cores it has."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    named = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{platform.machine()}, {next(named, platform.processor())}, {os.cpu_count()} cores"
