"""The execution of a decided card: the guards between a press and its effect, the effect's record and display before it
runs, and the report of its end."""

import asyncio
from collections import ChainMap
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals import press as press_module
from bot.approvals.render import describe_consequence
from bot.core.errors import ChatUnavailableError, LeaseLost, StoreUnavailableError
from bot.core.held_lease import bind_lease
from bot.core.i18n import translate
from bot.core.records import Approval, ApprovalState, EffectState, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import ExpireCard
from bot.queue.lanes import Lease
from bot.queue.worker import GIVE_UP_TRIES
from tests.harness.corpus import corpus
from tests.harness.lanes import expire
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import DM, Killed
from tests.harness.presses import LEAVE, everywhere, list_refusals, proposed, requested, rewrite
from tests.stories.script import mail
from tests.tools.office import LI
from tools.spec import EffectUnknownError, Person, ReceiptLine, TextRef, ToolError
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Status

DOWN = ChatUnavailableError("unreachable", "chat")
MAYBE = ReceiptLine(text=TextRef(key="card.system"))


async def press(bot: Bot, choice: str) -> Approval:
    """Press a button of a version without a seal: its content is then checked at the execution too."""
    card = bot.chat.cards()[0]
    unsealed = replace(card, buttons=tuple(replace(one, seal="") for one in card.buttons))
    await bot.press(unsealed, choice)
    return await bot.load_approval()


def use_mailer(bot: Bot, mailer: MemoryMailer) -> None:
    object.__setattr__(bot.outside, "mailer", mailer)


# Between the look and the effect


def act_around_checkpoint(
    bot: Bot, monkeypatch: pytest.MonkeyPatch, seq: str, act: Any, *, afterwards: bool = False
) -> None:
    """Let another process act once, just before (or just after) this checkpoint is written."""
    run, done = bot.lanes.run_lane_script, list[str]()

    async def run_and_act(script: str, lane: str, *args: str | int) -> Any:
        is_wanted = script == "checkpoint" and args[4] == seq and not done
        if is_wanted:
            done.append(seq)
        if is_wanted and not afterwards:
            await act(lane)
        answer = await run(script, lane, *args)
        if is_wanted and afterwards:
            await act(lane)
        return answer

    monkeypatch.setattr(bot.lanes, "run_lane_script", run_and_act)


@pytest.mark.parametrize(("script", "choice"), [(mail(), "send"), (LEAVE, "confirm")])
async def test_what_is_taken_back_in_chat_between_the_look_and_the_decision_is_not_begun(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, script: Any, choice: str
) -> None:
    """A mail is begun after the decision. A repeatable effect is begun by the same write that decides it, which is
    refused."""
    bot = await proposed(redis, script)
    taken_back = list[bool]()

    async def take_back(lane: str) -> None:
        taken_back.append(await bot.tool_services.cards.cancel_card(lane, "U1"))

    act_around_checkpoint(bot, monkeypatch, "decide", take_back)
    await bot.press(bot.chat.cards()[0], choice)
    assert taken_back == [True] and not bot.mailer.mails and await bot.engine.list_own_requests("U1") == ()
    approval = await bot.load_approval()
    assert (approval.state, approval.effect) == (ApprovalState.CANCELLED, EffectState.NONE)
    assert await list_refusals(bot) == ["already"] and len(bot.chat.ephemerals) == 1 and not bot.chat.cards()


async def test_who_has_lost_the_lane_since_it_began_mails_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process delayed between the two must not do work that another process has taken over."""
    bot = await proposed(redis)

    async def take_lane(lane: str) -> None:
        await expire(bot.lanes, lane)
        assert await bot.lanes.claim("another process", bot.keys.get_partition(lane), 1)

    act_around_checkpoint(bot, monkeypatch, "begin:1", take_lane, afterwards=True)
    await bot.put_press(bot.chat.cards()[0], "send")
    partition = bot.keys.get_partition((await bot.load_approval()).id)
    [lease] = await bot.lanes.claim("this process", partition, 1)
    with pytest.raises(LeaseLost):
        await bot.dispatcher.handle_item(lease)
    assert not bot.mailer.mails
    await bot.work()
    approval = await bot.load_approval()
    assert approval.effect is EffectState.UNKNOWN and not bot.mailer.mails, "begun by another, it may have happened"


# Dialogs


async def test_an_edit_that_will_not_do_is_told_and_changes_nothing(redis: Redis) -> None:
    bot = await proposed(redis)
    before = await bot.load_approval()
    await bot.press(bot.chat.cards()[0], "edit", form={"subject": "项目进度", "body": "李四你好，[Your name]"})
    assert bot.chat.ephemerals == [("U1", "邮件里还有没填的内容，请补充完整")]
    assert await bot.load_approval() == before and len(bot.chat.cards()) == 1


async def answer_task(redis: Redis, choice: str, form: dict[str, str] | None) -> tuple[Bot, Approval]:
    """Let Li Si press a button of the card of a request's first task."""
    bot = await requested(redis)
    card = (await bot.load_approval()).id
    await bot.press(bot.chat.cards("DU2")[0], choice, LI.id, form=form)
    return bot, await bot.load_approval(card)


