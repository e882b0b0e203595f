"""Cards say what is true on every copy: also those that could not be reached when it changed, that a newer one has
taken the place of, that are gone, or that nobody knew of."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import AWAY_MAX_MS
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.refusals import SETTLED_MS
from bot.chat.messages import Card, Click, MessageRef, Post
from bot.core.clock import Clock, read_system_time
from bot.core.errors import ChatError, ChatUnavailableError
from bot.core.records import ApprovalState, EffectState, OpenCard
from bot.core.work_items import ButtonPressed, RefreshCard, build_show_lane
from tests.harness.lab import DM, TODAY, Edges, Lab, Said, every_edge
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK, withdraw
from tools.spec import EffectUnknownError
from tools.workflow.engine.state import Delegation

DOWN = ChatUnavailableError("unreachable", "chat.update")
GONE = ChatError("message_not_found", "chat.update")
LEAVE = calls(("start_process", {"process": "leave", "form": SICK}))
ASK = calls(("decide_task", {"task_id": "L-0001-1"}))
DAY = timedelta(days=1)
THERE = DM.model_copy(update={"channel": "C1", "direct": False})


def patient(lab: Lab) -> Lab:
    """The platform is tried again at once."""
    lab.dispatch = replace(lab.dispatch, away_ms=0)
    return lab


async def proposed(redis: Redis) -> Lab:
    """A mail that waits for its sender."""
    lab = patient(Lab(redis, [mail(), DONE]))
    await lab.says("发邮件")
    await lab.work()
    return lab


async def assigned(redis: Redis) -> Lab:
    """A request that Li Si has a card for."""
    lab = patient(Lab(redis, [LEAVE, DONE]))
    await lab.says("请假")
    await lab.work()
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert len(lab.wall.cards("DU2")) == 1
    return lab


async def behind(redis: Redis) -> list[str]:
    """Items that were put to let copies catch up."""
    return [str(key) async for key in redis.scan_iter("*:dd:show:*")]


def buttons(lab: Lab, channel: str = DM.channel) -> set[str]:
    return {button.choice for card in lab.wall.cards(channel) for button in card.buttons}


# The platform is away


@pytest.mark.parametrize("times", [1, 2, 3, 7])
async def test_a_decision_that_cannot_be_shown_is_carried_out_once_and_shown_later(redis: Redis, times: int) -> None:
    lab = await proposed(redis)
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * times
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    approval = await lab.approval()
    assert approval.effect is EffectState.DONE and len(lab.mailer.mails) == 1
    assert not lab.wall.cards()
    assert lab.wall.keys()[-1].endswith(":final")


async def test_without_catching_up_it_keeps_its_buttons(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    monkeypatch.setattr(ApprovalLifecycle, "build_refresh_request", lambda *_: ())
    lab = await proposed(redis)
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * 2
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.DONE
    assert buttons(lab) == {"send", "edit", "cancel"}, "for ever"


async def test_when_all_is_well_nothing_has_to_catch_up(redis: Redis) -> None:
    lab = await proposed(redis)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert await behind(redis) == []


async def test_a_copy_that_is_gone_is_no_reason_to_stop_or_to_come_back(redis: Redis) -> None:
    lab = await proposed(redis)
    lab.wall.fails[f"edit {DM.channel}"] = [GONE] * 9
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.DONE and await behind(redis) == []


async def test_killed_anywhere_while_the_platform_is_away_there_is_no_button_left(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = await proposed(redis)
        lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * 4
        lab.wall.edge = lab.lanes.edge = edges
        await lab.presses(lab.wall.cards()[0], "send")
        await lab.work()
        approval = await lab.approval()
        assert approval.effect in (EffectState.DONE, EffectState.UNKNOWN)
        left = {"happened", "redo"} if approval.effect is EffectState.UNKNOWN else set()
        assert buttons(lab) == left and len(lab.mailer.mails) <= 1

    assert await every_edge(play) > 10


async def test_an_unknown_effect_gets_its_buttons_though_the_platform_was_away(redis: Redis) -> None:
    lab = await proposed(redis)
    lab.mailer.failing = EffectUnknownError("away")
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * 5
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.UNKNOWN
    assert buttons(lab) == {"happened", "redo"}


async def test_what_is_shown_later_is_how_it_stands_then(redis: Redis) -> None:
    """Edited while the platform was away, and sent before the edit could be shown."""
    lab = await proposed(redis)
    [card] = lab.wall.cards()
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * 2
    await lab.presses(card, "edit", form={"subject": "x", "body": "something else"})
    fresh = replace(card, buttons=tuple(replace(button, version=2, seal="") for button in card.buttons))
    await lab.presses(fresh, "cancel")
    await lab.work()
    assert (await lab.approval()).state is ApprovalState.CANCELLED
    assert not lab.wall.cards() and "something else" in str(lab.wall.said)


async def test_a_card_that_expires_while_the_platform_is_away(redis: Redis) -> None:
    lab = await assigned(redis)
    lab.wall.fails["edit DU2"] = [DOWN] * 3
    [card] = lab.wall.cards("DU2")
    await lab.lanes.enqueue(card.buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    await lab.work()
    assert buttons(lab, "DU2") == {"again"} and buttons(lab, "DU1") == {"again"}


async def test_a_card_whose_matter_ends_elsewhere_while_the_platform_is_away(redis: Redis) -> None:
    lab = await assigned(redis)
    lab.wall.fails["edit DU2"] = [DOWN] * 3
    await withdraw(lab.engine, "L-0001", "U1")
    await lab.work()
    assert not lab.wall.cards("DU2")


async def test_an_older_copy_points_to_the_newer_one_also_when_that_had_to_wait(redis: Redis) -> None:
    lab = await assigned(redis)
    lab.model.script += [ASK]
    lab.wall.fails["edit DU2"] = [DOWN] * 3
    approval = lab.wall.cards("DU2")[0].buttons[0].approval
    await lab.says("L-0001 的卡片呢", person="U2", id="Ev2", place=THERE)
    await lab.work()
    old, new = [said.post.card for said in lab.wall.said if said.place.channel == "DU2"]
    assert old is not None and new is not None and not old.buttons and new.buttons
    kept = await lab.approvals.load_approval(approval)
    assert kept is not None and [ref.ts for reader, ref in kept.copies if reader == "U2"] == [
        str(len(lab.wall.said) - 1)
    ], "what points to the newer one is not written again"


async def test_a_press_that_comes_before_the_older_copy_points_to_the_newer_one(redis: Redis) -> None:
    lab = await assigned(redis)
    lab.model.script += [ASK, DONE]
    lab.wall.fails["edit DU2"] = [DOWN] * 3
    await lab.says("L-0001 的卡片呢", person="U2", id="Ev2", place=THERE)
    old = lab.wall.cards("DU2")[0]
    await lab.work()
    lab.wall.fails["edit DU2"] = [DOWN] * 3
    await lab.presses(old, "approve", person="U2")
    await lab.work()
    assert not lab.wall.cards("DU2")


async def test_directory_away_after_the_effect_leaves_no_doubt_about_it(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are looked up too when a card is rewritten."""
    lab = await proposed(redis)
    get, away = lab.staff.find_person, [DOWN] * 3

    async def forgetful(person: str) -> object:
        if lab.mailer.mails and away:
            raise away.pop()
        return await get(person)

    monkeypatch.setattr(lab.staff, "find_person", forgetful)
    await lab.presses(lab.wall.cards()[0], "send")
    await lab.work()
    assert (await lab.approval()).effect is EffectState.DONE and not away
    assert len(lab.mailer.mails) == 1 and not lab.wall.cards()


