"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

AGAIN_S = 0.25


async def cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel, and wait until that has happened. More than once if need be: before Python 3.12,
    `asyncio.wait_for`, with which redis-py sends, swallows a cancellation that comes as it finishes."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def ending(work: asyncio.Task[None]) -> None:
    """Wait for `work`; cancelled meanwhile, end it for certain before the cancellation goes on."""
    try:
        await asyncio.wait({work})
    finally:
        await cancelled([work])
    work.result()
