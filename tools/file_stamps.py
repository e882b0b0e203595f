"""Whether a file has changed since it was read."""

from __future__ import annotations

import os
import time
from typing import TypeAlias

FileStamp: TypeAlias = tuple[int, int, int, int, int]
FRESH_NS = 50_000_000
"""Linux stamps files by the kernel's tick, up to 10 ms long: two changes within one look like one."""


def build_stamp(status: os.stat_result, now_ns: int | None = None) -> FileStamp:
    """A value that changes as soon as the file is written or replaced. `status` was read before the file. While its
    last change is younger than `FRESH_NS`, every stamp is another: the next change could not be told from it."""
    age_ns = (time.time_ns() if now_ns is None else now_ns) - max(status.st_mtime_ns, status.st_ctime_ns)
    fresh_ns = age_ns + 1 if 0 <= age_ns < FRESH_NS else 0
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, fresh_ns
