"""The copies of a card that are posted, updated and kept, their places, and the words beside them."""

from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.delivery import (
    MAX_BODY_LENGTH,
    list_card_events,
    list_names_on_card,
    post_card,
    post_expiry,
    post_note,
    replace_card,
    update_copies,
)
from bot.approvals.lifecycle import remind_deciders
from bot.approvals.refusals import post_refusal
from bot.approvals.render import render_card, render_moved_card
from bot.chat.messages import Card, Click, MessageRef, Post
from bot.core.errors import ChatError, ChatRefusedError, ChatUnavailableError
from bot.core.i18n import translate
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import RemindDeciders
from bot.queue.lanes import LaneItem
from bot.queue.writes import EnqueueItem, XAdd
from bot.storage.approvals import _format_approval_fields
from tests.approvals.approval_walk import build_card, make_plan
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM, PostedMessage
from tests.harness.presses import name_deputies
from tests.tools.company import LI, WANG, ZHANG
from tools.people.names import list_names_by_language
from tools.spec import CardChoice, CardField, Gate, TextRef

THERE = DM.model_copy(update={"channel": "C1", "direct": False, "thread": "9.0"})
NAMES = {LI.id: list_names_by_language(LI)}
PLAN = make_plan(
    title=TextRef(key="title.mail", params={"name": "李四"}), fields=(CardField(label="request", value="L-0001"),),
    deciders=(LI.id,), requester=ZHANG.id, choices=(CardChoice(name="approve"),), subject="L-0001-1", body="the text",
)  # fmt: skip
OPEN = build_card(PLAN, version=2, gate=Gate.APPROVE, caller=ZHANG.id, place=None, created_ms=0, expires_ms=3_600_000)
GONE = ChatRefusedError("message_not_found")
AWAY = ChatUnavailableError("unreachable", "chat.update")
BEFORE = Post("before")


@pytest.fixture
def bot(redis: Redis) -> Bot:
    return Bot(redis)


def stand(bot: Bot, *channels: str) -> tuple[MessageRef, ...]:
    """Post messages that exist before the test."""
    for channel in channels:
        bot.chat.posts.append(PostedMessage(DM.model_copy(update={"channel": channel}), "", BEFORE))
    first = len(bot.chat.posts) - len(channels)
    return tuple(MessageRef(channel=channel, ts=str(first + n)) for n, channel in enumerate(channels))


def make_card(*copies: tuple[str, MessageRef], **changes: Any) -> Approval:
    return OPEN.model_copy(update={"copies": copies, "delivered_version": 1} | changes)


# Readers and places


@corpus(
    ("changes", "deputies", "channels"),
    ({}, (), ["DU2"]),
    ({}, ("U5", "U2"), ["DU2", "DU5"]),
    ({"gate": Gate.CONFIRM}, ("U5",), ["DU2"]),
    ({"place": DM}, ("U5",), ["DU1"]),
    ({"place": DM.model_copy(update={"thread": "9.0"})}, (), ["DU1"]),
    ({"place": THERE}, (), ["DU1"]),
    ({"proposal": PLAN.model_copy(update={"deciders": (LI.id, "U9", WANG.id)})}, (), ["DU2", "DU3"]),
    ({"proposal": PLAN.model_copy(update={"deciders": ("U9",)})}, (), []),
)
async def test_a_fresh_card_stands_where_its_readers_alone_read_it(
    redis: Redis, changes: dict[str, Any], deputies: tuple[str, ...], channels: list[str]
) -> None:
    """This also holds for a card requested in a channel, because it shows its whole subject."""
    bot = Bot(redis)
    card = make_card(**changes)
    shown = await post_card(name_deputies(bot, *deputies), card, "x", again=False)
    assert [one.place.channel for one in bot.chat.posts] == channels and not shown.outdated
    readers, names = [one.removeprefix("D") for one in channels], await list_names_on_card(name_deputies(bot), card)
    assert shown.approval.copies == tuple(
        (reader, MessageRef(channel=channel, ts=str(n)))
        for n, (reader, channel) in enumerate(zip(readers, channels, strict=True))
    )
    assert shown.approval.delivered_version == 2
    for reader, said in zip(readers, bot.chat.posts, strict=True):
        person = await bot.directory.find_person(reader)
        assert person is not None and said.post == render_card(card, person, names)
        assert said.key == f"A:2:{reader}:x"
        if card.place == DM.model_copy(update={"thread": "9.0"}):
            assert said.place == card.place, "in the thread in which it was asked for"


