"""The execution of a decided card: its record and display before the effect, and the report of its end."""

import asyncio
from collections import ChainMap
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals import press as press_module
from bot.core.errors import ChatUnavailableError
from bot.core.records import Approval, ApprovalState, EffectState, RunStatus
from bot.core.run_state import CallStatus
from bot.queue.worker import GIVE_UP_TRIES
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import DM, Killed
from tests.harness.presses import LEAVE, everywhere, proposed, rewrite
from tools.spec import EffectUnknownError, Person, ReceiptLine, TextRef, ToolError
from tools.workflow.engine.port import CommandResult

DOWN = ChatUnavailableError("unreachable", "chat")
MAYBE = ReceiptLine(text=TextRef(key="card.system"))


async def press(bot: Bot, choice: str, id: str = "") -> Approval:
    """Press a button of a version without a seal: its content is then checked at the execution too."""
    card = bot.chat.cards()[0]
    unsealed = replace(card, buttons=tuple(replace(one, seal="") for one in card.buttons))
    await bot.press(unsealed, choice, id=id)
    return await bot.load_approval()


# Before it runs


@dataclass
class LookingMailer(MemoryMailer):
    """A mailer that notes the card's state while it sends; `waits` until its buttons are gone."""

    bot: Bot | None = None
    waits: bool = False
    seen: list[Approval] = field(default_factory=list)

    async def send_mail(self, to: Person, *rest: str) -> None:
        assert self.bot is not None
        self.seen.append(await self.bot.load_approval())
        while self.waits and self.bot.chat.cards():
            await self.bot.work_beside()
            await asyncio.sleep(0.005)
        await super().send_mail(to, *rest)


async def test_a_mail_goes_out_when_it_is_on_record_as_begun(redis: Redis) -> None:
    bot = await proposed(redis)
    mailer = LookingMailer(bot=bot)
    object.__setattr__(bot.outside, "mailer", mailer)
    assert (await press(bot, "send")).effect is EffectState.DONE
    [seen] = mailer.seen
    assert (seen.state, seen.effect, seen.attempts) == (ApprovalState.DECIDED, EffectState.STARTED, 1)
    assert (seen.decided_by, seen.choice) == ("U1", "send")
    assert len(bot.chat.updates) == 1, "a card whose effect is quick is rewritten once"


@dataclass
class GreyMailer(MemoryMailer):
    """A mailer that refuses strangers that many times."""

    refusals: int = 1
    bot: Bot | None = None
    minutes_pass: bool = False
    leads: list[str] = field(default_factory=list)
    """The card's lead at the start of each try."""

    async def send_mail(self, to: Person, *rest: str) -> None:
        assert self.bot is not None
        if self.minutes_pass:
            await self.bot.work_beside()  # updates the card
        card = self.bot.chat.list_posts()[-1].post.card
        self.leads.append(card.lead if card else "")
        if len(self.leads) <= self.refusals:
            raise ToolError("mail_later", "greylisted", is_temporary=True, reply=450)
        await super().send_mail(to, *rest)


async def proposed_to_grey(redis: Redis, refusals: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Bot, GreyMailer]:
    bot = await proposed(redis)
    mailer = GreyMailer(bot=bot, refusals=refusals, minutes_pass=True)
    bot.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    object.__setattr__(bot.outside, "mailer", mailer)
    monkeypatch.setattr(press_module, "TRY_AGAIN_S", (0.02, 0.02))  # after the card is updated
    monkeypatch.setattr(press_module, "SHOWN_AFTER_S", 60)  # keeps a slow machine's delay off the card
    return bot, mailer


