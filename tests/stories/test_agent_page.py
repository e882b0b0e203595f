"""The bot as an agent on the local page: prompts as chips, *Stop* while it works, thumbs under its answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.browser import ABSENT, Browser
from tests.harness.office import ZHANG, Office

pytestmark = [pytest.mark.browser, pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))]

PICTURES = os.environ.get("AGENT_PICTURES", "")
"""Set to a folder, the pictures are kept there."""
WORDS = {
    "zh": ("我的申请到哪一步了", "您还没有申请", "停止", "已停下", "年假可以结转吗", "谢谢，记下了"),
    "en": (
        "Where my requests are",
        "no requests",
        "Stop",
        "All right, stopped",
        "Can annual leave be carried over?",
        "Thank you, noted",
    ),
}


@pytest.mark.parametrize("size", [(1280, 800), (390, 780)], ids=["desktop", "phone"])
@pytest.mark.parametrize("language", ["zh", "en"])
async def test_prompts_stop_and_thumbs(desk: Office, tmp_path: Path, language: str, size: tuple[int, int]) -> None:
    prompt, none, stop, stopped, question, thanks = WORDS[language]
    locale = "zh-CN" if language == "zh" else "en-US"
    folder, name = Path(PICTURES or tmp_path), f"{language}-{size[0]}"
    for person in desk.driver.ws.state.people.values():
        person.locale = locale
    async with Browser(size=size, dark=False, language=locale) as page:
        await page.open(f"{desk.address}/")
        await page.find(".prompts .chip", prompt)
        await page.find("#list .message", "Countersign")
        assert await page.count(".prompts .chip") == 4
        await page.screenshot(folder / f"{name}-prompts.png")
        await page.click(".prompts .chip", prompt)
        await page.find("#list .message", none)
        await page.gone(".prompts .chip")

        desk.answering.clear()
        await page.type("#write textarea", question)
        await page.press("Enter")
        await page.find("#list .status .stop", stop)
        await page.screenshot(folder / f"{name}-working.png")
        await page.click("#list .status .stop", stop)
        await page.find("#list .message", stopped)
        desk.answering.set()
        await page.gone("#list .status")

        await page.type("#write textarea", question)
        await page.press("Enter")
        await page.click("#list .thumb[aria-pressed]")
        await page.find("#list .message", thanks)
        assert await page.count('#list .thumb[aria-pressed="true"]') == 1
        await page.screenshot(folder / f"{name}-thumbs.png")
        assert await page.execute("return document.documentElement.scrollWidth <= innerWidth")
        await desk.quiet()
    assert [one.good for one in await desk.usage_rows() if one.good] == [1]
    assert ZHANG in {one.person for one in await desk.usage_rows()}
