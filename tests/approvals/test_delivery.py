"""Cards are correct on every copy: also on copies that were unreachable at a change, replaced, gone, or unknown."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import OWED_MAX_MS
from bot.approvals import lifecycle
from bot.approvals.delivery import update_copies
from bot.approvals.refusals import SETTLED_MS
from bot.chat.messages import Card, Click, MessageRef, Post
from bot.core.clock import Clock, read_system_time
from bot.core.errors import ChatUnavailableError
from bot.core.records import TAKEN_BACK_CHOICE, ApprovalState, EffectState, OpenCard
from bot.core.work_items import ButtonPressed, ExpireCard, RefreshCard, build_show_lane
from tests.harness.corpus import corpus
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.memory_platform import DM, PostedMessage
from tests.harness.presses import everywhere, proposed, requested, started
from tests.stories.script import DONE, calls
from tools.workflow.engine.state import Delegation

DOWN = ChatUnavailableError("unreachable", "chat.update")
ASK = calls(("decide_task", {"task_id": "L-0001-1"}))
DAY = timedelta(days=1)
THERE = DM.model_copy(update={"channel": "C1", "direct": False})


def buttons(bot: Bot, channel: str = DM.channel) -> set[str]:
    return {button.choice for card in bot.chat.cards(channel) for button in card.buttons}


# The platform is away


@corpus("times", 1, 2, 3, 7)
async def test_a_decision_that_cannot_be_shown_is_carried_out_once_and_shown_later(redis: Redis, times: int) -> None:
    bot = await proposed(redis)
    bot.chat.fails[f"update {DM.channel}"] = [DOWN] * times
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.DONE and len(bot.mailer.mails) == 1
    assert not bot.chat.cards()
    assert bot.chat.keys()[-1].endswith(":final")


async def test_without_catching_up_it_keeps_its_buttons(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    monkeypatch.setattr(lifecycle, "build_refresh_request", lambda *_: ())
    bot = await proposed(redis)
    bot.chat.fails[f"update {DM.channel}"] = [DOWN] * 2
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.DONE
    assert buttons(bot) == {"send", "edit", "cancel"}, "for ever"


async def test_when_all_is_well_nothing_has_to_catch_up_and_a_copy_that_is_known_is_not_added(redis: Redis) -> None:
    bot = await proposed(redis)
    [(_, known)] = before = (await bot.load_approval()).copies
    await bot.press(bot.chat.cards()[0], "send", at=known)
    assert (await bot.load_approval()).copies == before
    assert [key async for key in redis.scan_iter("*:dd:show:*")] == [], "no item was put to update copies later"


async def test_killed_anywhere_while_the_platform_is_away_there_is_no_button_left(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: proposed(redis), more_than=10):
        bot.chat.fails[f"update {DM.channel}"] = [DOWN] * 4
        await bot.press(bot.chat.cards()[0], "send")
        approval = await bot.load_approval()
        assert approval.effect in (EffectState.DONE, EffectState.UNKNOWN)
        left = {"happened", "redo"} if approval.effect is EffectState.UNKNOWN else set()
        assert buttons(bot) == left and len(bot.mailer.mails) <= 1


async def test_what_is_shown_later_is_how_it_stands_then(redis: Redis) -> None:
    """The card is edited while the platform is away, and sent before the edit could be shown."""
    bot = await proposed(redis)
    [card] = bot.chat.cards()
    bot.chat.fails[f"update {DM.channel}"] = [DOWN] * 2
    await bot.put_press(card, "edit", form={"subject": "x", "body": "something else"})
    fresh = replace(card, buttons=tuple(replace(button, version=2, seal="") for button in card.buttons))
    await bot.press(fresh, "cancel")
    assert (await bot.load_approval()).state is ApprovalState.CANCELLED
    assert not bot.chat.cards() and "something else" in str(bot.chat.posts)


async def test_a_card_that_expires_while_the_platform_is_away(redis: Redis) -> None:
    bot = await started(redis)
    bot.chat.fails["update DU2"] = [DOWN] * 3
    [card] = bot.chat.cards("DU2")
    await bot.handle_work(card.buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    assert buttons(bot, "DU2") == {"again"} and buttons(bot, "DU1") == {"again"}


async def test_an_older_copy_points_to_the_newer_one_also_when_that_had_to_wait(redis: Redis) -> None:
    bot = await started(redis)
    bot.model.script += [ASK]
    bot.chat.fails["update DU2"] = [DOWN] * 3
    approval = bot.chat.cards("DU2")[0].buttons[0].approval
    await bot.send("L-0001 的卡片呢", person="U2", id="Ev2", place=THERE)
    old, new = [said.post.card for said in bot.chat.posts if said.place.channel == "DU2"]
    assert old is not None and new is not None and not old.buttons and new.buttons
    kept = await bot.load_approval(approval)
    newest = str(len(bot.chat.posts) - 1)
    assert [ref.ts for reader, ref in kept.copies if reader == "U2"] == [newest], "the older one needs no more updates"


async def test_a_press_that_comes_before_the_older_copy_points_to_the_newer_one(redis: Redis) -> None:
    bot = await started(redis)
    bot.model.script += [ASK, DONE]
    bot.chat.fails["update DU2"] = [DOWN] * 3
    await bot.put_message("L-0001 的卡片呢", person="U2", id="Ev2", place=THERE)
    old = bot.chat.cards("DU2")[0]
    await bot.work()
    bot.chat.fails["update DU2"] = [DOWN] * 3
    await bot.press(old, "approve", person="U2")
    assert not bot.chat.cards("DU2")


async def test_a_directory_away_after_the_effect_leaves_no_doubt(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up too when a card is updated."""
    bot = await proposed(redis)
    get, away = bot.directory.find_person, [DOWN] * 3

    async def forgetful(person: str) -> object:
        if bot.mailer.mails and away:
            raise away.pop()
        return await get(person)

    monkeypatch.setattr(bot.directory, "find_person", forgetful)
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.DONE and not away
    assert len(bot.mailer.mails) == 1 and not bot.chat.cards()


