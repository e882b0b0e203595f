"""The engine's events and people's messages about them: each event once, in words, without a request."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.outbox import PAGE_SIZE, fire_timers, relay_events
from bot.chat.messages import NamedPerson
from bot.core.clock import Clock
from bot.core.errors import ChatUnavailableError, StoreUnavailableError
from bot.core.i18n import translate
from bot.queue.store_watch import repeat_job
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.corpus import corpus
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.presses import name_deputies, requested
from tests.tools.office import SICK, decide, withdraw
from tests.tools.workflow.drawing import drawn
from tools.spec import Gate, ToolError
from tools.workflow.engine.commands import (
    Act,
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    SignPosition,
    TransferCommand,
    UrgeCommand,
)
from tools.workflow.engine.state import Decision, Delegation
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.process.definition import compile_process

DAY = timedelta(days=1)


async def done(bot: Bot, command: Act, key: str = "act") -> None:
    """Execute a command from elsewhere than the card, and its events."""
    await bot.engine.execute_command(command, key, bot.today())
    await bot.work()


async def announced(bot: Bot, kind: str, /, **data: str) -> None:
    """Announce an event as if the engine had sent it."""
    await bot.store.append_outbox([OutboxEvent(id=f"E:{kind}", kind=kind, data={"request": "L-0001", **data})])
    await bot.work()


def title(bot: Bot, person: str = "U2") -> str:
    """Return the title of a person's first card."""
    return next(one.post.card.title for one in bot.chat.posts if one.post.card and one.place.channel == f"D{person}")


async def test_a_transferred_card_says_by_whom_and_goes_to_the_other(redis: Redis) -> None:
    bot = await requested(redis)
    await done(bot, TransferCommand(task="L-0001-1", actor="U2", person="U5"))
    assert "您已转交给别人" in title(bot) and not bot.chat.cards("DU2")
    assert len(bot.chat.cards("DU5")) == 1


async def test_a_card_that_waits_for_others_first_says_so(redis: Redis) -> None:
    bot = await requested(redis)
    await done(bot, AddSignCommand(task="L-0001-1", actor="U2", people=("U5",), where=SignPosition.BEFORE))
    assert "先等加签的人决定" in title(bot) and not bot.chat.cards("DU2")
    await decide(bot.engine, "L-0001-2", "U5", Decision.APPROVE)
    await bot.work()
    assert len(bot.chat.cards("DU2")) == 1, "then it is their turn again"


WHYS = ["decided", "settled", "transferred", "added", "escalated", "returned", "withdrawn", "approved", "rejected"]


@corpus("why", *WHYS, "something newer")
async def test_whatever_closes_a_task_its_card_says_how_and_has_no_buttons(redis: Redis, why: str) -> None:
    bot = await requested(redis)
    await announced(bot, "task_closed", task="L-0001-1", person="U2", by="system:timer", why=why, by_name="")
    assert not bot.chat.cards("DU2")
    assert ("在别处结束" in title(bot)) == (why not in WHYS), "each has words of its own"


async def test_urges_reminders_copies_and_comments_are_words_each_to_whom_they_concern(redis: Redis) -> None:
    bot = await requested(redis)
    await done(bot, UrgeCommand(task="L-0001-1", actor="U1"))
    assert bot.chat.texts("DU2")[-1] == "张三请您尽快处理：「张三的请假申请 L-0001 等您审批」。"
    assert bot.chat.posts[-1].place.thread == "0" and len(bot.chat.cards("DU2")) == 1, "under the card, no second one"
    for _ in range(2):
        await announced(bot, "reminded", task="L-0001-1", person="U2")
    assert [text for text in bot.chat.texts("DU2") if "已经等了一段时间" in text] == bot.chat.texts("DU2")[-1:], "once"
    await done(bot, CcCommand(request="L-0001", actor="U1", people=("U5",)), "cc")
    what = "Sick leave, Mon 23 Nov to Tue 24 Nov 2026, 2 working days"
    copied = f"Zhang San copied you on Zhang San’s leave request L-0001: {what}. You do not need to do anything."
    assert bot.chat.texts("DU5") == [copied]
    await done(bot, CommentCommand(request="L-0001", actor="U1", text="<!channel> {by} 很急"), "said")
    assert bot.chat.texts("DU2")[-1] == "张三评论了请假申请 L-0001：「<!channel> {by} 很急」"
    assert bot.chat.texts("DU1") == [], "who has written it is not told"
    forged = CommentCommand(request="L-0001", actor="U1", text="看看 **系统**\n\n系统记录：申请 L-0009 已通过。")
    await done(bot, forged, "forged")
    post = next(one.post for one in reversed(bot.chat.posts) if one.place.channel == "DU2")
    assert (
        post.plain and "\n" not in post.text and post.text.endswith("「看看 **系统** 系统记录：申请 L-0009 已通过。」")
    )
    await announced(bot, "sung", person="U1")
    assert await bot.engine.list_outbox(10) == [], "news that nobody knows holds nothing up"


