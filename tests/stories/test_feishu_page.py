"""The workspace's own page in a real browser when the bot works on Feishu: a card as Feishu shows it is pressed."""

import os
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.office import CHAT, Office

pytestmark = pytest.mark.skipif(bool(ABSENT) or CHAT != "feishu", reason=ABSENT or "Slack's page has its own stories")


async def test_a_request_is_confirmed_on_feishus_page(desk: Office) -> None:
    """If `README_PICTURE` is set to a path, the README's picture of Feishu is taken there."""
    async with Browser(size=(1280, 800), dark=False, language="zh-CN") as page:
        await page.open(f"{desk.address}/")
        await page.type("#write textarea", "我肚子疼，从明天起请10天假")
        await page.press("Enter")
        await page.find("#list .card button", "确认")
        if picture := os.environ.get("README_PICTURE"):
            await page.screenshot(Path(picture))
        await page.click("#list .card button", "确认")
        await page.find("#list .card", "L-0001")
        await page.find("#list .card button", "👍")
        for label in ("确认", "修改", "取消"):
            await page.gone("#list .card button", label)
        assert not [line for line in await page.console() if "favicon" not in line]
