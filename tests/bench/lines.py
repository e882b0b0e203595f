"""What a process of the benchmarks is told: lines on its standard input, until that ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator


async def lines() -> AsyncIterator[str]:
    """Line by line. The end means that whoever started this process is gone, or done with it."""
    told = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    while line := await told.readline():
        yield line.decode().strip()