async def test_brought_again_it_is_the_same_message_and_another_request_is_another(bot: Bot) -> None:
    for asked, again, posts in (("x", False, 1), ("x", True, 1), ("y", True, 2)):
        await post_card(name_deputies(bot), OPEN, asked, again=again)
        assert len(bot.chat.posts) == posts


@pytest.mark.parametrize(
    ("fails", "error"),
    [({"DU2": [GONE]}, None), ({"DU2": [GONE], "DU3": [GONE]}, GONE), ({"DU3": [AWAY]}, AWAY)],
)
async def test_who_cannot_be_reached_is_passed_over_unless_it_is_everybody_or_the_platform_is_away(
    bot: Bot, fails: dict[str, list[ChatError]], error: ChatError | None
) -> None:
    bot.chat.fails |= fails
    both = make_card(proposal=PLAN.model_copy(update={"deciders": (LI.id, WANG.id)}))
    if error is None:
        shown = await post_card(name_deputies(bot), both, "x", again=False)
        assert [reader for reader, _ in shown.approval.copies] == [WANG.id]
    else:
        with pytest.raises(ChatError) as raised:
            await post_card(name_deputies(bot), both, "x", again=False)
        assert raised.value is error


# Existing copies


async def test_of_several_copies_of_one_reader_the_last_is_the_card_and_the_others_point_to_it(bot: Bot) -> None:
    old, new, other = stand(bot, "DU2", "DU2", "DU3")
    card = make_card((LI.id, old), (LI.id, new), (WANG.id, other))
    some = await update_copies(name_deputies(bot), card, [new])
    assert [one.post for one in bot.chat.posts] == [BEFORE, render_card(card, LI, NAMES), BEFORE]
    assert some.approval.copies == card.copies, "nothing is forgotten that was not looked at"
    shown = await update_copies(name_deputies(bot), card)
    posts = [one.post for one in bot.chat.posts]
    assert posts == [render_moved_card(card, LI), render_card(card, LI, NAMES), render_card(card, WANG, NAMES)]
    assert shown.approval.copies == ((LI.id, new), (WANG.id, other)) and not shown.outdated


@pytest.mark.parametrize(("error", "kept"), [(GONE, False), (AWAY, True)])
async def test_an_older_copy_is_kept_until_it_points_to_the_newer_one(bot: Bot, error: ChatError, kept: bool) -> None:
    """A copy that is gone is dropped, because nothing can be done about it."""
    old, new = stand(bot, "DU2", "DU2")
    bot.chat.fails["update DU2"] = [error]
    shown = await update_copies(name_deputies(bot), make_card((LI.id, old), (LI.id, new)))
    assert shown.approval.copies == (((LI.id, old),) if kept else ()) + ((LI.id, new),)
    assert bool(shown.outdated) is kept


async def test_a_copy_of_somebody_whom_nobody_knows_is_left_as_it_is(bot: Bot) -> None:
    (copy,) = stand(bot, "DU9")
    shown = await update_copies(name_deputies(bot), make_card(("U9", copy)))
    assert bot.chat.posts[0].post == BEFORE and not shown.outdated and shown.approval.copies == (("U9", copy),)


async def test_a_card_in_a_channel_is_rewritten_there_and_when_it_moves_says_no_more_than_that(bot: Bot) -> None:
    """Cards are no longer posted in channels; older ones may be there."""
    own = {"gate": Gate.CONFIRM, "proposal": PLAN.model_copy(update={"deciders": (ZHANG.id,)}), "place": THERE}
    (there,) = stand(bot, "C1")
    card = make_card((ZHANG.id, there), **own)
    await update_copies(name_deputies(bot), card)
    assert bot.chat.posts[0].post == render_card(card, ZHANG, {ZHANG.id: list_names_by_language(ZHANG)})
    (here,) = stand(bot, "DU1")
    await update_copies(name_deputies(bot), make_card((ZHANG.id, there), (ZHANG.id, here), **own))
    moved = translate("card.moved", "zh")
    assert bot.chat.posts[0].post == Post(moved, card=Card(moved))
    assert bot.chat.posts[1].post == render_card(card, ZHANG, {ZHANG.id: list_names_by_language(ZHANG)})


