"""Tells whether a file has changed since it was read."""

from __future__ import annotations

import os
import time
from typing import TypeAlias

FileStamp: TypeAlias = tuple[int, int, int, int, int]
FRESH_NS = 50_000_000
"""Nanoseconds during which a change counts as fresh. Linux stamps files by the kernel's tick, up to 10 ms long, so two
changes within one tick have equal stamps."""


def build_stamp(status: os.stat_result, now_ns: int | None = None) -> FileStamp:
    """A value that changes whenever the file is written or replaced. `status` has to be read before the file. While the
    last change is younger than `FRESH_NS`, every stamp differs, because a further change could go unnoticed."""
    age_ns = (time.time_ns() if now_ns is None else now_ns) - max(status.st_mtime_ns, status.st_ctime_ns)
    fresh_ns = age_ns + 1 if 0 <= age_ns < FRESH_NS else 0
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, fresh_ns
