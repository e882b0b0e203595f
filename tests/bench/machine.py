"""What it was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

BUSY = 1.0
"""Load from which on others disturb."""


def machine() -> dict[str, str]:
    """What it is, and how busy it was a moment ago: figures of a busy machine are worth less."""
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count() or "?"),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?",
    }


def busy(about: dict[str, str]) -> str:
    """A warning, if others were at work."""
    if about["load"] == "?" or float(about["load"]) < BUSY:
        return ""
    return f"the machine was busy before it began (load {about['load']}): times on the clock are worth little"


def _cpu() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 1024**2:.1f} GB"
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1024**3:.1f} GB"
    except (ValueError, OSError):
        return "?"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
