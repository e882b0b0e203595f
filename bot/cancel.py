"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

AGAIN_S = 0.25


class Stop(asyncio.Event):
    """An event that can also be watched without a task of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[Callable[[], None]] = []

    def set(self) -> None:
        super().set()
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watched(self, watcher: Callable[[], None]) -> Iterator[None]:
        """`watcher` is called when the event is set within the context, and at once if it is set already."""
        self._watchers.append(watcher)
        try:
            if self.is_set():
                watcher()
            yield
        finally:
            self._watchers.remove(watcher)


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
