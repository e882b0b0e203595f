"""How cards end without a press: taken back, expired, closed elsewhere, given up. Each guard with the story in which
only it holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.delivery import DeliveredCard
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.errors import ChatUnavailableError
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.work_items import (
    ButtonPressed,
    CancelOpenCard,
    CloseCard,
    ExpireCard,
    RecordDirectEvent,
    RefreshCard,
    RemindDeciders,
)
from bot.queue.lanes import LaneItem
from bot.queue.writes import EnqueueItem, apply_writes
from bot.storage.approvals import ApprovalStore, Verdict
from tests.harness.lab import DM, Lab
from tests.stories.script import DONE, mail
from tests.tools.office import SICK, withdraw
from tools.spec import Gate


async def propose(redis: Redis) -> Lab:
    """A mail of Zhang San's that waits for its sender."""
    lab = Lab(redis, [mail(), DONE, DONE])
    await lab.says("发邮件")
    await lab.work()
    assert len(lab.wall.cards()) == 1
    return lab


async def ask(redis: Redis) -> Lab:
    """A request of Zhang San's that waits for Li Si."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    assert len(lab.wall.cards("DU2")) == 1
    return lab


# Taken back in chat


async def test_who_takes_back_what_a_press_has_just_decided_takes_nothing_back(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card is open when its lane looks, and decided when the lane decides."""
    lab = await propose(redis)
    card = (await lab.approval()).id
    decide_cancellation, verdicts = ApprovalStore.decide_cancellation, list[Verdict]()

    async def be_second(self: ApprovalStore, approval: Approval, person: str, now_ms: int) -> Verdict:
        if not verdicts:
            click = Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM)
            decided = self.build_decide_write(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
            assert await apply_writes(redis, lab.keys, lab.keys.get_partition(card), [decided]) == "ok"
            await lab.lanes.enqueue(card, "p", ButtonPressed(click=click).model_dump_json())
        verdicts.append(await decide_cancellation(self, approval, person, now_ms))
        return verdicts[-1]

    monkeypatch.setattr(ApprovalStore, "decide_cancellation", be_second)
    await lab.lanes.enqueue(card, "back", CancelOpenCard(approval=card, person="U1").model_dump_json())
    await lab.work()
    approval = await lab.approval()
    assert verdicts == [Verdict.ALREADY] and len(lab.mailer.mails) == 1
    assert (approval.state, approval.effect, approval.press_id) == (ApprovalState.DECIDED, EffectState.DONE, "p")


@pytest.mark.parametrize(("person", "state"), [("U2", ApprovalState.OPEN), ("U1", ApprovalState.CANCELLED)])
async def test_only_who_proposed_a_card_takes_it_back(redis: Redis, person: str, state: ApprovalState) -> None:
    lab = await propose(redis)
    card = (await lab.approval()).id
    await lab.lanes.enqueue(card, "back", CancelOpenCard(approval=card, person=person).model_dump_json())
    await lab.work()
    assert (await lab.approval()).state is state
    assert bool(lab.wall.cards()) is (state is ApprovalState.OPEN) and not lab.mailer.mails


# Timers


@pytest.mark.parametrize("timer", [RemindDeciders, ExpireCard])
async def test_a_timer_of_the_version_before_does_nothing_to_an_edited_card(
    redis: Redis, timer: type[RemindDeciders] | type[ExpireCard]
) -> None:
    """It may be on its way already when the card is edited."""
    lab = await propose(redis)
    await lab.presses(lab.wall.cards()[0], "edit", form={"subject": "项目进度", "body": "李四你好，改过了。"})
    await lab.work()
    before, said = await lab.approval(), len(lab.wall.said)
    assert (before.version, before.state) == (2, ApprovalState.OPEN)
    await lab.lanes.enqueue(before.id, "old", timer(version=1).model_dump_json())
    await lab.work()
    assert await lab.approval() == before and len(lab.wall.said) == said and lab.wall.cards()
    await lab.lanes.enqueue(before.id, "new", timer(version=2).model_dump_json())
    await lab.work()
    is_expired = (await lab.approval()).state is ApprovalState.EXPIRED
    assert is_expired is (timer is ExpireCard) and len(lab.wall.said) > said, "control: that of this version does"


# When it was


async def test_a_card_that_ends_without_a_press_says_when(redis: Redis) -> None:
    lab = await ask(redis)
    lab.ahead = timedelta(hours=5)
    await withdraw(lab.engine, "L-0001", "U1")
    await lab.work()
    approval = await lab.approval()
    assert (approval.state, approval.decided_ms) == (ApprovalState.CLOSED, to_ms(lab.now()))


# Given up


async def test_a_cancelled_card_that_could_not_be_shown_is_ended_and_nobody_waits(redis: Redis) -> None:
    """The press is decided, and whatever comes behind it fails every time. Nothing was begun, so nothing is unknown."""
    lab = await propose(redis)
    assert await lab.waiting()
    lab.wall.fails[f"edit {DM.channel}"] = [RuntimeError("a mistake of ours")] * lab.lanes.max_tries  # type: ignore[list-item]
    await lab.presses(lab.wall.cards()[0], "cancel")
    await lab.work()
    approval = await lab.approval()
    assert (approval.state, approval.effect) == (ApprovalState.CANCELLED, EffectState.NONE)
    assert await lab.waiting() == () and not lab.wall.cards() and not lab.mailer.mails
    assert "item.dead" in await lab.kinds() and lab.wall.texts()[-1] == "好的。"


@pytest.mark.parametrize(
    ("stored", "press", "ended"),
    [
        ({"state": ApprovalState.DECIDED, "press_id": "p"}, "p", EffectState.FAILED),
        ({"state": ApprovalState.DECIDED, "press_id": "p", "effect": EffectState.STARTED}, "p", EffectState.UNKNOWN),
        ({"state": ApprovalState.CANCELLED, "press_id": "p"}, "p", EffectState.NONE),
        ({"state": ApprovalState.DECIDED, "press_id": "p", "effect": EffectState.DONE}, "p", None),
        ({"state": ApprovalState.DECIDED, "press_id": "other", "effect": EffectState.STARTED}, "p", None),
        ({"state": ApprovalState.CANCELLED, "press_id": "other"}, "p", None),
        ({}, "p", None),
        (None, "p", None),
    ],
)
async def test_only_what_the_given_up_press_itself_has_decided_is_ended(
    redis: Redis, stored: dict[str, Any] | None, press: str, ended: EffectState | None
) -> None:
    """What another press has begun goes on by its own item."""
    lab = await propose(redis)
    pressed = {"choice": "send", "decided_by": "U1"} | stored if stored else {}
    before = (await lab.approval()).model_copy(update=pressed)
    if stored is None:
        await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    else:
        saved = [lab.approvals.build_save_write(before)]
        assert await apply_writes(redis, lab.keys, lab.keys.get_partition(before.id), saved) == "ok"
    click = Click(id=press, approval=before.id, version=1, choice="send", person="U1", place=DM)
    item = LaneItem(lane=before.id, id="x", body="", tries=9)
    writes = list(await lab.ends.give_up_press(item, click))
    assert bool(writes) is (ended is not None)
    assert await apply_writes(redis, lab.keys, lab.keys.get_partition(before.id), writes) == "ok"
    if stored is not None:
        after = await lab.approval()
        assert after.effect is (before.effect if ended is None else ended)
        assert bool(after.waiters) is (ended is None), "whoever waits hears of the end"


# In front of people


async def test_while_the_platform_is_away_for_one_of_several_it_is_tried_again_and_each_has_one_card(
    redis: Redis,
) -> None:
    lab = await ask(redis)
    plan = (await lab.approval()).proposal.model_copy(update={"deciders": ("U2", "U3")})
    gate = (await lab.approval()).gate
    both = OpenCard(approval="A00both", tool="decide_task", gate=gate, proposal=plan, caller="", place=None)
    lab.wall.fails["DU3"] = [ChatUnavailableError("unreachable", "chat.post_message")] * 2
    await lab.lanes.enqueue(both.approval, "x", both.model_dump_json())
    lab.dispatch = replace(lab.dispatch, away_ms=0)
    await lab.work()
    approval = await lab.approvals.load_approval("A00both")
    assert approval is not None and sorted(reader for reader, _ in approval.copies) == ["U2", "U3"]
    for channel in ("DU2", "DU3"):
        assert len([one for one in lab.wall.cards(channel) if one.buttons[0].approval == "A00both"]) == 1


# Who stands in


@pytest.mark.parametrize(
    ("gate", "person", "represented"),
    [
        (Gate.APPROVE, "U5", {"U2", "U3"}),
        (Gate.APPROVE, "U4", set()),
        (Gate.APPROVE, "U2", set()),
        (Gate.CONFIRM, "U5", set()),
        (Gate.CONFIRM, "U2", set()),
    ],
)
async def test_who_stands_in_does_so_for_deciders_of_others_requests_and_for_nothing_else(
    redis: Redis, gate: Gate, person: str, represented: set[str]
) -> None:
    """Nobody confirms for somebody else, and who decides needs nobody to stand in for."""

    async def list_deputies(subject: str) -> list[str]:
        return ["U2", "U5"]

    lab = await ask(redis)
    asked = await lab.approval()
    card = asked.model_copy(
        update={"gate": gate, "proposal": asked.proposal.model_copy(update={"deciders": ("U2", "U3")})}
    )
    delivery = replace(lab.ends.card_delivery, list_deputies=list_deputies)
    assert await delivery.list_represented(card, person) == represented
    assert await delivery.can_decide_card(card, person) is (bool(represented) or person in ("U2", "U3"))


# What is written of an end


def put_event(person: str, text: str) -> EnqueueItem:
    event = RecordDirectEvent(person=person, text=text)
    return EnqueueItem(f"notice:{person}", f"x:{person}:direct_event", event.model_dump_json())


@pytest.mark.parametrize(
    ("lanes", "caller", "remembered"),
    [
        ((), "U3", {"U1", "U2", "U3"}),
        ((DM.conversation,), "U3", {"U2"}),
        ((DM.conversation,), "", {"U2", "U3"}),
        (("slack:T1:C1:9.0",), "U3", {"U1", "U2"}),
    ],
)
async def test_every_dm_that_has_the_card_remembers_its_end_but_those_whose_run_tells_of_it(
    redis: Redis, lanes: tuple[str, ...], caller: str, remembered: set[str]
) -> None:
    lab = await ask(redis)
    copies = tuple((person, MessageRef(channel=f"D{person}", ts="0")) for person in ("U1", "U2", "U3"))
    waiters = tuple(ApprovalWaiter(run="R1", uid="u", lane=lane) for lane in lanes)
    ended = (await lab.approval()).model_copy(
        update={"state": ApprovalState.CLOSED, "copies": copies, "waiters": waiters, "caller": caller}
    )
    item = LaneItem(lane=ended.id, id="x", body="", tries=1)
    writes = await lab.ends.build_approval_end_writes(item, DeliveredCard(ended))
    words = await lab.ends.card_delivery.list_card_events(ended, ())
    put = [one for one in writes if isinstance(one, EnqueueItem) and one.lane.startswith("notice:")]
    assert put == [put_event(person, words[person]) for person in words if person in remembered]
    assert all(words[person] for person in remembered)


async def test_the_journal_says_of_a_card_what_it_is_about_where_it_stands_and_of_which_run(redis: Redis) -> None:
    lab = await ask(redis)
    asked = await lab.approval()
    here = asked.model_copy(update={"place": DM, "run": "R1", "state": ApprovalState.DECIDED, "decided_by": "U2"})
    stood_in = here.model_copy(update={"place": None, "decided_by": "U5"})
    about = {"approval": asked.id, "subject": "L-0001-1"}
    for card, given, run, channel, more in (
        (here, {}, "R1", DM.channel, about),
        (here, {"run": "R2", "choice": "approve"}, "R2", DM.channel, about | {"choice": "approve"}),
        (stood_in, {}, "R1", "", about | {"raised_to": "U2"}),
    ):
        write = lab.ends.build_journal_write(card, "effect.tried", person="U9", **given)
        assert await apply_writes(redis, lab.keys, lab.keys.get_partition(card.id), [write]) == "ok"
        *_, record = [one async for one in lab.journal.stream_records(kinds={"effect.tried"})]
        assert (record.run, record.person, record.channel, record.text) == (run, "U9", channel, "decide_task")
        assert record.more == more


async def test_what_is_not_there_any_more_is_not_brought_up_to_date(redis: Redis) -> None:
    lab = await propose(redis)
    card = (await lab.approval()).id
    await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    for n, work in enumerate((RefreshCard(), RemindDeciders(version=1), ExpireCard(version=1))):
        await lab.lanes.enqueue(card, f"late{n}", work.model_dump_json())
    for n, end in enumerate((CancelOpenCard(approval=card, person="U1"), CloseCard(approval=card, by="U1"))):
        await lab.lanes.enqueue(card, f"end{n}", end.model_dump_json())
    await lab.work()
    assert "item.dead" not in await lab.kinds() and lab.wall.cards()
