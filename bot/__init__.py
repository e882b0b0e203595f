"""Countersign, an approval bot for chat workspaces."""

import asyncio
import sys
from typing import Any

if sys.version_info < (3, 12):

    async def wait_for(awaitable: Any, timeout: float | None) -> Any:
        """Wait as `asyncio.wait_for` of Python 3.12 does. The function of 3.11, with which redis-py and aiosmtplib
        send, swallows a cancellation that arrives while it finishes: most loops of calls went on (measured with
        Redis). Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            return await awaitable

    asyncio.wait_for = wait_for  # type: ignore[assignment] # no type parameter is needed here