@pytest.mark.parametrize("place", [None, DM, THERE])
async def test_a_copy_in_a_dm_that_moves_says_what_it_was_about(bot: Bot, place: Any) -> None:
    old, new = stand(bot, "DU1", "DU1")
    card = make_card((ZHANG.id, old), (ZHANG.id, new), place=place)
    await update_copies(name_deputies(bot), card)
    assert bot.chat.posts[0].post == render_moved_card(card, ZHANG)


@corpus(
    ("before", "after", "place", "anew"),
    (MAX_BODY_LENGTH, MAX_BODY_LENGTH, DM, False),
    (MAX_BODY_LENGTH, MAX_BODY_LENGTH, None, False),
    (MAX_BODY_LENGTH + 1, 1, DM, True),
    (1, MAX_BODY_LENGTH + 1, DM, True),
    (1, 1, THERE, True),
)
async def test_an_edited_card_is_shown_anew_where_it_could_not_be_rewritten_in_full(
    redis: Redis, before: int, after: int, place: Any, anew: bool
) -> None:
    bot = Bot(redis)
    (copy,) = stand(bot, "C1" if place == THERE else "DU1")
    plans = (PLAN.model_copy(update={"body": "x" * length, "deciders": (ZHANG.id,)}) for length in (before, after))
    was, now = (make_card((ZHANG.id, copy), place=place, gate=Gate.CONFIRM, proposal=plan) for plan in plans)
    shown = await replace_card(name_deputies(bot), was, now, "x", again=False)
    assert len(bot.chat.posts) == 1 + anew and shown.approval.delivered_version == 2
    assert bot.chat.posts[-1].post == render_card(now, ZHANG, {ZHANG.id: list_names_by_language(ZHANG)})
    assert bot.chat.posts[-1].place.channel == "DU1"


# Words beside a card


@pytest.mark.parametrize("place", [None, DM.model_copy(update={"thread": "9.0"})])
async def test_a_word_stands_under_the_card_of_each_who_has_not_decided(bot: Bot, place: Any) -> None:
    first, second, watcher = stand(bot, "DU2", "DU5", "DU1")
    card = make_card((LI.id, first), ("U5", second), (ZHANG.id, watcher), ("U9", watcher), place=place)
    told = await post_note(name_deputies(bot, "U5", "U9"), card, TextRef(key="card.reminder"), "x", again=False)
    words = bot.chat.posts[3:]
    if place is None:
        assert [one.place for one in words] == [
            DM.model_copy(update={"team": "", "channel": channel, "thread": ts})
            for channel, ts in (("DU2", "0"), ("DU5", "1"))
        ]
        assert told == {LI.id: words[0].post.text, "U5": words[1].post.text}
        assert words[0].post.text == "提醒：「给李四发这封邮件？」还在等您决定，1970-01-01 09:00 前有效。"
        assert "1970-01-01 01:00" in words[1].post.text and words[0].key == "A:x:U2"
    else:
        assert [one.place for one in words] == [place] and set(told) == {ZHANG.id}, "where it was asked for"


async def test_somebody_who_cannot_be_told_keeps_no_word_from_the_others(bot: Bot) -> None:
    first, second = stand(bot, "DU2", "DU5")
    card = make_card((LI.id, first), ("U5", second))
    bot.chat.fails = {"DU2": [ChatRefusedError("channel_not_found")]}
    told = await post_note(name_deputies(bot, "U5"), card, TextRef(key="card.reminder"), "x", again=False)
    assert list(told) == ["U5"] and len(bot.chat.posts) == 3


async def test_who_has_become_a_guest_gets_no_word_about_somebody_elses_card(bot: Bot) -> None:
    first, second = stand(bot, "DU2", "DU5")
    bot.directory.change(LI.id, active=False)
    card = make_card((LI.id, first), ("U5", second))
    told = await post_note(name_deputies(bot, "U5"), card, TextRef(key="card.reminder"), "x", again=False)
    assert list(told) == ["U5"] and len(bot.chat.posts) == 3


async def test_a_reminder_is_told_once_a_version(bot: Bot) -> None:
    (copy,) = stand(bot, "DU2")
    card, cards = make_card((LI.id, copy)), name_deputies(bot)
    for version, tries, posts in ((2, 1, 2), (2, 2, 2), (3, 2, 3)):
        item = LaneItem(lane=card.id, id="x", body="", tries=tries)
        record = _format_approval_fields(card.model_copy(update={"version": version}))
        lease: Any = SimpleNamespace(item=item, record=record)
        noted, event = await remind_deciders(cards, lease, RemindDeciders(version=version))
        assert isinstance(noted, XAdd) and noted.fields["k"] == "approval.reminded"
        assert isinstance(event, EnqueueItem) and "提醒" in event.body
        assert len(bot.chat.posts) == posts and "提醒" in bot.chat.posts[1].post.text
    assert await remind_deciders(cards, lease, RemindDeciders(version=2)) == [] and len(bot.chat.posts) == 3


