"""How a card comes to people: to whom, how often, what is remembered of it, and who hears when it has ended already."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from bot.chat.messages import MessageRef, Place, Post
from bot.core.clock import to_ms
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.work_items import ExpireCard, RecordDirectEvent
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from tests.harness.lab import DM, Lab
from tests.tools.office import SICK
from tools.spec import Gate, Proposal, TextRef

CARD = "A00both"
WAITER = ApprovalWaiter(run="R1", uid="R1:1:0", lane=DM.conversation)
HURRY = TextRef(key="card.urged", params={"by": "张三"})


async def set_up(redis: Redis) -> tuple[Lab, Proposal]:
    """A request of Zhang San's, on which Li Si and Wang Wu can each decide by a card that is to be brought."""
    lab = Lab(redis)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    plan = (await lab.approval()).proposal.model_copy(update={"deciders": ("U2", "U3")})
    lab.wall.said.clear()
    return lab, plan


def draft(plan: Proposal, by: str = "U2", words: str = "好好休息") -> Proposal:
    return plan.model_copy(update={"args": plan.args | {"draft": words, "drafted_by": by, "meant": ""}})


async def claim(lab: Lab, request: OpenCard) -> Lease:
    await lab.work()
    await lab.lanes.enqueue(request.approval, uuid4().hex, request.model_dump_json())
    [lease] = await lab.lanes.claim("p", lab.keys.get_partition(request.approval), 1)
    return lease


async def ask(lab: Lab, plan: Proposal, **changes: Any) -> list[Write]:
    """The card is asked for; what is written of it."""
    given: dict[str, Any] = {"tool": "decide_task", "gate": Gate.APPROVE, "caller": "", "place": None} | changes
    lease = await claim(lab, OpenCard(approval=CARD, proposal=plan, **given))
    writes = list(await lab.dispatch.handle_item(lease))
    await lease.commit(*writes, more=False)
    return writes


async def load(lab: Lab) -> Approval:
    approval = await lab.approvals.load_approval(CARD)
    assert approval is not None
    return approval


def count_posts(lab: Lab) -> dict[str, int]:
    """By person: how often a card was put in front of them."""
    channels = [one.place.channel.removeprefix("D") for one in lab.wall.said if one.post.card]
    return {person: channels.count(person) for person in dict.fromkeys(channels)}


def list_remembered(writes: list[Write]) -> set[str]:
    """Whose DM remembers it."""
    put = [one for one in writes if isinstance(one, EnqueueItem) and one.lane.startswith("notice:")]
    return {RecordDirectEvent.model_validate_json(one.body).person for one in put}


# To whom


async def test_a_fresh_card_goes_to_everybody_who_decides_also_when_one_of_them_has_drafted_something(
    redis: Redis,
) -> None:
    lab, plan = await set_up(redis)
    assert list_remembered(await ask(lab, draft(plan), caller="U2")) == {"U2", "U3"}
    assert count_posts(lab) == {"U2": 1, "U3": 1}