@pytest.mark.parametrize("refusals", [1, 2])
async def test_what_is_refused_for_now_is_tried_again_by_itself_and_said_so(
    redis: Redis, refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot, mailer = await proposed_to_grey(redis, refusals, monkeypatch)
    assert (await press(bot, "send")).effect is EffectState.DONE
    assert len(mailer.mails) == 1 and len(mailer.leads) == refusals + 1
    assert "450" in mailer.leads[-1] and "自动再试" in mailer.leads[-1]
    assert not any("自动再试" in card.lead for one in bot.chat.posts if (card := one.post.card))


async def test_what_is_refused_for_now_again_and_again_waits_for_a_press(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot, mailer = await proposed_to_grey(redis, 3, monkeypatch)
    approval = await press(bot, "send")
    assert (approval.effect, len(mailer.leads)) == (EffectState.FAILED, 3) and "450" in bot.chat.cards()[0].lead
    assert (await press(bot, "retry")).effect is EffectState.DONE and len(mailer.mails) == 1


async def test_killed_anywhere_between_two_tries_it_is_sent_once_or_said_to_be_unknown(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(press_module, "TRY_AGAIN_S", (0.0, 0.0))
    ends = set[EffectState]()

    async def act(bot: Bot) -> None:
        mailer = GreyMailer(bot=bot)
        object.__setattr__(bot.outside, "mailer", mailer)
        effect = (await press(bot, "send")).effect
        ends.add(effect)
        assert len(mailer.mails) == (effect is EffectState.DONE) or effect is EffectState.UNKNOWN
        assert len(mailer.mails) <= 1
        run = await bot.runs.load_run(bot.chat.keys()[-1].partition(":")[0])
        assert run is not None and run.state.calls[0].status in (CallStatus.SUCCEEDED, CallStatus.UNKNOWN)

    await everywhere(redis, lambda: proposed(redis), act)
    assert ends == {EffectState.DONE, EffectState.UNKNOWN}


async def test_what_takes_longer_has_no_buttons_meanwhile(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = await proposed(redis)
    monkeypatch.setattr(press_module, "SHOWN_AFTER_S", 0.01)
    bot.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    mailer = LookingMailer(bot=bot, waits=True)
    object.__setattr__(bot.outside, "mailer", mailer)
    assert (await asyncio.wait_for(press(bot, "send"), 10)).effect is EffectState.DONE
    assert len(mailer.mails) == 1 and len(bot.chat.updates) == 2


async def test_a_request_is_started_when_that_is_on_record(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = await proposed(redis, LEAVE)
    engine, seen = bot.tool_services.engine, list[EffectState]()
    start = engine.start_request

    async def look_and_start(*given: Any, **more: Any) -> CommandResult:
        seen.append((await bot.load_approval()).effect)
        return await start(*given, **more)

    monkeypatch.setattr(engine, "start_request", look_and_start)
    await bot.press(bot.chat.cards()[0], "confirm")
    assert seen == [EffectState.STARTED]
    assert [one.id for one in await engine.list_own_requests("U1")] == ["L-0001"]


class DyingMailer(MemoryMailer):
    """A mailer whose process ends once the mail is sent."""

    async def send_mail(self, to: Person, *rest: str) -> None:
        await super().send_mail(to, *rest)
        raise Killed


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_press_that_no_process_survives_ends_as_unknown_and_its_person_is_told(
    redis: Redis, is_away: bool
) -> None:
    """The process may also end at every try to give the press up, or the platform may be away all the time."""
    bot = await proposed(redis)
    object.__setattr__(bot.outside, "mailer", DyingMailer())
    await bot.put_press(bot.chat.cards()[0], "send")
    partition = bot.keys.get_partition((await bot.load_approval()).id)
    [lease] = await bot.lanes.claim("p", partition, 1)
    await bot.work_on(lease)
    assert (await bot.load_approval()).effect is EffectState.STARTED
    tries = bot.lanes.max_tries + GIVE_UP_TRIES
    await redis.hset(bot.keys.build_key(bot.keys.get_partition(lease.lane), "st", lease.lane), "tries", str(tries))
    await redis.zadd(bot.keys.build_key(bot.keys.get_partition(lease.lane), "z"), {lease.lane: 1})
    if is_away:
        bot.chat.fails[DM.channel] = bot.chat.fails[f"update {DM.channel}"] = [DOWN] * 5
    await bot.work()
    approval = await bot.load_approval()
    assert (approval.state, approval.effect, approval.waiters) == (ApprovalState.DECIDED, EffectState.UNKNOWN, ())
    assert {one.choice for one in bot.chat.cards()[0].buttons} == {"happened", "redo"}
    assert sum(approval.press_id in text for text in bot.chat.texts()) == 1, "the person is told once"
    assert [run.status for run in bot.ended_runs] == [RunStatus.DONE]


# Effects that do not run


@corpus(
    ("changes", "key"),
    [
        ({}, ""),
        ({"seal": "0" * 64}, "error.altered"),
        ({"tool": "start_process"}, "error.altered"),
        ({"tool": "no_tool"}, "error.gone"),
        ({"tool": "list_people"}, "error.gone"),
    ],
)
async def test_what_is_not_what_was_shown_or_cannot_be_run_is_not_run_and_said_so(
    redis: Redis, changes: dict[str, Any], key: str
) -> None:
    bot = await proposed(redis)
    await rewrite(bot, **changes)
    approval = await press(bot, "send")
    assert bool(bot.mailer.mails) is (not key)
    if key:
        assert (approval.effect, approval.failure) == (EffectState.FAILED, TextRef(key=key))
        assert approval.failure_for_model and await bot.engine.list_own_requests("U1") == ()


# Ends of effects


async def test_a_refusal_is_told_to_people_and_to_the_model_with_what_may_have_changed(redis: Redis) -> None:
    bot = await proposed(redis)
    bot.mailer.failing = ToolError("busy", "later", possible_effect=MAYBE)
    approval = await press(bot, "send")
    assert (approval.effect, approval.failure, approval.failure_for_model, approval.possible_change) == (
        EffectState.FAILED,
        TextRef(key="error.busy"),
        "later",
        MAYBE,
    )
    assert {one.choice for one in bot.chat.cards()[0].buttons} == {"retry"}


@pytest.mark.parametrize(("choice", "mails", "attempts"), [("happened", 0, 1), ("redo", 1, 2)])
async def test_what_nobody_knows_a_person_says_or_has_done_again(
    redis: Redis, choice: str, mails: int, attempts: int
) -> None:
    bot = await proposed(redis)
    bot.mailer.failing = EffectUnknownError("the connection broke")
    assert (await press(bot, "send")).effect is EffectState.UNKNOWN
    bot.mailer.failing = None
    approval = await press(bot, choice)
    assert (approval.effect, approval.attempts, len(bot.mailer.mails)) == (EffectState.DONE, attempts, mails)
    [shown] = [card for one in bot.chat.posts if (card := one.post.card)]
    assert not shown.buttons and "不确定" not in shown.lead, "a mail to one is done or not as a whole"


# Another version


async def test_an_edited_card_is_sealed_anew_for_its_whole_time_and_noted(redis: Redis) -> None:
    bot = await proposed(redis)
    before = await bot.load_approval()
    bot.now_offset = bot.handlers.cards.open_for / 2
    await bot.press(bot.chat.cards()[0], "edit", form={"subject": "改过", "body": "李四你好，改过了。"})
    after = await bot.load_approval()
    assert (after.version, after.proposal.args["subject"]) == (2, "改过") and after.seal != before.seal
    assert after.expires_ms - after.created_ms >= bot.handlers.cards.open_for.total_seconds() * 1000
    [record] = [one async for one in bot.journal.stream_records(kinds={"approval.edited"})]
    assert record.person == "U1" and after.delivered_version == 2


async def test_a_tool_that_prepares_nothing_any_more_edits_nothing(redis: Redis) -> None:
    bot = await proposed(redis)
    tools = bot.handlers.cards.tools
    assert isinstance(tools, ChainMap)
    tools["send_email"] = tools["list_people"]
    before = await bot.load_approval()
    await bot.press(bot.chat.cards()[0], "edit", form={"subject": "x", "body": "y"})
    assert await bot.load_approval() == before and "item.dead" not in await bot.list_journal_kinds()