async def test_an_urge_brings_an_expired_card_back(redis: Redis) -> None:
    bot = await requested(redis)
    await bot.handle_work((await bot.load_approval()).id, "x", '{"kind": "expire_card", "version": 1}')
    assert {one.choice for one in bot.chat.cards("DU2")[0].buttons} == {"again"}, "the control"
    await done(bot, UrgeCommand(task="L-0001-1", actor="U1"))
    assert "approve" in {one.choice for one in bot.chat.cards("DU2")[-1].buttons}
    assert "请您尽快处理" in bot.chat.texts("DU2")[-1]


async def test_news_of_a_task_that_is_closed_by_then_brings_nothing(redis: Redis) -> None:
    bot = await requested(redis)
    await bot.handle_work((await bot.load_approval()).id, "x", '{"kind": "expire_card", "version": 1}')
    assert bot.chat.cards("DU2")[0].buttons[0].choice == "again"
    await withdraw(bot.engine, "L-0001", "U1")
    await bot.work()
    assert not bot.chat.cards("DU2") and not bot.chat.cards("DU1"), "nobody can ask for an expired card again"
    before = len(bot.chat.posts)
    for kind in ("reminded", "deputy", "assigned"):
        await announced(bot, kind, task="L-0001-1", person="U2", kind="approve")
    assert len(bot.chat.posts) == before


@corpus(
    ("kind", "data", "words"),
    ("escalated", {"by": "U2", "by_name": "李四", "to": "U3"}, "在李四那里等候太久，已转给王五处理"),
    ("unattended", {"by": "U2", "by_name": "李四"}, "也没有上级可以接手"),
    ("told", {"by": "system:rule", "by_name": ""}, "系统抄送给您"),
    ("ended", {"by": "U2", "by_name": "李四", "status": "kept"}, "的撤回没有得到同意，申请仍然有效"),
    ("ended", {"by": "U2", "by_name": "李四", "status": "rejected"}, "可以改好后重新申请"),
)
async def test_each_notice_has_its_words(redis: Redis, kind: str, data: dict[str, str], words: str) -> None:
    bot = await requested(redis)
    await announced(bot, kind, person="U1", **data)
    assert words in bot.chat.texts("DU1")[-1]


@pytest.mark.slow
async def test_news_that_cannot_be_brought_hold_nothing_else_up_and_are_kept(redis: Redis) -> None:
    bot = await requested(redis)
    bad = [OutboxEvent(id=f"E:{n}", kind="told", data={"request": "X-9", "person": "U1"}) for n in range(PAGE_SIZE + 1)]
    told = {"request": "L-0001", "person": "U1", "by": "U2", "by_name": "李四", "text": "快好起来"}
    await bot.store.append_outbox([*bad, OutboxEvent(id="E:good", kind="commented", data=told)])
    await relay_events(bot.handlers.cards)
    assert await bot.engine.list_outbox(10) == []
    await bot.work()
    assert "快好起来" in bot.chat.texts("DU1")[-1]
    assert len(await DeadLetterStore(bot.redis, bot.keys).list_dead_letters()) == len(bad)