async def test_asked_for_again_it_is_shown_again_to_who_decides(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    assert list_remembered(await ask(lab, plan, caller="U2")) == {"U2", "U3"}
    assert count_posts(lab) == {"U2": 2, "U3": 2} and len(lab.wall.cards("DU2")) == 1
    assert (await load(lab)).version == 1


@pytest.mark.parametrize("caller", ["", "U1", "U4"])
async def test_asked_for_again_by_who_does_not_decide_it_comes_to_those_who_have_it_not(
    redis: Redis, caller: str
) -> None:
    lab, plan = await set_up(redis)
    only = plan.model_copy(update={"deciders": ("U2",)})
    await ask(lab, only)
    approval = await load(lab)
    wider = approval.model_copy(update={"proposal": plan})
    writes = [lab.approvals.build_save_write(wider)]
    lease = await claim(lab, OpenCard(approval=CARD, tool="t", gate=Gate.APPROVE, proposal=plan, caller="", place=None))
    await lease.commit(*writes, more=False)
    assert list_remembered(await ask(lab, plan, caller=caller)) == {"U3"}
    assert count_posts(lab) == {"U2": 1, "U3": 1}


async def test_a_new_draft_is_news_to_who_has_drafted_it_only(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    assert list_remembered(await ask(lab, draft(plan), caller="U2")) == {"U2"}
    approval = await load(lab)
    assert count_posts(lab) == {"U2": 2, "U3": 1}
    assert (approval.version, approval.proposal.args["draft"]) == (2, "好好休息")
    assert {one.version for one in lab.wall.cards("DU3")[0].buttons} == {2}, "where it stands"
    await ask(lab, draft(plan), caller="U2")
    assert (await load(lab)).version == 2 and count_posts(lab) == {"U2": 3, "U3": 1}, "asked for again, it is no news"


@pytest.mark.parametrize("caller", ["U1", "U4"])
async def test_who_does_not_decide_drafts_nothing_on_the_card(redis: Redis, caller: str) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    await ask(lab, draft(plan, by=caller), caller=caller)
    approval = await load(lab)
    assert approval.version == 1 and "draft" not in {name for name, one in approval.proposal.args.items() if one}
    assert count_posts(lab) == {"U2": 1, "U3": 1}


async def test_an_expired_card_that_is_asked_for_is_a_fresh_one_for_everybody(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    await lab.lanes.enqueue(CARD, "expire", ExpireCard(version=1).model_dump_json())
    await lab.work()
    before = count_posts(lab)
    assert list_remembered(await ask(lab, plan)) == {"U2", "U3"}
    assert count_posts(lab) == {person: n + (person != "U1") for person, n in before.items()}
    assert [(one.version, one.state) for one in [await load(lab)]] == [(2, ApprovalState.OPEN)]


async def test_the_word_comes_with_the_card_if_there_is_one(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    assert not [one for one in lab.wall.said if one.post.card is None]
    assert list_remembered(await ask(lab, plan, follow_up=HURRY)) == {"U2", "U3"}
    words = [one for one in lab.wall.said if one.post.card is None]
    assert sorted(one.place.channel for one in words) == ["DU2", "DU3"]
    assert all("张三" in one.post.text and one.place.direct and one.place.thread for one in words)


# Before it is shown


async def test_whoever_presses_at_once_finds_it_on_record(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, plan = await set_up(redis)
    post, found = lab.wall.post_message, list[ApprovalState]()

    async def look(place: Place, shown: Post, **more: Any) -> MessageRef:
        found.append((await load(lab)).state)
        return await post(place, shown, **more)

    monkeypatch.setattr(lab.wall, "post_message", look)
    await ask(lab, plan)
    assert found == [ApprovalState.OPEN] * 2


async def test_what_is_kept_of_it_is_what_was_asked_for(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan, tool="send_email", gate=Gate.CONFIRM, caller="U2", place=DM, waiter=WAITER)
    approval = await load(lab)
    assert (approval.tool, approval.gate, approval.caller, approval.place) == ("send_email", Gate.CONFIRM, "U2", DM)
    assert (approval.proposal, approval.run, approval.waiters) == (plan, "R1", (WAITER,))
    assert approval.expires_ms - approval.created_ms == lab.card_opener.open_for.total_seconds() * 1000
    assert approval.created_ms == to_ms(lab.now()) and [one for one, _ in approval.copies] == ["U2"]
    [record] = [one async for one in lab.journal.stream_records(kinds={"approval.requested"}) if one.run]
    assert (record.person, record.more["sha"]) == ("U2", approval.seal[:12])


# Who waits


async def test_who_waits_hears_of_it_from_their_run_and_is_told_once(redis: Redis) -> None:
    lab, plan = await set_up(redis)
    assert list_remembered(await ask(lab, plan, caller="U2", waiter=WAITER)) == {"U3"}
    await ask(lab, plan, caller="U2", waiter=WAITER)
    assert (await load(lab)).waiters == (WAITER,)
    other = WAITER.model_copy(update={"uid": "R2:1:0", "run": "R2"})
    await ask(lab, plan, caller="U2", waiter=other)
    await ask(lab, plan, caller="U2")
    approval = await load(lab)
    assert approval.waiters == (WAITER, other) and approval.run == "R1"


@pytest.mark.parametrize(
    "ended", [{"state": ApprovalState.CLOSED}, {"state": ApprovalState.DECIDED, "effect": EffectState.UNKNOWN}]
)
async def test_what_has_just_ended_is_answered_and_not_shown(redis: Redis, ended: dict[str, Any]) -> None:
    lab, plan = await set_up(redis)
    await ask(lab, plan)
    lease = await claim(lab, OpenCard(approval=CARD, tool="t", gate=Gate.APPROVE, proposal=plan, caller="", place=None))
    await lease.commit(lab.approvals.build_save_write((await load(lab)).model_copy(update=ended)), more=False)
    posts = count_posts(lab)
    assert await ask(lab, plan) == []
    [told] = await ask(lab, plan, caller="U1", waiter=WAITER)
    assert isinstance(told, EnqueueItem) and (told.lane, told.id) == (WAITER.lane, "resume:R1:1:0")
    assert count_posts(lab) == posts