async def test_after_a_week_away_it_is_given_up_and_the_next_press_puts_it_right(redis: Redis) -> None:
    bot = await proposed(redis)
    [card] = bot.chat.cards()
    bot.chat.fails[f"update {DM.channel}"] = [DOWN] * 2
    await bot.put_press(card, "send")
    ahead = timedelta(milliseconds=OWED_MAX_MS + 1)
    later = Clock(read_now=lambda: read_system_time() + ahead)
    bot.dispatcher = replace(bot.dispatcher, clock=later)
    bot.chat.fails[f"update {DM.channel}"] += [DOWN] * bot.lanes.max_tries
    await bot.work()
    assert "item.dead" in await bot.list_journal_kinds() and buttons(bot) == {"send", "edit", "cancel"}
    shown = next(n for n, said in enumerate(bot.chat.posts) if said.post.card is card)
    at = MessageRef(channel=DM.channel, ts=str(shown))
    await bot.press(card, "send", id="soon", at=at)
    assert bot.chat.cards(), "just decided: whoever presses now was only late"
    bot.now_offset = timedelta(milliseconds=SETTLED_MS + 1)
    await bot.press(card, "send", id="later", at=at)
    assert not bot.chat.cards() and len(bot.mailer.mails) == 1


# A copy that nobody knows: its delayed process posted it after another one had done so


def copied(bot: Bot, card: Card, channel: str = DM.channel) -> MessageRef:
    """Post the same card again."""
    place = DM.model_copy(update={"channel": channel})
    bot.chat.posts.append(PostedMessage(place, "copy", Post("card", card=card)))
    return MessageRef(channel=channel, ts=str(len(bot.chat.posts) - 1))


@corpus("is_card_pressed_first", False, True)
@corpus("away", 0, 4)
async def test_a_pressed_copy_that_was_unknown_has_no_buttons(
    redis: Redis, is_card_pressed_first: bool, away: int
) -> None:
    bot = await proposed(redis)
    [card] = bot.chat.cards()
    copy = copied(bot, card)
    bot.chat.fails[f"update {DM.channel}"] = [DOWN] * away
    if is_card_pressed_first:
        await bot.press(card, "send")
        assert bot.chat.cards(), "only the copy"
    await bot.press(card, "send", id="on the copy", at=copy)
    assert not bot.chat.cards() and len(bot.mailer.mails) == 1
    assert copy not in [ref for _, ref in (await bot.load_approval()).copies]


async def test_without_knowing_what_was_pressed_the_copy_stays_as_it_was(redis: Redis) -> None:
    """Negative control."""
    bot = await proposed(redis)
    [card] = bot.chat.cards()
    copied(bot, card)
    await bot.press(card, "send")
    await bot.press(card, "send", id="late")
    assert len(bot.chat.cards()) == 1


