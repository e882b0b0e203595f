"""Joint decisions of several people: pure functions over a tree of seats.

Every seat may have ballots of its own: people asked before, beside or after it (add sign). A rejection anywhere rejects
the whole, except in a ballot where any one decides: there the first decision is final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.state import Ballot, Decision, Seat

APPROVE, REJECT = Decision.APPROVE.value, Decision.REJECT.value


def build_ballot(mode: VotingMode, people: Iterable[str], first: int) -> Ballot:
    """A ballot without repeated people. Seats are numbered from `first`."""
    return Ballot(mode=mode, seats=tuple(Seat(n=first + i, person=p) for i, p in enumerate(dict.fromkeys(people))))


def compute_verdict(ballot: Ballot) -> str:
    """The verdict: `approve`, `reject`, or empty while the ballot is open."""
    verdicts = [compute_seat_verdict(seat) for seat in ballot.seats]
    if ballot.mode is VotingMode.ANY:
        return next(filter(None, verdicts), "")
    if REJECT in verdicts:
        return REJECT
    return APPROVE if all(verdicts) else ""


def compute_seat_verdict(seat: Seat) -> str:
    """The verdict of a seat with its own ballots."""
    said = [seat.vote, *(compute_verdict(b) for b in _list_side_ballots(seat))]
    if REJECT in said:
        return REJECT
    return APPROVE if all(said) else ""


def list_waiting_seats(ballot: Ballot) -> Iterator[Seat]:
    """Yield the seats whose turn it is; none once there is a verdict."""
    if compute_verdict(ballot):
        return
    for seat in ballot.seats:
        if not compute_seat_verdict(seat):
            yield from _list_waiting_in_seat(seat)
            if ballot.mode is VotingMode.ORDER:
                return


def list_seats(ballot: Ballot) -> Iterator[Seat]:
    for seat in ballot.seats:
        yield seat
        for asked in _list_side_ballots(seat):
            yield from list_seats(asked)


def find_seat(ballot: Ballot, n: int) -> Seat | None:
    return next((s for s in list_seats(ballot) if s.n == n), None)


def compute_seat_depth(ballot: Ballot, n: int) -> int:
    """The number of seats above this one in the tree; 0 for a seat that was not added, and for an unknown one."""
    for seat in ballot.seats:
        for asked in _list_side_ballots(seat):
            if find_seat(asked, n):
                return 1 + compute_seat_depth(asked, n)
    return 0


def replace_seat(ballot: Ballot, n: int, **fields: Any) -> Ballot:
    """The ballot with one seat changed, anywhere in the tree."""
    seats: list[Seat] = []
    for seat in ballot.seats:
        if seat.n == n:
            seats.append(seat.model_copy(update=fields))
            continue
        sides = {"before": seat.before, "beside": seat.beside, "after": seat.after}
        deeper = {name: replace_seat(side, n, **fields) for name, side in sides.items() if side}
        seats.append(seat.model_copy(update=deeper))
    return ballot.model_copy(update={"seats": tuple(seats)})


def _list_waiting_in_seat(seat: Seat) -> Iterator[Seat]:
    """Yield the waiting seats in a seat: first those before it, then it and those beside it together, last those after
    it."""
    if seat.before and not compute_verdict(seat.before):
        yield from list_waiting_seats(seat.before)
        return
    if not seat.vote:
        yield seat
    if seat.beside:
        yield from list_waiting_seats(seat.beside)
    if seat.after and seat.vote and not (seat.beside and not compute_verdict(seat.beside)):
        yield from list_waiting_seats(seat.after)


def _list_side_ballots(seat: Seat) -> Iterator[Ballot]:
    yield from filter(None, (seat.before, seat.beside, seat.after))