async def test_after_an_hour_away_it_is_given_up_and_the_next_press_puts_it_right(redis: Redis) -> None:
    lab = await proposed(redis)
    [card] = lab.wall.cards()
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * 2
    await lab.presses(card, "send")
    ahead = timedelta(milliseconds=AWAY_MAX_MS + 1)
    later = Clock(read_now=lambda: read_system_time() + ahead)
    lab.dispatch = replace(lab.dispatch, clock=later)
    lab.wall.fails[f"edit {DM.channel}"] += [DOWN] * lab.lanes.max_tries
    await lab.work()
    assert "item.dead" in await lab.kinds() and buttons(lab) == {"send", "edit", "cancel"}
    at = MessageRef(
        channel=DM.channel, ts=next(str(n) for n, said in enumerate(lab.wall.said) if said.post.card is card)
    )
    await lab.presses(card, "send", id="soon", at=at)
    await lab.work()
    assert lab.wall.cards(), "just decided: whoever presses now was only late"
    lab.ahead = timedelta(milliseconds=SETTLED_MS + 1)
    await lab.presses(card, "send", id="later", at=at)
    await lab.work()
    assert not lab.wall.cards() and len(lab.mailer.mails) == 1


# Several who may decide


async def asked_for(redis: Redis, *unreachable: str) -> Lab:
    """A card of which Li Si and Wang Wu can each decide."""
    lab = await assigned(redis)
    approval = await lab.approvals.load_approval(lab.wall.cards("DU2")[0].buttons[0].approval)
    assert approval is not None
    plan = approval.proposal.model_copy(update={"deciders": ("U2", "U3")})
    ask = OpenCard(approval="A00both", tool="decide_task", gate=approval.gate, proposal=plan, caller="", place=None)
    for person in unreachable:
        lab.wall.fails[f"D{person}"] = [GONE] * 20
    await lab.lanes.enqueue(ask.approval, "x", ask.model_dump_json())
    await lab.work()
    return lab


