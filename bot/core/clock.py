"""The clock: one object, passed to everything that needs the time.

It stamps and dates. Decisions between processes (leases, timers, deadlines of lanes) use the clock of Redis, in its
scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo


def to_ms(moment: datetime) -> int:
    """Epoch ms."""
    return int(moment.timestamp() * 1000)


def read_system_time() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Two readings. They differ only where a test or an evaluation sets them apart."""

    read_now: Callable[[], datetime] = read_system_time
    """Aware UTC: the stamps of cards and runs, and the time they expire by."""
    read_today: Callable[[], datetime] = read_system_time
    """Aware UTC: what *today* and *tomorrow* are counted from; also the stamps of requests."""

    def now(self) -> datetime:
        """Aware UTC."""
        return self.read_now()

    def now_ms(self) -> int:
        """Epoch ms."""
        return to_ms(self.now())

    def today(self, zone: tzinfo | None = None) -> datetime:
        """The day that people mean, with its time: in their zone, or aware UTC."""
        return self.read_today() if zone is None else self.read_today().astimezone(zone)

    def today_ms(self) -> int:
        """Epoch ms."""
        return to_ms(self.today())
