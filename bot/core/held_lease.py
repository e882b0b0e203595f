"""Which lease the running task works for: asked right before anything is done that no fencing token guards."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class HeldLease(Protocol):
    async def assert_held(self) -> None:
        """The lane is still ours. Raises LeaseLost, StoreUnavailableError."""


_HELD: ContextVar[HeldLease | None] = ContextVar("held_lease", default=None)


def bind_lease(lease: HeldLease) -> None:
    """The running task, and what it starts, works for this lease from now on."""
    _HELD.set(lease)


async def assert_lease_held() -> None:
    """The lane that this task works for is still ours. Raises LeaseLost, StoreUnavailableError. Outside of any lane it
    is always so."""
    lease = _HELD.get()
    if lease is not None:
        await lease.assert_held()
