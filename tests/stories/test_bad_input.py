"""Bad input: whatever people, platforms and models send, there is a clear answer, and nothing is lost or done."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.local.workspace.world import WorkspaceMember
from tests.harness.office import (
    ADMIN,
    GENERAL,
    LI,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    before_cards_went_to_dms,
    list_buttons,
    office,
    read_message_text,
)
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import request_of
from tests.stories.endpoint import Endpoint, Raw, called, message, said
from tests.stories.script import DONE, calls, expense, mail, requests_of

LEAVE = "请假 2026-11-30 到 2026-12-01，审批人李四，原因："
GUEST = WorkspaceMember("U06GUEST", "guest", "访客", email="guest@example.com", locale="zh-CN", is_restricted=True)
GONE = WorkspaceMember("U07GONE", "gone", "旧人", email="gone@example.com", locale="zh-CN", deleted=True)
ROBOT = WorkspaceMember("U08ROBOT", "robot", "别的机器人", is_bot=True)
TWIN = WorkspaceMember("U09LI", "lisi2", "李四", "Li Si", "会计", "lisi2@example.com", "zh-CN", "Asia/Shanghai")
FIRST = "本邮件由 Countersign 代张三（zhangsan@example.com）发送，直接回复即可回给本人。\n\n"


@pytest.fixture
async def crowd(valkey: str) -> AsyncIterator[Office]:
    """An office with a guest, somebody who left, another robot and a second Li Si."""
    async with office(valkey, more=(GUEST, GONE, ROBOT, TWIN)) as opened:
        yield opened


def sent(office: Office) -> list[dict[str, Any]]:
    """Everything the bot handed to Slack for people to read."""
    ways = ("chat.postMessage", "chat.update", "chat.postEphemeral", "views.open")
    return [arguments for way in ways for arguments in office.driver.list_call_arguments(way)]


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        yield from (text for value in node.values() for text in strings(value))
    elif isinstance(node, list):
        yield from (text for value in node for text in strings(value))


def shown(card: dict[str, Any]) -> str:
    """A card as it reads on the screen."""
    return read_message_text(card).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


# What people write


async def test_a_message_without_text_is_asked_for_its_text(desk: Office) -> None:
    await desk.driver.mention_bot(ZHANG, GENERAL, "")
    await desk.until(lambda: "这条消息没有文字" in desk.said(GENERAL))
    here = desk.dm(ZHANG)
    thread = await desk.says(ZHANG, "帮助")
    file = {"type": "message", "subtype": "file_share", "user": ZHANG, "text": "", "channel": here, "files": []}
    desk.driver.inject_event(
        "message.im", {**file, "ts": "1795000000.000100", "thread_ts": thread, "channel_type": "im"}
    )
    await desk.until(lambda: "这条消息没有文字" in desk.said(here))
    await desk.quiet()
    assert (await desk.kinds()).count("message.empty") == 2
    assert "Countersign" in await desk.answer(ZHANG, "帮助"), "the conversation goes on"


async def test_40000_characters_are_refused_with_their_number_and_11000_are_read(desk: Office) -> None:
    told = await desk.answer(ZHANG, "长" * 40_000)
    assert "40000" in told.replace(",", "") and "12000" in told.replace(",", "") and "什么都没有丢" in told
    assert "请 10 天假" in await desk.answer(ZHANG, "你好" + "，" * 11_000)
    assert "40000" not in await desk.answer(ZHANG, "历史"), "what was not read is not remembered"


async def test_emoji_and_right_to_left_text_travel_whole_and_hidden_signs_are_removed_with_a_note(desk: Office) -> None:
    reason = "👩‍👩‍👧‍👦 𝔘𝔫𝔦 مرحبا بالعالم 😵‍💫"
    await desk.says(ZHANG, LEAVE + reason + " \u202egnp.exe")
    card = await desk.card(desk.dm(ZHANG))
    assert reason in shown(card) and "\u202e" not in shown(card) and "⟨U+202E⟩" not in shown(card)
    assert "去掉了 1 个（在“请假事由”里）" in shown(card), "what the person could not see is not in what they confirm"
    await desk.press(ZHANG, card, "confirm")
    theirs = await desk.card(desk.dm(LI), "L-0001")
    assert reason in shown(theirs) and "⟨U+202E⟩" not in shown(theirs)
    kept = await request_of(desk, "L-0001")
    assert kept.filled.values["reason"] == reason + " gnp.exe", "what is kept is what was shown"


async def test_a_mention_in_a_reason_is_text_on_every_card_and_pings_nobody(desk: Office) -> None:
    typed = "<!channel> <@U04ZHAO> <!here|here> <https://evil.example|bank> @Zhao Liu"
    ts = await desk.says(ZHANG, LEAVE + typed)
    raw = next(m["text"] for m in desk.driver.list_messages(desk.dm(ZHANG)) if m["ts"] == ts)
    assert "<@U04ZHAO>" in raw, "control: what the person typed last does reach the bot as a real mention"
    card = await desk.card(desk.dm(ZHANG))
    assert "<!channel>" in shown(card) and "<@U04ZHAO>" in shown(card)
    await desk.press(ZHANG, card, "confirm")
    theirs = await desk.card(desk.dm(LI), "L-0001")
    assert "<!channel> <@U04ZHAO>" in shown(theirs)
    await desk.press(LI, theirs, "approve")
    await desk.until(lambda: "已通过" in desk.said(desk.dm(ZHANG)))
    await desk.answer(ZHANG, "历史")
    await desk.answer(ZHANG, "申请")
    await desk.quiet()
    for text in strings(sent(desk)):
        text = re.sub(r"<!date\^[^<>|]+\|[^<>|]+>", "", text)  # when, of our own making
        assert not any(mark in text for mark in ("<!", f"<@{ZHAO}", "<#", "<http")), "nobody but whom the card is about"


@pytest.mark.parametrize(
    "wish, told",
    [
        ("请假 2026-11-28 到 2026-11-29，审批人李四", "0 天"),
        ("请假 2026-12-02 到 2026-12-01，审批人李四", "早于"),
        ("请假 2026-11-30 到 2026-12-01，审批人李小龙", "没有找到"),
        ("请假 2026-11-30 到 2026-12-01，审批人张三", "不能由您自己审批"),
        ("报销差旅费 0 元，审批人李四", "金额"),
    ],
    ids=["weekend only", "end before start", "unknown person", "own approver", "no amount"],
)
async def test_a_wish_that_cannot_be_is_answered_and_starts_nothing(
    desk: Office, redis: Redis, wish: str, told: str
) -> None:
    here = desk.dm(ZHANG)
    assert told in await desk.answer(ZHANG, wish)
    await desk.quiet()
    assert not desk.cards(here) and not await requests_of(redis, ZHANG)
    assert "没有做任何改动" in desk.finals(here)[-1]
    await desk.says(ZHANG, "请假 2026-11-30 到 2026-12-01，审批人李四")
    await desk.press(ZHANG, await desk.card(here), "confirm")
    await desk.until(lambda: any("L-0001" in text for text in desk.finals(here)))
    assert await requests_of(redis, ZHANG) == ["L-0001"], "control: the same wish with possible values works"


async def test_two_people_of_one_name_are_asked_about(crowd: Office) -> None:
    async with crowd.opened():
        asked = await crowd.answer(ZHANG, "请假 2026-11-30 到 2026-12-01，审批人李四")
        assert "lisi@example.com" in asked and "lisi2@example.com" in asked and "没有做任何改动" in asked
        assert not crowd.cards(crowd.dm(ZHANG))
        await crowd.says(ZHANG, "U02LI")
        await crowd.press(ZHANG, await crowd.card(crowd.dm(ZHANG)), "confirm")
        await crowd.card(crowd.dm(LI), "L-0001")
        assert not crowd.cards(crowd.dm(TWIN.id)), "the namesake is not bothered"


async def test_an_unknown_process_is_an_observation_and_the_model_goes_on(empty: Office, redis: Redis) -> None:
    start = calls(("start_process", {"process": "rocket", "form": {}}))
    model = ScriptedModel([start, ModelReply(text="没有这种流程。")])
    async with empty.opened(model=model):
        assert "没有这种流程" in await empty.answer(ZHANG, "造火箭")
        assert not empty.steps(empty.dm(ZHANG)), "people are not shown what only the model can mend"
    told = str(model.requests[-1][-1]["content"])
    assert "unknown_process" in told and "leave" in told, "the model is told which there are"
    assert not empty.cards(empty.dm(ZHANG)) and not await requests_of(redis, ZHANG)


# What people press


async def test_a_closed_task_cannot_be_decided_again(empty: Office) -> None:
    again = calls(("decide_task", {"task_id": "E-0001-1"}))
    model = ScriptedModel([expense(), DONE, again, ModelReply(text="已经处理过。")])
    async with empty.opened(model=model):
        await empty.says(ZHANG, "报销")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        card = await empty.card(empty.dm(LI), "E-0001")
        await empty.press(LI, card, "approve")
        await empty.until(lambda: not empty.cards(empty.dm(LI)))
        assert "已经处理过" in await empty.answer(LI, "再批一次 E-0001")
        assert "task_closed" in str(model.requests[-1][-1]["content"])
        assert not empty.cards(empty.dm(LI)), "no second card"
        await empty.press(LI, card, "approve", force=True)
        await empty.until(lambda: "已经处理过了" in empty.whispers(LI))
        await empty.quiet()
        assert (await empty.kinds()).count("effect.done") == 2, "one start, one approval"


async def test_the_button_of_an_edited_card_is_stale_and_the_new_one_works(empty: Office) -> None:
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        here = empty.dm(ZHANG)
        await empty.says(ZHANG, "给李四发邮件")
        old = await empty.card(here)
        stale = next(list_buttons(old))["value"]
        await empty.press(ZHANG, old, "edit")
        assert (await empty.fill(ZHANG, body="改过的正文，请看。")).ok
        await empty.card(here, "改过的正文")
        await empty.driver.click_button(ZHANG, here, old["ts"], "cs:send", force=True, value=stale)
        await empty.until(lambda: "旧的按钮" in empty.whispers(ZHANG))
        await empty.quiet()
        assert not empty.mails
        await empty.press(ZHANG, await empty.card(here, "改过的正文"), "send")
        await empty.until(lambda: empty.mails)
        assert [mail["body"] for mail in empty.mails] == [FIRST + "改过的正文，请看。"]


async def rejecting(office: Office) -> None:
    """Li Si has the dialog of a rejection in front of him."""
    await office.says(ZHANG, LEAVE + "旅行")
    await office.press(ZHANG, await office.card(office.dm(ZHANG)), "confirm")
    await office.press(LI, await office.card(office.dm(LI), "L-0001"), "reject")
    await office.until(lambda: office.driver.find_top_view(LI))


async def decisions(office: Office) -> list[str]:
    await office.quiet()
    return [record.more.get("choice", "") for record in await office.journal() if record.kind == "effect.done"]


async def test_a_form_for_a_card_that_expired_meanwhile_decides_nothing(desk: Office) -> None:
    await rejecting(desk)
    desk.clock.offset = timedelta(hours=73)
    await desk.fill(LI, opinion="太久了")
    await desk.until(lambda: "已过期" in desk.whispers(LI))
    assert await decisions(desk) == ["confirm"]
    assert "L-0001" in await desk.answer(LI, "待办"), "the task still waits for him"


async def test_a_form_for_a_card_decided_meanwhile_decides_nothing(desk: Office) -> None:
    await rejecting(desk)
    await desk.press(LI, await desk.card(desk.dm(LI), "L-0001"), "approve")
    await desk.until(lambda: not desk.cards(desk.dm(LI)))
    done = await desk.fill(LI, opinion="还是不行")
    await desk.until(lambda: "已经处理过了" in desk.whispers(LI) or done.errors)
    assert await decisions(desk) == ["confirm", "approve"]


async def test_a_form_in_time_decides(desk: Office) -> None:
    await rejecting(desk)
    assert (await desk.fill(LI, opinion="请换个日期")).ok
    await desk.card(desk.dm(ZHANG), "请换个日期")
    assert await decisions(desk) == ["confirm", "reject"]


async def test_a_rejection_without_an_opinion_is_refused_in_the_dialog(desk: Office) -> None:
    await rejecting(desk)
    view = desk.driver.find_top_view(LI)
    assert view is not None
    done = await desk.driver.submit_view(LI, view["id"], {"opinion": "   "}, force=True)
    assert "意见" in str(done.errors)
    assert await decisions(desk) == ["confirm"]
    assert (await desk.fill(LI, opinion="请换个日期")).ok, "the dialog is still open"


# What models answer

TOOL = '{"reason": "看看", "name": ""}'
MAILED = json.dumps({"reason": "发", "to": "李四", "subject": "进度", "body": "请看一下进度。"}, ensure_ascii=False)


@pytest.mark.parametrize(
    "garbage",
    [
        said(""),
        said("  \n"),
        message(content=None),
        message(),
        Raw({"choices": []}),
        Raw({"choices": None}),
        Raw({"choices": [{}]}),
        Raw({"choices": [{"message": None}]}),
        Raw({"choices": {"0": "x"}}),
        Raw({}),
        Raw(None),
        message(content=42),
        message(content=None, tool_calls={}),
        message(content=None, tool_calls=[None]),
        message(content=None, tool_calls=[{"id": "a", "type": "function", "function": None}]),
        message(content=None, tool_calls=[{"type": "custom", "custom": {"name": "x"}}]),
        said("我把邮件已经发", finish="length"),
        called(("send_email", MAILED), finish="length"),
        called(("send_email", MAILED[:-9])),
        called(("send_email", "[1, 2]")),
        called(("send_email", "null")),
        called(("send_email", '{"a":' * 50_000)),
        called(("list_people", '{"reason": "x", "page": NaN}')),
        called(("list_people", '{"reason": "x", "page": 1, "page": 2}')),
        called(("", "{}")),
        called(("<!channel>", '{"reason": "x"}')),
        called(*[("list_people", TOOL)] * 100),
        called(*[("send_email", MAILED)] * 100),
    ],
    ids=lambda raw: str(raw.body)[:60].encode("ascii", "replace").decode(),
)
async def test_an_unusable_reply_is_asked_for_again_and_never_acted_on(
    empty: Office, model: Endpoint, garbage: Raw
) -> None:
    model.then(garbage)
    async with empty.opened():
        told = await empty.answer(ZHANG, "有什么事吗")
        assert "好的，完成" in told and "没有做任何改动" in told
        assert len(model.asked) == 2 and len(model.problems) == 1, "the model was told once what was wrong"
        await empty.quiet()
        assert not empty.cards(empty.dm(ZHANG)) and not empty.mails
        assert (await empty.kinds()).count("run.finished") == 1


@pytest.mark.parametrize("failed", [Raw({"error": {"message": "upstream is busy", "code": 502}}), Raw([])])
async def test_what_an_endpoint_says_went_wrong_is_asked_again_and_no_fault_of_the_model(
    empty: Office, model: Endpoint, failed: Raw
) -> None:
    """Also in an answer whose status says that all is well."""
    model.then(failed)
    async with empty.opened():
        assert "好的，完成" in await empty.answer(ZHANG, "有什么事吗")
        assert len(model.asked) == 2 and not model.problems


async def test_an_answer_in_parts_is_an_answer(empty: Office, model: Endpoint) -> None:
    model.then(message(content=[{"type": "text", "text": "部分"}]))
    async with empty.opened():
        assert "部分" in await empty.answer(ZHANG, "有什么事吗")
        assert len(model.asked) == 1


async def test_a_model_that_goes_on_like_that_is_stopped_with_words(empty: Office, model: Endpoint) -> None:
    model.then(*[called(("send_email", MAILED[:-1]))] * 3)
    async with empty.opened():
        told = await empty.answer(ZHANG, "给李四发邮件")
        assert "停下了" in told and "没有做任何改动" in told
        assert "好的，完成" in await empty.answer(ZHANG, "再试一次"), "the next message is heard as ever"
        assert not empty.mails


@pytest.mark.parametrize(
    "odd, code",
    [
        (called(("rm_rf", '{"reason": "清理"}')), "unknown_tool"),
        (called(("list_people", '{"reason": "x", "page": "two"}')), "bad_arguments"),
        (called(("list_people", '{"reason": "x", "nobody": "asked"}')), "bad_arguments"),
        (called(("send_email", '{"to": "李四", "subject": "进度", "body": "请看一下进度。"}')), "bad_arguments"),
        (called(("send_email", '{"reason": "x", "to": ["李四"], "subject": {}, "body": null}')), "bad_arguments"),
        (called(("start_process", '{"reason": "x", "process": "leave", "form": "明天"}')), "bad_arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.body)[150:240].encode("ascii", "replace").decode(),
)
async def test_an_odd_call_is_answered_with_what_was_wrong(empty: Office, model: Endpoint, odd: Raw, code: str) -> None:
    model.then(odd)
    async with empty.opened():
        assert "没有做任何改动" in await empty.answer(ZHANG, "看看")
        assert code in model.observed()[0]
        await empty.quiet()
        assert not empty.cards(empty.dm(ZHANG)) and not empty.mails
        assert not any("<!" in text for text in strings(sent(empty)))


@pytest.mark.parametrize(
    "usable",
    [
        called(("list_people", {"reason": "看看", "name": "李四"})),
        called(("list_people", '{"reason": "看看", "name": "李四"}'), ids=""),
        called(("list_people", '{"reason": "看看", "name": "李四"}'), finish="stop"),
        called(("list_people", '{"reason": "\\ud83d", "name": "李四"}')),
        message(
            content="",
            finish=None,
            tool_calls=[{"function": {"name": "list_people", "arguments": '{"reason": "看看", "name": "李四"}'}}],
        ),
    ],
    ids=["arguments as an object", "empty id", "finish stop", "half a surrogate pair", "no id, no type, no finish"],
)
async def test_what_sloppy_servers_send_is_used_when_its_meaning_is_clear(
    empty: Office, model: Endpoint, usable: Raw
) -> None:
    model.then(usable)
    async with empty.opened():
        assert "好的，完成" in await empty.answer(ZHANG, "李四是谁")
        assert "U02LI" in model.observed()[0]
        asked = next(one for one in model.asked[-1]["messages"] if one.get("tool_calls"))
        answered = next(one for one in model.asked[-1]["messages"] if one["role"] == "tool")
        assert asked["tool_calls"][0]["id"] == answered["tool_call_id"] != ""
        assert not model.problems


async def test_half_a_surrogate_pair_in_an_answer_breaks_nothing_later(empty: Office, model: Endpoint) -> None:
    model.then(
        Raw(
            b'{"choices": [{"message": {"content": "ok \\ud83d"}, "finish_reason": "stop"}]}',
            headers={"Content-Type": "application/json"},
        )
    )
    async with empty.opened():
        assert "ok" in await empty.answer(ZHANG, "一")
        assert "好的，完成" in await empty.answer(ZHANG, "二"), "and the history that holds it can be sent again"


# Who is served


@pytest.mark.parametrize(
    "person", [GUEST, GONE, ROBOT, WorkspaceMember("U99NOBODY", "x", "x")], ids=lambda person: person.id
)
async def test_who_is_not_a_member_is_not_served(crowd: Office, person: WorkspaceMember) -> None:
    async with crowd.opened():
        general = {"type": "message", "user": person.id, "channel": GENERAL, "channel_type": "channel"}
        text = "<@U0BOT> 请假 2026-11-30 到 2026-12-01，审批人李四"
        crowd.driver.inject_event("message.channels", {**general, "text": text, "ts": "1795000000.000200"})
        direct = {**general, "channel": person.dm_id, "channel_type": "im"}
        crowd.driver.inject_event("message.im", {**direct, "text": text, "ts": "1795000000.000300"})
        thread = await crowd.driver.mention_bot(WANG, GENERAL, "my tasks")
        await crowd.until(lambda: crowd.posts(GENERAL) and crowd.finals(crowd.dm(WANG)))
        await crowd.quiet()
        assert {one["thread_ts"] for one in crowd.posts(GENERAL)} == {thread}, "only the member was answered"
        assert not crowd.cards(GENERAL)
        assert crowd.bot is not None and not await requests_of(crowd.bot.redis, person.id)


async def test_a_guests_press_is_refused_and_the_right_persons_works(
    crowd: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a card that stands in a channel from before cards went to DMs."""
    async with crowd.opened():
        with before_cards_went_to_dms(monkeypatch):
            await crowd.driver.mention_bot(ZHANG, GENERAL, "请假 2026-11-30 到 2026-12-01，审批人U02LI")
            card = await crowd.card(GENERAL)
            await crowd.quiet()
        await crowd.press(GUEST.id, card, "confirm", channel=GENERAL)
        await crowd.until(lambda: "成员" in crowd.whispers(GUEST.id))
        assert not await requests_of(crowd.bot.redis, ZHANG)  # type: ignore[union-attr]
        await crowd.press(ZHANG, card, "confirm")
        await crowd.card(crowd.dm(LI), "L-0001")


