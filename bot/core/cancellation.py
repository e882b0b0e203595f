"""Reliable cancellation of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

REPEAT_S = 0.25


async def wait_for(awaitable: Any, timeout: float | None) -> Any:
    """Wait as `asyncio.wait_for` of Python 3.12 does. That of 3.11, with which redis-py and aiosmtplib send, swallows a
    cancellation that arrives while it finishes: most loops of calls to Redis went on. Raises TimeoutError."""
    async with asyncio.timeout(timeout):
        return await awaitable


class WorkInterruptedError(Exception):
    """The work within `interrupt_work` was ended."""


class StopEvent(asyncio.Event):
    """An event that can be watched without a task of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[Callable[[], None]] = []

    def set(self) -> None:
        super().set()
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def add_watcher(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Call `watcher` when the event is set within the context, or at once if it is set already."""
        self._watchers.append(watcher)
        try:
            if self.is_set():
                watcher()
            yield
        finally:
            self._watchers.remove(watcher)


@contextmanager
def interrupt_work(stop: StopEvent, after_s: float) -> Iterator[None]:
    """Cancel the work within when `stop` is set or after `after_s` seconds, and repeat that until it takes effect (see
    `cancel_and_wait`). Raises WorkInterruptedError afterwards. A cancellation from outside passes through."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "the work is done in a task"
    earlier_cancellations, times = task.cancelling(), 0
    again: asyncio.Handle | None = None

    def cancel_task() -> None:
        nonlocal again, times
        times += 1
        task.cancel()
        again = loop.call_later(REPEAT_S, cancel_task)

    def begin_cancelling() -> None:
        nonlocal again
        if again is None:
            again = loop.call_soon(cancel_task)

    limit = loop.call_later(after_s, begin_cancelling)
    try:
        with stop.add_watcher(begin_cancelling):
            yield
    except asyncio.CancelledError:
        outside = task.cancelling() - earlier_cancellations > times
        if outside or not times:
            raise
        raise WorkInterruptedError from None
    finally:
        limit.cancel()
        if again is not None:
            again.cancel()
        for _ in range(times):
            task.uncancel()


async def cancel_and_wait(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and wait until they have ended. The cancellation is repeated if necessary: a library may swallow
    one."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=REPEAT_S)
    await asyncio.gather(*tasks, return_exceptions=True)