async def test_a_message_where_the_card_does_not_belong_is_left_alone(redis: Redis) -> None:
    """Nobody can see a foreign card by pressing."""
    bot = await proposed(redis)
    [card] = bot.chat.cards()
    copy = copied(bot, replace(card, body="theirs"), "DU3")
    await bot.press(card, "send", person="U3", at=copy)
    assert bot.chat.posts[int(copy.ts)].post.card == replace(card, body="theirs") and not bot.mailer.mails


@corpus(
    ("person", "channel", "is_theirs"),
    *((person, f"D{person}", True) for person in ("U2", "U5", "U1", "U4")),  # decider, deputy, requester, caller
    ("U3", "DU3", False),
    ("U2", "DU3", False),  # in another conversation
)
async def test_an_unknown_copy_is_put_right_for_those_whom_the_card_concerns_and_where_they_press(
    redis: Redis, person: str, channel: str, is_theirs: bool
) -> None:
    bot = await started(redis)
    away = Delegation(id="D1", person="U2", deputy="U5", start=TODAY - DAY, end=TODAY + DAY)
    await bot.engine.add_delegation(away, bot.today())
    asked = await bot.load_approval(bot.chat.cards("DU2")[0])
    given = {"tool": asked.tool, "gate": asked.gate, "proposal": asked.proposal}
    await bot.handle_work("A00both", "x", OpenCard(approval="A00both", **given, caller="U4", place=None))
    card = next(one for one in bot.chat.cards("DU2") if one.buttons[0].approval == "A00both")
    copy = copied(bot, card, channel)
    before, place = bot.chat.posts[int(copy.ts)].post, DM.model_copy(update={"channel": f"D{person}"})
    late = Click(id="p", approval="A00both", version=0, choice="approve", person=person, place=place, card=copy)
    await bot.handle_work("A00both", "p", ButtonPressed(click=late))
    assert len(bot.chat.ephemerals) == 1, "refused either way: the button is older than the card"
    assert (bot.chat.posts[int(copy.ts)].post != before) is is_theirs


async def test_a_record_changed_by_a_decision_is_not_overwritten_by_showing_it(redis: Redis) -> None:
    """The card is cancelled in chat while its copies catch up: that decision is made outside the lane."""
    bot = await proposed(redis)
    approval = await bot.load_approval()
    await bot.lanes.enqueue(approval.id, "show:x", RefreshCard().model_dump_json())
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(approval.id), 1)
    writes = await bot.dispatcher.handle_item(lease)
    await bot.approvals.decide_cancellation(approval, "U1", TAKEN_BACK_CHOICE, 0)
    await lease.commit(*writes)
    assert (await bot.load_approval()).state is ApprovalState.CANCELLED


async def test_an_item_that_an_earlier_version_has_put_into_the_cards_own_lane_is_done(redis: Redis) -> None:
    bot = await proposed(redis)
    approval = await bot.load_approval()
    await bot.handle_work(approval.id, "show:x", json.dumps({"v": 1, "kind": "refresh_card"}))
    assert len(bot.chat.updates) == 1


async def test_while_items_catch_up_the_last_of_them_rewrites_the_card_and_nobody_else(redis: Redis) -> None:
    """Otherwise the card's older state could come last."""
    bot = await proposed(redis)
    approval = await bot.load_approval()
    for number in range(3):
        work = RefreshCard(approval=approval.id)
        await bot.lanes.enqueue(build_show_lane(approval.id), f"show:{number}", work.model_dump_json())
    assert (await update_copies(bot.handlers.cards, approval)).outdated and not bot.chat.updates
    await bot.work()
    assert len(bot.chat.updates) == 1 and not (await update_copies(bot.handlers.cards, approval)).outdated


async def test_a_decider_who_has_become_a_guest_gets_no_card_of_anybody(redis: Redis) -> None:
    bot = await requested(redis)
    approval = await bot.load_approval()
    bot.now_offset = timedelta(days=30)
    await bot.handle_work(approval.id, "over", ExpireCard(version=1))
    bot.directory.change("U2", active=False)
    said = len(bot.chat.texts("DU2"))
    await bot.press(bot.chat.cards("DU1")[-1], "again", "U1")
    assert len(bot.chat.texts("DU2")) == said
    assert (await bot.load_approval()).state is ApprovalState.EXPIRED and "没能处理完" in bot.chat.texts("DU1")[-1]
    bot.directory.change("U2", active=True)
    await bot.press(bot.chat.cards("DU1")[-1], "again", "U1", id="later")
    assert len(bot.chat.texts("DU2")) == said + 1, "control"
