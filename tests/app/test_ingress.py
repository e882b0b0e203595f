"""What platforms hand in is durable, or answered, when they are told so: each condition by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.ingress import CardActions, LaneIngress
from bot.chat.messages import Click, Message, Place
from bot.core.i18n import translate
from bot.core.records import ApprovalState
from bot.queue.lanes import Lanes
from bot.queue.overflow import LaneOverflows
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import StoreWatch
from bot.queue.worker import Worker
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.homes import build_home_parts
from tests.harness.lab import DM, Lab
from tests.stories.script import DONE, mail
from tests.tools.company import ZHANG
from tests.tools.office import SICK

HELLO = Message(id="Ev1", place=DM, person="U1", text="hello", at="1.0")
THERE = DM.model_copy(update={"channel": "C1", "direct": False, "thread": "9.0"})


def build_ingress(lab: Lab, cap: int = 100) -> LaneIngress:
    lanes = Lanes(lab.redis, lab.keys, cap=cap)
    return LaneIngress(
        worker=Worker(lanes, lab.dispatch, bury=DeadLetterStore(lab.redis, lab.keys).build_bury_writes),
        lanes=lanes,
        watch=StoreWatch(scripts=ScriptRunner.from_redis(lab.redis, lab.keys), keys=lab.keys),
        dialogs=lab.dialogs,
        approval_sets=lab.sets,
        home_builder=build_home_parts(lab)[0],
        home_actions=build_home_parts(lab)[1],
        history=lab.history,
        runs=lab.runs,
        delivery=lab.telling,
        directory=lab.staff,
        overflows=LaneOverflows(lab.redis, lab.keys),
        journal=lab.journal,
        request_forms=lab.dispatch.handlers.request_forms,
        welcomer=lab.dispatch.handlers.welcomer,
    )


async def wait_for_next_millisecond(redis: Redis) -> None:
    """By Redis's clock: a stop concerns what was put before its own millisecond."""
    began = (await redis.time())[1] // 1000
    while (await redis.time())[1] // 1000 == began:
        pass


# Messages


async def test_a_message_is_taken_once_under_each_of_its_names(redis: Redis) -> None:
    lab = Lab(redis, [DONE, DONE])
    intake = build_ingress(lab)
    await intake.accept_message(HELLO, aliases=("slack:DU1:1.0",))
    await intake.accept_message(HELLO.model_copy(update={"id": "Ev2"}), aliases=("slack:DU1:1.0",))
    await intake.accept_message(HELLO)
    await lab.work()
    assert lab.wall.texts() == ["好的。"] and len(lab.model.requests) == 1
    assert "lane.full" not in await lab.kinds()


async def test_a_message_belongs_to_its_person_who_can_stop_it(redis: Redis) -> None:
    """And nobody else but an administrator."""
    for stopper, stops in (("U1", True), ("U2", False), ("U8", True), ("U9", False)):
        await redis.flushall()
        lab = Lab(redis, [DONE])
        lab.staff.known.append(ZHANG.model_copy(update={"id": "U8", "roles": frozenset({"admin"})}))
        intake = build_ingress(lab)
        await intake.accept_message(HELLO)
        assert [key async for key in redis.scan_iter("*:due:*")] == [
            lab.keys.build_key(lab.keys.get_partition(DM.conversation), "due", "U1")
        ]
        await wait_for_next_millisecond(redis)
        await intake.stop_conversation(DM, stopper, "9999999999.0")
        await lab.work()
        assert (lab.model.requests == []) is stops, stopper


@pytest.mark.parametrize(("text", "stops"), [("停", True), ("stop", True), ("停车费怎么报销", False)])
async def test_a_word_that_stops_is_known(redis: Redis, text: str, stops: bool) -> None:
    assert build_ingress(Lab(redis)).is_stop_word(text) is stops


