"""Fifteen situations in which agents run a risky tool twice, lose a card or block a thread.

Each test ends with the number of effects that its row demands, counted in the mailbox or the engine, not in words."""

import asyncio
import contextlib

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.app import build
from bot.core.errors import ModelUnavailableError
from bot.dev.workspace.delivery import NotAcknowledgedError
from bot.queue.keys import Keys
from tests.harness.office import LI, ZHANG, Office, list_buttons, office, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final, forged, request_of, rewritten
from tests.stories.script import DONE, MAIL, calls, expense, mail, open_cards, raw, requests_of

BUTTONS = {"cs:send", "cs:edit", "cs:cancel"}


async def asked_to_mail(office: Office) -> dict[str, object]:
    """Let Zhang San ask for a mail; return the card with its preview."""
    await office.says(ZHANG, "给李四发邮件")
    return await office.card(office.dm(ZHANG), MAIL["subject"])


@pytest.mark.slow
async def test_suspend_serialise_approve_in_another_process_one_effect(empty: Office) -> None:
    async with empty.spawned() as pausing:
        await empty.says(ZHANG, "给李四发邮件，主题 项目进度，内容 请看一下进度")
        card = await empty.card(empty.dm(ZHANG), "项目进度")
        await pausing.kill()
    async with empty.opened():
        await empty.press(ZHANG, card, "send")
        assert "李四" in await final(empty)
        await empty.quiet()
    assert [mail["subject"] for mail in empty.mails] == ["项目进度"]


async def test_two_concurrent_resumes_one_effect(empty: Office) -> None:
    either = ScriptedModel([mail(), DONE])
    async with empty.opened(model=either), empty.opened(model=either):
        await empty.driver.wait_for_sockets(2)
        card = await asked_to_mail(empty)
        await asyncio.gather(*(empty.press(ZHANG, card, "send", force=True) for _ in range(4)))
        await final(empty)
        await empty.quiet()
        decisions = [kind for kind in await empty.kinds() if kind == "effect.started"]
    assert len(empty.mails) == len(decisions) == 1
    assert not empty.whispers(ZHANG), "the card says it"
    assert len(empty.finals(empty.dm(ZHANG))) == 1


async def test_reject_no_effect(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        card = await asked_to_mail(empty)
        await empty.press(ZHANG, card, "cancel")
        assert "没有做任何改动" in await final(empty)
        await empty.press(ZHANG, card, "send", force=True)
        await empty.until(lambda: empty.whispers(ZHANG))
        await empty.quiet()
    assert empty.mails == []


async def test_no_decision_given_no_effect(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail()])):
        await asked_to_mail(empty)
        await empty.quiet()
    async with empty.opened(model=ScriptedModel([DONE])):
        await empty.quiet()
        assert empty.mails == []
        [card] = empty.cards(empty.dm(ZHANG))
        assert {button["action_id"] for button in list_buttons(card)} == BUTTONS, "it still waits, as it was"
        await empty.press(ZHANG, card, "send")
        await final(empty)
    assert len(empty.mails) == 1, "the positive twin: with a decision it happens"


FORGED = (
    *((choice, "{id}.1") for choice in ("", "None", "approve", "confirm", "redo", "retry", "happened", "again")),
    *(("send", value) for value in ("", "null", "{id}", "{id}.0", "{id}.2", "{id}.-1", "../../etc.1")),
    *(("edit", "{id}.9"), ("send", "A00nosuchcard0.1"), ("send", "A99zzzzzzzzzzzz.1")),
)
"""Choices that this card does not have, and values that name no card or another state of the card."""
MISSHAPEN: tuple[object, ...] = (
    *(None, [], [{}], [{"value": "x.1"}], [{"action_id": "cs:send"}]),
    *([{"action_id": "cs:send", "value": None}], [{"action_id": "cs:send", "value": ["x.1"]}]),
)
"""Payloads of shapes that the platform does not send."""


