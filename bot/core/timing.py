"""Times that only tests change."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.core.clock import Clock

FRESH_S = 30.0
"""The maximum age (s) of a person's data when their authority decides something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Pauses and patience of the bot's parts, and the clock of this machine."""

    poll_s: float = 1.0
    grace_s: float = 25.0
    relay_pause_s: float = 0.5
    timer_pause_s: float = 1.0
    alert_pause_s: float = 10.0
    watch_pause_s: float = 2.0
    """Time between two checks of the store and its clock."""
    outage_retry_s: float = 5.0
    person_max_age_s: float = FRESH_S
    file_patience_s: float = 60.0
    """Time for which a message waits for a file that the platform does not deliver."""
    morning_pause_s: float = 20.0
    """Time between two checks whether morning lists are due."""
    summary_pause_s: float = 60.0
    """Time between the first two tries to summarize a conversation."""
    trim_pause_s: float = 3_600.0
    """Time between two deletions of old records from the journal."""
    max_tries: int = 5
    backoff_ms: int = 500
    clock: Clock = field(default_factory=Clock)
    """The parts take `Stores.clock`, which is this one, corrected."""
