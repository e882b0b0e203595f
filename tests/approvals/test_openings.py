"""The delivery of a card: its readers, how often, the history of it, and who learns that it has ended already."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis

from bot.chat.messages import MessageRef, Place, Post
from bot.core.clock import to_ms
from bot.core.records import ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.work_items import ExpireCard, RecordDirectEvent
from bot.queue.writes import EnqueueItem, Write
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import requested, rewrite
from tools.spec import CardField, Gate, Proposal, TextRef, ToolError, ToolOutcome

SHANGHAI = ZoneInfo("Asia/Shanghai")
CARD = "A00both"
WAITER = ApprovalWaiter(run="R1", uid="R1:1:0", lane=DM.conversation)
HURRY = TextRef(key="card.urged", params={"by": "张三"})


async def set_up(redis: Redis) -> tuple[Bot, Proposal]:
    """Set up a request of Zhang San's, on which Li Si and Wang Wu can each decide by a card not yet delivered."""
    bot = await requested(redis)
    plan = (await bot.load_approval()).proposal.model_copy(update={"deciders": ("U2", "U3")})
    bot.chat.posts.clear()
    return bot, plan


def draft(plan: Proposal, by: str = "U2", words: str = "好好休息") -> Proposal:
    return plan.model_copy(update={"args": plan.args | {"draft": words, "drafted_by": by, "meant": ""}})


async def ask(bot: Bot, plan: Proposal, **changes: Any) -> list[Write]:
    """Request the card, and return the writes."""
    given: dict[str, Any] = {"tool": "decide_task", "gate": Gate.APPROVE, "caller": "", "place": None} | changes
    await bot.work()
    await bot.lanes.enqueue(CARD, uuid4().hex, OpenCard(approval=CARD, proposal=plan, **given).model_dump_json())
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(CARD), 1)
    writes = list(await bot.dispatcher.handle_item(lease))
    await lease.commit(*writes, more=False)
    return writes


def count_posts(bot: Bot) -> dict[str, int]:
    """Person → number of times that a card was posted to them."""
    channels = [one.place.channel.removeprefix("D") for one in bot.chat.posts if one.post.card]
    return {person: channels.count(person) for person in dict.fromkeys(channels)}


def list_remembered(writes: list[Write]) -> set[str]:
    """Return the people whose DM's history records it."""
    put = [one for one in writes if isinstance(one, EnqueueItem) and one.lane.startswith("notice:")]
    return {RecordDirectEvent.model_validate_json(one.body).person for one in put}


# Readers


