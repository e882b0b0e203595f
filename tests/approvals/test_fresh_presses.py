"""A press is judged by what people are when they press, not by what they were when the card came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.core.records import ApprovalState, EffectState
from bot.storage.approvals import derive_task_card_id
from tests.harness.lab import DM, Killed, Lab
from tests.harness.presses import LEAVE, opened, started
from tests.stories.script import DONE, calls, mail
from tests.tools.company import LI, WANG, ZHANG
from tools.workflow.engine.state import Status


def lose_membership(lab: Lab, person: str) -> None:
    """A moment ago: nobody has noticed yet."""
    (now,) = [one for one in lab.staff.known if one.id == person]
    lab.staff.by_now[person] = now.model_copy(update={"active": False})


async def refusals(lab: Lab) -> list[str]:
    return [record.text async for record in lab.journal.stream_records(kinds={"approval.refused"})]


async def test_who_was_made_a_guest_a_moment_ago_presses_in_vain(redis: Redis) -> None:
    lab = await started(redis)
    lose_membership(lab, LI.id)
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    ((person, words),) = lab.wall.whispers
    assert person == LI.id and words
    assert await refusals(lab) == ["stranger"]


async def test_nor_do_they_confirm_what_they_asked_for(redis: Redis) -> None:
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    lose_membership(lab, ZHANG.id)
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert await lab.engine.list_own_requests(ZHANG.id) == () and await refusals(lab) == ["stranger"]


async def test_without_the_fresh_look_they_would_have_decided(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    lab = await started(redis)
    lose_membership(lab, LI.id)

    async def remembered(people: object) -> None: ...

    monkeypatch.setattr(lab.staff, "refresh_people", remembered)
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED


async def test_while_the_platform_is_away_a_press_waits(redis: Redis) -> None:
    lab = await started(redis)
    lab.dispatch = replace(lab.dispatch, away_ms=0)
    lab.staff.away = True
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    with pytest.raises(AssertionError, match="always something left to do"):
        await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING and not lab.wall.whispers
    lab.staff.away = False
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED


async def test_time_that_runs_out_between_the_look_and_the_decision_decides_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = await started(redis)
    look, looks = lab.staff.refresh_people, list[object]()

    async def dawdle(people: Iterable[str]) -> None:
        looks.append(people)
        lab.ahead = timedelta(hours=73 if len(looks) > 1 else 0)  # the first look is the press's, the next the rules'
        await look(people)

    monkeypatch.setattr(lab.staff, "refresh_people", dawdle)
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    await lab.work()
    card = await lab.approvals.load_approval(derive_task_card_id(lab.keys, "L-0001-1"))
    assert len(looks) > 1 and card is not None and card.state is ApprovalState.OPEN and not card.press_id
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    assert await refusals(lab) == ["expired"] and len(lab.wall.whispers) == 1


async def test_whom_the_rules_no_longer_name_is_told_who_is_and_the_card_stays(redis: Redis) -> None:
    lab = await started(redis)
    lab.staff.by_now[ZHANG.id] = ZHANG.model_copy(update={"manager": WANG.id})
    for choice, form in (("approve", None), ("reject", {"opinion": "不行"})):
        await lab.presses(lab.wall.cards("DU2")[0], choice, LI.id, form=form)
        await lab.work()
    request = await lab.engine.get_request("L-0001")
    assert (request.status, request.waits_for) == (Status.WAITING, (LI.id,))
    assert lab.wall.whispers == [(LI.id, "按现在的规则，这一步由王五审批，不再由李四审批。可以把它转交给王五")] * 2
    assert await refusals(lab) == ["not_named", "not_named"], "an administrator reads it in the journal"
    await lab.presses(lab.wall.cards("DU2")[0], "transfer", LI.id, form={"person": WANG.id, "opinion": ""})
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).waits_for == (WANG.id,)
    await lab.presses(lab.wall.cards("DU3")[0], "approve", WANG.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED


@pytest.mark.parametrize(
    ("choice", "state", "refused"),
    [("confirm", ApprovalState.OPEN, ["not_named"]), ("cancel", ApprovalState.CANCELLED, [])],
)
async def test_whom_the_rules_no_longer_name_can_still_cancel_what_they_have_proposed(
    redis: Redis, choice: str, state: ApprovalState, refused: list[str]
) -> None:
    lab = await started(redis)
    lab.model.script += [calls(("transfer_task", {"task_id": "L-0001-1", "person": "U5", "opinion": "x"})), DONE]
    here = DM.model_copy(update={"channel": "DU2"})
    await lab.says("转交给李文光", person=LI.id, id="Ev2", place=here)
    await lab.work()
    card = next(one for one in lab.wall.cards("DU2") if "cancel" in {button.choice for button in one.buttons})
    lab.staff.by_now[ZHANG.id] = ZHANG.model_copy(update={"manager": WANG.id})
    await lab.presses(card, choice, LI.id)
    await lab.work()
    approval = await lab.approvals.load_approval(card.buttons[0].approval)
    assert approval is not None and approval.state is state and await refusals(lab) == refused
    assert (await lab.engine.get_request("L-0001")).waits_for == (LI.id,)


async def test_what_is_wrong_besides_is_told_as_before(redis: Redis) -> None:
    """The look judges authority alone: a refusal of another kind is the effect's to tell."""
    lab = await started(redis)
    await lab.presses(lab.wall.cards("DU2")[0], "transfer", LI.id, form={"person": "U0NOBODY", "opinion": ""})
    await lab.work()
    assert not lab.wall.whispers and await refusals(lab) == []


@pytest.mark.parametrize("what", ["request", "mail"])
async def test_nothing_runs_in_the_name_of_who_lost_their_membership_since(redis: Redis, what: str) -> None:
    """The process dies between the decision and the effect; whoever goes on looks again at who pressed. What was begun
    may have happened, as far as anybody can know; what was not has surely not."""
    lab = await opened(Lab(redis, [LEAVE if what == "request" else mail(), DONE, DONE]))
    look = lab.staff.refresh_people

    async def die_at_the_look_after_the_decision(people: Iterable[str]) -> None:
        if (await lab.approval()).state is ApprovalState.DECIDED:
            lab.staff.refresh_people = look  # type: ignore[method-assign]
            lose_membership(lab, ZHANG.id)
            raise Killed
        await look(people)

    lab.staff.refresh_people = die_at_the_look_after_the_decision  # type: ignore[method-assign]
    await lab.presses(lab.wall.cards()[0], "confirm" if what == "request" else "send")
    await lab.work()
    approval = await lab.approval()
    assert approval.state is ApprovalState.DECIDED
    assert approval.effect is (EffectState.UNKNOWN if what == "request" else EffectState.FAILED)
    assert await lab.engine.list_own_requests(ZHANG.id) == () and not lab.mailer.mails
