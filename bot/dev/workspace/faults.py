"""Faults that a test orders from the workspace."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TypeAlias

Outcome: TypeAlias = str | int
"""An error name (`channel_not_found`), 429, 500, `drop` or `drop_after`. With `drop`, the connection breaks before
anything is done; with `drop_after`, it breaks afterwards."""


@dataclass(slots=True)
class PlannedFaults:
    """Planned faults, each used once."""

    calls: defaultdict[str, deque[Outcome]] = field(default_factory=lambda: defaultdict(deque))
    holds: int = 0
    retry_after_seconds: int = 1
    delays_s: dict[str, float] = field(default_factory=dict)
    """Method → delay of its answers in seconds; the empty name stands for every other method. By then a call has had
    its effect."""

    def fail_next_call(self, method: str, outcome: Outcome, times: int = 1) -> None:
        self.calls[method].extend([outcome] * times)

    def take_fault(self, method: str) -> Outcome | None:
        return self.calls[method].popleft() if self.calls[method] else None

    def get_delay_s(self, method: str) -> float:
        return self.delays_s.get(method, self.delays_s.get("", 0.0))

    def hold_next_acks(self, times: int = 1) -> None:
        """Drop the app's next acknowledgements, as if they were lost on the way."""
        self.holds += times

    def take_ack_hold(self) -> bool:
        held, self.holds = self.holds > 0, max(0, self.holds - 1)
        return held