async def test_decision_none_or_malformed_no_effect(valkey: str, subtests: pytest.Subtests) -> None:
    model = ScriptedModel([mail(), DONE])
    async with office(valkey, ack_s=3) as empty, empty.opened(model=model) as bot:
        here, card = empty.dm(ZHANG), await asked_to_mail(empty)
        id_, _, _ = next(iter(list_buttons(card)))["value"].rpartition(".")
        container = {"type": "message", "message_ts": card["ts"], "channel_id": here}
        people = {"team": {"id": "T0LOCAL"}, "user": {"id": ZHANG}, "channel": {"id": here}}
        payload = {"type": "block_actions", "trigger_id": "1.2.odd", "container": container, **people}

        async def press(choice: str, value: str) -> None:
            await empty.driver.click_button(ZHANG, here, card["ts"], f"cs:{choice}", value=value, force=True)

        async def send(actions: object) -> None:
            with contextlib.suppress(NotAcknowledgedError):
                await empty.driver.ws.delivery.deliver_interaction("interactive", {**payload, "actions": actions})

        acts = [(f"{choice} {value}", press(choice, value.format(id=id_))) for choice, value in FORGED]
        for name, act in [*acts, *((str(actions), send(actions)) for actions in MISSHAPEN)]:
            with subtests.test(name):
                await act
                await empty.quiet()
                assert empty.mails == []
                approval = await empty.approvals.load_approval(id_)
                assert approval is not None and approval.state == "open"
                assert await bot.stores.redis.xlen(Keys().build_key(0, "dead")) == 0
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.quiet()
    assert len(empty.mails) == 1, "the positive twin: the real button still works"


async def test_model_error_after_the_tool_resume_stored_state_one_effect(empty: Office) -> None:
    down: list[ModelReply | BaseException] = [ModelUnavailableError("gone")] * 200
    async with empty.opened(model=ScriptedModel([mail(), *down])):
        await empty.press(ZHANG, await asked_to_mail(empty), "send")
        await empty.until(lambda: "连不上语言模型" in empty.said(empty.dm(ZHANG)))
        assert len(empty.mails) == 1
    async with empty.opened(model=ScriptedModel([DONE])):
        assert "给李四发了邮件" in await final(empty), "the receipt knows of the mail"
        await empty.quiet()
    assert len(empty.mails) == 1
    assert empty.said(empty.dm(ZHANG)).count("连不上语言模型") <= 2, "the outage is told once (text and block)"


@pytest.mark.slow
async def test_killed_in_the_tool_after_the_effect_engine_one_effect(empty: Office, redis: Redis) -> None:
    """The engine has started the request, the card is being updated, nothing is committed: SIGKILL."""
    async with empty.spawned() as bot:
        await empty.says(ZHANG, "报销差旅费 500 元，审批人李四")
        card = await empty.card(empty.dm(ZHANG), "500")
        empty.killing(bot, lambda: "E-0001" in empty.said(empty.dm(ZHANG)))
        await empty.press(ZHANG, card, "confirm")
        await bot.child.wait()
    assert await requests_of(redis, ZHANG) == ["E-0001"], "it had happened"
    async with empty.opened():
        assert "E-0001" in await final(empty)
        await empty.card(empty.dm(LI), "E-0001")
        await empty.quiet()
    assert await requests_of(redis, ZHANG) == ["E-0001"]
    assert len(empty.cards(empty.dm(LI))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "mails"), [("happened", 1), ("redo", 2)])
async def test_killed_in_the_tool_after_the_effect_mail_unknown_ask(empty: Office, choice: str, mails: int) -> None:
    """The mail server has the mail, but the bot does not know yet: SIGKILL. A second mail goes only by a second
    press."""
    async with empty.spawned() as bot:
        await empty.says(ZHANG, "给李四发邮件，主题 项目进度，内容 请看一下进度")
        card = await empty.card(empty.dm(ZHANG), "项目进度")
        empty.mailbox.on_change = lambda _: bot.child.kill()
        await empty.press(ZHANG, card, "send")
        await bot.child.wait()
        empty.mailbox.on_change = None
    assert len(empty.mails) == 1, "it had happened"
    async with empty.opened():
        unknown = await empty.card(empty.dm(ZHANG), "不知道有没有完成")
        assert {button["action_id"] for button in list_buttons(unknown)} == {"cs:happened", "cs:redo"}
        assert "不知道" in await final(empty), "the answer says so too"
        await empty.quiet()
        assert len(empty.mails) == 1, "never again by itself"
        await forged(empty, LI, unknown, choice)
        await empty.until(lambda: empty.whispers(LI))
        assert len(empty.mails) == 1, "and by nobody else"
        await empty.press(ZHANG, unknown, choice)
        await empty.until(lambda: not empty.cards(empty.dm(ZHANG)))
        await empty.quiet()
    assert len(empty.mails) == mails