@corpus(
    ("choice", "form", "status"),
    *((choice, None, Status.WAITING) for choice in ("reject", "return", "approve_with")),
    ("approve", {"opinion": "好"}, Status.WAITING),
    ("reject", {"opinion": "那几天有发布"}, Status.REVISE),  # control
)
async def test_a_button_decides_with_the_answers_of_its_dialog_and_without_one_takes_none(
    redis: Redis, choice: str, form: dict[str, str] | None, status: Status
) -> None:
    bot, approval = await answer_task(redis, choice, form)
    assert (await bot.engine.get_request("L-0001")).status is status
    if status is Status.REVISE:
        assert approval.state is ApprovalState.DECIDED and await list_refusals(bot) == []
    else:
        assert (approval.state, approval.press_id) == (ApprovalState.OPEN, "")
        assert await list_refusals(bot) == ["no_form"]
        assert bot.chat.ephemerals == [(LI.id, "L-0001：" + translate("refused.no_form", "zh"))]


@pytest.mark.parametrize("choice", ["again", "show"])
async def test_a_press_that_decides_nothing_takes_no_answers_either(redis: Redis, choice: str) -> None:
    """No button of the card has that name, so none of its dialogs can have been shown."""
    bot = await requested(redis)
    if choice == "again":
        expire = ExpireCard(version=1)
        await bot.handle_work((await bot.load_approval()).id, "expire", expire)

    def count_posts() -> int:
        return len(bot.chat.posts) + len(bot.chat.pictures)

    before, posts = await bot.load_approval(), count_posts()
    await bot.press(bot.chat.cards("DU2")[0], choice, LI.id, form={"opinion": "好"})
    assert await bot.load_approval() == before and count_posts() == posts
    assert await list_refusals(bot) == ["no_form"]
    await bot.press(bot.chat.cards("DU2")[0], choice, LI.id, id="control")
    assert count_posts() > posts, "control: without answers it does what it says"


async def test_what_nobody_can_see_in_an_answer_is_removed_and_counted(redis: Redis) -> None:
    written = {"opinion": "那几天\u200b\u2028有\u061c\U000e0041发布", "decision": "approve"}
    bot, approval = await answer_task(redis, "reject", written)
    assert (approval.form, approval.removed_characters) == ({"opinion": "那几天有发布"}, 4)
    [shown] = [one.post.card for one in bot.chat.posts if one.place.channel == "DU2"]
    assert "4 个看不见的字符，已去掉" in describe_consequence(approval, "zh") and "4 个看不见的字符" in shown.lead
    assert (await bot.engine.get_request("L-0001")).opinions[-1].text == "那几天有发布"


# Before it runs


