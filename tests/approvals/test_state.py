"""An approval keeps its properties under any order of events; a machine without one safety breaks the property of that
safety."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError
from redis.asyncio import Redis

from bot.approvals import state
from bot.approvals.state import create_approval, find_refusal
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState, EffectState, OpenCard
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from tests.approvals.approval_walk import (
    BEGIN,
    LEGAL,
    OWNER,
    PLACE,
    STEPS,
    build_card,
    list_events,
    list_walks,
    make_period,
    make_plan,
)
from tests.harness.corpus import corpus
from tools.spec import Gate


def test_in_any_order_of_events_an_approval_keeps_its_promises() -> None:
    walks = list_walks()
    assert [walk.go(STEPS) for walk in walks] == [[]] * len(walks)
    assert set[str]().union(*(walk.made for walk in walks)) == set(list_events())


def _decided_without_a_look(approval: Any, version: int, now_ms: int) -> str:
    return "" if approval is not None and approval.state is not ApprovalState.EXPIRED else "expired"


def _replaced_in_place(approval: Approval, *args: Any, **named: Any) -> Approval:
    return REPLACE(approval, *args, **named).model_copy(update={"version": approval.version})


def _suggestion_in_the_arguments(approval: Approval, *args: Any) -> Approval | None:
    after = SUGGEST(approval, *args)
    return after and after.model_copy(update={"proposal": make_plan(after.proposal.args["n"] + 1)})


def _back_to_the_beginning(approval: Approval, *args: Any) -> Approval:
    return CHANGE_PARTS(approval, *args).model_copy(update={"effect": EffectState.NONE})


def _in_the_same_version(approval: Approval, click: Click) -> Approval:
    return RETRY(approval, click).model_copy(update={"version": approval.version})


def _refused_with_a_trace(approval: Approval | None, version: int, now_ms: int) -> str:
    if approval is not None:
        approval.form["refused"] = "yes"
    return "already"


def _without_the_answers(approval: Approval) -> Approval:
    return START(approval).model_copy(update={"form": {}})


def _cancelled_by_anybody(approval: Approval, person: str, choice: str, now: datetime) -> Approval:
    return state._end_undecided(approval, ApprovalState.CANCELLED, person, choice, now)


REPLACE, SUGGEST, CHANGE_PARTS = state.open_next_version, state.add_suggestion, state.change_parts
RETRY, START = state.retry_effect, state.start_effect
BROKEN: Mapping[str, tuple[str, object, str]] = {
    "a press is not looked at": ("find_refusal", _decided_without_a_look, "illegal moves are refused"),
    "time has no end": ("find_refusal", _decided_without_a_look, "nothing is decided when its time is over"),
    "a decision is claimed twice": ("find_refusal", lambda *_: "", "a version is decided once"),
    "every card can be asked for anew": ("_require", lambda is_legal: None, "what has ended stays ended"),
    "an edit is the same version": ("open_next_version", _replaced_in_place, "the seal changes with the version"),
    "a card opens in its old version": ("open_next_version", _replaced_in_place, "what has ended stays ended"),
    "the seal is of something else": ("compute_seal", lambda tool, plan: "0", "the seal is that of the plan"),
    "advice is sealed in": ("add_suggestion", _suggestion_in_the_arguments, "the seal is that of the plan"),
    "old timers act": ("is_open", lambda approval, version: True, "illegal moves are refused"),
    "anybody takes it back": ("cancel_approval", _cancelled_by_anybody, "illegal moves are refused"),
    "nobody takes it back": ("cancel_approval", lambda *_: None, "legal moves are made"),
    "a part starts it anew": ("change_parts", _back_to_the_beginning, "an effect only moves forward"),
    "the answers are forgotten": ("start_effect", _without_the_answers, "a decision stays as it was made"),
    "tried again in the same version": ("retry_effect", _in_the_same_version, "an effect only moves forward"),
    "everything is over": ("has_ended", lambda approval: True, "what is not over is not closed"),
    "a refusal leaves a trace": ("find_refusal", _refused_with_a_trace, "what is refused changes nothing"),
    "an effect moves from anywhere": ("_require_effect", lambda *_: None, "illegal moves are refused"),
}


@corpus("name", BROKEN)
def test_negative_control_a_machine_without_a_safety_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, broken, expected = BROKEN[name]
    monkeypatch.setattr(state, attribute, broken)
    assert any(expected in walk.go(STEPS) for walk in list_walks())


@pytest.mark.parametrize("change", [{"decided": "U1"}, {"effect": "gone"}, {"version": "one"}, {"outcome": "done"}])
def test_an_approval_is_changed_by_fields_of_its_own(change: dict[str, Any]) -> None:
    """Fields of the record, with their types."""
    with pytest.raises(ValidationError):
        state._change_fields(build_card(make_plan(0)), **change)


def test_no_kind_of_event_is_forgotten() -> None:
    assert set(list_events()) == set[str]().union(*LEGAL.values())


async def test_the_deciding_write_and_the_machine_refuse_alike(redis: Redis) -> None:
    keys = Keys(partitions=2)
    approvals = ApprovalStore(redis, keys)
    asked = OpenCard(approval="A00x", tool="t", gate=Gate.CONFIRM, proposal=make_plan(0), caller=OWNER, place=None)
    opened = create_approval(None, asked, make_period(BEGIN))
    answers = set[str]()
    for stored in ApprovalState:
        for version in (0, 1, 2):
            for now_ms in (opened.expires_ms - 1, opened.expires_ms, opened.expires_ms + 1):
                approval = opened.model_copy(update={"state": stored})
                click = Click(id="c", approval="A00x", version=version, choice="send", person=OWNER, place=PLACE)
                decide = approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
                await redis.flushall()
                await apply_writes(redis, keys, keys.get_partition("A00x"), approvals.build_open_writes(approval, 1))
                answers.add(answer := await apply_writes(redis, keys, keys.get_partition("A00x"), decide))
                assert answer == (find_refusal(approval, version, now_ms) or "ok")
    assert answers == {"ok", "expired", "already", "stale"}
    await redis.flushall()
    assert await apply_writes(redis, keys, keys.get_partition("A00x"), decide) == find_refusal(None, 1, 0) == "gone"