@corpus(
    ("changes", "posted"),
    ({}, ["DU1"]),
    ({"gate": Gate.CONFIRM}, []),
    ({"proposal": PLAN.model_copy(update={"requester": None})}, []),
    ({"proposal": PLAN.model_copy(update={"requester": "U9"})}, []),
)
async def test_of_an_expired_card_its_requester_gets_a_copy(
    redis: Redis, changes: dict[str, Any], posted: list[str]
) -> None:
    bot = Bot(redis)
    (copy,) = stand(bot, "DU2")
    card = make_card((LI.id, copy), state=ApprovalState.EXPIRED, **changes)
    shown = await post_expiry(name_deputies(bot), card, again=False)
    assert [one.place.channel for one in bot.chat.posts[1:]] == posted
    assert bot.chat.posts[0].post == render_card(card, LI, NAMES)
    assert [reader for reader, _ in shown.approval.copies] == [LI.id, *(["U1"] if posted else [])]
    await post_expiry(name_deputies(bot), card, again=True)
    assert len(bot.chat.posts) == 1 + len(posted)


async def test_each_dm_remembers_how_its_copy_stands_but_those_named(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = stand(bot, "DU2", "DU3", "DU9")
    card = make_card((LI.id, first), (WANG.id, second), ("U9", third))
    told = await list_card_events(name_deputies(bot), card, ())
    assert list(told) == [LI.id, WANG.id] and "给李四发" in told[LI.id] and "Send this mail" in told[WANG.id]
    assert list(await list_card_events(name_deputies(bot), card, [LI.id])) == [WANG.id]

    async def be_away(person: str) -> None:
        raise AWAY

    monkeypatch.setattr(bot.directory, "find_person", be_away)
    assert await list_card_events(name_deputies(bot), card, ()) == {}, "it waits for nobody"


async def test_names_on_a_card_are_those_of_who_decides_and_who_has_decided(bot: Bot) -> None:
    assert await list_names_on_card(name_deputies(bot), OPEN) == NAMES
    assert await list_names_on_card(name_deputies(bot), make_card(decided_by=WANG.id)) == {
        LI.id: {"zh": "李四", "en": "Li Si"},
        WANG.id: {"zh": "王五", "en": "Wang Wu"},
    }
    assert await list_names_on_card(name_deputies(bot), make_card(decided_by="U9")) == NAMES


# Refusals


DONE = {"state": ApprovalState.DECIDED, "effect": EffectState.DONE, "decided_by": LI.id, "choice": "approve"}
THREE = {"proposal": PLAN.model_copy(update={"deciders": (LI.id, "U9", WANG.id)})}


@corpus(
    ("person", "changes", "code", "words"),
    ("U1", {}, "not_yours", {"who": "李四", "what": ""}),
    ("U3", {}, "not_yours", {"who": "Li Si", "what": ""}),
    ("U1", THREE, "not_yours", {"who": "李四、王五"}),
    ("U1", DONE, "already", {"what": "李四已同意 · 1970-01-01 08:00", "who": ""}),
    ("U9", DONE, "already", {"what": "", "who": ""}),
    ("U9", None, "stranger", {}),
    ("U1", None, "gone", {}),
)
async def test_a_refusal_says_privately_why_and_who_can_or_what_became_of_it(
    redis: Redis, person: str, changes: dict[str, Any] | None, code: str, words: dict[str, str]
) -> None:
    bot = Bot(redis)
    click = Click(id="c", approval="A", version=2, choice="approve", person=person, place=DM)
    card = None if changes is None else make_card(**changes)
    await post_refusal(name_deputies(bot), click, card, code)
    language = "zh" if person == "U1" else "en"
    assert bot.chat.ephemerals == [(person, translate(f"refused.{code}", language, **{"who": "", "what": ""} | words))]
    await post_refusal(name_deputies(bot), click, OPEN, "not_named", TextRef(key="card.system"))
    own = (person, translate("card.system", language))
    assert bot.chat.ephemerals[1:] == [own] and bot.chat.posts == [], "words of its own are told alone"
