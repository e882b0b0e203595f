"""How people decide together: pure functions over a tree of seats.

Every seat may have ballots of its own: people who are asked before, beside or after it (add sign). A rejection
anywhere is a rejection of the whole; only where any one decides, the first decision is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tools.workflow.graph import Mode
from tools.workflow.state import Ballot, Decision, Seat

APPROVE, REJECT = Decision.APPROVE.value, Decision.REJECT.value


def ballot_of(mode: Mode, people: Iterable[str], first: int) -> Ballot:
    """Nobody twice. Seats are numbered from `first`."""
    return Ballot(mode=mode, seats=tuple(Seat(n=first + i, person=p) for i, p in enumerate(dict.fromkeys(people))))


def verdict(ballot: Ballot) -> str:
    """`approve`, `reject`, or empty while it is open."""
    said = [says(seat) for seat in ballot.seats]
    if ballot.mode is Mode.ANY:
        return next(filter(None, said), "")
    if REJECT in said:
        return REJECT
    return APPROVE if all(said) else ""


def says(seat: Seat) -> str:
    """What a seat and everybody asked for it say together."""
    said = [seat.vote, *(verdict(b) for b in _asked(seat))]
    if REJECT in said:
        return REJECT
    return APPROVE if all(said) else ""


def waiting(ballot: Ballot) -> Iterator[Seat]:
    """Whose turn it is; nobody's once there is a verdict."""
    if verdict(ballot):
        return
    for seat in ballot.seats:
        if not says(seat):
            yield from _turn(seat)
            if ballot.mode is Mode.ORDER:
                return


def everybody(ballot: Ballot) -> Iterator[Seat]:
    for seat in ballot.seats:
        yield seat
        for asked in _asked(seat):
            yield from everybody(asked)


def seat_of(ballot: Ballot, n: int) -> Seat | None:
    return next((s for s in everybody(ballot) if s.n == n), None)


def changed(ballot: Ballot, n: int, change: Callable[[Seat], Seat]) -> Ballot:
    """With one seat changed, wherever it is in the tree."""
    return ballot.model_copy(update={"seats": tuple(_changed(s, n, change) for s in ballot.seats)})


def _changed(seat: Seat, n: int, change: Callable[[Seat], Seat]) -> Seat:
    if seat.n == n:
        return change(seat)
    sides = {"before": seat.before, "beside": seat.beside, "after": seat.after}
    return seat.model_copy(update={k: changed(b, n, change) for k, b in sides.items() if b})


def _turn(seat: Seat) -> Iterator[Seat]:
    """Before comes first, after last; this seat and those beside it at the same time."""
    if seat.before and not verdict(seat.before):
        yield from waiting(seat.before)
        return
    if not seat.vote:
        yield seat
    if seat.beside:
        yield from waiting(seat.beside)
    if seat.after and seat.vote and not (seat.beside and not verdict(seat.beside)):
        yield from waiting(seat.after)


def _asked(seat: Seat) -> Iterator[Ballot]:
    yield from filter(None, (seat.before, seat.beside, seat.after))
