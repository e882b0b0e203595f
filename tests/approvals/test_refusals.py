"""A press without an effect is reported and recorded, and the pressed copy is corrected if it is wrong."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.approvals.refusals import SETTLED_MS
from bot.chat.messages import Card, Click, MessageRef, Post
from bot.core.errors import ChatUnavailableError
from bot.core.records import Approval, ApprovalState
from bot.core.work_items import ButtonPressed, NotifyPerson, find_sender
from bot.queue.lanes import RetryLater
from bot.queue.writes import EnqueueItem
from bot.storage.approvals import derive_task_card_id
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import LEAVE, list_refusals, opened, proposed, rewrite, started
from tests.stories.script import DONE, calls
from tests.tools.company import LI
from tests.tools.office import SICK
from tools.workflow.engine.state import Status

OLD = Post("an old card")


async def propose(redis: Redis) -> tuple[Bot, Approval, MessageRef]:
    """Return a card whose only copy has wrong content."""
    bot = await proposed(redis)
    approval = await bot.load_approval()
    [(_, copy)] = approval.copies
    bot.chat.posts[int(copy.ts)].post = OLD
    return bot, approval, copy


async def press(bot: Bot, approval: Approval, at: MessageRef, **changes: Any) -> None:
    click = Click(id="p", approval=approval.id, version=1, choice="send", person="U1", place=DM, card=at)
    click = click.model_copy(update=changes)
    await bot.handle_work(click.approval, click.id, ButtonPressed(click=click))


@corpus(("age_s", "is_foreign"), (3_600, True), (40 * 86_400, False))
async def test_a_recent_card_without_a_record_is_foreign(redis: Redis, age_s: int, is_foreign: bool) -> None:
    """Two installations on one Slack app get each other's presses. An old card has outlived its record."""
    bot, approval, copy = await propose(redis)
    at = MessageRef(channel=DM.channel, ts=f"{bot.clock.now_ms() / 1000 - age_s:.6f}")
    unknown = approval.model_copy(update={"id": "A00elsewhere"})
    await press(bot, unknown, at)
    [record] = [one async for one in bot.journal.stream_records(kinds={"approval.refused"})]
    assert record.text == "gone" and ("foreign" in record.more) is is_foreign
    bot.now_offset = LATE
    await press(bot, unknown, copy, id="late")
    assert len(bot.chat.ephemerals) == 2 and bot.chat.posts[int(copy.ts)].post == OLD, "nothing is put right"
    assert "item.dead" not in await bot.list_journal_kinds()


async def test_it_is_told_privately_and_on_record(redis: Redis) -> None:
    bot, approval, copy = await propose(redis)
    await press(bot, approval, copy, person="U3")
    [(person, words)] = bot.chat.ephemerals
    [record] = [one async for one in bot.journal.stream_records(kinds={"approval.refused"})]
    assert person == "U3" and "Zhang San" in words
    assert (record.person, record.channel, record.text) == ("U3", DM.channel, "not_yours")
    assert record.more == {"approval": approval.id, "choice": "send"}


LATE = timedelta(milliseconds=SETTLED_MS + 1)


@corpus(
    ("changes", "click", "ahead", "corrected"),
    ({}, {"version": 0}, LATE, True),
    ({}, {"version": 0}, timedelta(milliseconds=SETTLED_MS), False),
    ({}, {"version": 0}, timedelta(), False),
    ({}, {"person": "U3"}, LATE, False),
    ({"state": ApprovalState.CANCELLED}, {}, LATE, True),
    ({"state": ApprovalState.CANCELLED}, {}, timedelta(), False),
    ({"state": ApprovalState.CANCELLED}, {"card": None}, LATE, False),
)
async def test_a_copy_that_was_wrong_for_a_while_is_put_right_and_one_that_is_on_its_way_is_not(
    redis: Redis, changes: dict[str, Any], click: dict[str, Any], ahead: timedelta, corrected: bool
) -> None:
    bot, approval, copy = await propose(redis)
    await rewrite(bot, **changes)
    bot.now_offset = ahead
    await press(bot, approval, copy, **click)
    assert len(bot.chat.ephemerals) == 1
    assert (bot.chat.posts[int(copy.ts)].post != OLD) is corrected


