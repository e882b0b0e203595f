"""How fast this machine is now."""

import re
import time
from collections import deque

from tests.linear.seeds import write

LENGTH = 40_000
PLAIN, PLAIN_S = re.compile(r"\b(?:alpha|beta|gamma)\b", re.IGNORECASE), 0.0015
"""A pattern without any trick, and what it takes for 40,000 characters of `a.` on an idle machine."""


def measure(pattern: re.Pattern[str], use: str, text: str) -> float:
    """Seconds of the processor."""
    began = time.thread_time()
    if use == "search":
        deque(pattern.finditer(text), 0)
    else:
        pattern.fullmatch(text)
    return time.thread_time() - began


def measure_pace() -> float:
    """How many times slower than it should be this machine is now; 1 at least."""
    text = write("", "a.", "", LENGTH)
    return max(1.0, min(measure(PLAIN, "search", text) for _ in range(3)) / PLAIN_S)
