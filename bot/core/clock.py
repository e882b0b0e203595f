"""What time it is: one object, handed to whoever asks.

It stamps and dates. What must be decided between processes (leases, timers, dead lines of lanes) goes by the clock of
Redis, in its scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo


def to_ms(moment: datetime) -> int:
    """Epoch."""
    return int(moment.timestamp() * 1000)


def read_system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Two readings. They differ only where somebody sets them apart: a test, an evaluation."""

    read_now: Callable[[], datetime] = read_system_time
    """Aware UTC: what cards and runs are stamped with, and expire by."""
    read_today: Callable[[], datetime] = read_system_time
    """Aware UTC: what *today* and *tomorrow* are counted from, and requests are stamped with."""

    def now(self) -> datetime:
        """Aware UTC."""
        return self.read_now()

    def now_ms(self) -> int:
        """Epoch."""
        return to_ms(self.now())

    def today(self, zone: tzinfo | None = None) -> datetime:
        """The day that people mean, with its time: in their zone, or aware UTC."""
        return self.read_today() if zone is None else self.read_today().astimezone(zone)

    def today_ms(self) -> int:
        """Epoch."""
        return to_ms(self.today())
