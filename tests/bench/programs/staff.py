"""A company whose people ask for leave, and the form they hand in."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from tools.spec import Person

BOB = Person(id="U0000001", name="Bob Example", manager="U0000002")
CID = Person(id="U0000002", name="Cid Example", roles=frozenset({"director"}))
AUTHORS = tuple(Person(id=f"U1{n:06d}", name=f"Ann Example {n}", manager=BOB.id) for n in range(100))
STAFF = (*AUTHORS, BOB, CID)
DAY = datetime.now(UTC).date() + timedelta(days=28)
FORM = {
    "leave_type": "sick",
    "start_date": DAY.isoformat(),
    "end_date": (DAY + timedelta(days=7)).isoformat(),
    "reason": "A small operation, planned for long",
    "approver": BOB.id,
}


class Directory:
    async def find_person(self, person: str) -> Person | None:
        return next((one for one in STAFF if one.id == person), None)

    async def list_people(self) -> tuple[Person, ...]:
        return STAFF

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Nothing is remembered here: it is as fresh as can be."""