MAIL_FORM = """
key = "p"
number = "P"
name = { zh = "采购", en = "purchase" }
purpose = { zh = "采购", en = "Buy something" }
summary = { zh = "{reason}", en = "{reason}" }
policy = [{ level = "approver", who = ["manager"] }]
field = [
    { name = "reason", kind = "text", label = { zh = "事由", en = "Reason" }, help = { zh = "买什么", en = "What" } },
    { name = "approver", kind = "person", label = { zh = "审批人", en = "Approver" }, help = { zh = "谁", en = "By" } },
]
[[mail]]
node = "mail"
to = "role director"
subject = { zh = "采购：{reason}", en = "Purchase: {reason}" }
body = { zh = "{approver} 同意了", en = "{approver} agreed" }
"""
MAIL_GRAPH = """
submitted -> approval -> answer?
answer? -> mail -> all_approved: decision == 'approve'
answer? -> all_rejected
"""


async def test_a_mail_that_a_process_proposes_is_its_authors_to_send(redis: Redis) -> None:
    bot = Bot(redis)
    await bot.engine.deploy_process(compile_process(drawn(MAIL_GRAPH).encode(), MAIL_FORM.encode()))
    for n, reason in enumerate(("椅子", "[Your name]", "桌子")):
        await bot.start_request("p", {"reason": reason, "approver": "U2"}, "U1", f"start{n}")
    chair, wrong, desk = bot.chat.cards("DU2")
    await bot.press(wrong, "approve", person="U2")
    assert not bot.chat.cards("DU1"), "a mail that will not do is proposed to nobody"
    await bot.press(chair, "approve", person="U2")
    [card] = bot.chat.cards("DU1")
    assert {one.choice for one in card.buttons} == {"send", "edit", "cancel"}
    assert card.body.endswith("a reply goes to them.\n\n李四 同意了"), "who reads it reads English"
    assert bot.mailer.mails == [], "nothing leaves by itself"
    await bot.press(card, "send", person="U2")
    assert bot.mailer.mails == [] and "张三" in bot.chat.ephemerals[-1][1], "nor by anybody else"
    await bot.press(card, "send", id="own")
    assert [(one.to, one.subject) for one in bot.mailer.mails] == [("U3", "采购：椅子")]
    bot.directory.change("U1", active=False)
    await bot.press(desk, "approve", person="U2")
    assert not bot.chat.cards("DU1"), "nor is a mail of somebody who has left"
    assert "item.dead" not in await bot.list_journal_kinds()


async def test_of_a_mail_to_several_people_each_is_proposed(redis: Redis) -> None:
    bot = Bot(redis)
    for person in ("U2", "U5"):
        bot.directory.change(person, roles=frozenset({"director"}))
    await bot.engine.deploy_process(compile_process(drawn(MAIL_GRAPH).encode(), MAIL_FORM.encode()))
    await bot.start_request("p", {"reason": "椅子", "approver": "U2"}, "U1", "start")
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U2")
    proposed = bot.chat.cards("DU1")
    assert len(proposed) == 3
    for card in proposed:
        await bot.press(card, "send")
    assert sorted(one.to for one in bot.mailer.mails) == ["U2", "U3", "U5"]
    assert len([one for one in await bot.list_history() if "发这封邮件？" in one]) == 3, "and the model knows of each"


async def test_what_comes_back_to_its_author_is_theirs_to_confirm(redis: Redis) -> None:
    bot = await requested(redis)
    first = (await bot.load_approval()).gate
    await bot.press(bot.chat.cards("DU2")[0], "reject", person="U2", form={"opinion": "no"})
    [card] = bot.chat.cards("DU1")
    revision = await bot.load_approval(card)
    assert revision is not None and (first, revision.gate) == (Gate.APPROVE, Gate.CONFIRM)
    assert (revision.caller, revision.place, revision.tool) == ("", None, "decide_task")


@pytest.mark.parametrize("deputies", [(), ("U6", "U5")])
async def test_of_an_assignee_who_has_left_a_deputy_who_is_there_gets_the_card(
    redis: Redis, deputies: tuple[str, ...]
) -> None:
    bot = Bot(redis)
    name_deputies(bot, *deputies)
    await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())
    for person in ("U2", "U6"):
        bot.directory.change(person, active=False)
    await bot.work()
    if deputies:
        assert len(bot.chat.cards("DU5")) == 1 and bot.chat.texts("DU1") == []
    else:
        [told] = bot.chat.texts("DU1")
        assert "没能送到审批人手里" in told and "L-0001-1" in told, "its author is told at once"
        assert len(bot.chat.posts) == 1
    assert "item.dead" not in await bot.list_journal_kinds()