# Commands

ANSWERS = {
    ZHANG: {
        "帮助": "我是 Countersign", "待办": "没有等您处理的事", "已办": "您还没有处理过任何事",
        "申请": "您还没有申请", "历史": "没有记住任何内容", "设置": "与您有关的设置", "停止": "没有正在进行的事",
    },
    WANG: {
        "help": "I am Countersign", "tasks": "Nothing waits for you", "done": "You have not decided anything",
        "requests": "You have no requests", "history": "I remember nothing", "settings": "settings that concern you",
        "stop": "nothing is running",
    },
}  # fmt: skip


@pytest.mark.parametrize("person", [ZHANG, WANG])
async def test_every_command_works_as_plain_words_and_by_slash(desk: Office, person: str) -> None:
    here = desk.dm(person)
    for word, answer in ANSWERS[person].items():
        assert answer in await desk.answer(person, word), word
        before = len(desk.finals(here))
        assert (await desk.driver.run_slash_command(person, GENERAL, "/countersign", word)).ok
        assert answer in (await desk.until(lambda n=before: desk.finals(here)[n:]))[0], f"/countersign {word}"
    assert "DM" in desk.whispers(person) or "私信" in desk.whispers(person), "a slash in a channel says where it went"
    assert not desk.posts(GENERAL)