async def test_what_was_decided_a_moment_ago_is_on_its_way_though_the_card_is_old(redis: Redis) -> None:
    bot, approval, copy = await propose(redis)
    over = {"state": ApprovalState.CANCELLED, "decided_ms": approval.created_ms + 2 * SETTLED_MS}
    await rewrite(bot, **over)
    bot.now_offset = 2 * timedelta(milliseconds=SETTLED_MS)
    await press(bot, approval, copy)
    assert bot.chat.posts[int(copy.ts)].post == OLD
    bot.now_offset *= 2
    await press(bot, approval, copy, id="later")
    assert bot.chat.posts[int(copy.ts)].post != OLD, "control: not for ever"


async def test_a_copy_that_nobody_knew_of_is_known_from_then_on_and_put_right_when_that_is_possible(
    redis: Redis,
) -> None:
    bot, approval, copy = await propose(redis)
    await rewrite(bot, copies=())
    bot.chat.fails[f"update {DM.channel}"] = [ChatUnavailableError("unreachable", "chat.update")]
    await press(bot, approval, copy, version=0)
    assert (await bot.load_approval()).copies == approval.copies and bot.chat.posts[int(copy.ts)].post != OLD
    assert not bot.chat.fails[f"update {DM.channel}"]


# A button of a store that was emptied or restored


LONGER = calls(("start_process", {"process": "leave", "form": {**SICK, "reason": "搬家"}}))


async def start_other_request(redis: Redis) -> Bot:
    """Empty the store and start another request with the same number, so that its card has the id of the earlier
    one."""
    await redis.flushall()
    bot = await opened(Bot(redis, [LONGER, DONE]))
    await bot.press(bot.chat.cards()[0], "confirm")
    return bot


async def test_an_old_card_does_not_decide_the_request_that_has_its_number_now(redis: Redis) -> None:
    old_card = (await started(redis)).chat.cards("DU2")[0]
    bot = await start_other_request(redis)
    await bot.press(old_card, "approve", LI.id)
    await bot.press(old_card, "reject", LI.id, form={"opinion": "不行"})
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    assert [(person, "和记录对不上" in words) for person, words in bot.chat.ephemerals] == [(LI.id, True)] * 2
    assert await list_refusals(bot) == ["other_card"] * 2
    await bot.press(bot.chat.cards("DU2")[0], "approve", LI.id, id="the right one")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED, "the right card decides"


async def test_control_without_its_seal_it_would_have(redis: Redis) -> None:
    """As buttons were before they carried a seal."""
    old_card = (await started(redis)).chat.cards("DU2")[0]
    unsealed = replace(old_card, buttons=tuple(replace(one, seal="") for one in old_card.buttons))
    bot = await start_other_request(redis)
    await bot.press(unsealed, "approve", LI.id)
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED


async def test_nor_does_a_card_that_was_given_up(redis: Redis) -> None:
    """A press on the card says so, and does not request anything again."""
    bot = await opened(Bot(redis, [LEAVE, DONE]))
    old_card = bot.chat.cards()[0]
    await redis.flushall()
    bot = await opened(Bot(redis, [LONGER, DONE]))
    await bot.press(old_card, "confirm")
    assert not await bot.engine.list_own_requests("U1") and bot.chat.ephemerals


# A card whose record no version can read


DAMAGE = [("proposal", "{"), ("proposal", "{}"), ("gate", None), ("copies", "7"), ("created_ms", "soon")]


async def damage_record(bot: Bot, card: str, field: str, value: str | None) -> None:
    key = bot.approvals.build_approval_key(card)
    await (bot.redis.hdel(key, field) if value is None else bot.redis.hset(key, field, value))  # type: ignore[misc]


def find_message(bot: Bot, card: Card) -> MessageRef:
    [ts] = [n for n, one in enumerate(bot.chat.posts) if one.post.card == card]
    return MessageRef(channel=bot.chat.posts[ts].place.channel, ts=str(ts))


@corpus(("field", "value"), *DAMAGE)
async def test_the_card_of_a_task_is_made_anew_and_decides(redis: Redis, field: str, value: str | None) -> None:
    bot = await started(redis)
    old_card = bot.chat.cards("DU2")[0]
    await damage_record(bot, derive_task_card_id(bot.keys, "L-0001-1"), field, value)
    at = find_message(bot, old_card)
    await bot.press(old_card, "approve", LI.id, at=at)
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    assert [(person, "请用下面这张新的卡片" in words) for person, words in bot.chat.ephemerals] == [(LI.id, True)]
    voided = bot.chat.posts[int(at.ts)].post
    assert voided.card is None and "读不出来" in voided.text, "no button stays that does nothing"
    await bot.press(bot.chat.cards("DU2")[-1], "approve", LI.id, id="on the fresh one")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED


