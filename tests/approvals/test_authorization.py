"""Who may press. Each refusal with the press that is allowed beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.approvals.authorization import authorize_press, authorize_retry
from bot.chat.messages import Message, MessageRef, Place
from bot.core.records import Approval, ApprovalState, EffectState, Run, RunStatus, compute_seal
from tools.spec import CardChoice, Gate, Proposal, TextRef

NOW, EXPIRES = 1_000, 2_000


def card(**changes: object) -> Approval:
    plan = Proposal(
        args={"task_id": "L-0001-1"},
        title=TextRef(key="x"),
        fields=(),
        deciders=("LI",),
        requester="ZHANG",
        choices=(CardChoice(name="approve"), CardChoice(name="reject")),
    )
    base = Approval(
        id="A00x",
        version=2,
        tool="decide_task",
        gate=Gate.APPROVE,
        proposal=plan,
        seal=compute_seal("decide_task", plan),
        caller="ZHANG",
        place=None,
        created_ms=0,
        expires_ms=EXPIRES,
    )
    return base.model_copy(update=changes)


def refused(
    approval: Approval, person: str, choice: str = "approve", version: int = 2, now: int = NOW, standing: str = ""
) -> str:
    refusal = authorize_press(approval, person, choice, version, now, frozenset(standing.split()))
    return refusal.code if refusal else ""


def test_the_assignee_may_and_nobody_else() -> None:
    assert refused(card(), "LI") == ""
    assert refused(card(), "WANG") == "not_yours"
    assert refused(card(), "ZHANG") == "own"


def test_nobody_decides_their_own_request_even_if_it_is_assigned_to_them() -> None:
    odd = card(proposal=card().proposal.model_copy(update={"deciders": ("ZHANG", "LI")}))
    assert refused(odd, "ZHANG") == "own"
    assert refused(odd, "LI") == ""


def test_a_confirmation_is_the_callers_own() -> None:
    own = card(gate=Gate.CONFIRM, proposal=card().proposal.model_copy(update={"deciders": ("ZHANG",)}))
    assert refused(own, "ZHANG") == ""
    assert refused(own, "LI") == "not_yours"


def test_who_stands_in_for_the_assignee_may_as_long_as_they_do() -> None:
    assert refused(card(), "WANG", standing="LI") == ""
    assert refused(card(), "WANG", standing="SUN") == "not_yours", "for somebody else"
    copy = card(copies=(("WANG", MessageRef(channel="D", ts="1")),))
    assert refused(copy, "WANG", standing="LI") == ""
    assert refused(copy, "WANG") == "stood_in", "the copy has outlived the time away"


def test_nobody_decides_their_own_request_by_standing_in() -> None:
    assert refused(card(), "ZHANG", standing="LI") == "own"


def test_nobody_confirms_for_somebody_else_by_standing_in() -> None:
    own = card(gate=Gate.CONFIRM)
    assert refused(own, "WANG", standing="LI") == "not_yours"
    assert refused(own, "LI") == ""
    assert (
        refused(own.model_copy(update={"copies": (("WANG", MessageRef(channel="D", ts="1")),)}), "WANG") == "not_yours"
    )


def test_what_is_over_is_over_for_who_stands_in_too() -> None:
    assert refused(card(state=ApprovalState.DECIDED), "WANG", standing="LI") == "already"
    expired = card(state=ApprovalState.EXPIRED)
    assert refused(expired, "WANG", standing="LI") == "expired"
    assert refused(expired, "WANG", "again", standing="LI") == ""
    failed = card(state=ApprovalState.DECIDED, decided_by="LI", effect=EffectState.FAILED)
    assert refused(failed, "WANG", "retry", standing="LI") == "not_yours", "what LI has begun is LI's"


def test_what_is_over_is_over_for_everybody() -> None:
    assert refused(card(), "LI", now=EXPIRES) == "expired"
    assert refused(card(state=ApprovalState.EXPIRED), "ZHANG") == "expired", "before the question whose it is"
    assert refused(card(state=ApprovalState.DECIDED), "LI") == "already"
    assert refused(card(), "LI", version=1) == "stale"
    assert refused(card(), "LI", choice="delete everything") == "stale"


def test_everybody_concerned_may_ask_again_and_only_after_expiry() -> None:
    expired = card(state=ApprovalState.EXPIRED)
    assert refused(expired, "LI", "again") == refused(expired, "ZHANG", "again") == ""
    assert refused(expired, "WANG", "again") == "not_yours"
    assert refused(card(), "LI", "again") == "already"


@pytest.mark.parametrize("state", list(ApprovalState))
def test_whom_a_card_concerns_sees_the_process_and_nobody_else_does(state: ApprovalState) -> None:
    shown = card(state=state, caller="SUN")
    assert [refused(shown, person, "show") for person in ("LI", "ZHANG", "SUN")] == ["", "", ""]
    assert refused(shown, "WANG", "show") == "not_yours"
    assert refused(shown, "WANG", "show", standing="LI") == ""
    assert refused(card(state=state, gate=Gate.CONFIRM), "WANG", "show", standing="LI") == "not_yours"
    assert refused(card(state=state, caller=""), "", "show") == "not_yours", "the engine has asked, not a person"


@pytest.mark.parametrize(
    ("choice", "effect"),
    [("retry", EffectState.FAILED), ("redo", EffectState.UNKNOWN), ("happened", EffectState.UNKNOWN)],
)
def test_only_who_decided_says_what_became_of_it(choice: str, effect: EffectState) -> None:
    decided = card(state=ApprovalState.DECIDED, decided_by="LI", effect=effect)
    assert refused(decided, "LI", choice) == ""
    assert refused(decided, "ZHANG", choice) == "not_yours"
    assert refused(decided, "LI", choice, version=1) == "stale", "a button counts for one try"
    assert refused(decided.model_copy(update={"effect": EffectState.DONE}), "LI", choice) == "already"


@given(
    person=st.sampled_from(["ZHANG", "LI", "WANG", ""]),
    choice=st.sampled_from(["approve", "reject", "again", "retry", "redo", "happened", "x"]),
    version=st.integers(0, 3),
    now=st.integers(0, 3_000),
    state=st.sampled_from(list(ApprovalState)),
    effect=st.sampled_from(list(EffectState)),
    standing=st.frozensets(st.sampled_from(["LI", "ZHANG", "SUN"])),
    gate=st.sampled_from([Gate.APPROVE, Gate.CONFIRM]),
)
def test_an_effect_needs_an_open_card_of_this_version_in_time_and_the_right_person(
    person: str,
    choice: str,
    version: int,
    now: int,
    state: ApprovalState,
    effect: EffectState,
    standing: frozenset[str],
    gate: Gate,
) -> None:
    approval = card(state=state, effect=effect, decided_by="LI", gate=gate)
    stands_in = "LI" in standing and gate is Gate.APPROVE
    refusal = authorize_press(approval, person, choice, version, now, standing)
    if refusal is None and choice in {"approve", "reject"}:
        assert state is ApprovalState.OPEN and version == 2 and now < EXPIRES
        assert person == "LI" or (stands_in and person != "ZHANG")
    if person == "WANG" and not stands_in:
        assert refusal is not None


# *Try again* on a stop


def stop(**changes: object) -> Run:
    """A run of Zhang San's that stopped."""
    place = Place(team="T1", channel="D1", thread="1.0", direct=True)
    message = Message(id="Ev1", place=place, person="ZHANG", text="发邮件", at="1.0")
    base = Run(id="R1", message=message, language="zh", created_ms=0, status=RunStatus.STOPPED)
    return base.model_copy(update=changes)


def refused_retry(run: Run | None, person: str = "ZHANG", latest: str = "R1") -> str:
    refusal = authorize_retry(run, person, latest)
    return refusal.code if refusal else ""


def test_who_wrote_it_may_have_it_tried_again_once_and_nobody_else() -> None:
    assert refused_retry(stop()) == ""
    assert refused_retry(stop(), "LI") == "not_writer"
    assert refused_retry(stop(retry_press="before")) == "anew_already"
    assert refused_retry(stop(), latest="R2") == "anew_stale"


@pytest.mark.parametrize("status", [one for one in RunStatus if one is not RunStatus.STOPPED])
def test_only_what_has_stopped_is_tried_again(status: RunStatus) -> None:
    """What was done is not done twice, and what runs not beside itself."""
    assert refused_retry(stop(status=status)) == "gone"


def test_what_nobody_knows_any_more_is_not_tried_again() -> None:
    assert refused_retry(None) == "gone"
