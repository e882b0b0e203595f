"""The people who may press: each refusal beside a press that is allowed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.approvals.authorization import authorize_press
from bot.chat.messages import MessageRef
from bot.core.records import Approval, ApprovalState, EffectState
from tests.approvals.approval_walk import build_card, make_plan
from tests.harness.corpus import corpus
from tools.spec import CardChoice, Gate

NOW, EXPIRES = 1_000, 2_000


def card(**changes: object) -> Approval:
    choices = (CardChoice(name="approve"), CardChoice(name="reject"))
    plan = make_plan(args={"task_id": "L-0001-1"}, deciders=("LI",), requester="ZHANG", choices=choices)
    here = {"id": "A00x", "version": 2, "tool": "decide_task", "gate": Gate.APPROVE, "caller": "ZHANG", "place": None}
    return build_card(plan, **here, created_ms=0, expires_ms=EXPIRES).model_copy(update=changes)


def refused(
    approval: Approval, person: str, choice: str = "approve", version: int = 2, now: int = NOW, standing: str = ""
) -> str:
    for_whom = frozenset(standing.split())
    return authorize_press(approval, person, choice, version, now, for_whom, is_feature=choice == "show")


COPY = {"copies": (("WANG", MessageRef(channel="D", ts="1")),)}
OVER, EXPIRED = {"state": ApprovalState.DECIDED}, {"state": ApprovalState.EXPIRED}
BEGUN = OVER | {"decided_by": "LI", "effect": EffectState.FAILED}


def own(*deciders: str, gate: Gate = Gate.APPROVE) -> dict[str, object]:
    return {"gate": gate, "proposal": card().proposal.model_copy(update={"deciders": deciders})}


@corpus(
    ("changes", "person", "more", "code"),
    ({}, "LI", {}, ""),
    ({}, "WANG", {}, "not_yours"),
    ({}, "ZHANG", {}, "own"),
    # even if the task is assigned to them
    (own("ZHANG", "LI"), "ZHANG", {}, "own"),
    (own("ZHANG", "LI"), "LI", {}, ""),
    # a confirmation is the caller's own
    (own("ZHANG", gate=Gate.CONFIRM), "ZHANG", {}, ""),
    (own("ZHANG", gate=Gate.CONFIRM), "LI", {}, "not_yours"),
    # deputies may press, while they stand in and for their person only
    ({}, "WANG", {"standing": "LI"}, ""),
    ({}, "WANG", {"standing": "SUN"}, "not_yours"),
    (COPY, "WANG", {"standing": "LI"}, ""),
    (COPY, "WANG", {}, "stood_in"),
    # but never on their own request, and nobody confirms for somebody else
    ({}, "ZHANG", {"standing": "LI"}, "own"),
    ({"gate": Gate.CONFIRM}, "WANG", {"standing": "LI"}, "not_yours"),
    ({"gate": Gate.CONFIRM}, "LI", {}, ""),
    (COPY | {"gate": Gate.CONFIRM}, "WANG", {}, "not_yours"),
    # an ended card is over for everybody, before the question whose it is
    ({}, "LI", {"now": EXPIRES}, "expired"),
    (EXPIRED, "ZHANG", {}, "expired"),
    (EXPIRED, "WANG", {"standing": "LI"}, "expired"),
    (OVER, "LI", {}, "already"),
    (OVER, "WANG", {"standing": "LI"}, "already"),
    ({}, "LI", {"version": 1}, "stale"),
    ({}, "LI", {"choice": "delete everything"}, "stale"),
    # everybody concerned may ask again, and only after expiry
    (EXPIRED, "LI", {"choice": "again"}, ""),
    (EXPIRED, "ZHANG", {"choice": "again"}, ""),
    (EXPIRED, "WANG", {"choice": "again", "standing": "LI"}, ""),
    (EXPIRED, "WANG", {"choice": "again"}, "not_yours"),
    ({}, "LI", {"choice": "again"}, "already"),
    # only LI may continue what LI has begun
    (BEGUN, "WANG", {"choice": "retry", "standing": "LI"}, "not_yours"),
)
def test_who_may_press_and_when(changes: dict[str, object], person: str, more: dict[str, Any], code: str) -> None:
    assert refused(card(**changes), person, **more) == code


@corpus("state", *ApprovalState)
def test_whom_a_card_concerns_sees_the_process_and_nobody_else_does(state: ApprovalState) -> None:
    shown = card(state=state, caller="SUN")
    assert [refused(shown, person, "show") for person in ("LI", "ZHANG", "SUN")] == ["", "", ""]
    assert refused(shown, "WANG", "show") == "not_yours"
    assert refused(shown, "WANG", "show", standing="LI") == ""
    assert refused(card(state=state, gate=Gate.CONFIRM), "WANG", "show", standing="LI") == "not_yours"
    assert refused(card(state=state, caller=""), "", "show") == "not_yours", "the engine has asked, not a person"


@corpus(
    ("choice", "effect"),
    ("retry", EffectState.FAILED),
    ("redo", EffectState.UNKNOWN),
    ("happened", EffectState.UNKNOWN),
)
def test_only_who_decided_says_what_became_of_it(choice: str, effect: EffectState) -> None:
    decided = card(state=ApprovalState.DECIDED, decided_by="LI", effect=effect)
    assert refused(decided, "LI", choice) == ""
    assert refused(decided, "ZHANG", choice) == "not_yours"
    assert refused(decided, "LI", choice, version=1) == "stale", "a button counts for one try"
    assert refused(decided.model_copy(update={"effect": EffectState.DONE}), "LI", choice) == "already"


CARDS = st.builds(
    card,
    state=st.sampled_from(ApprovalState),
    effect=st.sampled_from(EffectState),
    gate=st.sampled_from([Gate.APPROVE, Gate.CONFIRM]),
    decided_by=st.just("LI"),
)


@given(
    approval=CARDS,
    person=st.sampled_from(["ZHANG", "LI", "WANG", ""]),
    choice=st.sampled_from(["approve", "reject", "again", "retry", "redo", "happened", "x"]),
    version=st.integers(0, 3),
    now=st.integers(0, 3_000),
    standing=st.frozensets(st.sampled_from(["LI", "ZHANG", "SUN"])),
)
def test_an_effect_needs_an_open_card_of_this_version_in_time_and_the_right_person(
    approval: Approval, person: str, choice: str, version: int, now: int, standing: frozenset[str]
) -> None:
    stands_in = "LI" in standing and approval.gate is Gate.APPROVE
    refusal = authorize_press(approval, person, choice, version, now, standing)
    if not refusal and choice in {"approve", "reject"}:
        assert approval.state is ApprovalState.OPEN and version == 2 and now < EXPIRES
        assert person == "LI" or (stands_in and person != "ZHANG")
    if person == "WANG" and not stands_in:
        assert refusal
