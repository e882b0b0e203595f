"""The main job in a real browser: type, confirm, be somebody else, approve, read the mail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.office import LI, ZHANG, Office

pytestmark = [pytest.mark.browser, pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))]

PICTURE = os.environ.get("README_PICTURE", "")
"""Set to a path, the English story also takes the picture that the README shows."""

ZH = {
    "ask": "我肚子疼，从明天起请10天假",
    "who": "请谁审批",
    "approver": "李四",
    "confirm": "确认",
    "started": "L-0001 已提交",
    "waits": "张三 的请假申请 L-0001 等您审批",
    "reject": "驳回",
    "approve": "同意",
    "decided": "李四 已同意",
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
    "waits": "leave request L-0001 needs your decision",
    "reject": "Reject",
    "approve": "Approve",
    "decided": "Approved by 李四",
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
        await page.find("#panel-thread .message", words["who"])
        await page.type("#write textarea", words["approver"])
        await page.press("Enter")
        await page.find("#panel-thread .actions button", words["confirm"])
        await page.screenshot(Path(PICTURE) if PICTURE and words is EN else tmp_path / "preview.png")
        await page.click("#panel-thread .actions button", words["confirm"])
        await page.find("#panel-thread .message", words["started"])

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
        await page.click("#panel-thread .actions button", words["send"])
        await page.click("#tab-mail")
        await page.click(".mail", words["subject"])
        await page.find(".letter", words["body"])
        assert await page.console() == []

    assert [mail["subject"] for mail in desk.mails] == [words["subject"]]
    assert desk.cards(desk.dm(ZHANG)) == desk.cards(desk.dm(LI)) == []