async def test_a_bare_slash_command_helps(desk: Office) -> None:
    await desk.driver.run_slash_command(ZHANG, desk.dm(ZHANG), "/countersign")
    await desk.until(lambda: "我是 Countersign" in desk.said(desk.dm(ZHANG)))


async def test_lists_show_what_there_is(desk: Office) -> None:
    await desk.says(ZHANG, LEAVE + "旅行")
    await desk.press(ZHANG, await desk.card(desk.dm(ZHANG)), "confirm")
    card = await desk.card(desk.dm(LI), "L-0001")
    await desk.quiet()  # what the confirmation led to is said before the next question
    assert "L-0001" in await desk.answer(LI, "待办")
    mine = await desk.answer(ZHANG, "我的申请")
    assert "L-0001" in mine and "等待审批" in mine
    await desk.press(LI, card, "approve")
    await desk.until(lambda: "已通过" in desk.said(desk.dm(ZHANG)))
    assert "没有等您处理的事" in await desk.answer(LI, "待办")
    assert "L-0001" in await desk.answer(LI, "已办")
    assert "已通过" in await desk.answer(ZHANG, "申请")


async def test_settings_never_show_a_secret(empty: Office) -> None:
    secrets = {
        "slack_bot_token": "xoxb-SECRET-1",
        "openai_api_key": "sk-SECRET-2",
        "smtp_url": "smtp://u:SECRET3@h",
        "redis_url": "rediss://bot:SECRET4@redis.example.com:6379/0?password=SECRET5&timeout=1",
        "openai_base_url": "https://me:SECRET6@models.example.com/v1",
    }
    async with empty.opened(**secrets):
        told = await empty.answer(ADMIN, "设置")
        assert "SECRET" not in told and "••••••" in told
        assert "redis.example.com:6379/0" in told, "control: what is no secret is shown"


