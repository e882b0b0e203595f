"""The lease that the running task works for. Code asserts it right before every action that no fencing token guards."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from bot.core.errors import StoreUnavailableError
from tools.spec import ToolError


class HeldLease(Protocol):
    async def assert_held(self) -> None:
        """Assert that the lane is still ours. Raises LeaseLost, StoreUnavailableError."""


_HELD: ContextVar[HeldLease | None] = ContextVar("held_lease", default=None)


def bind_lease(lease: HeldLease) -> None:
    """Let this task, and the tasks it starts from now on, work for this lease."""
    _HELD.set(lease)


def get_held_lease() -> HeldLease | None:
    """The lease of this task; None outside of any lane."""
    return _HELD.get()


async def assert_lease_held() -> None:
    """Assert that the lane of this task is still ours; do nothing outside of any lane. Raises LeaseLost,
    StoreUnavailableError."""
    lease = _HELD.get()
    if lease is not None:
        await lease.assert_held()


async def assert_may_send() -> None:
    """Assert that the lane is still ours, for a tool about to send what cannot be taken back. Raises LeaseLost;
    ToolError if the store cannot be asked."""
    try:
        await assert_lease_held()
    except StoreUnavailableError:
        raise ToolError("not_sent", "the store cannot be asked whether this may still be sent; nothing was") from None
