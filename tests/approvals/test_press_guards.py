"""The guards between a press and its effect, each with a story in which only it holds."""

from collections import ChainMap
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.render import describe_consequence
from bot.core.errors import LeaseLost
from bot.core.i18n import translate
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import ExpireCard
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.presses import LEAVE, list_refusals, proposed, requested
from tests.stories.script import mail
from tests.tools.office import LI
from tools.spec import EffectUnknownError, Person
from tools.workflow.engine.state import Status


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


# Between the look and the decision


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


# Between the beginning and the effect


async def test_who_has_lost_the_lane_since_it_was_begun_mails_nothing(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process delayed between the two must not do work that another process has taken over."""
    bot = await proposed(redis)

    async def take_lane(lane: str) -> None:
        partition = bot.keys.get_partition(lane)
        await redis.zadd(bot.keys.build_key(partition, "z"), {lane: 1})
        assert await bot.lanes.claim("another process", partition, 1)

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


# Repetitions


class DoubtfulMailer(MemoryMailer):
    """A mailer that reports the first mail as uncertain."""

    message_ids: list[str]

    async def send_mail(self, to: Person, subject: str, body: str, message_id: str, reply_to: str = "") -> None:
        self.message_ids = [*getattr(self, "message_ids", []), message_id]
        if len(self.message_ids) == 1:
            raise EffectUnknownError("the connection broke")
        await super().send_mail(to, subject, body, message_id, reply_to)


async def test_a_mail_that_is_sent_again_is_another_mail(redis: Redis) -> None:
    """Mail programs would take a mail with the same Message-ID for the first one, and not show it."""
    bot = await proposed(redis)
    mailer = DoubtfulMailer()
    object.__setattr__(bot.outside, "mailer", mailer)
    await bot.press(bot.chat.cards()[0], "send")
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN
    await bot.press(bot.chat.cards()[0], "redo")
    assert (await bot.load_approval()).effect is EffectState.DONE and len(mailer.mails) == 1
    assert len(set(mailer.message_ids)) == 2


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
    approval = await bot.load_approval(card)
    return bot, approval


@corpus(
    ("choice", "form", "status"),
    [
        *((choice, None, Status.WAITING) for choice in ("reject", "return", "approve_with")),
        ("approve", {"opinion": "好"}, Status.WAITING),
        ("reject", {"opinion": "那几天有发布"}, Status.REVISE),  # control
    ],
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
    _, approval = await answer_task(redis, "reject", {"opinion": "那几天\u200b有\u200b发布", "decision": "approve"})
    assert (approval.form, approval.removed_characters) == ({"opinion": "那几天有发布"}, 2)
    assert "2 个看不见的字符" in describe_consequence(approval, "zh")


# Presses without an effect


async def test_a_press_on_a_copy_that_is_known_adds_none(redis: Redis) -> None:
    bot = await proposed(redis)
    [(_, known)] = before = (await bot.load_approval()).copies
    await bot.press(bot.chat.cards()[0], "send", at=known)
    assert (await bot.load_approval()).copies == before


# A missing card or tool


@pytest.mark.parametrize(
    ("choice", "state", "refusals"),
    [
        ("edit", ApprovalState.OPEN, ["no_tool"]),
        ("send", ApprovalState.DECIDED, []),
        ("cancel", ApprovalState.CANCELLED, []),
    ],
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