def bearing(lab: Lab, channel: str) -> list[Card]:
    return [card for card in lab.wall.cards(channel) if card.buttons[0].approval == "A00both"]


@pytest.mark.parametrize(("unreachable", "reached"), [("U2", "U3"), ("U3", "U2")])
async def test_who_cannot_be_reached_keeps_the_card_from_nobody_else(
    redis: Redis, unreachable: str, reached: str
) -> None:
    lab = await asked_for(redis, unreachable)
    approval = await lab.approvals.load_approval("A00both")
    assert approval is not None and [reader for reader, _ in approval.copies] == [reached]
    assert len(bearing(lab, f"D{reached}")) == 1 and "item.dead" not in await lab.kinds()


async def test_when_nobody_can_be_reached_whoever_waits_hears_of_it(redis: Redis) -> None:
    lab = await asked_for(redis, "U2", "U3")
    assert "item.dead" in await lab.kinds() and any("送不到" in text for text in lab.wall.texts())


# A copy that nobody knows of: its process was held up, and posted it when another one had done so


def copied(lab: Lab, card: Card, channel: str = DM.channel) -> MessageRef:
    """The same card, posted once more."""
    place = DM.model_copy(update={"channel": channel})
    lab.wall.said.append(Said(place, "copy", Post("card", card=card)))
    return MessageRef(channel=channel, ts=str(len(lab.wall.said) - 1))


Press = Callable[[Lab, Card, MessageRef], Awaitable[None]]


async def on_the_copy(lab: Lab, card: Card, copy: MessageRef) -> None:
    await lab.presses(card, "send", at=copy)
    await lab.work()


async def on_the_card_then_the_copy(lab: Lab, card: Card, copy: MessageRef) -> None:
    await lab.presses(card, "send")
    await lab.work()
    assert lab.wall.cards(), "only the copy"
    await lab.presses(card, "send", id="late", at=copy)
    await lab.work()


@pytest.mark.parametrize("press", [on_the_copy, on_the_card_then_the_copy])
@pytest.mark.parametrize("away", [0, 4])
async def test_after_a_press_an_unknown_copy_has_no_buttons(redis: Redis, press: Press, away: int) -> None:
    lab = await proposed(redis)
    [card] = lab.wall.cards()
    copy = copied(lab, card)
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN] * away
    await press(lab, card, copy)
    assert not lab.wall.cards() and len(lab.mailer.mails) == 1
    assert copy not in [ref for _, ref in (await lab.approval()).copies]


async def test_without_knowing_what_was_pressed_the_copy_stays_as_it_was(redis: Redis) -> None:
    """The negative control."""
    lab = await proposed(redis)
    [card] = lab.wall.cards()
    copied(lab, card)
    await lab.presses(card, "send")
    await lab.work()
    await lab.presses(card, "send", id="late")
    await lab.work()
    assert len(lab.wall.cards()) == 1


