"""The workspace's own page in a real browser when the bot works on Feishu: a card as Feishu shows it is pressed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.browser import ABSENT
from tests.harness.office import CHAT, Office
from tests.stories.test_browser import DESK, README_PICTURE, open_page

pytestmark = pytest.mark.skipif(bool(ABSENT) or CHAT != "feishu", reason=ABSENT or "Slack's page has its own stories")


async def test_a_request_is_confirmed_on_feishus_page(desk: Office, tmp_path: Path) -> None:
    """With `README_PICTURE`, it also takes the README's picture of Feishu."""
    async with open_page(desk, tmp_path, "zh", DESK) as shown:
        await shown.write("我肚子疼，从明天起请10天假")
        await shown.browser.find("#list .card button", "确认")
        if README_PICTURE:
            await shown.browser.screenshot(Path(README_PICTURE))
        await shown.browser.click("#list .card button", "确认")
        await shown.browser.find("#list .card", "L-0001")
        await shown.browser.gone("#list .card button")