@dataclass
class LookingMailer(MemoryMailer):
    """A mailer that notes the card's state while it sends; `waits` until its buttons are gone."""

    bot: Bot | None = None
    waits: bool = False
    seen: list[Approval] = field(default_factory=list)

    async def send_mail(self, to: Person, *rest: str) -> None:
        self.seen.append(await self.bot.load_approval())
        while self.waits and self.bot.chat.cards():
            await self.bot.work_beside()
            await asyncio.sleep(0.005)
        await super().send_mail(to, *rest)


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_mail_goes_out_when_it_is_on_record_as_begun_and_what_takes_longer_has_no_buttons_meanwhile(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    bot = await proposed(redis)
    if is_slow:
        monkeypatch.setattr(press_module, "SHOWN_AFTER_S", 0.01)
        bot.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    use_mailer(bot, mailer := LookingMailer(bot=bot, waits=is_slow))
    assert (await asyncio.wait_for(press(bot, "send"), 10)).effect is EffectState.DONE
    [seen] = mailer.seen
    assert (seen.state, seen.effect, seen.attempts) == (ApprovalState.DECIDED, EffectState.STARTED, 1)
    assert (seen.decided_by, seen.choice) == ("U1", "send")
    assert len(mailer.mails) == 1
    assert len(bot.chat.updates) == 1 + is_slow, "a card whose effect is quick is rewritten once"


@dataclass
class RefusingMailer(MemoryMailer):
    """A mailer that refuses a mail when somebody says so."""

    when: asyncio.Event = field(default_factory=asyncio.Event)

    async def send_mail(self, *mail: Any) -> None:
        await self.when.wait()
        raise ToolError("mail_refused", "refused", reply=554)


async def test_a_card_shows_the_end_although_nobody_knows_whether_its_rewriting_before_was_requested(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mail is refused while the request waits for the answer of the store, which has it. Another process carries it
    out before the end is on record."""
    bot, mailer = await proposed(redis), RefusingMailer()
    bot.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    monkeypatch.setattr(press_module, "SHOWN_AFTER_S", 0.01)
    use_mailer(bot, mailer)
    update = bot.chat.update_message

    async def wait_for_no_answer(lane: str) -> None:
        mailer.when.set()
        await asyncio.Event().wait()

    async def update_and_let_work(*card: Any) -> None:
        await update(*card)
        await asyncio.create_task(bot.work_beside())

    async def handle_bound(lease: Lease) -> Any:
        bind_lease(lease)
        return await handle(lease)

    handle = bot._handle_or_give_up
    monkeypatch.setattr(bot, "_handle_or_give_up", handle_bound)
    act_around_checkpoint(bot, monkeypatch, "show:1", wait_for_no_answer, afterwards=True)
    monkeypatch.setattr(bot.chat, "update_message", update_and_let_work)
    assert (await asyncio.wait_for(press(bot, "send"), 10)).effect is EffectState.FAILED
    assert [one.choice for one in bot.chat.cards()[0].buttons] == ["retry"]


@pytest.mark.parametrize("failing", [None, ToolError("mail_refused", "refused", reply=554)])
async def test_what_the_mail_server_has_answered_is_on_record_once_the_store_is_back(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, failing: ToolError | None
) -> None:
    bot, away = await proposed(redis), list[str]()
    bot.mailer.failing = failing

    async def be_away(lane: str) -> None:
        away.append(lane)
        raise StoreUnavailableError("away")

    for _ in range(2):
        act_around_checkpoint(bot, monkeypatch, f"part:U2:{'refused' if failing else 'done'}", be_away)
    effect = (await press(bot, "send")).effect
    assert (effect, len(bot.mailer.mails)) == ((EffectState.FAILED, 0) if failing else (EffectState.DONE, 1))
    assert len(away) == 2


@pytest.mark.parametrize("seq", ["begin:1", "part:U2:begun", "part:U3:begun"])
@pytest.mark.parametrize("is_written", [False, True])
async def test_a_mail_begins_once_the_store_is_back_that_was_away_right_before_it(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, seq: str, is_written: bool
) -> None:
    """Only this process knows that nothing has begun."""
    bot, away = await proposed(redis, mail(to=["李四", "王五"])), list[str]()

    async def be_away(lane: str) -> None:
        away.append(lane)
        raise StoreUnavailableError("away")

    act_around_checkpoint(bot, monkeypatch, seq, be_away, afterwards=is_written)
    assert (await press(bot, "send")).effect is EffectState.DONE and len(away) == 1
    assert [one.to for one in bot.mailer.mails] == ["U2", "U3"]


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


@pytest.mark.parametrize("refusals", [1, 2, 3])
async def test_what_is_refused_for_now_is_tried_again_by_itself_and_said_so_and_the_third_time_waits_for_a_press(
    redis: Redis, refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = await proposed(redis)
    mailer = GreyMailer(bot=bot, refusals=refusals, minutes_pass=True)
    bot.lanes.lease_ms = 60_000  # the other process leaves this lane alone
    use_mailer(bot, mailer)
    monkeypatch.setattr(press_module, "TRY_AGAIN_S", (0.02, 0.02))  # after the card is updated
    monkeypatch.setattr(press_module, "SHOWN_AFTER_S", 60)  # keeps a slow machine's delay off the card
    approval = await press(bot, "send")
    assert len(mailer.leads) == min(refusals + 1, 3)
    assert "450" in mailer.leads[-1] and "自动再试" in mailer.leads[-1]
    if refusals == 3:
        assert approval.effect is EffectState.FAILED and "450" in bot.chat.cards()[0].lead
        approval = await press(bot, "retry")
    assert approval.effect is EffectState.DONE and len(mailer.mails) == 1
    assert not any("自动再试" in card.lead for one in bot.chat.posts if (card := one.post.card))


async def test_killed_anywhere_between_two_tries_it_is_sent_once_or_said_to_be_unknown(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(press_module, "TRY_AGAIN_S", (0.0, 0.0))
    ends = set[EffectState]()

    async for bot in everywhere(redis, lambda: proposed(redis)):
        mailer = GreyMailer(bot=bot)
        use_mailer(bot, mailer)
        effect = (await press(bot, "send")).effect
        ends.add(effect)
        assert len(mailer.mails) == (effect is EffectState.DONE) or effect is EffectState.UNKNOWN
        assert len(mailer.mails) <= 1
        run = await bot.runs.load_run(bot.chat.keys()[-1].partition(":")[0])
        assert run is not None and run.state.calls[0].status in (CallStatus.SUCCEEDED, CallStatus.UNKNOWN)
    assert ends == {EffectState.DONE, EffectState.UNKNOWN}


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
async def test_a_press_that_no_process_survives_ends_as_unknown_and_is_told(redis: Redis, is_away: bool) -> None:
    """The process may also end at every try to give the press up, or the platform may be away all the time."""
    bot = await proposed(redis)
    use_mailer(bot, DyingMailer())
    await bot.put_press(bot.chat.cards()[0], "send")
    partition = bot.keys.get_partition((await bot.load_approval()).id)
    [lease] = await bot.lanes.claim("p", partition, 1)
    await bot.work_on(lease)
    assert (await bot.load_approval()).effect is EffectState.STARTED
    tries = bot.lanes.max_tries + GIVE_UP_TRIES
    await redis.hset(bot.keys.build_key(bot.keys.get_partition(lease.lane), "st", lease.lane), "tries", str(tries))
    await expire(bot.lanes, lease.lane)
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
    ({}, ""),
    ({"seal": "0" * 64}, "error.altered"),
    ({"tool": "start_process"}, "error.altered"),
    ({"tool": "no_tool"}, "error.gone"),
    ({"tool": "list_people"}, "error.gone"),
)
async def test_what_was_not_shown_or_cannot_be_run_is_not_run(redis: Redis, changes: dict[str, Any], key: str) -> None:
    bot = await proposed(redis)
    await rewrite(bot, **changes)
    approval = await press(bot, "send")
    assert bool(bot.mailer.mails) is (not key)
    if key:
        assert (approval.effect, approval.failure) == (EffectState.FAILED, TextRef(key=key))
        assert approval.failure_for_model and await bot.engine.list_own_requests("U1") == ()


@corpus(
    ("choice", "state", "refusals"),
    ("edit", ApprovalState.OPEN, ["no_tool"]),
    ("send", ApprovalState.DECIDED, []),
    ("cancel", ApprovalState.CANCELLED, []),
)
async def test_without_its_tool_a_card_is_not_edited_but_ends_as_its_person_says(
    redis: Redis, choice: str, state: ApprovalState, refusals: list[str]
) -> None:
    bot = await proposed(redis)
    assert isinstance(bot.handlers.cards.tools, ChainMap)
    del bot.handlers.cards.tools["send_email"]
    await bot.press(bot.chat.cards()[0], choice, form={"subject": "x", "body": "y"} if choice == "edit" else None)
    approval = await bot.load_approval()
    assert approval.state is state and await list_refusals(bot) == refusals and not bot.mailer.mails
    assert approval.effect is (EffectState.FAILED if choice == "send" else EffectState.NONE)
    assert bool(bot.chat.cards()) is (choice != "cancel")


# Ends of effects


async def test_a_refusal_is_told_to_people_and_to_the_model_with_what_may_have_changed(redis: Redis) -> None:
    bot = await proposed(redis)
    bot.mailer.failing = ToolError("busy", "later", possible_effect=MAYBE)
    approval = await press(bot, "send")
    assert (approval.effect, approval.failure) == (EffectState.FAILED, TextRef(key="error.busy"))
    assert (approval.failure_for_model, approval.possible_change) == ("later", MAYBE)
    assert {one.choice for one in bot.chat.cards()[0].buttons} == {"retry"}


@dataclass
class DoubtfulMailer(MemoryMailer):
    """A mailer that reports the first mail as uncertain."""

    message_ids: list[str] = field(default_factory=list)

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        self.message_ids.append(message_id)
        if len(self.message_ids) == 1:
            raise EffectUnknownError("the connection broke")
        await super().send_mail(to, subject, body, message_id, reply_to)


@pytest.mark.parametrize(("choice", "attempts"), [("happened", 1), ("redo", 2)])
async def test_what_nobody_knows_a_person_says_or_has_done_again(redis: Redis, choice: str, attempts: int) -> None:
    bot = await proposed(redis)
    use_mailer(bot, mailer := DoubtfulMailer())
    assert (await press(bot, "send")).effect is EffectState.UNKNOWN
    approval = await press(bot, choice)
    assert (approval.effect, approval.attempts, len(mailer.mails)) == (EffectState.DONE, attempts, attempts - 1)
    assert len(set(mailer.message_ids)) == attempts, "mail programs would not show a second mail of the same id"
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
