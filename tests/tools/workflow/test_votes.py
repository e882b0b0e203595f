"""How people decide together, played through: whoever's turn it is votes or asks further people, in any order."""

from collections.abc import Iterator
from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.state import Ballot, Seat
from tools.workflow.engine.votes import (
    build_ballot,
    compute_seat_verdict,
    compute_verdict,
    find_seat,
    list_seats,
    list_waiting_seats,
    replace_seat,
)

YES, NO = "approve", "reject"
MOST = 25
"""People who are asked in one play."""
MODES, PEOPLE, SEEDS = st.sampled_from(VotingMode), st.integers(1, 5), st.integers(0, 2**32).map(Random)


def of(mode: VotingMode, people: int) -> Ballot:
    return build_ballot(mode, [f"P{n}" for n in range(people)], 1)


def voted(ballot: Ballot, seat: Seat, vote: str) -> Ballot:
    return replace_seat(ballot, seat.n, vote=vote)


def turns(ballot: Ballot) -> list[int]:
    return [seat.n for seat in list_waiting_seats(ballot)]


def asked_further(ballot: Ballot, seat: Seat, random: Random, names: Iterator[int]) -> Ballot:
    """One add sign, as the machine does it: with `after` goes the own vote."""
    first = max(s.n for s in list_seats(ballot)) + 1
    people = [f"Q{next(names)}" for _ in range(random.randint(1, 3))]
    added = build_ballot(random.choice(list(VotingMode)), people, first)
    side = random.choice(["before", "after"] if seat.beside else ["before", "beside", "after"])
    update = {side: added, **({"vote": YES} if side == "after" else {})}
    return replace_seat(ballot, seat.n, **update)


def played(ballot: Ballot, random: Random, no: float) -> list[Ballot]:
    """Every situation on the way to the verdict."""
    names, seen = count(), [ballot]
    while turn := list(list_waiting_seats(ballot)):
        seat = random.choice(turn)
        if random.random() < 0.3 and len(list(list_seats(ballot))) < MOST:
            ballot = asked_further(ballot, seat, random, names)
        else:
            ballot = voted(ballot, seat, NO if random.random() < no else YES)
        seen.append(ballot)
    return seen


SHARE = st.sampled_from([0.0, 0.1, 0.2, 0.5])


@given(MODES, PEOPLE, SEEDS, SHARE)
def test_somebody_is_asked_until_there_is_a_verdict_nobody_before_their_turn_and_a_no_is_heard_wherever_it_is_said(
    mode: VotingMode, people: int, random: Random, no: float
) -> None:
    """Only where any one decides, somebody else may have been quicker."""
    situations = played(of(mode, people), random, no)
    for ballot in situations:
        asked = set(turns(ballot))
        assert bool(asked) is not bool(compute_verdict(ballot))
        assert len(turns(ballot)) == len(asked), "nobody is asked twice at once"
        for seat in list_seats(ballot):
            below = {one.n for side in (seat.before, seat.beside, seat.after) if side for one in list_seats(side)}
            assert not (seat.vote and seat.n in asked)
            if seat.before and not compute_verdict(seat.before):
                assert seat.n not in asked, "before comes first"
                assert not asked & (below - {one.n for one in list_seats(seat.before)}), "beside and after come later"
            if seat.after and (not seat.vote or (seat.beside and not compute_verdict(seat.beside))):
                assert not asked & {one.n for one in list_seats(seat.after)}, "after comes last"
    last = situations[-1]
    votes = {seat.vote for seat in list_seats(last)}
    if all(ballot.mode is not VotingMode.ANY for ballot in (last, *inside(last))):
        assert compute_verdict(last) == (NO if NO in votes else YES)
    if NO not in votes:
        assert compute_verdict(last) == YES


def inside(ballot: Ballot) -> list[Ballot]:
    sides = [side for seat in list_seats(ballot) for side in (seat.before, seat.beside, seat.after)]
    return [side for side in sides if side]


@given(PEOPLE, SEEDS, SHARE)
def test_all_agree_only_when_everybody_has_any_one_decides_with_the_first_word_and_in_order_one_follows_another(
    people: int, random: Random, no: float
) -> None:
    for ballot in played(of(VotingMode.ALL, people), random, no):
        agreed = all(seat.vote == YES and compute_seat_verdict(seat) == YES for seat in ballot.seats)
        assert (compute_verdict(ballot) == YES) is agreed
        assert (compute_verdict(ballot) == NO) is any(compute_seat_verdict(seat) == NO for seat in ballot.seats)
    before, last = played(of(VotingMode.ANY, people), random, no)[-2:]
    (said,) = [compute_seat_verdict(seat) for seat in last.seats if compute_seat_verdict(seat)]
    assert (compute_verdict(before), compute_verdict(last)) == ("", said)
    for ballot in played(of(VotingMode.ORDER, people), random, no):
        done = [bool(compute_seat_verdict(seat)) for seat in ballot.seats]
        assert done == sorted(done, reverse=True), "those before have said what they have to say"
        if not compute_verdict(ballot):
            at = ballot.seats[done.index(False)]
            assert all(find_seat(Ballot(seats=(at,)), n) for n in turns(ballot)), "only the next one, and whom they ask"


@given(MODES, PEOPLE, SEEDS)
def test_a_change_is_of_one_seat(mode: VotingMode, people: int, random: Random) -> None:
    ballot = random.choice(played(of(mode, people), random, 0.2))
    n = random.choice(list(list_seats(ballot))).n
    after = replace_seat(ballot, n, person="somebody else")
    own = {seat.n: seat.person for seat in list_seats(ballot)}
    assert {seat.n: seat.person for seat in list_seats(after)} == {**own, n: "somebody else"}
    assert len(own) == len(list(list_seats(ballot))), "each seat has a number of its own"
    assert find_seat(after, n) is not None and find_seat(after, 10_000) is None


@corpus("mode", *VotingMode)
def test_nobody_sits_twice(mode: VotingMode) -> None:
    assert [(seat.n, seat.person) for seat in build_ballot(mode, ["B", "C", "B"], 7).seats] == [(7, "B"), (8, "C")]


def test_who_comes_after_waits_for_who_is_beside() -> None:
    beside, after = build_ballot(VotingMode.ALL, ["C"], 2), build_ballot(VotingMode.ALL, ["D"], 3)
    ballot = Ballot(mode=VotingMode.ALL, seats=(Seat(n=1, person="B", vote=YES, beside=beside, after=after),))
    assert turns(ballot) == [2]
    ballot = voted(ballot, beside.seats[0], YES)
    assert turns(ballot) == [3]
    assert turns(voted(ballot, after.seats[0], YES)) == []