async def test_another_cannot_make_it_anew(redis: Redis) -> None:
    """Negative control: the task is not theirs."""
    bot = await started(redis)
    old_card, shown = bot.chat.cards("DU2")[0], len(bot.chat.cards("DU2"))
    await damage_record(bot, derive_task_card_id(bot.keys, "L-0001-1"), "proposal", "{")
    (channel, at) = DM.model_copy(update={"channel": "C1", "direct": False}), find_message(bot, old_card)
    await bot.put_button_press(old_card.buttons[0], "U3", "elsewhere", place=channel, at=at)
    await bot.work()
    assert bot.chat.posts[int(at.ts)].post.card == old_card, "in a channel it may be somebody else's"
    bot.chat.ephemerals.clear()
    await bot.press(old_card, "approve", "U3")
    assert [person for person, _ in bot.chat.ephemerals] == ["U3"] and "Please ask again" in bot.chat.ephemerals[0][1]
    assert len(bot.chat.cards("DU2")) == shown and not bot.chat.cards("DU3")


async def test_what_somebody_confirms_for_themselves_is_asked_for_again(redis: Redis) -> None:
    bot = await opened(Bot(redis, [LEAVE, DONE]))
    card = bot.chat.cards()[0]
    await damage_record(bot, card.buttons[0].approval, "proposal", "{")
    await bot.press(card, "confirm")
    assert "请重新发起" in bot.chat.ephemerals[0][1] and await bot.engine.list_own_requests("U1") == ()


async def test_a_press_on_a_card_of_a_newer_version_waits_and_its_person_is_told_once(redis: Redis) -> None:
    bot = await started(redis)
    card = derive_task_card_id(bot.keys, "L-0001-1")
    await damage_record(bot, card, "mood", "new")
    await bot.put_press(bot.chat.cards("DU2")[0], "approve", LI.id)
    for _ in range(3):
        [lease] = await bot.lanes.claim("p", bot.keys.get_partition(card), 1)
        with pytest.raises(RetryLater) as kept:
            await bot.dispatcher.handle_item(lease)
        assert not kept.value.counted
        await lease.retry(0, str(kept.value), count=False)
    assert [(person, "更新的版本" in words) for person, words in bot.chat.ephemerals] == [(LI.id, True)]


PLACE = {"team": "T", "channel": "D1", "direct": True}


@corpus(
    ("body", "person"),
    ({"kind": "button_pressed", "click": {"person": "U2", "place": {**PLACE, "mood": "new"}, "odd": 1}}, "U2"),
    ({"kind": "message_of_2030", "message": {"person": "U1", "place": PLACE}}, "U1"),
    ({"kind": "message_received", "message": {"person": "", "place": PLACE}}, None),
    ({"kind": "message_received", "message": {"person": ["U1"], "place": PLACE}}, None),
    ({"click": {"person": "U1", "place": {"channel": 7}}}, None),
    ({"click": "U1"}, None),
    ([], None),
    ("click", None),
)
def test_the_sender_of_what_cannot_be_read_is_found_where_it_says_so(body: object, person: str | None) -> None:
    found = find_sender(json.dumps(body))
    assert (found.person if found else None) == person
    assert find_sender("[" * 100_000) is None and find_sender("{") is None, "nesting without end"


async def test_who_sent_what_no_version_reads_is_told(redis: Redis) -> None:
    bot = Bot(redis)
    body = json.dumps({"kind": "message_received", "message": {"person": "U1", "place": DM.model_dump()}})
    await bot.lanes.enqueue(DM.conversation, "E1", body)
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(DM.conversation), 1)
    for given_up in (bot.dispatcher.give_up_item(lease.item, "no"), bot.dispatcher.bury_item(lease)):
        [told] = await given_up
        notice = NotifyPerson.model_validate_json(cast(EnqueueItem, told).body)
        assert notice.person == "U1" and notice.text.params == {"id": "E1"}