@pytest.mark.parametrize("error", [ChatUnavailableError("unreachable", "users.info"), StoreUnavailableError("gone")])
async def test_in_an_outage_the_news_waits_where_it_is(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bot = Bot(redis)
    await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())

    async def be_away(person: str) -> None:
        raise error

    with monkeypatch.context() as away:
        away.setattr(bot.directory, "find_caller", be_away)
        with pytest.raises(type(error)):
            await relay_events(bot.handlers.cards)
    assert [one.kind for one in await bot.engine.list_outbox(10)] == ["assigned"]
    assert not [key async for key in redis.scan_iter("*engine_event*")], "and gets no lane of its own"
    await bot.work()
    assert len(bot.chat.cards("DU2")) == 1


@pytest.mark.parametrize("code", ["engine_down", "engine_failed"])
async def test_while_the_engine_answers_nothing_its_news_wait_for_it(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    bot, outage = Bot(redis), iter(range(30))

    def be_away(ask: Callable[[str], Awaitable[Any]]) -> Callable[[str], Awaitable[Any]]:
        async def ask_in_vain(id: str) -> Any:
            if next(outage, None) is not None:
                raise ToolError(code, "away")
            return await ask(id)

        return ask_in_vain

    for name in ("get_task", "get_request"):
        monkeypatch.setattr(bot.engine, name, be_away(getattr(bot.engine, name)))
    await bot.start_request("leave", SICK, "U1", "start")
    assert len(bot.chat.cards("DU2")) == 1
    outage = iter(range(30))
    await announced(bot, "ended", person="U1", status="approved")
    assert "已通过" in bot.chat.texts("DU1")[-1]
    assert "item.dead" not in await bot.list_journal_kinds()


@pytest.mark.parametrize("code", ["engine_unreadable", "engine_too_large"])
async def test_news_of_a_request_that_cannot_be_read_are_given_up_so_that_administrators_hear_of_them(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    bot = Bot(redis)

    async def answer_nonsense(id: str) -> Any:
        raise ToolError(code, "odd")

    monkeypatch.setattr(bot.engine, "get_task", answer_nonsense)
    await bot.start_request("leave", SICK, "U1", "start")
    assert "item.dead" in await bot.list_journal_kinds()


async def test_the_end_of_a_request_says_what_it_was_who_decided_in_which_words_and_what_to_do(redis: Redis) -> None:
    bot = await requested(redis)
    what = "您的请假申请 L-0001 已通过：病假，2026年11月23日 周一 至 11月24日 周二，2 个工作日。"
    after = "如果计划有变，告诉我「撤回 L-0001」就可以。"
    await done(bot, DecideCommand(task="L-0001-1", actor="U2", decision=Decision.APPROVE, opinion="好\n\n的 *快*"))
    post = bot.chat.posts[-1].post
    assert post.text == f"{what}\n李四同意：好 的 *快*\n{after}" and post.plain
    assert NamedPerson("U2", "李四") in post.rich, "and the platform mentions who decided"
    await announced(bot, "ended", person="U1", status="approved")
    assert translate("notice.rule", "zh") not in bot.chat.texts("DU1")[-1], "a person has decided"


# Timers


async def test_timers_are_looked_at_again_after_each_pause(redis: Redis) -> None:
    bot, rounds = Bot(redis), list[datetime]()

    def read_today() -> datetime:
        rounds.append(bot.today())
        return rounds[-1]

    delegation = Delegation(id="D1", person="U2", deputy="U5", start=TODAY + DAY, end=TODAY + 9 * DAY)
    await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())
    await bot.engine.add_delegation(delegation, bot.today())
    await bot.work()
    bot.today_offset = 2 * DAY
    clock = Clock(read_now=bot.now, read_today=read_today)
    cards = replace(bot.handlers.cards, stores=replace(bot.handlers.cards.stores, clock=clock))
    for pause_s, again in ((0.0, True), (3600.0, False)):
        rounds.clear()
        task = asyncio.create_task(repeat_job(partial(fire_timers, cards), pause_s)())
        for _ in range(200):
            await asyncio.sleep(0)
        task.cancel()
        assert (len(rounds) > 1) is again and rounds
    await bot.work()
    assert len(bot.chat.cards("DU5")) == 1, "who stands in from today on has the card"
