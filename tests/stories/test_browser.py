"""The main job in a real browser: type, confirm, be somebody else, approve, read the mail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser import ABSENT, Browser
from tests.stories.office import LI, ZHANG, Office

pytestmark = [pytest.mark.browser, pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))]

PICTURE = os.environ.get("README_PICTURE", "")
"""Set to a path, this story also takes the picture that the README shows."""


async def test_the_whole_story_by_hand(desk: Office, tmp_path: Path) -> None:
    async with Browser(size=(1280, 800), dark=False, language="zh-CN") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", "我肚子疼，从明天起请10天假")
        await page.press("Enter")
        await page.find("#panel-thread .message", "请谁审批")
        await page.type("#write textarea", "李四")
        await page.press("Enter")
        await page.click("#panel-thread .actions button", "确认")
        await page.find("#panel-thread .message", "L-0001 已提交")

        await page.press("Alt", "2")
        await page.find("#list .message", "张三 的请假申请 L-0001 等您审批")
        await page.click("#list .actions button", "驳回")
        await page.find("#modal[open]")
        await page.press("Escape")
        await page.gone("#modal[open]")
        await page.screenshot(Path(PICTURE) if PICTURE else tmp_path / "approver.png")
        await page.click("#list .actions button", "同意")
        await page.find("#list .message", "李四 已选择「同意」")
        await page.gone("#list .actions button")

        await page.press("Alt", "1")
        await page.type("#write textarea", "给李四发邮件，主题 请假，内容 谢谢批准，明天起我不在。")
        await page.press("Enter")
        await page.click("#panel-thread .actions button", "发送")
        await page.click("#tab-mail")
        await page.click(".mail", "请假")
        await page.find(".letter", "谢谢批准，明天起我不在。")
        assert await page.console() == []

    assert [mail["subject"] for mail in desk.mails] == ["请假"]
    assert len(await desk.runs.paused(f"slack:T0LOCAL:{desk.dm(ZHANG)}")) == 0
    assert desk.cards(desk.dm(LI)) == []
