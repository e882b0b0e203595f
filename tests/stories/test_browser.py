"""The main job in a real browser: type, confirm, be somebody else, approve, read the mail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.office import LI, ZHANG, Office
from tests.stories.sets import approve_several, labels, now, start_claims

pytestmark = [pytest.mark.browser, pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))]

PICTURE = os.environ.get("README_PICTURE", "")
"""Set to a path, the English story also takes the picture that the README shows."""

ZH = {
    "ask": "我肚子疼，从明天起请10天假",
    "who": "请谁审批",
    "approver": "李四",
    "confirm": "确认",
    "started": "L-0001 已提交",
    "took": "用时",
    "waits": "张三的请假申请 L-0001 等您审批",
    "reject": "驳回",
    "approve": "同意",
    "decided": "您已同意",
    "mail": "给李四发邮件，主题 请假，内容 谢谢批准，明天起我不在。",
    "send": "发送",
    "subject": "请假",
    "body": "谢谢批准，明天起我不在。",
}
EN = {
    "ask": "I need 10 days off from tomorrow, stomach ache",
    "who": "approve",
    "approver": "Li Si",
    "confirm": "Confirm",
    "started": "L-0001",
    "took": "Worked for",
    "waits": "leave request L-0001 needs your decision",
    "reject": "Reject",
    "approve": "Approve",
    "decided": "Approved by you",
    "mail": "mail Li Si, subject Leave, body Thanks for approving, I am away from tomorrow.",
    "send": "Send",
    "subject": "Leave",
    "body": "Thanks for approving, I am away from tomorrow.",
}


@pytest.mark.parametrize("words", [ZH, EN], ids=["zh", "en"])
async def test_the_whole_story_by_hand(desk: Office, tmp_path: Path, words: dict[str, str]) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is ZH else "en-US"
    async with Browser(size=(1280, 800), dark=False, language="zh-CN" if words is ZH else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", words["ask"])
        await page.press("Enter")
        await page.find("#list .message", words["who"])
        await page.type("#write textarea", words["approver"])
        await page.press("Enter")
        await page.find("#list .actions button", words["confirm"])
        await page.screenshot(Path(PICTURE) if PICTURE and words is EN else tmp_path / "preview.png")
        await page.click("#list .actions button", words["confirm"])
        await page.find("#list .message", words["started"])
        await page.find("#panel-thread .message", words["took"])

        await page.press("Alt", "2")
        await page.find("#list .message", words["waits"])
        await page.click("#list .actions button", words["reject"])
        await page.find("#modal[open]")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.click("#list .actions button", words["approve"])
        await page.find("#list .message", words["decided"])
        await page.gone("#list .actions button")

        await page.press("Alt", "1")
        await page.type("#write textarea", words["mail"])
        await page.press("Enter")
        await page.click("#list .actions button", words["send"])
        await page.find("#panel-thread .message", words["body"])  # its steps come to the front, once
        await page.find("#panel-thread .message", words["took"])
        await page.click("#tab-mail")
        await page.click(".mail", words["subject"])
        await page.find(".letter", words["body"])
        assert await page.console() == []

    await desk.quiet()  # a card is rewritten once its mail has gone
    assert [mail["subject"] for mail in desk.mails] == [words["subject"]]
    assert desk.cards(desk.dm(ZHANG)) == desk.cards(desk.dm(LI)) == []


FORM_ZH = {
    "title": "请假",
    "days": "8 个工作日",
    "decider": "二级审批人：王五",
    "rule": "按规则自动通过",
    "more": "更多选项…",
    "half": "7.5 个工作日",
    "confirm": "确认",
    "outcome": "您已确认",
}
FORM_EN = {
    "title": "Leave",
    "days": "8 working days",
    "decider": "Second approver: Wang Wu",
    "rule": "leave of up to 1 working day passes by rule",
    "more": "More Options…",
    "half": "7.5 working days",
    "confirm": "Confirm",
    "outcome": "Confirmed by you",
}
PUT = "const [css, value] = arguments; const one = document.querySelector(css); one.value = value;\
 one.dispatchEvent(new Event('change', {bubbles: true}));"


@pytest.mark.parametrize("words", [FORM_ZH, FORM_EN], ids=["zh", "en"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
async def test_a_leave_by_a_form(desk: Office, tmp_path: Path, words: dict[str, str], size: tuple[int, int]) -> None:
    desk.answering.clear()
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is FORM_ZH else "en-US"
    async with Browser(size=size, dark=False, language="zh-CN" if words is FORM_ZH else "en-US") as page:

        async def put(field: str, value: str) -> None:
            await page.execute(PUT, f"#modal [data-block={field}] :is(select, input)", value)

        await page.open(f"{desk.address}/")
        await page.type("#write textarea", "/leave")
        await page.press("Escape", "Enter")
        await page.find("#modal[open] h2", words["title"])
        await page.type("#modal [data-block=reason] textarea", "family")
        await put("leave_type", "sick")
        await put("start_date", "2026-12-07")
        await put("end_date", "2026-12-07")
        await page.find("#modal .context", words["rule"])
        await page.gone("#modal [data-block=approver]")
        await put("end_date", "2026-12-16")
        await page.find("#modal .context", words["days"])
        await page.find("#modal .context", words["decider"])
        await page.find("#modal [data-block=approver]")
        await page.click("#modal .actions button", words["more"])
        await page.find("#modal [data-block=start_half]")
        await put("start_half", "pm")
        await page.find("#modal .context", words["half"])
        await page.click("#modal footer button:not([type=submit])")
        await page.find("#modal [data-block=reason]")
        kept = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert kept == "family", "what was typed is still there"
        await page.screenshot(Path(os.environ.get("FORM_PICTURES", tmp_path)) / f"form-{size[0]}-{words['title']}.png")
        await page.click("#modal [type=submit]")
        await page.gone("#modal[open]")
        await page.click("#list .message button", words["confirm"])
        await page.find("#list .message", words["outcome"])
        assert not [line for line in await page.console() if "favicon" not in line]


async def test_a_message_is_made_an_expense_and_a_request_is_opened_by_its_name(desk: Office) -> None:
    await desk.driver.send_message(LI, "C01GENERAL", "taxi to the client")
    async with Browser(size=(1280, 800), dark=False, language="zh-CN") as page:
        await page.open(f"{desk.address}/")
        await page.click("#nav button", "general")
        await page.find("#list .message", "taxi to the client")
        await page.execute("document.querySelector('#list .message .entries button').click()")
        await page.find("#modal[open] h2", "报销")
        reason = await page.execute("return document.querySelector('#modal [data-block=reason] textarea').value")
        assert reason == "taxi to the client"
        await page.click("#modal footer button:not([type=submit])")
        await page.gone("#modal[open]")
        await page.type("#write textarea", "/Req")
        await page.press("Enter")
        await page.find("#modal[open] h2", "请假")
        await page.execute(PUT, "#modal .actions select", "expense")
        await page.find("#modal[open] h2", "报销")
        await page.find("#modal [data-block=amount]")


SET_ZH = {
    "several": "一起处理…",
    "all": "同意全部 3 项",
    "two": "同意 2 项（共 3 项）",
    "rest": "1 项申请等您决定",
    "decided": "您已同意",
    "reject": "驳回所选…",
    "why": "没有发票",
    "done": "3 项都已处理",
}
SET_EN = {
    "several": "Approve Several…",
    "all": "Approve All 3",
    "two": "Approve 2 of 3",
    "rest": "1 request waits for your decision",
    "decided": "Approved by you",
    "reject": "Reject Ticked…",
    "why": "no receipt",
    "done": "All 3 are settled",
}


@pytest.mark.parametrize("words", [SET_ZH, SET_EN], ids=["zh", "en"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desk", "phone"])
async def test_several_at_once_by_hand(
    desk: Office, tmp_path: Path, words: dict[str, str], size: tuple[int, int]
) -> None:
    for person in desk.driver.ws.state.people.values():
        person.locale = "zh-CN" if words is SET_ZH else "en-US"
    await start_claims(desk, 31, 32, 33)
    async with Browser(size=size, dark=False, language="zh-CN" if words is SET_ZH else "en-US") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", "x")  # the page is there
        await page.press("Alt", "2")
        message = await approve_several(desk)
        await page.find("#list .actions button", words["all"])
        await page.execute(TICK, "0")
        await page.find("#list .actions button", words["two"])
        await page.screenshot(Path(os.environ.get("PICTURES", str(tmp_path))) / f"set-{size[0]}-{words['why']}.png")
        await page.click("#list .actions button", words["two"])
        await page.find("#list .message", words["rest"])
        await page.find("#list .message", words["decided"])
        await page.execute(TICK, "0")
        await desk.until(lambda: labels(now(desk, message))[0] in ("同意", "Approve"))
        await page.click("#list .actions button", words["reject"])
        await page.find("#modal[open]")
        await page.type("#modal textarea", words["why"])
        await page.click("#modal [type=submit]")
        await page.find("#list .message", words["done"])
        await page.screenshot(Path(os.environ.get("PICTURES", str(tmp_path))) / f"done-{size[0]}-{words['why']}.png")
        assert await page.console() == []
    await desk.quiet()


TICK = "document.querySelector(`#list .choices input[value='${arguments[0]}']`).click();"