async def test_what_is_not_taken_is_told_once_and_so_is_the_end(redis: Redis) -> None:
    lab = Lab(redis)
    intake = build_ingress(lab, cap=0)
    other = HELLO.model_copy(update={"id": "Ev2"})
    for message in (HELLO, other, HELLO):
        await intake.accept_message(message)
    full = translate("turn.full", "zh")
    assert [(one.post.text, one.key) for one in lab.wall.said] == [(full, "Ev1:full")]
    [record] = [one async for one in lab.journal.stream_records(kinds={"lane.full"}) if one][:1]
    assert (record.person, record.channel) == ("U1", DM.channel)
    await lab.work()
    assert lab.wall.texts()[1:] == [translate("turn.caught_up", "zh")] and lab.model.requests == []
    await intake.accept_message(HELLO.model_copy(update={"id": "Ev3"}))
    assert lab.wall.texts()[2:] == [full], "the next overflow is another"


# Whether the bot is at work in a thread


async def test_it_is_engaged_while_it_works_remembers_or_waits_and_else_it_is_not(redis: Redis) -> None:
    lab = Lab(redis, [DONE, mail()])
    intake = build_ingress(lab)
    assert not await intake.is_engaged(THERE)
    await lab.says("hello", place=THERE)
    assert await intake.is_engaged(THERE), "at work"
    await lab.work()
    assert await intake.is_engaged(THERE), "remembers"
    other = THERE.model_copy(update={"thread": "8.0"})
    await lab.says("发邮件", place=other, id="Ev2")
    await lab.work()
    assert (await lab.runs.load_conversation(other.conversation, lab.history)).waiting
    await redis.delete(*[key async for key in redis.scan_iter("*:h:*") if other.conversation in key])
    assert not (await lab.runs.load_conversation(other.conversation, lab.history)).history
    assert await intake.is_engaged(other), "waits"


# Presses and dialogs


async def test_a_press_goes_to_the_lane_of_its_card(redis: Redis) -> None:
    lab = Lab(redis, [mail(), DONE])
    await lab.says("发邮件")
    await lab.work()
    card = (await lab.approval()).id
    await build_ingress(lab).accept_click(Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM))
    assert len(lab.mailer.mails) == 0
    await lab.work()
    assert len(lab.mailer.mails) == 1


async def test_dialogs_and_the_home_tab_are_answered(redis: Redis) -> None:
    lab = Lab(redis)
    intake = build_ingress(lab)
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    card = (await lab.approval()).id
    place = Place(team="T1", channel="DU2", direct=True)
    click = Click(id="p", approval=card, version=1, choice="transfer", person="U2", place=place)
    dialog = await intake.build_dialog(click)
    assert dialog is not None and dialog.choice == "transfer"
    assert await intake.check_dialog(click.with_form({"person": "nobody", "opinion": ""}))
    assert await intake.check_dialog(click.with_form({"person": "U3", "opinion": ""})) == {}
    home = await intake.build_home("U2")
    assert home is not None and "L-0001" in json.dumps(home, default=str, ensure_ascii=False)


# Taking a card back


async def propose(redis: Redis) -> tuple[Lab, str, CardActions]:
    lab = Lab(redis, [mail(), DONE])
    await lab.says("发邮件")
    await lab.work()
    return lab, (await lab.approval()).id, CardActions(lanes=lab.lanes, approvals=lab.approvals, clock=lab.clock)


async def test_a_card_is_taken_back_once_by_who_proposed_it(redis: Redis) -> None:
    lab, card, canceller = await propose(redis)
    assert await canceller.cancel_card("A00x", "U1") is False
    assert await canceller.cancel_card(card, "U2") is False
    assert (await lab.approval()).state is ApprovalState.OPEN
    assert await canceller.cancel_card(card, "U1") is True
    assert await canceller.cancel_card(card, "U1") is False, "it is over"
    await lab.work()
    assert (await lab.approval()).state is ApprovalState.CANCELLED and not lab.wall.cards()


async def test_what_was_pressed_first_is_not_taken_back(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, card, canceller = await propose(redis)
    enqueue = lab.lanes.enqueue

    async def be_second(lane: str, id: str, body: str) -> Any:
        click = Click(id="p", approval=card, version=1, choice="send", person="U1", place=DM)
        decided = lab.approvals.build_decide_write(click, ends=ApprovalState.DECIDED, now_ms=0)
        assert await apply_writes(redis, lab.keys, lab.keys.get_partition(card), [decided]) == "ok"
        return await enqueue(lane, id, body)

    monkeypatch.setattr(lab.lanes, "enqueue", be_second)
    assert await canceller.cancel_card(card, "U1") is False
