"""Open time of cards. Only the working hours of the person who is asked count."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from tools.ports import Directory
from tools.spec import Proposal
from tools.workflow.process.calendar import WorkCalendar


class OpenPeriod(TypedDict):
    lasts: timedelta
    reminds_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTime:
    directory: Directory
    length: timedelta = timedelta(hours=72)
    """Working time that a card stays open. Reminders go out at half time."""
    calendar: WorkCalendar = field(default_factory=WorkCalendar)

    async def measure(self, proposal: Proposal, caller: str, now: datetime) -> OpenPeriod:
        """Compute the open time of a card that opens now. `caller`: the person who is asked if the card names no
        deciders."""
        person = await self.directory.find_person(next(iter(proposal.deciders), caller))
        zone = person.zone if person else now.tzinfo
        assert zone is not None
        return OpenPeriod(
            lasts=self.calendar.add_working_time(now, self.length, zone) - now,
            reminds_after=self.calendar.add_working_time(now, self.length, zone, share=0.5) - now,
        )