async def test_a_message_where_the_card_does_not_belong_is_left_alone(redis: Redis) -> None:
    """Nobody gets to see a card that is not theirs by pressing."""
    lab = await proposed(redis)
    [card] = lab.wall.cards()
    copy = copied(lab, replace(card, body="theirs"), "DU3")
    await lab.presses(card, "send", person="U3", at=copy)
    await lab.work()
    assert lab.wall.said[int(copy.ts)].post.card == replace(card, body="theirs") and not lab.mailer.mails


@pytest.mark.parametrize(
    ("person", "channel", "is_theirs"),
    [
        ("U2", "DU2", True),
        ("U5", "DU5", True),
        ("U1", "DU1", True),
        ("U4", "DU4", True),
        ("U3", "DU3", False),
        ("U2", "DU3", False),
    ],
)
async def test_an_unknown_copy_is_put_right_for_those_whom_the_card_concerns_and_where_they_press(
    redis: Redis, person: str, channel: str, is_theirs: bool
) -> None:
    """Who decides, who stands in for them, whose request it is, and who has asked for it; nobody else, and no message
    of another conversation."""
    lab = await assigned(redis)
    away = Delegation(id="D1", person="U2", deputy="U5", start=TODAY - DAY, end=TODAY + DAY)
    await lab.engine.add_delegation(away, lab.today())
    asked = await lab.approvals.load_approval(lab.wall.cards("DU2")[0].buttons[0].approval)
    assert asked is not None
    ask = OpenCard(
        approval="A00both", tool=asked.tool, gate=asked.gate, proposal=asked.proposal, caller="U4", place=None
    )
    await lab.lanes.enqueue(ask.approval, "x", ask.model_dump_json())
    await lab.work()
    copy = copied(lab, bearing(lab, "DU2")[0], channel)
    before, place = lab.wall.said[int(copy.ts)].post, DM.model_copy(update={"channel": f"D{person}"})
    late = Click(id="p", approval="A00both", version=0, choice="approve", person=person, place=place, card=copy)
    await lab.lanes.enqueue("A00both", "p", ButtonPressed(click=late).model_dump_json())
    await lab.work()
    assert len(lab.wall.whispers) == 1, "refused either way: the button is older than the card"
    assert (lab.wall.said[int(copy.ts)].post != before) is is_theirs


async def test_a_record_changed_by_a_decision_is_not_overwritten_by_showing_it(redis: Redis) -> None:
    """Taken back in chat while its copies catch up: the decision is made outside the lane."""
    lab = await proposed(redis)
    approval = await lab.approval()
    await lab.lanes.enqueue(approval.id, "show:x", RefreshCard().model_dump_json())
    [lease] = await lab.lanes.claim("p", lab.keys.get_partition(approval.id), 1)
    writes = await lab.dispatch.handle_item(lease)
    await lab.approvals.decide_cancellation(approval, "U1", 0)
    await lease.commit(*writes)
    assert (await lab.approval()).state is ApprovalState.CANCELLED


async def test_of_several_items_that_catch_up_the_last_one_rewrites(redis: Redis) -> None:
    lab = await proposed(redis)
    approval = await lab.approval()
    for number in range(3):
        work = RefreshCard(approval=approval.id)
        await lab.lanes.enqueue(build_show_lane(approval.id), f"show:{number}", work.model_dump_json())
    await lab.work()
    assert len(lab.wall.edits) == 1


async def test_an_item_that_an_earlier_version_has_put_into_the_cards_own_lane_is_done(redis: Redis) -> None:
    lab = await proposed(redis)
    approval = await lab.approval()
    await lab.lanes.enqueue(approval.id, "show:x", json.dumps({"v": 1, "kind": "refresh_card"}))
    await lab.work()
    assert len(lab.wall.edits) == 1


async def test_while_an_item_catches_up_nobody_else_rewrites_the_card(redis: Redis) -> None:
    """Or its older state could come last."""
    lab = await proposed(redis)
    approval = await lab.approval()
    work = RefreshCard(approval=approval.id)
    await lab.lanes.enqueue(build_show_lane(approval.id), "show:x", work.model_dump_json())
    shown = await lab.ends.card_delivery.update_copies(approval)
    assert shown.is_outdated and not lab.wall.edits
    await lab.work()
    assert len(lab.wall.edits) == 1 and not (await lab.ends.card_delivery.update_copies(approval)).is_outdated
