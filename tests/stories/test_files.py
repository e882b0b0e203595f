"""Files: what somebody sends belongs to the request that they make, is seen by who decides, and is never dropped."""

from __future__ import annotations

import pytest

from bot.evaluation.shown_blocks import read_message_text
from tests.harness.files import pdf, png
from tests.harness.office import GENERAL, LI, ZHANG, Office, found_request

CLAIM = "报销 320 元打车费，去客户那里，审批人李四"


async def test_a_receipt_sent_with_the_message_is_on_the_card_and_with_the_approver(desk: Office) -> None:
    receipt = desk.driver.upload_file(ZHANG, "打车票.png", png("taxi"))
    await desk.says(ZHANG, CLAIM, files=[receipt])
    card = await desk.card(desk.dm(ZHANG))
    assert "打车票.png（PNG" in read_message_text(card)
    await desk.press(ZHANG, card, "confirm")
    task = await desk.card(desk.dm(LI))
    assert "打车票.png（PNG" in read_message_text(task)
    shared = await desk.until(lambda: [m for m in desk.posts(desk.dm(LI)) if m.get("files")])
    assert shared[0]["thread_ts"] == task["ts"] and shared[0]["files"][0]["title"] == "打车票.png"
    shown = desk.driver.ws.files[shared[0]["files"][0]["id"]]
    assert shown.content == png("taxi"), "the approver sees the very bytes"
