"""The clock: one object, passed to everything that needs the time.

This clock stamps and dates. Decisions between processes (leases, timers, deadlines of lanes) use the clock of Redis, in
its scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo


def to_ms(moment: datetime) -> int:
    """Return a moment as epoch ms."""
    return int(moment.timestamp() * 1000)


def read_system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Two readings of the time. Only a test or an evaluation makes them differ."""

    read_now: Callable[[], datetime] = read_system_time
    """Aware UTC, for the stamps of cards and runs and for their expiry."""
    read_today: Callable[[], datetime] = read_system_time
    """Aware UTC, the basis of *today* and *tomorrow* and of the stamps of requests."""

    def now(self) -> datetime:
        """The current time in aware UTC."""
        return self.read_now()

    def now_ms(self) -> int:
        """The current time in epoch ms."""
        return to_ms(self.now())

    def today(self, zone: tzinfo | None = None) -> datetime:
        """The day that people mean, with its time: in `zone`, or in aware UTC."""
        return self.read_today() if zone is None else self.read_today().astimezone(zone)

    def today_ms(self) -> int:
        """The time of `today` in epoch ms."""
        return to_ms(self.today())