async def test_a_fresh_card_goes_to_everybody_who_decides_though_one_has_drafted_something(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    assert list_remembered(await ask(bot, draft(plan), caller="U2")) == {"U2", "U3"}
    assert count_posts(bot) == {"U2": 1, "U3": 1}


async def test_asked_for_again_it_is_shown_again_to_who_decides(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan)
    assert list_remembered(await ask(bot, plan, caller="U2")) == {"U2", "U3"}
    assert count_posts(bot) == {"U2": 2, "U3": 2} and len(bot.chat.cards("DU2")) == 1
    assert (await bot.load_approval(CARD)).version == 1


@pytest.mark.parametrize("caller", ["", "U1", "U4"])
async def test_who_does_not_decide_drafts_nothing_on_the_card(redis: Redis, caller: str) -> None:
    """Asked for by them, it comes to those who have it not."""
    bot, plan = await set_up(redis)
    await ask(bot, plan.model_copy(update={"deciders": ("U2",)}))
    await rewrite(bot, CARD, proposal=plan)
    assert list_remembered(await ask(bot, plan, caller=caller)) == {"U3"}
    if caller:
        await ask(bot, draft(plan, by=caller), caller=caller)
    approval = await bot.load_approval(CARD)
    assert approval.version == 1 and "draft" not in {name for name, one in approval.proposal.args.items() if one}
    assert count_posts(bot) == {"U2": 1, "U3": 1}


async def test_a_new_draft_is_news_to_who_has_drafted_it_only(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan)
    assert list_remembered(await ask(bot, draft(plan), caller="U2")) == {"U2"}
    approval = await bot.load_approval(CARD)
    assert count_posts(bot) == {"U2": 2, "U3": 1}
    assert (approval.version, approval.proposal.args["draft"]) == (2, "好好休息")
    assert {one.version for one in bot.chat.cards("DU3")[0].buttons} == {2}, "where it stands"
    await ask(bot, draft(plan), caller="U2")
    assert (await bot.load_approval(CARD)).version == 2, "asked for again, it is no news"
    assert count_posts(bot) == {"U2": 3, "U3": 1}


async def test_a_new_draft_keeps_the_suggestion_and_repeats_no_other_field(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    advice = CardField(label="advice", value="approve it")
    await ask(bot, plan.with_card_fields((*plan.fields, advice)))
    await ask(bot, draft(plan), caller="U2")
    approval = await bot.load_approval(CARD)
    assert approval.version == 2 and approval.proposal.fields == (*plan.fields, advice)


async def test_an_expired_card_that_is_asked_for_is_a_fresh_one_for_everybody(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan)
    await bot.handle_work(CARD, "expire", ExpireCard(version=1))
    before = count_posts(bot)
    assert list_remembered(await ask(bot, plan)) == {"U2", "U3"}
    assert count_posts(bot) == {person: n + (person != "U1") for person, n in before.items()}
    approval = await bot.load_approval(CARD)
    assert (approval.version, approval.state) == (2, ApprovalState.OPEN)


@pytest.mark.parametrize("code", ["task_closed", "engine_down"])
async def test_a_card_that_its_author_asks_for_is_completed_unless_its_task_is_over(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    bot, plan = await set_up(redis)

    async def fail(*_: object) -> Proposal:
        raise ToolError(code, "")

    monkeypatch.setattr("bot.approvals.openings.propose_decision", fail)
    if code == "engine_down":
        with pytest.raises(ToolError):
            await ask(bot, plan, caller="U1")
        assert not bot.chat.posts, "no approver decides by what its author was told"
    else:
        await ask(bot, plan, caller="U1")
        assert (await bot.load_approval(CARD)).proposal == plan


async def test_the_word_comes_with_the_card_if_there_is_one(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan)
    assert not [one for one in bot.chat.posts if one.post.card is None]
    assert list_remembered(await ask(bot, plan, follow_up=HURRY)) == {"U2", "U3"}
    words = [one for one in bot.chat.posts if one.post.card is None]
    assert sorted(one.place.channel for one in words) == ["DU2", "DU3"]
    assert all("张三" in one.post.text and one.place.direct and one.place.thread for one in words)


# Before the display


async def test_whoever_presses_at_once_finds_it_on_record(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot, plan = await set_up(redis)
    post, found = bot.chat.post_message, list[ApprovalState]()

    async def look(place: Place, shown: Post, **more: Any) -> MessageRef:
        found.append((await bot.load_approval(CARD)).state)
        return await post(place, shown, **more)

    monkeypatch.setattr(bot.chat, "post_message", look)
    await ask(bot, plan)
    assert found == [ApprovalState.OPEN] * 2


async def test_what_is_kept_of_it_is_what_was_asked_for(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan, tool="send_email", gate=Gate.CONFIRM, caller="U2", place=DM, waiter=WAITER)
    approval = await bot.load_approval(CARD)
    assert (approval.tool, approval.gate, approval.caller, approval.place) == ("send_email", Gate.CONFIRM, "U2", DM)
    assert (approval.proposal, approval.run, approval.waiters) == (plan, "R1", (WAITER,))
    assert approval.created_ms == to_ms(bot.now()) and [one for one, _ in approval.copies] == ["U2"]
    [record] = [one async for one in bot.journal.stream_records(kinds={"approval.requested"}) if one.run]
    assert (record.person, record.more["sha"]) == ("U2", approval.seal[:12])


async def test_over_a_weekend_nobody_is_reminded_and_no_card_expires(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    bot.now_offset = timedelta(hours=8)  # Friday, 18:00 in Shanghai
    await ask(bot, plan, gate=Gate.APPROVE)
    approval = await bot.load_approval(CARD)
    timers = await redis.zrange(bot.keys.build_key(bot.keys.get_partition(CARD), "t"), 0, -1, withscores=True)
    reminder, expiry = [datetime.fromtimestamp(ms / 1000, SHANGHAI) for timer, ms in timers if CARD in timer]
    assert f"{reminder:%A %H:%M}, {expiry:%A %H:%M}" == "Tuesday 13:30, Thursday 09:00"
    assert approval.expires_ms == to_ms(expiry), "as the card says"


# Waiting runs


async def test_who_waits_hears_of_it_from_their_run_and_is_told_once(redis: Redis) -> None:
    bot, plan = await set_up(redis)
    assert list_remembered(await ask(bot, plan, caller="U2", waiter=WAITER)) == {"U3"}
    await ask(bot, plan, caller="U2", waiter=WAITER)
    assert (await bot.load_approval(CARD)).waiters == (WAITER,)
    other = WAITER.model_copy(update={"uid": "R2:1:0", "run": "R2"})
    await ask(bot, plan, caller="U2", waiter=other)
    await ask(bot, plan, caller="U2")
    approval = await bot.load_approval(CARD)
    assert approval.waiters == (WAITER, other) and approval.run == "R1"


OUTCOME = ToolOutcome(data={}, summary=TextRef(key="done"))


@corpus(
    "ended",
    {"state": ApprovalState.CLOSED},
    {"state": ApprovalState.DECIDED, "effect": EffectState.UNKNOWN},
    {"state": ApprovalState.DECIDED, "effect": EffectState.DONE, "outcome": OUTCOME},
)
async def test_what_has_just_ended_is_answered_and_not_shown(redis: Redis, ended: dict[str, Any]) -> None:
    bot, plan = await set_up(redis)
    await ask(bot, plan)
    await rewrite(bot, CARD, **ended)
    posts = count_posts(bot)
    assert await ask(bot, plan) == []
    [told] = await ask(bot, plan, caller="U1", waiter=WAITER)
    assert isinstance(told, EnqueueItem) and (told.lane, told.id) == (WAITER.lane, "resume:R1:1:0")
    assert count_posts(bot) == posts
