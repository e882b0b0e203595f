"""The lease that the running task works for. Asserted right before every action that no fencing token guards."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class HeldLease(Protocol):
    async def assert_held(self) -> None:
        """Asserts that the lane is still ours. Raises LeaseLost, StoreUnavailableError."""


_HELD: ContextVar[HeldLease | None] = ContextVar("held_lease", default=None)


def bind_lease(lease: HeldLease) -> None:
    """From now on, this task and the tasks it starts work for this lease."""
    _HELD.set(lease)


async def assert_lease_held() -> None:
    """Asserts that the lane of this task is still ours. Always true outside of any lane. Raises LeaseLost,
    StoreUnavailableError."""
    lease = _HELD.get()
    if lease is not None:
        await lease.assert_held()