async def test_reused_tool_call_id_asked_again(empty: Office, redis: Redis) -> None:
    """A server names every call `call_0`: 5, then 5000. The yes to 5 is no yes to 5000."""
    async with empty.opened(model=ScriptedModel([expense(amount="5"), expense(amount="5000"), DONE])):
        await empty.says(ZHANG, "报销 5 元")
        small = await empty.card(empty.dm(ZHANG), "5")
        await empty.press(ZHANG, small, "confirm")
        large = await empty.card(empty.dm(ZHANG), "5000")
        await empty.quiet()
        assert await requests_of(redis, ZHANG) == ["E-0001"], "only what was confirmed"
        await empty.press(ZHANG, small, "confirm", force=True)
        await empty.quiet()
        assert await requests_of(redis, ZHANG) == ["E-0001"], "the old button does not reach the new card"
        await empty.press(ZHANG, large, "confirm")
        await final(empty)
    assert await requests_of(redis, ZHANG) == ["E-0001", "E-0002"]


UNUSABLE = {
    "cut in the middle of the JSON": raw(
        "start_process", '{"reason": "x", "process": "expense", "form": {"amount": "5'
    ),
    "whole JSON, but cut off by its length": raw("start_process", '{"reason": "x", "process": "expense"}', "length"),
    "form a string": calls(("start_process", {"process": "expense", "form": "five hundred"})),
    "process a list": calls(("start_process", {"process": ["expense"], "form": {}})),
    "amount a word": expense(amount="five"),
    "arguments a list": raw("start_process", '["expense"]'),
    "arguments null": raw("start_process", "null"),
    "mail of numbers": calls(("send_email", {"to": 5, "subject": None, "body": {}})),
}


async def test_truncated_or_wrong_args_retry(empty: Office, redis: Redis, subtests: pytest.Subtests) -> None:
    script = [reply for wrong in UNUSABLE.values() for reply in (wrong, expense(), DONE)]
    model, here = ScriptedModel([*script, expense(), DONE]), empty.dm(ZHANG)
    async with empty.opened(model=model):
        for name in UNUSABLE:
            with subtests.test(name):
                asked = len(model.requests)
                await empty.says(ZHANG, "报销 500 元")
                card = await empty.card(here)
                assert len(empty.cards(here)) == 1, "only the valid one is shown"
                assert "500.00" in read_message_text(card)
                assert len(model.requests) == asked + 2, "the model was told what was wrong"
                await empty.press(ZHANG, card, "cancel")
                await empty.until(lambda n=asked: len(model.requests) == n + 3)
                await empty.quiet()
        await empty.says(ZHANG, "报销 500 元")
        await empty.press(ZHANG, await empty.card(here), "confirm")
        await empty.until(lambda: "E-0001" in "".join(empty.finals(here)))
    assert await requests_of(redis, ZHANG) == ["E-0001"] and empty.mails == []


@pytest.mark.parametrize(
    ("altered", "presser"),
    [({"to": "U03WANG"}, ZHANG), ({"body": "请给攻击者转账"}, ZHANG), ({}, LI)],
    ids=["to", "body", "who may press"],
)
async def test_args_or_who_may_press_edited_in_the_store_after_review_refused(
    empty: Office, redis: Redis, altered: dict[str, str], presser: str
) -> None:
    """A person who was added to the list of those who may press runs nothing, either."""
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        card = await asked_to_mail(empty)
        [approval] = await empty.approvals.list_open_approvals()
        args = {**approval.proposal.args, **altered}
        await rewritten(redis, approval.id, args=args, deciders=[*{ZHANG: None, presser: None}])
        if presser == ZHANG:
            await empty.press(ZHANG, card, "send")
        else:
            await forged(empty, presser, card, "send")
        assert "没有做任何改动" in await final(empty)
        [shown] = [m for m in empty.posts(empty.dm(ZHANG)) if "与卡片显示的不一致" in read_message_text(m)]
        assert not list(list_buttons(shown)), "no second try that can only fail"
        assert "在对话里重新发起" in read_message_text(shown)
        await empty.quiet()
    assert empty.mails == []


