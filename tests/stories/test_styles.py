"""The same conversation with models that speak ReAct in other styles, over a real endpoint, through a restart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.harness.office import ZHANG, Office
from tests.stories.endpoint import Endpoint, Raw, called, said
from tests.stories.script import MAIL

Speaks = Callable[[str, Mapping[str, Any]], Raw]
WHO = {"name": "李四"}


def as_text(tool: str, args: Mapping[str, Any]) -> Raw:
    written = json.dumps(args, ensure_ascii=False)
    return said(
        f"思考：先看看李四是谁。再说别的。\n行动：{tool}\n行动输入：{written}\n观察：邮件已发出\n最终答案：发好了"
    )


def as_object(tool: str, args: Mapping[str, Any]) -> Raw:
    call = {"type": "tool_call", "tool": tool, "args": args, "reason_summary": "先看看李四是谁。"}
    return said(f"```json\n{json.dumps(call, ensure_ascii=False)}\n```\n观察：邮件已发出")


STYLES: dict[str, tuple[Speaks, Raw, list[Raw]]] = {
    "text": (as_text, said("最终答案：已发给李四。"), []),
    "json": (as_object, said('{"type": "final", "answer": "已发给李四。"}'), [said("Hello!"), said("Hello!")]),
    "auto": (
        as_object,
        said('{"type": "final", "answer": "已发给李四。"}'),
        [Raw(status=400), said('{"word": "hello"}')],
    ),
}
"""Style → how a call is written, how the answer, and what the model says to what it is asked at the start."""


@pytest.mark.parametrize("style", STYLES)
async def test_a_mail_is_looked_up_shown_and_sent_in_every_style(empty: Office, model: Endpoint, style: str) -> None:
    speaks, answer, probed = STYLES[style]
    model.then(*probed, speaks("list_people", WHO), speaks("send_email", MAIL))
    channel = empty.dm(ZHANG)
    async with empty.opened(react_style=style):
        await empty.says(ZHANG, "给李四发封邮件，问问进度")
        card = await empty.card(channel, "项目进度")
        await empty.quiet()
    assert not empty.mails, "nobody has pressed yet"
    model.then(answer)
    async with empty.opened(react_style=style):
        await empty.press(ZHANG, card, "send")
        await empty.until(lambda: "已发给李四。" in empty.said(channel))
        await empty.quiet()
    assert len(empty.mails) == 1 and "没有做任何改动" not in empty.finals(channel)[-1]
    asked = model.asked[len(probed) :]
    assert len(asked) == 3 and not any("tools" in body for body in asked)
    assert all("stop" in body for body in asked) == (style == "text")
    assert all("response_format" in body for body in asked) == (style == "auto"), "JSON mode only where it works"
    assert "- send_email [card]" in asked[0]["messages"][0]["content"]
    told = "\n".join(str(one["content"]) for body in asked for one in body["messages"])
    assert "邮件已发出" not in told, "what the model made up is never told back to it"


def as_call(tool: str, args: Mapping[str, Any]) -> Raw:
    return called((tool, json.dumps({"reason": "先看看李四是谁。", **args}, ensure_ascii=False)))


CHANGES: dict[str, tuple[Speaks, Raw, str, list[Raw]]] = {
    "native": (as_call, said("已发给李四。"), "text", []),
    "text": (as_text, said("最终答案：已发给李四。"), "json", [said("Hello!"), said("Hello!")]),
    "json": (as_object, said('{"type": "final", "answer": "已发给李四。"}'), "native", []),
}
"""Style → how it is spoken; the style by setting of whoever goes on, and what that one asks the model at its start."""


@pytest.mark.parametrize("style", CHANGES)
async def test_a_run_that_waited_ends_in_its_style_although_the_setting_has_changed(
    empty: Office, model: Endpoint, style: str
) -> None:
    speaks, answer, then, probed = CHANGES[style]
    first = [said("Hello!"), said("Hello!")] if style == "json" else []
    model.then(*first, speaks("send_email", MAIL))
    channel = empty.dm(ZHANG)
    async with empty.opened(react_style=style):
        await empty.says(ZHANG, "给李四发封邮件，问问进度")
        card = await empty.card(channel, "项目进度")
        await empty.quiet()
    model.then(*probed, answer)
    async with empty.opened(react_style=then):
        await empty.press(ZHANG, card, "send")
        await empty.until(lambda: "已发给李四。" in empty.said(channel))
        await empty.quiet()
    begun, gone_on = model.asked[len(first)], model.asked[-1]
    assert [name in gone_on for name in ("tools", "stop")] == [name in begun for name in ("tools", "stop")]
    assert gone_on["messages"][: len(begun["messages"])] == begun["messages"] and len(empty.mails) == 1


@pytest.mark.parametrize("style", CHANGES)
async def test_killed_as_its_first_step_is_shown_another_process_ends_it(
    empty: Office, model: Endpoint, style: str
) -> None:
    """Processes of their own, and SIGKILL: what was looked up is not looked up, and not asked for, once more. Its
    answer tells of a mail that nobody has sent, so it is held up to it once."""
    speaks, answer, _, _ = CHANGES[style]
    first = [said("Hello!"), said("Hello!")] if style == "json" else []
    model.then(*first, speaks("list_people", WHO), answer, answer)
    channel = empty.dm(ZHANG)
    async with empty.spawned(REACT_STYLE=style, OPENAI_BASE_URL=model.url, STEPS="replies") as bot:
        empty.killing(bot, lambda: empty.steps(channel))
        await empty.says(ZHANG, "谁是李四？")
        await bot.child.wait()
    assert not empty.finals(channel) and len(model.asked) == len(first) + 1
    async with empty.opened(react_style=style, steps="replies"):
        await empty.until(lambda: empty.finals(channel))
        await empty.quiet()
    assert len(empty.finals(channel)) == 1 and "已发给李四。" in empty.finals(channel)[0]
    assert len(empty.steps(channel)) == 1 and len(model.asked) == len(first) + 3


@pytest.mark.parametrize("style", ["text", "json"])
async def test_a_mail_that_was_not_properly_written_is_asked_for_again(
    empty: Office, model: Endpoint, style: str
) -> None:
    speaks, answer, probed = STYLES[style]
    broken = speaks("send_email", MAIL).body["choices"][0]["message"]["content"].replace('"to"', "'to'")
    model.then(*probed, said(broken), speaks("send_email", MAIL), answer)
    async with empty.opened(react_style=style):
        await empty.says(ZHANG, "给李四发封邮件，问问进度")
        card = await empty.card(empty.dm(ZHANG), "项目进度")
        await empty.press(ZHANG, card, "send")
        await empty.until(lambda: "已发给李四。" in empty.said(empty.dm(ZHANG)))
        await empty.quiet()
    assert len(empty.mails) == 1 and "send_email" in model.problems[0]


async def test_a_filtered_reply_is_said_to_be_one(empty: Office, model: Endpoint) -> None:
    model.then(called(("send_email", json.dumps({**MAIL, "reason": "x"})), finish="content_filter"))
    async with empty.opened():
        told = await empty.answer(ZHANG, "给李四发封邮件")
    assert "内容过滤" in told and "没有做任何改动" in told and not empty.mails
