"""An approval keeps its properties under any order of events; a machine without one safety breaks the property of that
safety."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_type_hints

import pytest
from redis.asyncio import Redis

from bot.approvals import state
from bot.approvals.state import CardRequested, PartsChanged, SuggestionAdded, find_refusal
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState, EffectState, OpenCard
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from tests.approvals.approval_walk import BEGIN, LEGAL, OWNER, PERIOD, PLACE, STEPS, list_kinds, list_walks, make_plan
from tests.harness.corpus import corpus
from tools.spec import Gate


def test_in_any_order_of_events_an_approval_keeps_its_promises() -> None:
    walks = list_walks()
    assert [walk.go(STEPS) for walk in walks] == [[]] * len(walks)
    assert set[type]().union(*(walk.made for walk in walks)) == set(list_kinds())


def _decided_without_a_look(approval: Any, version: int, now_ms: int) -> str:
    return "" if approval is not None and approval.state is not ApprovalState.EXPIRED else "expired"


def _replaced_in_place(approval: Approval, event: Any, now: datetime) -> Any:
    after, effects = REPLACE(approval, event, now)
    return after.model_copy(update={"version": approval.version}), effects


def _suggestion_in_the_arguments(approval: Approval, event: Any, now_ms: int) -> Any:
    after, effects = TO_VERSION(approval, event, now_ms)
    plan = make_plan(after.proposal.args["n"] + 1) if type(event) is SuggestionAdded else after.proposal
    return after.model_copy(update={"proposal": plan}), effects


def _back_to_the_beginning(approval: Approval, event: Any) -> Any:
    after, effects = ADVANCE(approval, event)
    return after.model_copy(
        update={"effect": EffectState.NONE if type(event) is PartsChanged else after.effect}
    ), effects


def _in_the_same_version(approval: Approval, event: Any) -> Approval:
    return RECOVER(approval, event).model_copy(update={"version": approval.version})


def _refused_with_a_trace(approval: Approval | None, event: Any, now_ms: int) -> str:
    if approval is not None:
        approval.form["refused"] = type(event).__name__
    return "already"


def _without_the_answers(approval: Approval, event: Any) -> Any:
    after, effects = ADVANCE(approval, event)
    return after.model_copy(update={"form": {}}), effects


def _claimed_twice(approval: Approval, event: Any, now_ms: int) -> Any:
    after, effects = DECIDE(approval, event, now_ms)
    return after, (*effects, *effects)


REPLACE, TO_VERSION = state._replace_proposal, state._apply_to_version
ADVANCE, RECOVER, DECIDE = state._advance_effect, state._record_recovery, state._record_decision
BROKEN: Mapping[str, tuple[str, object, str]] = {
    "a press is not looked at": ("find_refusal", _decided_without_a_look, "illegal moves are refused"),
    "time has no end": ("find_refusal", _decided_without_a_look, "nothing is decided when its time is over"),
    "a decision is claimed twice": ("_record_decision", _claimed_twice, "a version is decided once"),
    "every card can be asked for anew": ("_is_replaceable", lambda approval: True, "what has ended stays ended"),
    "an edit is the same version": ("_replace_proposal", _replaced_in_place, "the seal changes with the version"),
    "a card opens in its old version": ("_replace_proposal", _replaced_in_place, "what has ended stays ended"),
    "the seal is of something else": ("compute_seal", lambda tool, plan: "0", "the seal is that of the plan"),
    "advice is sealed in": ("_apply_to_version", _suggestion_in_the_arguments, "the seal is that of the plan"),
    "old timers act": ("_is_open", lambda approval, version: True, "illegal moves are refused"),
    "anybody takes it back": ("_can_cancel", lambda *_: True, "illegal moves are refused"),
    "nobody takes it back": ("_can_cancel", lambda *_: False, "legal moves are made"),
    "a part starts it anew": ("_advance_effect", _back_to_the_beginning, "an effect only moves forward"),
    "the answers are forgotten": ("_advance_effect", _without_the_answers, "a decision stays as it was made"),
    "tried again in the same version": ("_record_recovery", _in_the_same_version, "an effect only moves forward"),
    "everything is over": ("has_ended", lambda approval: True, "what is not over is not closed"),
    "a refusal leaves a trace": ("_explain_refusal", _refused_with_a_trace, "what is refused changes nothing"),
}


@corpus("name", BROKEN)
def test_negative_control_a_machine_without_a_safety_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, broken, expected = BROKEN[name]
    monkeypatch.setattr(state, attribute, broken)
    assert any(expected in walk.go(STEPS) for walk in list_walks())


def test_an_approval_is_changed_by_fields_of_its_own() -> None:
    """The changes that mypy checks are fields of the record, with their types."""
    changes = get_type_hints(state._Changes)
    assert changes.items() <= get_type_hints(Approval).items()
    fixed = {"v", "id", "tool", "gate", "caller", "place", "run", "sets"}
    assert set(Approval.model_fields) == set(changes) | fixed


def test_no_kind_of_event_is_forgotten() -> None:
    assert set(list_kinds()) == set[type]().union(*LEGAL.values())


async def test_the_deciding_write_and_the_machine_refuse_alike(redis: Redis) -> None:
    keys = Keys(partitions=2)
    approvals = ApprovalStore(redis, keys)
    asked = OpenCard(approval="A00x", tool="t", gate=Gate.CONFIRM, proposal=make_plan(0), caller=OWNER, place=None)
    opened, _ = state.transition(None, CardRequested(card=asked, period=PERIOD), BEGIN)
    answers = set[str]()
    for stored in ApprovalState:
        for version in (0, 1, 2):
            for now_ms in (opened.expires_ms - 1, opened.expires_ms, opened.expires_ms + 1):
                approval = opened.model_copy(update={"state": stored})
                click = Click(id="c", approval="A00x", version=version, choice="send", person=OWNER, place=PLACE)
                decide = approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
                await redis.flushall()
                await apply_writes(redis, keys, keys.get_partition("A00x"), approvals.build_open_writes(approval))
                answers.add(answer := await apply_writes(redis, keys, keys.get_partition("A00x"), decide))
                assert answer == (find_refusal(approval, version, now_ms) or "ok")
    assert answers == {"ok", "expired", "already", "stale"}
    await redis.flushall()
    assert await apply_writes(redis, keys, keys.get_partition("A00x"), decide) == find_refusal(None, 1, 0) == "gone"