async def test_forget_erases_this_conversation_only(desk: Office) -> None:
    await desk.answer(ZHANG, "晚饭吃什么好呢")
    await desk.answer(WANG, "what should I eat for dinner")
    assert "晚饭吃什么好呢" in await desk.answer(ZHANG, "历史"), "control: it was remembered"
    await desk.answer(ZHANG, "清除")
    assert "没有记住任何内容" in await desk.answer(ZHANG, "历史")
    assert "dinner" in await desk.answer(WANG, "history")


async def test_forget_while_a_card_is_open_leaves_the_card_working(desk: Office, redis: Redis) -> None:
    await desk.says(ZHANG, LEAVE + "旅行")
    card = await desk.card(desk.dm(ZHANG))
    await desk.answer(ZHANG, "清除")
    await desk.press(ZHANG, card, "confirm")
    await desk.until(lambda: any("L-0001" in text for text in desk.finals(desk.dm(ZHANG))))
    assert await requests_of(redis, ZHANG) == ["L-0001"]


async def test_commands_are_plain_words_only_in_a_dm(desk: Office) -> None:
    """In a channel, words go to the model: somebody may well say *history* there."""
    await desk.driver.mention_bot(ZHAO, GENERAL, "history")
    await desk.until(lambda: desk.finals(GENERAL))
    await desk.quiet()
    assert "I remember nothing" not in desk.said(GENERAL)