async def test_what_a_button_adds_edited_in_the_store_after_review_refused(desk: Office, redis: Redis) -> None:
    """*Reject* was secretly changed to approve: the press does neither."""
    await desk.says(ZHANG, "报销差旅费 500 元，审批人李四")
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG), "500"), "confirm")
    task = await desk.card(desk.dm(LI), "E-0001")
    approval = next(one for one in await desk.approvals.list_open_approvals() if one.tool == "decide_task")
    choices = [one.model_dump(mode="json") for one in approval.proposal.choices]
    for one in choices:
        one["fixed_args"] |= {"decision": "approve"}
    await rewritten(redis, approval.id, choices=choices)
    await desk.press(LI, task, "reject")
    await desk.fill(LI, opinion="不行")
    await desk.until(lambda: "与卡片显示的不一致" in desk.said(desk.dm(LI)))
    await desk.quiet()
    assert (await request_of(desk, "E-0001")).status == "waiting", "neither approved nor rejected"


async def test_tool_removed_by_a_deploy_tell_the_human(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async with empty.opened(model=ScriptedModel([mail()])):
        card = await asked_to_mail(empty)
        await empty.quiet()
    with monkeypatch.context() as deploy:
        deploy.setattr(build, "TOOLS", tuple(tool for tool in build.TOOLS if tool.name != "send_email"))
        async with empty.opened(model=ScriptedModel([DONE])):
            await empty.press(ZHANG, card, "send")
            assert "没有做任何改动" in await final(empty)
            gone = await empty.card(empty.dm(ZHANG), "已不存在")
            assert {button["action_id"] for button in list_buttons(gone)} == {"cs:retry"}
            assert empty.mails == []
    async with empty.opened(model=ScriptedModel([])):
        await empty.press(ZHANG, gone, "retry")
        await empty.until(lambda: empty.mails)
        await empty.quiet()
    assert len(empty.mails) == 1, "rolled back, the same card does it, once"


async def test_safe_and_risky_in_one_reply_safe_first(empty: Office) -> None:
    both = calls(("send_email", MAIL), ("list_people", {}), ("list_processes", {}))
    model = ScriptedModel([both, DONE])
    async with empty.opened(model=model):
        card = await asked_to_mail(empty)
        seen = {record.more["tool"]: record.more["status"] for record in await empty.journal(kinds=["step"])}
        assert seen == {"send_email": "awaiting", "list_people": "succeeded", "list_processes": "succeeded"}
        assert empty.mails == []
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.quiet()
    observed = [message["tool_call_id"] for message in model.requests[1] if message["role"] == "tool"]
    assert sorted(observed) == ["call_0", "call_1", "call_2"], "no call without its result"
    assert len(empty.mails) == 1


async def test_two_risky_calls_in_one_reply_one_card(empty: Office) -> None:
    two = calls(("send_email", MAIL), ("send_email", {**MAIL, "to": "王五"}))
    async with empty.opened(model=ScriptedModel([two, DONE])):
        card = await asked_to_mail(empty)
        assert len(empty.cards(empty.dm(ZHANG))) == 1
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.quiet()
    assert [mail["to"] for mail in empty.mails] == [["lisi@example.com"]]


async def test_user_writes_while_suspended_and_cancels(empty: Office) -> None:
    async def cancels(messages: Messages) -> ModelReply:
        [card] = open_cards(messages, "send_email")
        return calls(("cancel_card", {"card": card}))

    model = ScriptedModel([mail(), ModelReply(text="邮件还在等您确认。"), cancels, DONE, DONE])
    async with empty.opened(model=model):
        here = empty.dm(ZHANG)
        card = await asked_to_mail(empty)
        assert "还在等您确认" in await empty.answer(ZHANG, "今天天气如何？")
        assert open_cards(model.requests[1], "send_email") and not open_cards(model.requests[0])
        assert _answered(model.requests[1]), "no call without its result in what the model is shown"
        assert [m["ts"] for m in empty.cards(here)] == [card["ts"]], "the card stays as it was"
        await empty.says(ZHANG, "算了，不发了")
        await empty.until(lambda: not empty.cards(here))
        await empty.quiet()
        await empty.press(ZHANG, card, "send", force=True)
        await empty.until(lambda: "已经处理过了" in empty.whispers(ZHANG))
        await empty.quiet()
        assert all(_answered(asked) for asked in model.requests)
    assert empty.mails == []


def _answered(messages: Messages) -> bool:
    """Whether every tool call has its result."""
    asked = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return sorted(asked) == sorted(str(m["tool_call_id"]) for m in messages if m["role"] == "tool")
