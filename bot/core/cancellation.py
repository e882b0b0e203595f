"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

AGAIN_S = 0.25


class WorkInterruptedError(Exception):
    """The work within `interrupt_work` was ended."""


class StopEvent(asyncio.Event):
    """An event that can also be watched without a task of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[Callable[[], None]] = []

    def set(self) -> None:
        super().set()
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def add_watcher(self, watcher: Callable[[], None]) -> Iterator[None]:
        """`watcher` is called when the event is set within the context, and at once if it is set already."""
        self._watchers.append(watcher)
        try:
            if self.is_set():
                watcher()
            yield
        finally:
            self._watchers.remove(watcher)


@contextmanager
def interrupt_work(stop: StopEvent, after_s: float) -> Iterator[None]:
    """Cancel the work within when `stop` is set or `after_s` seconds are over, and again until that has happened (see
    `cancel_and_wait`); raises Interrupted then. A cancellation from outside passes through."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "the work is done in a task"
    before, times = task.cancelling(), 0
    again: asyncio.Handle | None = None

    def cancel_task() -> None:
        nonlocal again, times
        times += 1
        task.cancel()
        again = loop.call_later(AGAIN_S, cancel_task)

    def begin_cancelling() -> None:
        nonlocal again
        if again is None:
            again = loop.call_soon(cancel_task)

    limit = loop.call_later(after_s, begin_cancelling)
    try:
        with stop.add_watcher(begin_cancelling):
            yield
    except asyncio.CancelledError:
        outside = task.cancelling() - before > times
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
    """Cancel, and wait until that has happened. More than once if need be: before Python 3.12,
    `asyncio.wait_for`, with which redis-py sends, swallows a cancellation that comes as it finishes."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def wait_or_cancel(work: asyncio.Task[None]) -> None:
    """Wait for `work`; cancelled meanwhile, end it for certain before the cancellation goes on."""
    try:
        await asyncio.wait({work})
    finally:
        await cancel_and_wait([work])
    work.result()
